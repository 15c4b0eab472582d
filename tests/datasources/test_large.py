"""100,000 rules: a file and a Git repository take them; etcd refuses what is over its limit, and no other suffers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import Absent, SourceMisconfigured, State
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.services import etcd
from tests.services.etcd import EtcdServer

RULES = 100_000
MIB = 2**20


def rules(number: int) -> bytes:
    """As Java Sentinel writes them, some 190 bytes each."""
    rule = (
        '{"resource":"GET:/orders/%06d","limitApp":"default","grade":1,"count":20.0,"strategy":0,"refResource":null,'
        '"controlBehavior":0,"warmUpPeriodSec":10,"maxQueueingTimeMs":500,"clusterMode":false}'
    )
    return f"[{','.join(rule % each for each in range(number))}]".encode()


@pytest.fixture(scope="module")
def large() -> bytes:
    content = rules(RULES)
    assert 18 * MIB <= len(content) <= 22 * MIB
    assert len(json.loads(content)) == RULES
    return content


def texts(content: bytes) -> tuple[SourceText, ...]:
    return (SourceText("flow.json", content, "json"),)


@pytest.mark.parametrize("store", ["file", "git"])
def test_a_file_and_a_git_repository_take_them(store: str, large: bytes, tmp_path: Path, work: Any) -> None:
    uris = {
        "file": f"file://{tmp_path / 'flow.json'}?kind=flow",
        "git": f"git+file://{work.work}?ref=main&path=flow.json&kind=flow",
    }
    work.commit(other_yaml=b"flowRules: []")
    source: Any = datasources.open(uris[store])
    (item,) = source.items(["flow"])
    source.write(item, texts(large), expected=None, provenance=Provenance(reason="all of them"))
    found = source.read(item)
    assert isinstance(found, Revision)
    assert found.texts[0].content == large
    source.close()


@pytest.fixture(scope="module", params=[etcd.PACKAGED, etcd.NEWEST], ids=["packaged", "newest"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    etcd.needed(request.param)
    server = EtcdServer(tmp_path_factory.mktemp("large"), program=request.param).start()
    yield server
    server.kill()


@pytest.mark.parametrize(("number", "size"), [(RULES, "18.6"), (9_000, "1.7")])
def test_etcd_refuses_them_at_the_write_and_says_what_to_do(server: EtcdServer, number: int, size: str) -> None:
    source: Any = datasources.open(server.uri(f"/large/{number}"))
    (item,) = source.items(["flow"])
    with pytest.raises(SourceMisconfigured) as caught:
        source.write(item, texts(rules(number)), expected=None, provenance=Provenance())
    says = str(caught.value)
    assert f"{item.source}: {size} MiB are too much for one write, and nothing was written" in says
    assert "1.5 MiB, unless it was started with another --max-request-bytes" in says
    assert "Split the rules over kinds, groups or apps, keep them in Git or files, or raise that limit" in says
    assert isinstance(source.read(item), Absent)
    source.close()


def test_what_etcd_refuses_costs_nobody_the_connection(
    server: EtcdServer, large: bytes, recorder: Any, subscribe: Any
) -> None:
    source: Any = datasources.open(server.uri("/large/others"))
    (item,) = source.items(["flow"])
    written = source.write(item, texts(rules(1)), expected=None, provenance=Provenance())
    subscription = subscribe(source, recorder)
    assert subscription.wait_ready(5)
    with pytest.raises(SourceMisconfigured):
        source.write(item, texts(large), expected=written.version, provenance=Provenance())
    source.write(item, texts(rules(2)), expected=written.version, provenance=Provenance())
    recorder.wait_active(rules(2))
    assert subscription.state is State.READY
    assert subscription.status()[0].counters.channel_losses == 0
    source.close()


def test_a_server_with_a_larger_limit_takes_them(large: bytes, tmp_path: Path) -> None:
    etcd.needed()
    server = EtcdServer(tmp_path, flags=("--max-request-bytes=33554432",)).start()
    try:
        source: Any = datasources.open(server.uri())
        (item,) = source.items(["flow"])
        source.write(item, texts(large), expected=None, provenance=Provenance())
        assert source.read(item).texts[0].content == large
        source.close()
    finally:
        server.kill()


def test_a_full_server_says_so_and_goes_on_being_read(tmp_path: Path) -> None:
    etcd.needed()
    server = EtcdServer(tmp_path, flags=("--quota-backend-bytes=500000",)).start()
    source: Any = datasources.open(server.uri())
    (item,) = source.items(["flow"])
    last = [None]

    def fill() -> None:
        for number in range(900, 1000):
            last.append(source.write(item, texts(rules(number)), expected=last[-1], provenance=Provenance()).version)

    try:
        with pytest.raises(SourceMisconfigured, match=r"is full and takes no write.*--quota-backend-bytes"):
            fill()
        assert source.read(item).version == last[-1]
    finally:
        source.close()
        server.kill()
