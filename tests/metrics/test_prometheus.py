"""What Prometheus reads: the true text of `prometheus_client`, parsed back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sentinel_core import Engine, Entry, context
from sentinel_core.datasources import MemorySource
from sentinel_core.metrics.prometheus import register
from sentinel_core.settings import AuditSettings, Settings
from sentinel_core.testing import FakeClock

Scrape = Callable[..., float | None]


def values(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def registry(engine: Engine) -> Iterator[CollectorRegistry]:
    registry = CollectorRegistry()
    remove = register(engine, registry)
    yield registry
    remove()
    assert not generate_latest(registry)


@pytest.fixture
def scrape(registry: CollectorRegistry) -> Scrape:
    """scrape(name, **labels): the value now, None where there is none."""

    def read(name: str, **labels: str) -> float | None:
        return values(registry).get((name, frozenset(labels.items())))

    return read


def call(engine: Engine, resource: str, times: int = 1, error: Exception | None = None, **more: str) -> None:
    for _ in range(times):
        entry = engine.try_entry(resource, **more)  # type: ignore[arg-type]  # whatever the test passes on
        if isinstance(entry, Entry):
            if error:
                entry.trace(error)
            entry.exit()


def test_rejected_orders_are_counted_under_the_name_that_alerts_use(engine: Engine, scrape: Scrape) -> None:
    engine.load_rules("flow", [{"resource": "order_create", "count": 2}])
    call(engine, "order_create", 2)
    assert scrape("sentinel_flow_reject_total", resource="order_create") == 0
    call(engine, "order_create", 3)
    assert scrape("sentinel_flow_reject_total", resource="order_create") == 3
    assert scrape("sentinel_pass_total", resource="order_create") == 2
    assert scrape("sentinel_block_total", resource="order_create") == 3


def test_every_kind_has_a_counter_of_its_own(engine: Engine, clock: FakeClock, scrape: Scrape) -> None:
    engine.load_rules("authority", [{"resource": "r", "limitApp": "console"}])
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 9, "minRequestAmount": 1}])
    call(engine, "r", 2, origin="stranger")
    call(engine, "r", 1, ValueError(), origin="console")
    call(engine, "r", 4, origin="console")
    assert scrape("sentinel_authority_reject_total", resource="r") == 2
    assert scrape("sentinel_degrade_reject_total", resource="r") == 4
    assert scrape("sentinel_exception_total", resource="r") == 1
    assert scrape("sentinel_flow_reject_total", resource="r") is None


def test_response_times_are_a_sum_and_a_count(engine: Engine, clock: FakeClock, scrape: Scrape) -> None:
    for milliseconds in (100, 300):
        with engine.entry("r"):
            clock.advance(ms=milliseconds)
    held = engine.entry("r")
    assert scrape("sentinel_rt_seconds_sum", resource="r") == pytest.approx(0.4)
    assert scrape("sentinel_rt_seconds_count", resource="r") == scrape("sentinel_success_total", resource="r") == 2
    assert scrape("sentinel_threads", resource="r") == 1
    held.exit()


def test_breakers_show_their_state(engine: Engine, clock: FakeClock, scrape: Scrape) -> None:
    rule = {"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}
    path = engine.load_rules("degrade", [rule]).rules[0].path
    call(engine, "r")
    seen = [scrape("sentinel_breaker_state", resource="r", rule=path)]
    call(engine, "r", 1, ValueError())
    seen.append(scrape("sentinel_breaker_state", resource="r", rule=path))
    clock.advance(ms=1000)
    probe = engine.entry("r")
    seen.append(scrape("sentinel_breaker_state", resource="r", rule=path))
    probe.exit()
    seen.append(scrape("sentinel_breaker_state", resource="r", rule=path))
    assert seen == [0, 2, 1, 0]


def test_shadow_rules_show_what_they_would_block(engine: Engine, scrape: Scrape) -> None:
    path = engine.load_rules("flow", [{"resource": "r", "count": 0, "mode": "shadow"}]).rules[0].path
    call(engine, "r", 3)
    assert scrape("sentinel_shadow_block_total", resource="r", rule=path) == 3
    assert scrape("sentinel_block_total", resource="r") == 0


def test_active_rules_are_told_by_number_and_digest(engine: Engine, scrape: Scrape) -> None:
    ruleset = engine.load_rules("flow", [{"resource": "r", "count": 2}])
    assert scrape("sentinel_rules", kind="flow") == 1
    assert scrape("sentinel_rules_digest_info", kind="flow", digest=ruleset.digest, commit="") == 1
    engine.load_rules("flow", [])
    assert scrape("sentinel_rules_digest_info", kind="flow", digest=ruleset.digest, commit="") is None
    assert scrape("sentinel_activations_total", outcome="activated") == 2
    assert scrape("sentinel_activation_seconds_count") == 2


def test_sources_show_their_state_and_what_they_delivered(engine: Engine, scrape: Scrape) -> None:
    source = MemorySource("rules")
    source.set("flow", '[{"resource": "r", "count": 1}]')
    subscription = engine.subscribe("flow", source)
    assert subscription.wait_ready(5)
    source.set("flow", '[{"resource": "r", "count": -1}]')
    subscription.refresh(5)
    assert scrape("sentinel_subscription_state", source=source.uri, state=subscription.state.value) == 1
    assert scrape("sentinel_revisions_total", source=source.uri, outcome="activated") == 1
    assert scrape("sentinel_revisions_total", source=source.uri, outcome="rejected") == 1


def fail(_: object) -> None:
    raise RuntimeError("listener")


def test_internal_errors_and_uncounted_passes_are_seen(clock: FakeClock) -> None:
    engine = Engine(clock=clock, max_resources=1)
    registry = CollectorRegistry()
    register(engine, registry)
    engine.on_breaker(fail)
    engine.load_rules("degrade", [{"resource": "r", "grade": 2, "count": 0, "timeWindow": 1, "minRequestAmount": 1}])
    call(engine, "r", 1, ValueError())
    call(engine, "beyond", 3)
    seen = values(registry)
    assert seen["sentinel_internal_errors_total", frozenset()] == 1
    assert seen["sentinel_uncounted_passes_total", frozenset()] == 3


def test_resources_beyond_the_limit_are_summed(engine: Engine) -> None:
    registry = CollectorRegistry()
    register(engine, registry, limit=2)
    for number in range(5):
        call(engine, f"r{number}", number + 1)
    passed = {dict(labels)["resource"]: value for (name, labels), value in values(registry).items() if "pass_t" in name}
    assert passed == {"r0": 1, "r1": 2, "__other__": 3 + 4 + 5}


def test_names_of_resources_may_hold_anything(engine: Engine, scrape: Scrape) -> None:
    name = 'GET:/{id}?a="b"\\\n|付款'
    call(engine, name)
    assert scrape("sentinel_pass_total", resource=name) == 1


def test_a_name_that_is_no_text_for_the_wire_hides_no_other(engine: Engine, scrape: Scrape) -> None:
    """Half a surrogate: what Python makes of bytes in a path that are no UTF-8."""
    for name in ("plain", "/\udc80", "/\udc81"):
        engine.entry(name).exit()
    assert scrape("sentinel_pass_total", resource="plain") == 1
    assert scrape("sentinel_pass_total", resource="/\\udc80") == 1
    assert scrape("sentinel_pass_total", resource="/\\udc81") == 1


def test_the_outbox_is_seen_where_there_is_one(tmp_path: Path) -> None:
    from sentinel_core.service import ServiceEngine

    audit = AuditSettings(outbox=str(tmp_path / "outbox.db"), store=f"sqlite:///{tmp_path}/audit.db")
    engine = ServiceEngine(Settings(audit=audit, last_known_good=str(tmp_path / "good")))
    registry = CollectorRegistry()
    register(engine, registry)
    engine.load_rules("flow", [{"resource": "r", "count": 1}])
    assert values(registry)["sentinel_outbox_depth", frozenset()] == 1
    engine.close()


def test_what_cannot_be_read_does_not_hide_the_rest(
    engine: Engine, scrape: Scrape, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def status(self) -> None:
            raise OSError("disk gone")

    engine.forwarder = Broken()  # type: ignore[attr-defined]  # what a service engine has
    call(engine, "r")
    assert scrape("sentinel_pass_total", resource="r") == 1
    assert scrape("sentinel_outbox_depth") is None
    assert "sentinel_outbox_depth cannot be read: disk gone" in caplog.text


def test_without_the_library_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; import sentinel_core.metrics.prometheus"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "sentinel-control-plane[prometheus]" in done.stderr


def test_business_metrics_with_their_ages_and_dimensions(engine: Engine, clock: FakeClock, scrape: Scrape) -> None:
    rule = {"resource": "r", "threshold": 5, "minRequestAmount": 1}
    shops = {**rule, "bizMetricType": "COUPON_POOL", "dimension": "shop"}
    engine.load_rules("biz_metric", [{**rule, "bizMetricType": "QUEUE_DEPTH"}, shops])
    engine.gauge("QUEUE_DEPTH", 4)
    engine.gauge("COUPON_POOL", 3, dimension="north")
    with context(tags={"shop": "north"}):
        engine.try_entry("r")
    clock.advance(ms=2500)
    queue = {"resource": "r", "rule": "biz_metric/r/QUEUE_DEPTH", "dimension": ""}
    north = {"resource": "r", "rule": "biz_metric/r/COUPON_POOL", "dimension": "north"}
    assert [scrape("sentinel_biz_metric", **each) for each in (queue, north)] == [4, 3]
    assert [scrape("sentinel_biz_metric_age_seconds", **each) for each in (queue, north)] == [2.5, 2.5]
    assert scrape("sentinel_breaker_state", resource="r", rule="biz_metric/r/COUPON_POOL") == 2


def test_breakers_that_share_a_path_are_one_sample(engine: Engine, scrape: Scrape) -> None:
    breaker = {"resource": "r", "timeWindow": 1, "minRequestAmount": 1}
    engine.load_rules("degrade", [{**breaker, "grade": 2, "count": 0}, {**breaker, "grade": 0, "count": 10**6}])
    entry = engine.entry("r")
    entry.trace(ValueError())
    entry.exit()
    assert scrape("sentinel_breaker_state", resource="r", rule="degrade/r/default") == 2
