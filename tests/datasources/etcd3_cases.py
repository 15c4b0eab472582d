"""etcd through the library `etcd3`: run by test_etcd3.py, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import SourceMisconfigured, SourceUnavailable, State, StopSignal
from sentinel_core.rules import Provenance, SourceText
from tests.datasources.follower import BACK_S, A, B, Follower
from tests.services import etcd
from tests.services.etcd import EtcdServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    etcd.needed()
    server = EtcdServer(tmp_path, flags=("--bcrypt-cost=4",)).start()
    yield server
    server.kill()


def follow(server: EtcdServer, recorder: Any, subscribe: Any, **query: str) -> Follower:
    return Follower(server.uri(client="etcd3", **query), server.put, recorder, subscribe)


@pytest.mark.parametrize("end", [EtcdServer.stop, EtcdServer.kill])
def test_an_outage_keeps_the_rules_costs_no_work_and_its_change_is_active_soon(
    server: EtcdServer, recorder: Any, subscribe: Any, end: Callable[[EtcdServer], None]
) -> None:
    follower = follow(server, recorder, subscribe)
    end(server)
    follower.wait_state(State.STALE, 2)
    before = time.process_time()
    time.sleep(2)
    assert (time.process_time() - before) / 2 <= 0.2, "the library alone takes twice as much"
    assert recorder.contents == [A]
    server.start()
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    assert recorder.contents == [A, B]
    follower.close()


def test_a_frozen_server_is_noticed(server: EtcdServer, recorder: Any, subscribe: Any) -> None:
    follower = follow(server, recorder, subscribe)
    server.freeze()
    follower.wait_state(State.STALE, 10)
    server.thaw()
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    follower.close()


def test_a_watch_that_is_denied_is_not_silent(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.require_login("ops", "pw", "/sentinel/")
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", "pw")
    source: Any = datasources.open(server.uri(client="etcd3", user="ops"))
    source.read(source.items(["flow"])[0])
    with pytest.raises(SourceUnavailable, match="may its role read it"):
        next(source._opened.watch(b"/elsewhere", 1, StopSignal()))
    source.close()


def test_a_token_that_has_expired_is_renewed(
    server: EtcdServer, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", "pw")
    server.require_login("ops", "pw", "/sentinel/")
    follower = follow(server, recorder, subscribe, user="ops")
    server.ctl("auth", "disable")
    server.ctl("auth", "enable")
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    follower.close()


def test_a_history_ends_at_a_deletion_and_at_a_compaction(server: EtcdServer) -> None:
    source: Any = datasources.open(server.uri(client="etcd3"))
    (item,) = source.items(["flow"])
    expected = None
    for content in (A, B, A):
        texts = (SourceText("rules.json", content, "json"),)
        expected = source.write(item, texts, expected=expected, provenance=Provenance(reason="r")).version
    found = source.history(item)
    assert [each.texts[0].content for each in found] == [A, B, A]
    assert {each.provenance.reason for each in found} == {"r"}
    server.compact()
    assert len(source.history(item)) == 1
    server.delete(item.key)
    assert source.history(item) == []
    source.close()


def test_without_a_ca_of_its_own_it_speaks_no_tls(server: EtcdServer) -> None:
    source = datasources.open(server.uri(client="etcd3", tls="true"))
    with pytest.raises(SourceMisconfigured, match="name it with &ca=FILE"):
        source.read(source.items(["flow"])[0])
    source.close()


def test_mutual_tls_is_spoken(tmp_path: Path) -> None:
    etcd.needed()
    (tmp_path / "tls").mkdir()
    server = EtcdServer(tmp_path / "tls", tls=True, client_certs=True).start()
    try:
        pki = server.pki
        certificates = {"ca": f"{pki}/ca.crt", "cert": f"{pki}/client.crt", "key": f"{pki}/client.key"}
        source: Any = datasources.open(server.uri(client="etcd3", **certificates))
        assert source.read(source.items(["flow"])[0]).reason.endswith("is missing")
        source.close()
    finally:
        server.kill()
