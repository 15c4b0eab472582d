"""Redis, a real one: what is read of it, and what becomes of traffic when it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from sentinel_core import Engine
from sentinel_core.collectors import CollectorError, SourceLost
from sentinel_core.collectors.redis import RedisCollector
from tests.collectors.conftest import running
from tests.engine.test_fork import in_child
from tests.services.redis import Redis
from tests.services.server import free_port, wait_until

pytestmark = pytest.mark.service("redis")


@pytest.fixture
def store(redis_server: Redis) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def read(redis_server: Redis) -> Iterator[Callable[..., Any]]:
    """read(**options): what a collector with these options gives."""
    made: list[RedisCollector] = []

    def collect(**options: Any) -> Any:
        made.append(RedisCollector("STOCK_DEPTH", redis_server.url, **options))
        return made[-1].collect()

    yield collect
    for collector in made:
        collector.close()


# -- what is read ------------------------------------------------------------------------------------------------------


def test_keys(store: Any, read: Callable[..., Any]) -> None:
    store.set("stock:sku1", 7)
    store.set("stock:sku2", "none")
    assert read(keys="stock:sku1", resource="deduct") == {"deduct": b"7"}
    keys = {"deduct": "stock:sku1", ("deduct", "sku2"): "stock:sku2", "other": "stock:sku3"}
    assert read(keys=keys) == {"deduct": b"7", ("deduct", "sku2"): b"none", "other": None}


def test_hash_fields(store: Any, read: Callable[..., Any]) -> None:
    store.hset("coupons", "spring", 3)
    assert read(keys="coupons", field="spring") == {"": b"3"}
    assert read(keys="coupons", field="autumn") == {"": None}


def test_lengths(store: Any, read: Callable[..., Any]) -> None:
    store.rpush("queue", "a", "b", "c")
    store.sadd("carts", "x")
    store.xadd("events", {"a": 1})
    assert read(keys={"q": "queue", "empty": "nothing"}, length_of="list") == {"q": 3, "empty": 0}
    assert read(keys="carts", length_of="set") == {"": 1}
    assert read(keys="events", length_of="stream") == {"": 1}


def test_the_lag_of_a_consumer_group(store: Any, read: Callable[..., Any]) -> None:
    for _ in range(5):
        store.xadd("events", {"a": 1})
    store.xgroup_create("events", "billing", "0")
    store.xreadgroup("billing", "worker", {"events": ">"}, count=2)
    keys = {"settle": "events", "missing": "nothing"}
    assert read(keys=keys, group="billing") == {"settle": 3, "missing": None}
    assert read(keys="events", group="nobody") == {"": None}


def test_of_a_long_text_no_more_is_read_than_tells_that_it_is_no_number(store: Any, read: Callable[..., Any]) -> None:
    store.set("page", "9" * 1_000_000)
    assert len(read(keys="page")[""]) == 65


def test_a_key_of_another_type_is_invalid_and_hides_no_other(redis_server: Redis, store: Any, engine: Engine) -> None:
    store.rpush("queue", "a")
    store.set("stock", 7)
    collector = RedisCollector("STOCK_DEPTH", redis_server.url, keys={"a": "queue", "b": "stock"})
    engine.collectors.register(collector, thread=False)
    engine.collectors.refresh()
    status = engine.collectors.status()[0]
    assert (status["state"], status["values"], status["invalid"]) == ("invalid", 1, 1)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_password_is_used_and_not_shown(tmp_path: Any) -> None:
    with running(lambda: Redis(tmp_path, password="hunter2")) as server:
        url = server.url.replace("redis://", "redis://:hunter2@")
        right = RedisCollector("STOCK_DEPTH", url, keys="stock")
        assert right.collect() == {"": None}
        right.close()
        assert "hunter2" not in right.source
        for wrong in (server.url, url.replace("hunter2", "hunter3")):
            with pytest.raises(CollectorError) as refused:
                RedisCollector("STOCK_DEPTH", wrong, keys="stock").collect()
            assert not isinstance(refused.value, SourceLost)
            assert "hunter" not in str(refused.value)


def test_nobody_there() -> None:
    collector = RedisCollector("STOCK_DEPTH", f"redis://127.0.0.1:{free_port()}", keys="stock", timeout_s=0.2)
    with pytest.raises(SourceLost, match="no answer"):
        collector.collect()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keys": ""}, "keys is empty"),
        ({"keys": {}}, "keys is empty"),
        ({"keys": {7: "k"}}, "is no target"),
        ({"keys": {("a", "b", "c"): "k"}}, "is no target"),
        ({"keys": {"r": "k"}, "resource": "r"}, "names resources"),
        ({"keys": "k", "field": "f", "group": "g"}, "exclude each other"),
        ({"keys": "k", "length_of": "queue"}, "list, set, zset"),
        ({"keys": "k", "timeout_s": 0}, "timeout_s"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RedisCollector("STOCK_DEPTH", **options)


@pytest.mark.parametrize("url", ["http://host", "redis://host:port", ""])
def test_a_bad_url_is_a_failure_that_says_so(url: str) -> None:
    with pytest.raises(CollectorError, match="does not take this URL"):
        RedisCollector("STOCK_DEPTH", url, keys="k").collect()


def test_a_forked_child_reads_on_a_connection_of_its_own(redis_server: Redis, store: Any) -> None:
    store.set("stock", 7)
    collector = RedisCollector("STOCK_DEPTH", redis_server.url, keys="stock", client_name="collector")

    def connections() -> int:
        return sum(client["name"] == "collector" for client in store.client_list())

    collector.collect()
    assert in_child(lambda: (collector.collect(), connections())) == ({"": b"7"}, 2)
    assert collector.collect() == {"": b"7"}
    collector.close()
    assert wait_until(lambda: connections() == 0)


# -- chaos -------------------------------------------------------------------------------------------------------------

STOCK = {
    "resource": "deduct",
    "bizMetricType": "STOCK_DEPTH",
    "threshold": 10,
    "direction": "below",
    "minRequestAmount": 1,
    "staleAfterMs": 300,
    "onStale": "open",
    "stateWindowMs": 50,
    "halfOpenMs": 50,
}


class Traffic:
    """Calls for some time, and the longest that one took, the slowest hundredth left out: others use this machine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def slowest_ms(self, seconds: float) -> float:
        durations = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.perf_counter()
            self.engine.try_entry("deduct")
            durations.append(time.perf_counter() - begun)
            time.sleep(0.001)
        return sorted(durations)[-len(durations) // 100] * 1000


def test_redis_killed_frozen_and_back(
    redis_server: Redis, store: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hot path never slows, the value goes stale, the log tells it once, and it recovers by itself."""
    monkeypatch.setattr("sentinel_core.collectors.task.RETRY_CAP_S", 0.3)
    store.set("stock", 50)
    with Engine(app="test") as engine:
        engine.load_rules("biz_metric", [STOCK])
        collector = RedisCollector("STOCK_DEPTH", redis_server.url, keys="stock", every_s=0.03, timeout_s=0.2)
        engine.collectors.register(collector)

        def state() -> str:
            return str(engine.collectors.status()[0]["state"])

        def age_ms() -> int:
            return int(engine.collectors.status()[0]["ageMs"] or 0)

        def breaker() -> str:
            return str(engine.breakers("deduct")[0]["state"])

        def said() -> list[str]:
            return [record.getMessage() for record in caplog.records]

        assert wait_until(lambda: state() == "ok")
        traffic = Traffic(engine)
        assert traffic.slowest_ms(0.2) < 50
        assert engine.try_entry("deduct")

        for down, up in ((redis_server.kill, redis_server.start), (redis_server.freeze, redis_server.thaw)):
            caplog.clear()
            engine.collectors._tasks[0]._told_at.clear()  # a minute later
            down()
            assert traffic.slowest_ms(0.6) < 50, "nobody waits for a source"
            assert state() == "failing"
            assert age_ms() > 300
            assert wait_until(lambda: not engine.try_entry("deduct")), "stale: onStale decides"
            failed, stale = said()
            assert failed.startswith("collector of STOCK_DEPTH")
            assert stale.startswith("STOCK_DEPTH of 'deduct' is stale")
            assert stale.endswith("the breaker opens")
            up()
            with redis.Redis.from_url(redis_server.url) as again:
                again.set("stock", 50)
            assert wait_until(lambda: state() == "ok")
            assert wait_until(lambda: age_ms() < 100)
            assert wait_until(lambda: bool(engine.try_entry("deduct")) and breaker() == "CLOSED")
            assert [each.rpartition(" is ")[2] for each in said()[2:]] in (
                ["read again", "back"],
                ["back", "read again"],
            )
