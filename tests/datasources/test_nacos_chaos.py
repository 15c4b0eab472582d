"""Real Nacos servers that die, freeze, forget, or are cut off: the rules stay, and what was changed meanwhile is active
soon after. One server carries followers over both transports, since a start of it takes ten seconds.

The timings of the loop are those that a service has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import State, Subscription, SubscriptionOptions
from sentinel_core.rules import KINDS
from tests.services import nacos
from tests.services.nacos import NacosServer
from tests.services.proxy import Proxy
from tests.services.server import wait_until

A = b'[{"resource": "a", "count": 1}]'
B = b'[{"resource": "b", "count": 2}]'
C = b'[{"resource": "c", "count": 3}]'
AS_IN_SERVICE = SubscriptionOptions()
BACK_S = 2.0
"""From the moment the server answers, and tells the change, to active rules."""
NOTICED_S = 5.0
"""From the death of a connection to STALE."""
TOKEN_S = 5
TRANSPORTS = ("grpc", "http")
IDLE_SHARE = {"grpc": 0.015, "http": 0.03}
"""Of a core. A loop that spins takes a whole one."""


class Follower:
    """A subscriber over one transport."""

    def __init__(self, uri: str, recorder: Any) -> None:
        self.source = datasources.open(uri)
        self.recorder = recorder
        self.subscription = Subscription(self.source, ["flow"], recorder, options=AS_IN_SERVICE).start()

    @property
    def state(self) -> State:
        return self.subscription.state

    def close(self) -> None:
        self.subscription.close()
        self.source.close()


class Followers:
    """One a transport, all of one dataId; what is said of them holds for each."""

    def __init__(
        self, server: NacosServer, group: str, make_recorder: Callable[[], Any], port: int = 0, timeout: str = "5s"
    ) -> None:
        self.server, self.group = server, group
        (item,) = datasources.open(server.uri(group=group)).items(["flow"])
        self.key = item.key
        self.put(A)
        uri = server.uri(group=group, user=nacos.ADMIN, interval="1s", timeout=timeout)
        uri = uri.replace(f":{server.port}", f":{port or server.port}")
        self.each = {name: Follower(f"{uri}&transport={name}", make_recorder()) for name in TRANSPORTS}
        assert all(follower.subscription.wait_ready(10) for follower in self.each.values()), self.states()

    def put(self, content: bytes) -> None:
        """Returns when the server tells it to those who ask."""
        self.server.put(self.key, content, group=self.group)
        assert wait_until(lambda: self.server.read(self.key, group=self.group) == content)

    def states(self) -> list[Any]:
        return [follower.subscription.status()[0] for follower in self.each.values()]

    def wait_state(self, state: State, within_s: float) -> dict[str, float]:
        """Seconds until each was in it."""
        began, took = time.monotonic(), dict[str, float]()

        def arrived() -> bool:
            for name, follower in self.each.items():
                if follower.state is state:
                    took.setdefault(name, round(time.monotonic() - began, 2))
            return len(took) == len(self.each)

        assert wait_until(arrived, within_s), (took, self.states())
        return took

    def wait_active(self, content: bytes, within_s: float) -> None:
        assert wait_until(
            lambda: all(each.recorder.active == content and each.state is State.READY for each in self.each.values()),
            within_s,
        ), self.states()

    def contents(self) -> list[list[bytes]]:
        return [follower.recorder.contents for follower in self.each.values()]

    def close(self) -> None:
        for follower in self.each.values():
            follower.close()


Follow = Callable[..., Followers]


@pytest.fixture(scope="module", params=nacos.MAJORS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NacosServer]:
    """One that may be killed, with logins that soon expire."""
    nacos.needed(request.param)
    folder = tmp_path_factory.mktemp(f"nacos-{request.param}")
    server = NacosServer(folder, request.param, auth=True, token_s=TOKEN_S).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTINEL_NACOS_PASSWORD", nacos.ADMIN_PASSWORD[request.param])
        yield server
    server.stop()


@pytest.fixture
def follow(recorder: Any, request: pytest.FixtureRequest) -> Iterator[Follow]:
    with ExitStack() as stack:

        def start(server: NacosServer, port: int = 0, **options: str) -> Followers:
            group = f"g{abs(hash(request.node.nodeid))}"
            followers = Followers(server, group, type(recorder), port, **options)
            stack.callback(followers.close)
            return followers

        yield start


@pytest.fixture
def link(server: NacosServer) -> Iterator[list[Proxy]]:
    """Between the followers and the server: HTTP and, 1000 above, gRPC."""
    port = nacos._free_port()
    with Proxy(server.port, port) as http, Proxy(server.port + 1000, port + 1000) as grpc:
        yield [http, grpc]


def test_reset_connections_cost_nothing(server: NacosServer, follow: Follow, link: list[Proxy]) -> None:
    followers = follow(server, link[0].port)
    for each in link:
        each.cut()
    followers.put(B)
    followers.wait_active(B, BACK_S)
    assert followers.contents() == [[A, B]] * 2, "one change, one revision"


def test_a_cut_off_store_is_noticed_and_its_change_is_active_soon(
    server: NacosServer, follow: Follow, link: list[Proxy]
) -> None:
    followers = follow(server, link[0].port)
    for each in link:
        each.refuse()
    followers.wait_state(State.STALE, NOTICED_S)
    followers.put(B)
    time.sleep(2)  # long enough for the back-off to have grown to its cap
    assert followers.contents() == [[A]] * 2
    for each in link:
        each.restore()
    followers.wait_active(B, BACK_S)
    assert followers.contents() == [[A, B]] * 2


def test_a_channel_that_dies_without_a_word_is_noticed(server: NacosServer, follow: Follow, link: list[Proxy]) -> None:
    followers = follow(server, link[0].port, timeout="2s")
    for each in link:
        each.swallow()
    followers.wait_state(State.STALE, NOTICED_S)
    followers.put(B)
    for each in link:
        each.restore()
    # What was begun on a dead connection is waited for first, 2.5 s at most; then a new one is made.
    followers.wait_active(B, 3.5 + BACK_S)
    assert followers.contents() == [[A, B]] * 2


def test_a_slow_link_delays_and_loses_nothing(server: NacosServer, follow: Follow, link: list[Proxy]) -> None:
    followers = follow(server, link[0].port)
    for each in link:
        each.delay(150)
    followers.put(B)
    followers.wait_active(B, 4)
    assert followers.contents() == [[A, B]] * 2
    assert not any(status.counters.channel_losses for status in followers.states())


def test_a_frozen_server_is_noticed_and_taken_back(server: NacosServer, follow: Follow) -> None:
    followers = follow(server)
    server.freeze()
    try:
        followers.wait_state(State.STALE, 5 + NOTICED_S)  # a read that is under way has its own time-out
    finally:
        server.thaw()
    followers.put(B)
    followers.wait_active(B, BACK_S)
    assert followers.contents() == [[A, B]] * 2


def test_a_killed_server_keeps_the_rules_and_its_data_may_be_wiped(server: NacosServer, follow: Follow) -> None:
    followers = follow(server)
    server.kill()
    followers.wait_state(State.STALE, NOTICED_S)
    assert _cpu_share(1.5) <= 0.03, "cut off"  # two subscribers; a loop that spins takes a whole core
    if server.major == 2:
        server.wipe()
    server.start()
    if server.major == 2:
        assert wait_until(
            lambda: all("nothing stands there" in (status.reason or "") for status in followers.states()), BACK_S
        ), followers.states()
        assert followers.contents() == [[A]] * 2
    else:
        followers.wait_active(A, BACK_S)
    followers.put(B)
    followers.wait_active(B, BACK_S)
    assert followers.contents() == [[A, B]] * 2


def test_logins_that_expire_while_idle_are_renewed(server: NacosServer, follow: Follow) -> None:
    followers = follow(server)
    time.sleep(TOKEN_S + 1.5)
    followers.put(B)
    followers.wait_active(B, BACK_S)
    assert followers.contents() == [[A, B]] * 2
    assert not any(status.counters.channel_losses for status in followers.states())


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_idle_subscriber_of_every_kind_does_not_work(server: NacosServer, transport: str, recorder: Any) -> None:
    group = f"idle-{transport}"
    source = datasources.open(server.uri(group=group, transport=transport, user=nacos.ADMIN))
    for item in source.items(KINDS):
        server.put(item.key, b"[]", group=group)
    subscription = Subscription(source, KINDS, recorder).start()
    try:
        assert subscription.wait_ready(10)
        time.sleep(0.5)
        assert _cpu_share(2) <= IDLE_SHARE[transport]
    finally:
        subscription.close()
        source.close()


def _cpu_share(seconds: float) -> float:
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds
