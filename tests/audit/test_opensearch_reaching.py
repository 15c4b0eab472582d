"""How an audit store in OpenSearch is addressed and reached, and what is said where it cannot be."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.errors import StoreDenied, StoreMisconfigured, StoreUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.audit.store import open_store
from sentinel_core.audit.store._os_target import Target
from sentinel_core.audit.store.contract import Ingested, Query
from sentinel_core.audit.store.opensearch import OpenSearchStore
from tests.services.gate import gate
from tests.services.nacos import make_certificate
from tests.services.opensearch import OpenSearch
from tests.services.server import free_port

Child = Callable[..., int]
Opened = Callable[..., OpenSearchStore]


class TestAddress:
    @pytest.mark.parametrize(
        ("uri", "expected"),
        [
            ("audit.example", Target(("audit.example:9200",))),
            ("a:1,b:2/?index=x", Target(("a:1", "b:2"), index="x")),
            ("li@a/?password_file=p", Target(("a:9200",), user="li", password_file=Path("p"))),
            ("a/?user=li&tls=true", Target(("a:9200",), tls=True, user="li")),
            ("a/?ca=ca.pem", Target(("a:9200",), tls=True, ca=Path("ca.pem"))),
            ("[::1]:1/?timeout=500ms", Target(("[::1]:1",), timeout_s=0.5)),
        ],
    )
    def test_an_address_says_where_and_as_whom(self, uri: str, expected: Target) -> None:
        assert Target.parse(uri) == expected

    @pytest.mark.parametrize(
        ("uri", "words"),
        [
            ("", "not host:port"),
            ("a:x", "not host:port"),
            ("a/path", "a path follows the hosts"),
            ("li:hunter2@a", "SENTINEL_OPENSEARCH_PASSWORD"),
            ("a/?pasword_file=x", "did you mean password_file"),
            ("a/?password=hunter2", "password_file"),
            ("a/?password_file=x", "password_file without a user"),
            ("li@a/?user=wang", "named twice"),
            ("a/?tls=maybe", "true or false"),
            ("a/?tls=false&ca=x", "leave one out"),
            ("a/?cert=x", "belong together"),
            ("a/?timeout=soon", "for example 10s"),
            ("a/?index=Audit", "small letters"),
            ("a/?index=*", "small letters"),
            ("a/?index=x&index=y", "twice"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_and_says_what_to_write(self, uri: str, words: str) -> None:
        with pytest.raises(StoreMisconfigured, match=words) as refusal:
            open_store(f"opensearch://{uri}")
        assert "hunter2" not in str(refusal.value)


class TestReaching:
    def test_nobody_there(self, opened: Opened, events: list[Event]) -> None:
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:\d+ cannot be reached.*check the address"):
            opened(f"127.0.0.1:{free_port()}").ingest(events)

    def test_something_else_is_there(self, opened: Opened) -> None:
        for body in (b"<html>hello</html>", b"{}", b"[]", b'{"version": {"number": "7.17"}}', b"{" * 100_000):
            with gate(0) as other:
                other.decide = lambda *_, body=body: (200, body)
                with pytest.raises(StoreMisconfigured, match="not as OpenSearch or Elasticsearch"):
                    opened(other.address).count()

    def test_an_elasticsearch_that_is_too_old(self, opened: Opened) -> None:
        with gate(0) as other:
            other.decide = lambda *_: (200, b'{"version": {"number": "6.8.1"}, "tagline": "You Know, for Search"}')
            with pytest.raises(StoreMisconfigured, match=r"7\.10 or newer"):
                opened(other.address).count()

    def test_a_login_is_asked_for_and_given(
        self,
        opened: Opened,
        node: OpenSearch,
        index: str,
        events: list[Event],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        with gate(node.port) as link:
            link.login = f"Basic {base64.b64encode('li:hunter 2 é'.encode()).decode()}"
            with pytest.raises(StoreDenied, match="asks for a login"):
                opened(link.address, index=index).count()
            with pytest.raises(StoreDenied, match="set SENTINEL_OPENSEARCH_PASSWORD"):
                opened(f"li@{link.address}", index=index).count()
            monkeypatch.setenv("SENTINEL_OPENSEARCH_PASSWORD", "wrong-one")
            with pytest.raises(StoreDenied, match="check the password in SENTINEL") as refusal:
                opened(f"li@{link.address}", index=index).count()
            assert "wrong-one" not in str(refusal.value)
            (tmp_path / "password").write_text("hunter 2 é\n")
            store = opened(f"li@{link.address}", index=index, password_file=str(tmp_path / "password"))
            assert store.ingest(events) == Ingested(10, 0)
            assert "hunter" not in repr(store.target)

    def test_a_certificate_is_verified(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event], tmp_path: Path
    ) -> None:
        ca, certificate, key = make_certificate(tmp_path / "one")
        other_ca, *_ = make_certificate(tmp_path / "other")
        with gate(node.port, (certificate, key)) as link:
            assert opened(link.address, index=index, ca=str(ca)).ingest(events) == Ingested(10, 0)
            with pytest.raises(StoreMisconfigured, match=f"not vouched for by {other_ca}"):
                opened(link.address, index=index, ca=str(other_ca)).count()
            with pytest.raises(StoreMisconfigured, match="certificate is for another name"):
                opened(link.address.replace("127.0.0.1", "localhost"), index=index, ca=str(ca)).count()
            with pytest.raises(StoreMisconfigured, match="cannot be read"):
                opened(link.address, index=index, ca=str(tmp_path / "none")).count()
            with pytest.raises(StoreUnavailable, match="tls=true"):
                opened(link.address, index=index).count()
        with pytest.raises(StoreMisconfigured, match="leave tls and ca out"):
            opened(node.address, index=index, ca=str(ca)).count()

    def test_the_next_host_is_asked_when_one_is_gone(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        with gate(node.port) as link:
            store = opened(f"127.0.0.1:{free_port()},{link.address},{node.address}", index=index)
            assert store.ingest(events[:5]) == Ingested(5, 0)
            assert link.seen
        assert store.ingest(events) == Ingested(5, 5)
        assert store.count() == 10

    @pytest.mark.parametrize("drop", [b"", b"HTTP/1.1 200 OK\r\n"])
    def test_an_answer_that_never_comes_is_waited_for_as_long_as_said(self, opened: Opened, drop: bytes) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            until = time.monotonic() + 3

            def drip() -> None:
                connection, _ = silent.accept()
                with connection:
                    while time.monotonic() < until:
                        try:
                            connection.sendall(drop or b"")
                        except OSError:
                            return
                        time.sleep(0.02)

            thread = threading.Thread(target=drip, daemon=True)
            thread.start()
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                opened(f"127.0.0.1:{silent.getsockname()[1]}", timeout="300ms").count()
            assert time.monotonic() - began < 2
            thread.join(5)

    def test_who_may_not_is_told_what_to_grant(
        self, opened: Opened, node: OpenSearch, index: str, events: list[Event]
    ) -> None:
        denied = {"error": {"root_cause": [{"type": "security_exception", "reason": "no permissions"}]}, "status": 403}

        def refuse(method: str, path: str, *_: Any) -> tuple[int, bytes] | None:
            return (403, json.dumps(denied).encode()) if "_index_template" in path or "_search" in path else None

        with gate(node.port) as link:
            link.decide = refuse
            with pytest.raises(StoreDenied, match="manage_index_templates"):
                opened(link.address, index=index).ingest(events)
            with pytest.raises(StoreDenied, match=f"grant rights on {index}-\\*"):
                opened(link.address, index=index).query(Query())
