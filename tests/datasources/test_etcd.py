"""What etcd adds to the contract: keys, provenance, compare-and-set, a past until compaction."""

from __future__ import annotations

import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    Absent,
    EtcdSource,
    HasHistory,
    Item,
    SourceConflict,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
    Writable,
)
from sentinel_core.datasources.etcd import rpc_pb2 as pb
from sentinel_core.datasources.etcd.watch import check
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.services import etcd
from tests.services.etcd import EtcdServer

A = b'[{"resource": "a", "count": 1}]'
B = b'[{"resource": "b", "count": 2}]'
ADA = Provenance(
    commit_hash="c0ffee",
    author="Ada Example <ada@example.com>",
    committed_at=datetime(2026, 11, 30, 8, tzinfo=UTC),
    channel="cli",
    reason="促销",
    published_at=datetime(2026, 11, 30, 9, tzinfo=UTC),
    rollback_of="7",
)


@pytest.fixture(params=[etcd.PACKAGED, etcd.NEWEST], ids=["packaged", "newest"])
def server(request: pytest.FixtureRequest) -> EtcdServer:
    etcd.needed(request.param)
    return etcd.shared(request.param)


@pytest.fixture
def source(server: EtcdServer, tmp_path: Path) -> Any:
    source = datasources.open(server.uri(f"/etcd-tests/{tmp_path.name}"))
    assert isinstance(source, EtcdSource)
    yield source
    source.close()


@pytest.fixture
def item(source: EtcdSource) -> Item:
    (item,) = source.items(["flow"])
    return item


def text(content: bytes) -> tuple[SourceText, ...]:
    return (SourceText("rules.json", content, "json"),)


def read(source: EtcdSource, item: Item) -> Revision:
    found = source.read(item)
    assert isinstance(found, Revision)
    return found


# -- names -------------------------------------------------------------------------------------------------------------


def test_keys_are_those_that_other_sentinel_stores_have_as_data_ids() -> None:
    source = datasources.open("etcd://host/public/SENTINEL_GROUP", environment="prod")
    (flow, biz) = source.items(["flow", "biz_metric"])
    assert flow.key == "/sentinel/public/SENTINEL_GROUP/sentinel-flow-rules"
    assert flow.source == "/prod/etcd/sentinel/public/SENTINEL_GROUP/sentinel-flow-rules"
    assert biz.key.endswith("/sentinel-biz-metric-rules")


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        ("etcd://host", "/sentinel/public/SENTINEL_GROUP/sentinel-flow-rules"),
        ("etcd://host/shop/", "/sentinel/shop/SENTINEL_GROUP/sentinel-flow-rules"),
        ("etcd://host/shop/orders?template=/{group}/{namespace}/{kind}.json", "/orders/shop/flow.json"),
    ],
)
def test_the_path_and_a_template_make_the_key(uri: str, key: str) -> None:
    assert datasources.open(uri).items(["flow"])[0].key == key


def test_a_store_may_be_narrowed_to_one_kind() -> None:
    source = datasources.open("etcd://host?kind=flow")
    assert [item.kinds for item in source.items(["flow", "degrade"])] == [("flow",)]
    with pytest.raises(SourceMisconfigured, match="holds flow rules, but degrade is asked for"):
        source.items(["degrade"])


def test_without_grpc_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sentinel_core.datasources.etcd.store", raising=False)
    monkeypatch.setitem(sys.modules, "sentinel_core.datasources.etcd.client", None)
    source = datasources.open("etcd://127.0.0.1:1")
    with pytest.raises(SourceMisconfigured, match=r"pip install 'sentinel-control-plane\[etcd\]'"):
        source.read(source.items(["flow"])[0])
    source.close()


# -- provenance --------------------------------------------------------------------------------------------------------


def test_content_and_provenance_are_written_in_one_transaction(
    server: EtcdServer, source: EtcdSource, item: Item
) -> None:
    written = source.write(item, text(A), expected=None, provenance=ADA)
    found = read(source, item)
    assert (found.version, found.texts, found.provenance) == (written.version, written.texts, ADA)
    shown = json.loads(server.ctl("get", item.key, "--prefix", "-w", "json"))
    assert [kv["mod_revision"] for kv in shown["kvs"]] == [int(written.version)] * 2
    beside = json.loads(server.ctl("get", f"{item.key}.provenance", "--print-value-only"))
    assert (beside["formatVersion"], beside["author"], len(beside["digest"])) == (1, ADA.author, 64)


def test_a_content_edited_by_hand_is_not_the_older_authors(server: EtcdServer, source: EtcdSource, item: Item) -> None:
    source.write(item, text(A), expected=None, provenance=ADA)
    server.put(item.key, B)
    assert read(source, item).provenance == Provenance(channel="console")
    server.put(item.key, b' [{"count": 1, "resource": "a"}]')
    assert read(source, item).provenance == ADA, "the same rules in other bytes: the digest of the rules counts"


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"author": 5, "publishedAt": "soon"}', b"\xff", b"[" * 9999])
def test_whatever_stands_as_provenance_the_rules_are_read(
    server: EtcdServer, source: EtcdSource, item: Item, junk: bytes
) -> None:
    server.put(item.key, A)
    server.put(f"{item.key}.provenance", junk)
    found = read(source, item)
    assert found.texts[0].content == A
    told = None if junk.startswith(b'{"') else f"{item.key}.provenance is damaged; remove it, or publish again"
    assert found.provenance.problem == told


def test_a_hand_written_key_has_no_provenance(server: EtcdServer, source: EtcdSource, item: Item) -> None:
    server.put(item.key, A)
    assert read(source, item).provenance == Provenance()


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_write_is_refused_where_another_revision_stands(server: EtcdServer, source: EtcdSource, item: Item) -> None:
    assert isinstance(source, Writable)
    with pytest.raises(SourceConflict, match="stands at revision absent, not at 7"):
        source.write(item, text(A), expected="7", provenance=ADA)
    first = source.write(item, text(A), expected=None, provenance=ADA)
    server.put(item.key, B)
    for expected in (None, first.version):
        with pytest.raises(SourceConflict, match="changed meanwhile"):
            source.write(item, text(A), expected=expected, provenance=ADA)
    assert read(source, item).texts[0].content == B


def test_of_many_writers_at_once_one_wins(source: EtcdSource, item: Item) -> None:
    won: list[str] = []
    lost: list[SourceConflict] = []
    gate = threading.Barrier(8)

    def write() -> None:
        gate.wait()
        try:
            won.append(source.write(item, text(A), expected=None, provenance=ADA).version)
        except SourceConflict as error:
            lost.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)


def test_no_texts_remove_content_and_provenance(server: EtcdServer, source: EtcdSource, item: Item) -> None:
    first = source.write(item, text(A), expected=None, provenance=ADA)
    assert source.write(item, (), expected=first.version, provenance=ADA).texts == ()
    assert isinstance(source.read(item), Absent)
    assert server.ctl("get", item.key, "--prefix", "--keys-only") == ""


# -- history -----------------------------------------------------------------------------------------------------------


def test_the_past_can_be_read_with_its_authors_across_a_deletion(
    server: EtcdServer, source: EtcdSource, item: Item
) -> None:
    assert isinstance(source, HasHistory)
    first = source.write(item, text(A), expected=None, provenance=ADA)
    server.delete(item.key)
    server.put(item.key, B)
    found = source.history(item)
    assert [each.texts[0].content for each in found] == [B, A]
    assert found[1].provenance == ADA
    assert source.history(item, limit=1) == found[:1]
    assert source.at(item, first.version) == found[1]


def test_the_past_of_what_is_deleted_and_of_what_never_was(server: EtcdServer, source: EtcdSource, item: Item) -> None:
    assert source.history(item) == []
    server.put(item.key, A)
    server.delete(item.key)
    assert [each.texts[0].content for each in source.history(item)] == [A]


@pytest.mark.parametrize("version", ["HEAD", "0", "-1", "99999999", str(2**63)])
def test_a_revision_that_is_none_is_refused(source: EtcdSource, item: Item, version: str) -> None:
    with pytest.raises(SourceMisconfigured, match=f"revision.* {version}|{version} is not a revision"):
        source.at(item, version)


def test_compaction_takes_the_past_and_leaves_what_stood_then(
    server: EtcdServer, source: EtcdSource, item: Item
) -> None:
    first = source.write(item, text(A), expected=None, provenance=ADA)
    source.write(item, text(B), expected=first.version, provenance=ADA)
    server.compact()
    assert [each.texts[0].content for each in source.history(item)] == [B]
    server.put(item.key, A)
    assert [each.texts[0].content for each in source.history(item)] == [A, B]
    with pytest.raises(SourceMisconfigured, match="keeps old ones until they are compacted"):
        source.at(item, first.version)


# -- order, watch, fork ------------------------------------------------------------------------------------------------


def test_a_smaller_revision_is_followed_and_the_event_says_so(source: EtcdSource, item: Item) -> None:
    old, new = (Revision(text(A), item.source, version, ADA) for version in ("100", "2"))
    assert source.admit(item, new, old) == old
    admitted = source.admit(item, old, new)
    assert admitted.provenance.reason == (
        "the store went back from revision 100 to 2: its data were restored or made anew; 促销"
    )


def test_a_watch_begins_after_compaction_however_old_what_was_seen_is(
    server: EtcdServer, source: EtcdSource, item: Item
) -> None:
    server.put(item.key, A)
    seen = source.read(item)
    server.put("/elsewhere", b"x")
    server.compact()
    woken, stop, failures = threading.Event(), StopSignal(), []

    def watch() -> None:
        try:
            source.watch(item, seen, woken.set, stop)
        except SourceUnavailable as error:
            failures.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert not woken.wait(0.3), "nothing has changed"
    server.put(item.key, B)
    assert woken.wait(5)
    stop.set()
    watcher.join(1)
    assert not watcher.is_alive()
    assert failures == []


def test_the_end_of_one_subscription_does_not_disturb_another(
    server: EtcdServer, source: EtcdSource, item: Item, recorder: Any, other_recorder: Any, subscribe: Any
) -> None:
    server.put(item.key, A)
    stays, ends = subscribe(source, recorder), subscribe(source, other_recorder)
    assert stays.wait_ready(5)
    assert ends.wait_ready(5)
    assert ends.close(timeout_s=1)
    server.put(item.key, B)
    recorder.wait_active(B)
    assert stays.status()[0].counters.channel_losses == 0


def test_listeners_of_one_key_share_a_watch_and_a_late_one_is_told_what_it_missed(
    server: EtcdServer, source: EtcdSource, item: Item
) -> None:
    server.put(item.key, A)
    source.read(item)
    assert source._opened is not None
    key, stop, told = item.key.encode(), StopSignal(), threading.Semaphore(0)
    _, revision = source._opened.look(key)

    def listen(start: int) -> threading.Thread:
        def run() -> None:
            for _ in opened.watch(key, start, stop):
                told.release()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    opened = source._opened
    threads = [listen(revision + 1), listen(revision + 1)]
    server.put(item.key, B)
    assert all(told.acquire(timeout=5) for _ in threads)
    threads.append(listen(revision + 1))
    assert told.acquire(timeout=5), "the change came before it listened"
    stream = opened._watches._stream
    assert stream is not None
    assert len(stream._by_number) == 1
    stop.set()
    for thread in threads:
        thread.join(5)
    assert not stream._by_number


@pytest.mark.parametrize(
    "refusal",
    [
        pb.WatchResponse(created=True, canceled=True, watch_id=-1, cancel_reason="permission denied"),
        pb.WatchResponse(created=True, watch_id=-1),
        pb.WatchResponse(canceled=True, watch_id=1),
        pb.WatchResponse(canceled=True, watch_id=1, compact_revision=9),
    ],
)
def test_a_watch_that_is_refused_is_no_quiet_one(refusal: pb.WatchResponse) -> None:
    with pytest.raises(SourceUnavailable, match=r"cancelled the watch of k|compacted the revisions"):
        check(refusal, b"k")


def test_an_answer_for_progress_is_no_refusal() -> None:
    check(pb.WatchResponse(watch_id=-1), b"k")


def test_a_forked_child_follows_on_a_connection_of_its_own(
    server: EtcdServer, source: EtcdSource, item: Item, recorder: Any, subscribe: Any
) -> None:
    server.put(item.key, A)
    subscription = subscribe(source, recorder)
    assert subscription.wait_ready(5)
    child = os.fork()
    if child == 0:
        good = False
        try:
            subscription.renew_after_fork()
            good = subscription.wait_ready(5) and recorder.wait(lambda me: me.active == B, 10)
        finally:
            os._exit(0 if good else 1)
    threading.Timer(0.5, server.put, (item.key, B)).start()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recorder.wait_active(B)
