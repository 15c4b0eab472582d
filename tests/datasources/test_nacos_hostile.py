"""Servers and proxies that say what no Nacos would: every call ends in time, with rules or with an error in words."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    DatasourceError,
    Reading,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
)
from sentinel_core.rules import KINDS, Revision
from tests.datasources.hostile import RULES, VALUE, WRITTEN_MS, Says, answer, hostile, nacos_3
from tests.services import nacos

TIMEOUT_S = 0.4


def read(address: str, **options: Any) -> Reading:
    source = datasources.open(f"nacos://{address}?transport=http&timeout={int(TIMEOUT_S * 1000)}ms", **options)
    try:
        return source.read(source.items(["flow"])[0])
    finally:
        source.close()


def refusal(says: Says, error: type[DatasourceError] = DatasourceError, **options: Any) -> str:
    with hostile(says) as server, pytest.raises(error) as caught:
        read(server.address, **options)
    return str(caught.value)


def revision(says: Says, **options: Any) -> Revision:
    with hostile(says) as server:
        found = read(server.address, **options)
    assert isinstance(found, Revision)
    return found


# -- shapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [[1], "text", 5, True, {"content": 5}, {"content": ["a"]}, {"content": {"a": 1}}])
def test_a_value_of_another_shape_is_refused_in_words(data: Any) -> None:
    assert "not as a Nacos server does" in refusal(nacos_3(data), SourceMisconfigured)


@pytest.mark.parametrize("moment", ["soon", {}, [], float("inf"), float("nan"), -1, 10**400, 10**18, None])
def test_rules_whose_time_is_none_are_taken(moment: Any) -> None:
    found = revision(nacos_3({**VALUE, "lastModified": moment}))
    assert found.texts[0].content == RULES.encode()
    assert found.version.endswith("-0")


@pytest.mark.parametrize("md5", ["\x1b[31mred\n", "x" * 100_000, 5, {}, "ABC"])
def test_a_digest_that_is_none_is_made_anew(md5: Any) -> None:
    assert revision(nacos_3({**VALUE, "md5": md5})).version.partition("-")[0] == "e95f8b0c8157"


def test_a_content_that_comes_with_the_md5_and_the_time_of_the_one_before_is_read_again() -> None:
    digest, before = "e95f8b0c8157405fe4216c37a6098083", {"md5": "aa4e989ee46768caebba2295b61aba3d", "lastModified": 1}
    reads = [{**VALUE, **before}] * 3 + [{**VALUE, "md5": digest}]

    def config() -> bytes:
        return answer({"code": 0, "data": reads.pop(0) if len(reads) > 1 else reads[0]})

    assert revision(nacos_3(of_config=config)).version == f"{digest[:12]}-{WRITTEN_MS}"


def test_a_server_whose_md5_is_never_that_of_the_content_is_waited_for_once() -> None:
    with hostile(nacos_3({**VALUE, "md5": "aa4e989ee46768caebba2295b61aba3d"})) as server:
        source = datasources.open(f"nacos://{server.address}?transport=http")
        (item,) = source.items(["flow"])
        first = source.read(item)
        began = time.monotonic()
        assert isinstance(first, Revision)
        assert source.read(item) == first
        assert time.monotonic() - began < 1
        source.close()


@pytest.mark.parametrize(
    "history",
    [
        [1],
        "text",
        {"pageItems": "abc"},
        {"pageItems": 5},
        {"pageItems": [{}]},
        {"pageItems": [{"id": "one", "opType": "U"}]},
        {"pageItems": [{"id": 1, "opType": "U", "modifyTime": 10**18, "srcUser": "ada"}]},
        {"pageItems": [{"id": 1, "opType": "U", "modifyTime": "nonsense", "srcUser": "ada"}]},
        {"pageItems": [{"id": 1, "opType": "U", "modifyTime": WRITTEN_MS, "srcUser": {"a": 1}}]},
    ],
)
def test_no_history_keeps_rules_from_being_read(history: Any) -> None:
    found = revision(nacos_3(history=history))
    assert found.texts[0].content == RULES.encode()
    assert found.provenance.author is None
    assert found.provenance.channel == "console"


def entry(number: int, user: str, after_ms: int) -> dict[str, Any]:
    return {"id": number, "opType": "U", "srcUser": user, "modifyTime": WRITTEN_MS + after_ms}


@pytest.mark.parametrize(
    ("history", "author"),
    [
        ([entry(2, "bob", 900), entry(1, "ada", 3)], "ada"),
        ([entry(2, "bob", 3_600_000)], None),
        ([entry(1, "ada", 0), entry(0, "bob", -800)], "ada"),
    ],
    ids=["who-wrote-later-did-not-write-this", "only-another-is-known", "who-wrote-before-neither"],
)
def test_the_author_is_who_wrote_what_was_read(history: Any, author: str | None) -> None:
    assert revision(nacos_3(history={"pageItems": history})).provenance.author == author


def test_an_author_is_cut_short() -> None:
    author = revision(nacos_3(history={"pageItems": [entry(1, "x" * 1_000_000, 0)]})).provenance.author
    assert author is not None
    assert len(author) < 2000


# -- words -------------------------------------------------------------------------------------------------------------


def test_the_servers_words_cannot_speak_to_a_terminal() -> None:
    said = refusal(nacos_3(of_config=lambda: answer({"message": "\x1b]0;owned\x07\nINFO forged \ud800"}, 400)))
    assert said.isprintable()
    assert "forged" in said


def test_names_of_headers_are_taken_as_a_proxy_writes_them() -> None:
    def says(_method: str, path: str) -> bytes:
        if "/liveness" in path or ".provenance" in path or "show=all" in path or "history" in path:
            return answer(b"config data not exist", 404)
        return answer(RULES.encode(), headers="last-modified: Sun, 30 Nov 2025 08:00:00 GMT\r\n")

    assert revision(says).version.endswith(f"-{WRITTEN_MS}")


# -- time --------------------------------------------------------------------------------------------------------------


def dripping(*pieces: bytes) -> Says:
    """Sends the first piece, then the second one again and again."""

    def says(_method: str, _path: str) -> Iterable[bytes]:
        first, again = pieces
        yield first
        until = time.monotonic() + 8 * TIMEOUT_S
        while time.monotonic() < until:
            yield again
            time.sleep(0.01)

    return says


@pytest.mark.parametrize(
    "says",
    [
        dripping(b"HTTP/1.1 200 ", b"O"),
        dripping(b"HTTP/1.1 200 OK\r\n", b"x"),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
        dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b"x"),
    ],
    ids=["status", "headers", "continue", "chunk-size", "chunks", "body"],
)
def test_an_answer_that_never_ends_is_given_up_in_time(says: Says) -> None:
    began = time.monotonic()
    assert "did not answer in time" in refusal(says, SourceUnavailable)
    assert time.monotonic() - began < TIMEOUT_S + 0.3


def test_an_answer_that_nobody_asked_for_is_nobodys() -> None:
    other = answer({"code": 0, "data": {**VALUE, "content": '[{"resource": "other"}]'}})

    def says(method: str, path: str) -> Iterable[bytes]:
        yield nacos_3()(method, path)  # type: ignore[misc]  # it gives bytes
        if ".provenance" in path and server.asked.count("GET /nacos/v3/client/cs/config") % 3 == 0:  # a read's last
            time.sleep(0.05)
            yield other

    with hostile(says) as server:
        source = datasources.open(f"nacos://{server.address}?transport=http")
        (item,) = source.items(["flow"])
        for _ in range(3):
            found = source.read(item)
            assert isinstance(found, Revision)
            assert found.texts[0].content == RULES.encode()
            time.sleep(0.2)
        source.close()


def of_2(says: Says) -> Says:
    """As a server before 3: `says` answers the long poll."""

    def speaks(method: str, path: str) -> bytes | Iterable[bytes]:
        if path.startswith("/nacos/v1/cs/configs/listener"):
            return says(method, path)
        if "/v1/cs/configs" in path and "show=all" not in path and ".provenance" not in path:
            return answer(RULES.encode())
        return answer(b"config data not exist", 404)

    return speaks


def test_a_server_that_holds_nothing_back_does_not_make_the_watch_spin() -> None:
    with hostile(of_2(lambda _method, _path: answer(b""))) as server:
        source = datasources.open(f"nacos://{server.address}?transport=http")
        (item,) = source.items(["flow"])
        stop, seen = StopSignal(), source.read(item)
        watch = threading.Thread(target=source.watch, args=(item, seen, lambda: None, stop))
        watch.start()
        time.sleep(1)
        stop.set()
        watch.join(2)
        source.close()
    assert not watch.is_alive()
    assert server.asked.count("POST /nacos/v1/cs/configs/listener") <= 3


def test_a_held_poll_over_tls_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """What TLS itself sends after the handshake is no answer yet."""
    ca, certificate, key = nacos.make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def held(_method: str, _path: str) -> Iterable[bytes]:
        time.sleep(6)
        yield answer(b"")

    with hostile(of_2(held), context) as server:
        source = datasources.open(f"nacos://{server.address}?transport=http&ca={ca}")
        (item,) = source.items(["flow"])
        stop, seen = StopSignal(), source.read(item)
        watch = threading.Thread(target=source.watch, args=(item, seen, lambda: None, stop), daemon=True)
        watch.start()
        time.sleep(0.5)
        stop.set()
        watch.join(1)
        assert not watch.is_alive()
        source.close()


def test_which_api_a_server_has_is_asked_anew_once_it_seems_to_be_none() -> None:
    """A gateway says 404 of its own while the server behind it starts."""
    away = True

    def says(method: str, path: str) -> bytes:
        if away or "/v3/" not in path:
            return answer(b"no route", 404)
        return nacos_3()(method, path)  # type: ignore[return-value]  # it gives bytes

    with hostile(says) as server:
        source = datasources.open(f"nacos://{server.address}?transport=http")
        (item,) = source.items(["flow"])
        with pytest.raises(SourceMisconfigured):
            source.read(item)
        away = False
        assert isinstance(source.read(item), Revision)
        source.close()


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"accessToken": "hunter2-token", "tokenTtl": "18000"},
        {"accessToken": "hunter2-token\r\nX: y", "tokenTtl": 18000},
        {"accessToken": "hunter2-token-\u4e2d", "tokenTtl": 18000},
        {"accessToken": ["hunter2-token"], "tokenTtl": 18000},
    ],
)
def test_a_login_answer_of_another_shape_shows_no_token(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", "right")
    with hostile(nacos_3(login=answer(said))) as server, pytest.raises(SourceMisconfigured) as caught:
        read(server.address, user="ada")
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


@pytest.mark.parametrize("lives_s", [10**400, -5, 0])
def test_a_token_of_absurd_life_is_used_until_it_is_refused(lives_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", "right")
    with hostile(nacos_3(login=answer({"accessToken": "t", "tokenTtl": lives_s}))) as server:
        assert isinstance(read(server.address, user="ada"), Revision)
    assert server.asked.count("POST /nacos/v3/auth/user/login") == 1


def test_items_that_are_read_at_once_log_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login costs a server much, and a fleet that starts would ask for hundreds."""
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", "right")
    says = nacos_3(login=answer({"accessToken": "t", "tokenTtl": 18000}))

    def slow(method: str, path: str) -> bytes | Iterable[bytes]:
        if "/login" in path:
            time.sleep(0.1)
        return says(method, path)

    with hostile(slow) as server:
        source = datasources.open(f"nacos://{server.address}?user=ada&transport=http")
        items = source.items(KINDS)
        with ThreadPoolExecutor(len(items)) as threads:
            found = list(threads.map(source.read, items))
        source.close()
    assert all(isinstance(each, Revision) for each in found)
    assert server.asked.count("POST /nacos/v3/auth/user/login") == 1


@pytest.mark.parametrize("content", [b"hunter2-token\nsecond", "hunter2-token-\u4e2d".encode(), b"hunter2\x1b[0m"])
def test_a_token_file_that_holds_no_token_is_named_and_not_shown(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with hostile(nacos_3()) as server, pytest.raises(SourceDenied) as caught:
        read(server.address, token_file=file)
    assert str(file) in str(caught.value)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_a_password_that_is_no_text_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SENTINEL_NACOS_PASSWORD", "hunter2\udcff")
    with hostile(nacos_3()) as server, pytest.raises(SourceDenied) as caught:
        read(server.address, user="ada")
    assert "SENTINEL_NACOS_PASSWORD" in str(caught.value)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
