"""What Nacos adds to the contract: names, provenance, compare-and-set that is read back, and its own history."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    Absent,
    HasHistory,
    NacosSource,
    SourceConflict,
    SourceMisconfigured,
    StopSignal,
    Writable,
)
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.services import nacos
from tests.services.nacos import NacosServer
from tests.services.server import wait_until

A = b'[{"resource": "a", "count": 1}]'
B = b'[{"resource": "b", "count": 2}]'
C = b'[{"resource": "c", "count": 3}]'
D = b'[{"resource": "d", "count": 4}]'
ADA = Provenance(
    commit_hash="c0ffee",
    author="Ada Example <ada@example.com>",
    committed_at=datetime(2026, 11, 30, 8, tzinfo=UTC),
    channel="cli",
    reason="促销",
    published_at=datetime(2026, 11, 30, 9, tzinfo=UTC),
    rollback_of="7",
)
MANNERS = [(3, "http"), (2, "http"), (3, "grpc"), (2, "grpc")]
"""Servers, and how they are spoken to: what stands here holds for all."""


class Shelf:
    """A group of its own, in a server."""

    def __init__(self, server: NacosServer, transport: str, group: str) -> None:
        self.server = server
        self.group = group
        source = datasources.open(server.uri(group=group, transport=transport, interval="50ms", timeout="30s"))
        assert isinstance(source, NacosSource)
        self.source = source
        (self.item,) = source.items(["flow"])
        self.beside = f"{self.item.key}.provenance"

    def put(self, content: bytes, data_id: str = "") -> None:
        """As somebody does in the console."""
        name = data_id or self.item.key
        self.server.put(name, content, group=self.group)
        assert wait_until(lambda: self.server.read(name, group=self.group) == content)

    def delete(self) -> None:
        self.server.delete(self.item.key, group=self.group)
        assert wait_until(lambda: self.server.read(self.item.key, group=self.group) is None)

    def stored(self, data_id: str = "") -> bytes | None:
        return self.server.get(data_id or self.item.key, group=self.group)

    def read(self) -> Revision:
        found = self.source.read(self.item)
        assert isinstance(found, Revision)
        return found

    def write(self, content: bytes, expected: str | None, provenance: Provenance = ADA) -> str:
        return self.source.write(self.item, text(content), expected=expected, provenance=provenance).version


@pytest.fixture(params=MANNERS, ids=lambda manner: "-".join(map(str, manner)))
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    major, transport = request.param
    nacos.needed(major)
    shelf = Shelf(nacos.shared(major), transport, tmp_path.name)
    yield shelf
    shelf.source.close()


def text(content: bytes) -> tuple[SourceText, ...]:
    return (SourceText("rules.json", content, "json"),)


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_source_tells_its_server_its_transport_and_the_servers_clock(shelf: Shelf) -> None:
    found = shelf.source.inspect(shelf.item)
    assert (found.server or "").startswith("Nacos")
    assert (found.server or "").endswith(("over HTTP", "over gRPC"))
    assert found.clock is not None
    assert abs((found.clock - datetime.now(UTC)).total_seconds()) < 5
    assert shelf.stored() is None


def test_data_ids_are_those_of_other_sentinel_stores() -> None:
    source = datasources.open("nacos://host?group=SENTINEL_GROUP", environment="prod")
    flow, params = source.items(["flow", "param_flow"])
    assert (flow.key, params.key) == ("sentinel-flow-rules", "sentinel-param-flow-rules")
    assert flow.source == "/prod/nacos/public/SENTINEL_GROUP/sentinel-flow-rules"


@pytest.mark.parametrize(
    ("uri", "source"),
    [
        ("nacos://host/shop", "/default/nacos/shop/SENTINEL_GROUP/sentinel-flow-rules"),
        ("nacos://host?namespace=shop&group=G", "/default/nacos/shop/G/sentinel-flow-rules"),
        ("nacos://host?template=orders-{kind}-rules", "/default/nacos/public/SENTINEL_GROUP/orders-flow-rules"),
    ],
)
def test_namespace_group_and_template_make_the_name(uri: str, source: str) -> None:
    assert datasources.open(uri).items(["flow"])[0].source == source


def test_a_store_may_be_narrowed_to_one_kind() -> None:
    source = datasources.open("nacos://host?kind=flow")
    assert [item.kinds for item in source.items(["flow", "degrade"])] == [("flow",)]
    with pytest.raises(SourceMisconfigured, match="holds flow rules, but degrade is asked for"):
        source.items(["degrade"])


def test_namespaces_do_not_see_each_other(tmp_path: Path) -> None:
    nacos.needed()
    server = nacos.shared()
    server.make_namespace(tmp_path.name)
    server.put("sentinel-flow-rules", A, group=tmp_path.name)
    source = datasources.open(server.uri(tmp_path.name, group=tmp_path.name, transport="http"))
    (item,) = source.items(["flow"])
    assert isinstance(source.read(item), Absent)
    assert isinstance(source, Writable)
    source.write(item, text(B), expected=None, provenance=ADA)
    assert server.get("sentinel-flow-rules", tmp_path.name, tmp_path.name) == B
    assert server.get("sentinel-flow-rules", group=tmp_path.name) == A
    source.close()


def test_a_namespace_that_is_none_is_said_and_not_written_to() -> None:
    nacos.needed()
    source = datasources.open(nacos.shared().uri("nowhere", transport="http"))
    (item,) = source.items(["flow"])
    absent = source.read(item)
    assert isinstance(absent, Absent)
    assert "there is no namespace nowhere" in absent.reason
    assert isinstance(source, Writable)
    with pytest.raises(SourceMisconfigured, match="there is no namespace nowhere, though Nacos would take the rules"):
        source.write(item, text(A), expected=None, provenance=ADA)
    source.close()


# -- provenance --------------------------------------------------------------------------------------------------------


def test_content_and_provenance_are_written_beside_each_other(shelf: Shelf) -> None:
    version = shelf.write(A, None)
    found = shelf.read()
    assert (found.version, found.texts[0].content, found.provenance) == (version, A, ADA)
    beside = json.loads(shelf.stored(shelf.beside) or b"")
    assert (beside["formatVersion"], beside["author"], len(beside["digest"])) == (1, ADA.author, 64)


def test_an_edit_in_the_console_is_not_the_publishers_but_its_operators(shelf: Shelf) -> None:
    shelf.write(A, None)
    shelf.put(B)
    edited = shelf.read().provenance
    assert (edited.channel, edited.author, edited.commit_hash) == ("console", "unknown <127.0.0.1>", None)
    assert edited.published_at is not None
    shelf.put(b' [{"count": 1, "resource": "a"}]')
    assert shelf.read().provenance == ADA, "the same rules in other bytes: the digest of the rules counts"


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"author": 5, "publishedAt": "soon"}', b"[" * 9999])
def test_whatever_stands_as_provenance_the_rules_are_read(shelf: Shelf, junk: bytes) -> None:
    shelf.put(A)
    shelf.put(junk, shelf.beside)
    found = shelf.read()
    assert (found.texts[0].content, found.provenance.channel) == (A, "console")


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_write_is_refused_where_another_revision_stands(shelf: Shelf) -> None:
    assert isinstance(shelf.source, Writable)
    with pytest.raises(SourceConflict, match="stands at revision absent, not at 7"):
        shelf.write(A, "7")
    first = shelf.write(A, None)
    shelf.put(B)
    for expected in (None, first):
        with pytest.raises(SourceConflict, match="changed meanwhile"):
            shelf.write(C, expected)
    assert (shelf.read().texts[0].content, shelf.read().provenance.channel) == (B, "console")


@pytest.mark.parametrize("alike", [False, True], ids=["other-rules", "same-rules"])
@pytest.mark.parametrize("standing", [None, A], ids=["absent", "present"])
def test_of_many_writers_at_once_one_at_most_is_told_success(shelf: Shelf, standing: bytes | None, alike: bool) -> None:
    def rules(number: int) -> bytes:
        return f'[{{"resource": "w{0 if alike else number}", "count": 1}}]'.encode()

    expected = shelf.write(standing, None) if standing else None
    outcomes: dict[int, Any] = {}
    gate = threading.Barrier(6)

    def write(number: int) -> None:
        gate.wait()
        try:
            who = Provenance(author=f"writer {number}", channel="cli")
            outcomes[number] = shelf.write(rules(number), expected, who)
        except SourceConflict as error:
            outcomes[number] = error

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6
    won = [number for number, outcome in outcomes.items() if isinstance(outcome, str)]
    assert len(won) <= 1
    if won:
        found = shelf.read()
        assert found.texts[0].content == rules(won[0])
        assert found.provenance.author == f"writer {won[0]}"


def test_writers_one_after_the_other_all_succeed(shelf: Shelf) -> None:
    version = None
    for content in (A, B, A, B):
        version = shelf.write(content, version)
    assert shelf.stored() == B


def test_a_write_of_what_stands_there_already_tells_who_meant_it(shelf: Shelf) -> None:
    shelf.put(A)
    standing = shelf.read()
    assert shelf.write(A, standing.version) == standing.version
    assert shelf.read().provenance == ADA


def test_no_texts_remove_content_and_provenance(shelf: Shelf) -> None:
    first = shelf.write(A, None)
    assert shelf.source.write(shelf.item, (), expected=first, provenance=ADA).texts == ()
    assert isinstance(shelf.source.read(shelf.item), Absent)
    assert (shelf.stored(), shelf.stored(shelf.beside)) == (None, None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "takes no blank content; write \\[\\] to clear"),
        (b" \n", "takes no blank content"),
        (b'["\xe4\xbd"]', "not UTF-8"),
        (b'["' + b"x" * 10 * 2**20 + b'"]', "more than the 10 MiB that Nacos sends to its clients"),
        (b'["' + b'\\"' * 3 * 2**20 + b'"]', "12.0 MiB of JSON are more than"),
    ],
)
def test_what_nacos_could_not_carry_is_refused_at_once(content: bytes, words: str) -> None:
    source = datasources.open("nacos://127.0.0.1:1?transport=http")
    (item,) = source.items(["flow"])
    assert isinstance(source, Writable)
    with pytest.raises(SourceMisconfigured, match=words):
        source.write(item, text(content), expected=None, provenance=ADA)


def test_chinese_special_and_large_contents_come_back_byte_for_byte(shelf: Shelf) -> None:
    content = json.dumps([{"resource": "下单 +%41&=;\u2028\\😀", "limitApp": "x" * 3_000_000}], ensure_ascii=False)
    version = shelf.write(content.encode(), None)
    assert shelf.read().texts[0].content == content.encode()
    assert shelf.read().version == version


# -- history -----------------------------------------------------------------------------------------------------------


def test_the_past_can_be_read_with_its_authors_across_a_deletion(shelf: Shelf) -> None:
    assert isinstance(shelf.source, HasHistory)
    first = shelf.write(A, None)
    shelf.write(B, first, Provenance(author="Bob", channel="git", rollback_of=first))
    shelf.put(C)
    shelf.delete()
    shelf.put(D)
    found = shelf.source.history(shelf.item)
    assert [each.texts[0].content for each in found] == [D, C, B, A]
    assert [each.provenance.author for each in found] == [*["unknown <127.0.0.1>"] * 2, "Bob", ADA.author]
    assert [each.provenance.channel for each in found] == ["console", "console", "git", "cli"]
    assert shelf.source.history(shelf.item, limit=1) == found[:1]
    assert found[0].version == shelf.read().version
    assert found[3].version == first, "what a rollback undid is called as it was called then"
    assert len({each.version for each in found}) == 4


def test_rules_that_come_back_within_seconds_are_told_by_each_who_brought_them(shelf: Shelf) -> None:
    version = None
    for content, reason in ((A, "sale"), (B, "more"), (A, "back"), (B, "again")):
        version = shelf.write(content, version, Provenance(author="Bob", channel="git", reason=reason))
    found = shelf.source.history(shelf.item)
    assert [each.provenance.reason for each in found] == ["again", "back", "more", "sale"]


def test_what_a_rollback_undid_is_named_by_it_and_nothing_like_it_is(shelf: Shelf) -> None:
    first = shelf.write(A, None)
    second = shelf.write(B, first)
    third = shelf.write(A, second, Provenance(channel="cli", rollback_of=second))
    fourth = shelf.write(B, third)
    versions = [each.version for each in shelf.source.history(shelf.item)]
    assert (versions[0], versions[2]) == (fourth, second)
    assert len({*versions}) == 4


def test_a_revision_is_found_by_its_version_and_by_its_md5(shelf: Shelf) -> None:
    first = shelf.write(A, None)
    shelf.write(B, first)
    for name in (first, first.partition("-")[0], first[:6]):
        found = shelf.source.at(shelf.item, name)
        assert isinstance(found, Revision)
        assert (found.texts[0].content, found.provenance) == (A, ADA)


@pytest.mark.parametrize("version", ["HEAD", "0", "", "deadbeef", "-1", "ffffffffffff-1796033932780"])
def test_a_revision_that_is_none_is_refused(shelf: Shelf, version: str) -> None:
    shelf.put(A)
    with pytest.raises(SourceMisconfigured, match="is not a revision that Nacos remembers"):
        shelf.source.at(shelf.item, version)


def test_what_never_was_has_no_past(shelf: Shelf) -> None:
    assert shelf.source.history(shelf.item) == []


# -- watching ----------------------------------------------------------------------------------------------------------


def test_a_watch_tells_of_what_was_missed_and_of_what_comes_and_ends_when_it_is_told(shelf: Shelf) -> None:
    shelf.put(A)
    seen = shelf.read()
    woken, stop = threading.Event(), StopSignal()
    watcher = threading.Thread(target=shelf.source.watch, args=(shelf.item, seen, woken.set, stop))
    shelf.put(B)
    watcher.start()
    assert woken.wait(5), "it changed before the watch began"
    woken.clear()
    assert not woken.wait(0.5), "nothing has changed"
    shelf.delete()
    assert woken.wait(5)
    stop.set()
    watcher.join(1)
    assert not watcher.is_alive()


def test_the_end_of_one_subscription_does_not_disturb_another(
    shelf: Shelf, recorder: Any, other_recorder: Any, subscribe: Any
) -> None:
    shelf.put(A)
    stays, ends = subscribe(shelf.source, recorder), subscribe(shelf.source, other_recorder)
    assert stays.wait_ready(5)
    assert ends.wait_ready(5)
    assert ends.close(timeout_s=1)
    shelf.put(B)
    recorder.wait_active(B)
    assert stays.status()[0].counters.channel_losses == 0


def test_a_forked_child_follows_on_connections_of_its_own(shelf: Shelf, recorder: Any, subscribe: Any) -> None:
    shelf.put(A)
    subscription = subscribe(shelf.source, recorder)
    assert subscription.wait_ready(5)
    child = os.fork()
    if child == 0:
        good = False
        try:
            subscription.renew_after_fork()
            good = subscription.wait_ready(10) and recorder.wait(lambda me: me.active == B, 20)
        finally:
            os._exit(0 if good else 1)
    threading.Timer(1, shelf.server.put, (shelf.item.key, B), {"group": shelf.group}).start()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recorder.wait_active(B)
