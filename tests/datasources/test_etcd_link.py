"""The link to etcd is cut, refused, slowed and made deaf: each outage is seen, the rules stay, and what was changed
meanwhile is active soon after, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import SourceUnavailable, State, StopSignal
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.datasources.etcd.watch import Watches
from tests.datasources.follower import BACK_S, A, B, Follower
from tests.services import etcd
from tests.services.etcd import EtcdServer
from tests.services.proxy import Proxy

pytestmark = [
    # What a proxy had just accepted when it was closed.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <function _SelectorTransport.__del__"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket fd=.*raddr="),
]

NOTICED_S = {"refuse": 1.0, "swallow": 10.0}


@pytest.fixture
def server() -> EtcdServer:
    etcd.needed()
    return etcd.shared()


@pytest.fixture
def link(server: EtcdServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def follower(server: EtcdServer, link: Proxy, tmp_path: Path, recorder: Any, subscribe: Any) -> Iterator[Follower]:
    made = Follower(f"etcd://127.0.0.1:{link.port}/link/{tmp_path.name}", server.put, recorder, subscribe)
    yield made
    made.close()


@pytest.mark.parametrize("fault", NOTICED_S)
def test_what_is_changed_while_the_link_is_down_is_active_soon_after(
    server: EtcdServer, link: Proxy, follower: Follower, fault: str
) -> None:
    getattr(link, fault)()
    noticed_s = follower.wait_state(State.STALE)
    assert noticed_s <= NOTICED_S[fault]
    time.sleep(3)  # long enough for the back-off to have grown to its cap
    server.put(follower.key, B)
    assert follower.recorder.contents == [A]
    link.restore()
    follower.wait_active_within(BACK_S, B)
    assert follower.recorder.contents == [A, B], "one change, one revision"
    assert follower.states == [State.READY, State.STALE, State.READY]


def test_a_link_that_is_cut_again_and_again_never_leaves_a_deaf_watch(
    server: EtcdServer, link: Proxy, follower: Follower
) -> None:
    contents = [A]
    for number in range(6):
        link.cut()
        contents.append(b'[{"resource": "r%d"}]' % number)
        server.put(follower.key, contents[-1])
        follower.wait_active_within(BACK_S, contents[-1])
        contents.append(b'[{"resource": "s%d"}]' % number)
        server.put(follower.key, contents[-1])
        follower.wait_active_within(BACK_S, contents[-1])
    assert follower.recorder.contents == contents
    assert follower.subscription.status()[0].counters.channel_losses >= 3, "a cut may fall before the watch stands"


def test_a_slow_link_delays_and_disturbs_nothing(server: EtcdServer, link: Proxy, follower: Follower) -> None:
    link.delay(100)
    server.put(follower.key, B)
    follower.wait_active_within(BACK_S, B)
    assert follower.states == [State.READY]
    assert follower.subscription.status()[0].counters.errors == 0
    assert link.accepted == 1


def test_a_deaf_link_is_tried_without_haste(link: Proxy, follower: Follower) -> None:
    link.swallow()
    follower.wait_state(State.STALE)
    before, cpu = link.accepted, time.process_time()
    time.sleep(3)
    assert 1 <= link.accepted - before <= 6
    assert (time.process_time() - cpu) / 3 <= 0.02, "of a core, the link's own thread among it"


def test_a_stream_that_breaks_off_at_once_is_told_to_whom_it_was_made_for() -> None:
    client = Client(Target(("127.0.0.1:1",)), time.monotonic)
    client.close()
    watches = Watches(client, time.monotonic)
    for _ in range(50):
        with pytest.raises(SourceUnavailable, match="was closed"):
            next(watches.events(b"key", 1, StopSignal()))
