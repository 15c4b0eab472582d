"""The audit commands and `doctor` over a real OpenSearch, named by the settings alone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sentinel_core import start
from sentinel_core.audit.event import Event
from sentinel_core.audit.store import open_store
from sentinel_core.settings import load_settings
from tests.cli.conftest import Complete, Run
from tests.services import opensearch
from tests.services.opensearch import OpenSearch
from tests.services.server import free_port, wait_until

pytestmark = [pytest.mark.service("opensearch"), pytest.mark.xdist_group("opensearch")]

RULES = "flowRules: [{{resource: payment_invoke, grade: qps, count: {}}}]\n"


@pytest.fixture
def server() -> OpenSearch:
    opensearch.needed()
    return opensearch.shared()


@pytest.fixture
def index(server: OpenSearch) -> Iterator[str]:
    name = f"cli-{uuid.uuid4().hex[:12]}"
    yield name
    server.forget(name)


@pytest.fixture
def place(here: Path, server: OpenSearch, index: str) -> Path:
    """A folder with settings and a key."""
    key = Ed25519PrivateKey.generate()
    (here / "audit.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (here / "rules.yaml").write_text(RULES.format(20))
    (here / "sentinel.yaml").write_text(
        f"stores: ['file://{here}/rules.yaml']\n"
        f"audit: {{store: '{server.uri(index)}', checkpoints: checkpoints.ndjson, signingKeyFile: audit.key}}\n"
    )
    return here


def deliver_a_change(place: Path, server: OpenSearch, index: str) -> None:
    """By a service of this machine, so that it is found."""
    engine = start(load_settings())
    try:
        engine.wait_ready(10)
        (place / "rules.yaml").write_text(RULES.format(25))
        assert wait_until(lambda: engine.rules("flow").rules[0].count == 25, 10)
    finally:
        engine.close()
    server.ask("POST", f"/{index}-*/_refresh")


def test_what_it_was_told_is_completed(
    place: Path, server: OpenSearch, index: str, sentinelctl: Run, complete: Complete
) -> None:
    deliver_a_change(place, server, index)
    told = complete("audit show ")
    assert next(iter(told.values())).endswith(" ago: payment_invoke count 20 → 25")
    assert [sentinelctl("audit", "show", each).code for each in told] == [0] * len(told)
    assert list(complete("audit query resource:pay")) == ["resource:payment_invoke"]
    assert list(complete("audit query channel:f")) == ["channel:file"]
    assert complete("audit query author:nobody") == {}
    assert all(each.startswith("digest:") for each in complete("audit query digest:"))


def test_a_change_is_delivered_asked_for_signed_and_verified(
    place: Path, server: OpenSearch, index: str, sentinelctl: Run
) -> None:
    assert sentinelctl("audit", "who", "payment_invoke").code == 69, "there is no store yet"
    deliver_a_change(place, server, index)

    ended = sentinelctl("audit", "who", "payment_invoke", "--field", "count")
    assert ended.code == 0, ended.err
    assert "count  20 → 25" in ended.out
    assert "seen by 1 instance" in ended.out
    assert ended.err.endswith("1 change. The hashes hold; no checkpoint covers them yet.\n"), ended.err
    ended = sentinelctl("audit", "query", "count>20", "-o", "json")
    (row,) = json.loads(ended.out)["changes"] if "changes" in json.loads(ended.out) else json.loads(ended.out)["rows"]
    ended = sentinelctl("audit", "show", row["event"]["id"][:8])
    assert ended.code == 0, ended.err
    assert "25" in ended.out

    exported = [json.loads(line) for line in sentinelctl("audit", "export", "type:changed").out.splitlines()]
    assert [each["data"]["changes"][0]["new"] for each in exported if not each["data"]["initial"]] == [25]
    assert "20 → 25" in sentinelctl("audit", "tail", "-n", "5").out

    assert sentinelctl("audit", "checkpoint").code == 0
    ended = sentinelctl("audit", "verify")
    assert (ended.code, ended.err.startswith("Sound:")) == (0, True), ended
    ended = sentinelctl("doctor", "-o", "json")
    (audit,) = [check for check in json.loads(ended.out)["checks"] if check["check"] == "audit"]
    assert (ended.code, audit["health"]) == (0, "ok")
    assert "readable, 4 events" in audit["what"] or "events, the newest" in audit["what"]
    assert audit["facts"]["server"].startswith(("OpenSearch ", "Elasticsearch "))
    assert abs(audit["facts"]["clockSkewSeconds"]) < 5
    assert audit["facts"]["mayWrite"] is True
    server.ask("PUT", f"/{index}-state/_settings", {"index.blocks.write": True})
    checks = json.loads(sentinelctl("doctor", "-o", "json").out)["checks"]
    assert [each["facts"]["mayWrite"] for each in checks if each["check"] == "audit"] == [False]
    server.ask("PUT", f"/{index}-state/_settings", {"index.blocks.write": False})

    script = {"source": "ctx._source['user.name'] = 'nobody'", "lang": "painless"}
    server.ask("POST", f"/{index}-events-*/_update_by_query?refresh=true", {"script": script})
    assert sentinelctl("audit", "verify").code == 2
    ended = sentinelctl("audit", "who", "payment_invoke")
    assert (ended.code, "TAMPERED WITH: " in ended.err) == (2, True), ended.err


def test_old_events_are_purged_and_verified_in_their_segment(
    place: Path, server: OpenSearch, index: str, sentinelctl: Run
) -> None:
    with closing(open_store(server.uri(index))) as store:
        for month in range(4, 10):
            change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "new": month}
            data = json.dumps({"environment": "prod", "kind": "flow", "changes": [change]}).encode()
            at = datetime(2026, month, 1, tzinfo=UTC)
            store.ingest([Event(f"{month:08}-event", "/prod/x", "sentinel.rules.changed.v1", "flow", at, data)])
    server.ask("POST", f"/{index}-*/_refresh")
    assert sentinelctl("audit", "checkpoint").code == 0
    purge = ("audit", "purge", "--before", "2026-07-01", "--to", "segments", "--zone", "UTC")
    assert "3 events of 1 source" in sentinelctl(*purge, "--dry-run").err
    ended = sentinelctl(*purge, "--yes", "-o", "json")
    assert (ended.code, json.loads(ended.out)["removed"]) == (0, 3), ended.err
    assert "Sound: 4 events of 2 sources, 3 checkpoints." in sentinelctl("audit", "verify").err
    assert "Sound: 7 events of 2 sources" in sentinelctl("audit", "verify", "--segments", "segments").err
    told = sentinelctl("audit", "who", "pay", "--zone", "UTC").err
    assert "3 changes. The hashes hold, and the checkpoint of " in told
    assert "Events of before 2026-07-01 00:00:00 were purged" in told
    assert sentinelctl("audit", "export", "resource:pay").out.count("\n") == 3
    assert (place / "segments").is_dir()


def test_what_keeps_a_store_from_answering_has_its_exit_code_and_next_step(
    place: Path, server: OpenSearch, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uri, code, words in (
        (f"opensearch://127.0.0.1:{free_port()}/", 69, "check the address"),
        ("opensearch://li:hunter2@127.0.0.1/", 78, "SENTINEL_OPENSEARCH_PASSWORD"),
        ("opensearch://127.0.0.1/?passwordfile=hunter2", 78, "did you mean password_file?"),
        (f"opensearch://li@{server.address}/", 4, "set SENTINEL_OPENSEARCH_PASSWORD"),
        (f"opensearch://{server.address}/?ca=audit.key", 78, "holds no certificates"),
    ):
        monkeypatch.setenv("SENTINEL_AUDIT__STORE", uri)
        for command in (("audit", "query"), ("audit", "verify"), ("doctor",)):
            ended = sentinelctl(*command)
            assert (ended.code, words in ended.out + ended.err) == (code, True), (uri, command, ended)
            assert "hunter2" not in ended.out + ended.err
