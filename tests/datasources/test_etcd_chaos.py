"""A real etcd that stops, dies, freezes, forgets: the rules stay, and what was changed meanwhile is active soon after.

The timings of the loop are those that a service has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import SourceUnavailable, State, StopSignal, Subscription
from sentinel_core.rules import KINDS
from tests.datasources.follower import BACK_S, A, B, Follower
from tests.services import etcd
from tests.services.etcd import EtcdServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    etcd.needed()
    server = EtcdServer(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
def follow(server: EtcdServer, recorder: Any, subscribe: Any) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def start(**query: str) -> Follower:
        made.append(Follower(server.uri(**query), server.put, recorder, subscribe))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.mark.parametrize("end", [EtcdServer.stop, EtcdServer.kill])
def test_an_outage_keeps_the_rules_and_its_change_is_active_soon(
    server: EtcdServer, follow: Callable[..., Follower], end: Callable[[EtcdServer], None]
) -> None:
    follower = follow()
    end(server)
    follower.wait_state(State.STALE)
    time.sleep(3)  # long enough for the back-off to have grown to its cap
    assert follower.recorder.contents == [A]
    server.start()
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    assert follower.recorder.contents == [A, B], "one change, one revision"
    assert follower.subscription.status()[0].counters.channel_losses >= 1


def test_a_frozen_server_is_noticed_and_taken_back(server: EtcdServer, follow: Callable[..., Follower]) -> None:
    follower = follow()
    server.freeze()
    began = time.monotonic()
    follower.wait_state(State.STALE, 10.5)
    noticed_s = time.monotonic() - began
    assert noticed_s <= 10, noticed_s
    server.thaw()
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    assert follower.recorder.contents == [A, B]


def test_a_server_that_freezes_while_a_watch_is_set_up_is_noticed(server: EtcdServer) -> None:
    source: Any = datasources.open(server.uri("/frozen/g"))
    store = source._store()
    key = source.items(["flow"])[0].key.encode()
    _, revision = store.look(key)
    server.freeze()
    store._client._give_up(store._client._session)
    with pytest.raises(SourceUnavailable):
        next(store.watch(key, revision + 1, StopSignal()))
    server.thaw()
    source.close()


def test_a_compaction_while_cut_off_costs_nothing(server: EtcdServer, follow: Callable[..., Follower]) -> None:
    follower = follow()
    server.freeze()
    follower.source._opened._client._give_up(follower.source._opened._client._session)
    follower.wait_state(State.STALE)
    server.thaw()
    for content in (b"[]", A, B):
        server.put(follower.key, content)
    server.compact()
    follower.wait_active_within(BACK_S, B)


def test_wiped_data_keep_the_rules_and_the_next_publish_counts(
    server: EtcdServer, follow: Callable[..., Follower]
) -> None:
    follower = follow()
    for number in range(5):
        server.put(f"/other/{number}", b"x")
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    server.kill()
    follower.wait_state(State.STALE)
    server.wipe()
    server.start()
    deadline = time.monotonic() + 5
    while "nothing stands there" not in (follower.subscription.status()[0].reason or ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert follower.recorder.active == B
    server.put(follower.key, A)
    follower.wait_active_within(BACK_S, A)
    assert "the store went back from revision" in follower.recorder.revisions[-1].provenance.reason


def test_a_token_that_expires_while_idle_is_renewed(
    tmp_path: Path, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd.needed()
    flags = ("--auth-token=simple", "--auth-token-ttl=1", "--bcrypt-cost=4")
    server = EtcdServer(tmp_path, flags=flags).start()
    try:
        server.require_login("ops", "pw", "/sentinel/")
        monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", "pw")
        follower = Follower(server.uri(user="ops"), server.put, recorder, subscribe)
        time.sleep(2.5)
        server.put(follower.key, B)
        follower.wait_active_within(BACK_S, B)
        server.kill()
        follower.wait_state(State.STALE)
        server.start()
        server.put(follower.key, A)
        follower.wait_active_within(BACK_S, A)
        follower.close()
    finally:
        server.kill()


def test_neither_idle_nor_cut_off_does_a_subscriber_of_every_kind_work(server: EtcdServer, recorder: Any) -> None:
    source = datasources.open(server.uri())
    for item in source.items(KINDS):
        server.put(item.key, b"[]")
    subscription = Subscription(source, KINDS, recorder).start()
    try:
        assert subscription.wait_ready(5)
        assert _cpu_share(1.5) <= 0.03, "idle"
        server.kill()
        time.sleep(2)
        assert _cpu_share(1.5) <= 0.03, "cut off"  # measured 0.3 to 0.5 %; a loop that spins takes a whole core
    finally:
        subscription.close()
        source.close()


def _cpu_share(seconds: float) -> float:
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds
