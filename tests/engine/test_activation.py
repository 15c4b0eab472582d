"""From a source's bytes to running rules: evidence first, then one swap; what is refused changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sentinel_core import Engine, EngineClosed, KindTaken
from sentinel_core.audit.errors import SinkUnavailable
from sentinel_core.audit.events import Event
from sentinel_core.datasources import LastGood, MemorySource, Outcome
from sentinel_core.datasources.layers import Layers
from sentinel_core.rules import Provenance, Revision, RuleRejected, SourceText
from sentinel_core.testing import FakeClock

DOCUMENT = """
flowRules:
  - {resource: a, grade: qps, count: %d}
degradeRules: []
authorityRules:
  - {resource: a, limitApp: app}
"""


class Sink:
    """An outbox in memory that can be broken, and that looks at the engine when it is written."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.broken = False
        self.on_append: Callable[[], None] = lambda: None

    def append(self, events: Sequence[Event]) -> None:
        self.on_append()
        if self.broken:
            raise SinkUnavailable("disk full")
        self.events += events


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def engine(clock: FakeClock, sink: Sink) -> Iterator[Engine]:
    with Engine(app="shop", environment="prod", instance="i-1", clock=clock, audit=sink) as made:
        yield made


def revision(count: int, version: str = "1") -> Revision:
    text = SourceText("sentinel-rules.yaml", (DOCUMENT % count).encode(), "yaml")
    return Revision((text,), "/prod/git/rules", version, Provenance(commit_hash="c" * 40, channel="git"))


def apply(engine: Engine, what: Revision, *, restored: bool = False) -> Outcome:
    kinds = ("flow", "degrade", "authority")
    return engine._activation.apply(kinds, what, Layers().layer(), restored=restored).outcome


def test_a_document_of_many_kinds_is_one_swap_and_one_event_a_kind(engine: Engine, sink: Sink) -> None:
    assert apply(engine, revision(5)) is Outcome.ACTIVATED
    assert engine.snapshot.number == 1
    assert [(event.type, event.subject) for event in sink.events] == [
        ("sentinel.rules.changed.v1", "flow"),
        ("sentinel.rules.changed.v1", "authority"),
    ], "degrade was empty and is empty"
    assert engine.rules("flow").revision is not None
    assert engine.status()["kinds"]["flow"]["commit"] == "c" * 40


def test_events_are_durable_before_the_swap(engine: Engine, sink: Sink) -> None:
    seen = []
    sink.on_append = lambda: seen.append(engine.snapshot.number)
    apply(engine, revision(5))
    assert seen == [0]


def test_the_same_rules_again_are_no_event(engine: Engine, sink: Sink) -> None:
    apply(engine, revision(5))
    told = len(sink.events)
    assert apply(engine, revision(5, "2")) is Outcome.UNCHANGED
    assert len(sink.events) == told


def test_what_was_known_before_a_restart_is_no_event(engine: Engine, sink: Sink) -> None:
    apply(engine, revision(5), restored=True)
    assert sink.events == []
    assert not engine.try_entry("a", origin="other")
    apply(engine, revision(6))
    assert [event.subject for event in sink.events] == ["flow"]


def test_a_refused_revision_is_told_once_and_changes_nothing(engine: Engine, sink: Sink) -> None:
    apply(engine, revision(5))
    before = engine.snapshot
    bad = revision(-1, "2")
    for _ in range(3):
        with pytest.raises(RuleRejected):
            apply(engine, bad)
    assert engine.snapshot is before
    rejected = [event for event in sink.events if event.type == "sentinel.rules.rejected.v1"]
    assert len(rejected) == 1
    assert engine.status()["activations"]["rejected"] == 1


def test_rules_protect_although_the_outbox_is_broken(
    engine: Engine, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.broken = True
    assert apply(engine, revision(5)) is Outcome.ACTIVATED
    assert not engine.try_entry("a", origin="other")
    status = engine.status()["audit"]
    assert status["lateEvents"] == 2
    assert "disk full" in status["error"]
    assert "cannot be made durable" in caplog.text
    sink.broken = False
    apply(engine, revision(6))
    assert [event.payload["late"] for event in sink.events] == [True, True, False], "in order, and marked"
    assert engine.status()["audit"] == {"lateEvents": 0, "lostEvents": 0, "error": None}


def test_late_events_are_tried_again_by_themselves(engine: Engine, sink: Sink) -> None:
    sink.broken = True
    apply(engine, revision(5))
    sink.broken = False
    deadline = time.monotonic() + 5
    while engine.status()["audit"]["lateEvents"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(sink.events) == 2


def test_rules_given_by_hand_are_told_as_such(engine: Engine, sink: Sink) -> None:
    engine.load_rules("flow", [{"resource": "a", "grade": 1, "count": 5}])
    (event,) = sink.events
    assert event.payload["channel"] == "api"
    assert event.source == "/api/shop/flow"
    with pytest.raises(RuleRejected):
        engine.load_rules("flow", [{"resource": "a", "grade": 1, "count": -5}])
    assert engine.rules("flow").rules[0].count == 5


def test_a_subscription_follows_its_source(engine: Engine) -> None:
    source = MemorySource()
    source.set("flow", '[{"resource": "a", "grade": 1, "count": 0}]')
    subscription = engine.subscribe("flow", source)
    assert subscription.wait_ready(5)
    assert not engine.try_entry("a")
    source.set("flow", "[]")
    assert subscription.refresh(5)
    assert engine.try_entry("a")


def test_a_kind_has_one_source(engine: Engine) -> None:
    source = MemorySource()
    first = engine.subscribe(["flow", "degrade"], source)
    with pytest.raises(KindTaken, match=r"degrade rules come from memory:// already; close that subscription"):
        engine.subscribe("degrade", source)
    engine.subscribe("authority", source)
    first.close()
    engine.subscribe("degrade", source)


def test_last_good_rules_protect_from_the_start(clock: FakeClock, tmp_path: Path) -> None:
    source = MemorySource("rules")
    source.set("flow", '[{"resource": "a", "grade": 1, "count": 0}]')
    with Engine(clock=clock, last_good=LastGood(tmp_path)) as first:
        assert first.subscribe("flow", source).wait_ready(5)
    source.delete("flow")
    with Engine(clock=clock, last_good=LastGood(tmp_path)) as second:
        second.subscribe("flow", source)
        assert not second.try_entry("a")


def test_a_closed_engine_takes_no_rules_and_goes_on_deciding(engine: Engine) -> None:
    engine.load_rules("flow", [{"resource": "a", "grade": 1, "count": 0}])
    engine.close()
    assert not engine.try_entry("a")
    with pytest.raises(EngineClosed):
        engine.load_rules("flow", [])
    with pytest.raises(EngineClosed):
        engine.subscribe("flow", MemorySource())


def test_explain_says_what_applies_and_how_it_stands(engine: Engine) -> None:
    apply(engine, revision(5))
    engine.load_rules("degrade", [{"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 5}])
    engine.entry("a", origin="app").exit()
    by_slot = {slot["slot"]: slot["rules"] for slot in engine.explain("a")}
    assert list(by_slot) == list(engine.slots())
    assert by_slot["flow"][0]["path"] == "flow/a/default"
    assert by_slot["flow"][0]["live"] == {"qps": 1.0, "limit": 5}
    assert by_slot["degrade"][0]["live"]["state"] == "CLOSED"


def rules_text(*counts: int) -> str:
    rules = [f'{{"resource": "r{index}", "grade": 1, "count": {count}}}' for index, count in enumerate(counts)]
    return "[" + ",".join(rules) + "]"


def test_clearing_and_filling_again_are_changes_that_somebody_made(engine: Engine, sink: Sink) -> None:
    """Only the first look at a source is nobody's change; an empty set in between is not a first look."""
    for text in (rules_text(5), "[]", rules_text(5)):
        engine.load_rules("flow", text)
    assert [event.payload["initial"] for event in sink.events] == [True, False, False]
    assert [len(event.payload["changes"]) > 0 for event in sink.events] == [False, True, True]


def test_a_kind_that_appears_in_a_known_document_was_added_by_somebody(engine: Engine, sink: Sink) -> None:
    def document(text: str, version: str) -> Revision:
        return Revision((SourceText("rules.yaml", text.encode()),), "/prod/git/rules", version)

    flow = "flowRules: [{resource: a, count: 1}]\n"
    degrade = "degradeRules: [{resource: a, grade: error_ratio, count: 0.5, timeWindow: 5}]\n"
    apply(engine, document(flow, "1"))
    apply(engine, document(flow + degrade, "2"))
    assert [event.payload["initial"] for event in sink.events] == [True, False]


def test_there_and_back_within_one_millisecond_are_different_events(engine: Engine, sink: Sink) -> None:
    for count in (1, 2, 1, 2, 1):
        engine.load_rules("flow", rules_text(count))
    assert len({event.id for event in sink.events}) == len(sink.events) == 5


def test_a_store_with_one_key_a_kind_feeds_several_kinds(engine: Engine) -> None:
    source = MemorySource()
    subscription = engine.subscribe(["flow", "degrade"], source)
    for item in source.items(["flow", "degrade"]):
        rules = {
            "flow": rules_text(7),
            "degrade": '[{"resource": "r0", "grade": 1, "count": 0.5, "timeWindow": 5}]',
        }[item.kinds[0]]
        source.set(item.key, rules)
    assert subscription.refresh(5), "what stood there has been dealt with"
    assert len(engine.rules("flow")) == len(engine.rules("degrade")) == 1


def test_a_process_that_dies_while_its_outbox_fails_tells_the_change_after_a_restart(
    clock: FakeClock, sink: Sink, tmp_path: Path
) -> None:
    source = MemorySource("rules")
    (item,) = source.items(["flow"])
    source.set(item.key, rules_text(1))

    def life(count: int, *, broken: bool) -> None:
        sink.broken = broken
        engine = Engine(app="shop", clock=clock, audit=sink, last_good=LastGood(tmp_path))
        engine.subscribe("flow", source)
        deadline = time.monotonic() + 5
        while [rule.count for rule in engine.rules("flow").rules] != [count] and time.monotonic() < deadline:
            time.sleep(0.002)
        assert [rule.count for rule in engine.rules("flow").rules] == [count]
        engine.close()

    life(1, broken=False)
    source.set(item.key, rules_text(2))
    life(2, broken=True)
    assert len(sink.events) == 1
    life(2, broken=False)
    assert [event.payload["changes"][0]["new"] for event in sink.events[1:]] == [2]


def test_a_kind_that_leaves_the_document_keeps_its_rules_across_restarts_too(
    clock: FakeClock, sink: Sink, tmp_path: Path
) -> None:
    flow = "flowRules: [{resource: a, count: %d}]\n"
    degrade = "degradeRules: [{resource: a, grade: error_ratio, count: 0.5, timeWindow: 5}]\n"
    source = MemorySource("rules", document=True)
    (item,) = source.items(["flow", "degrade"])

    def life(text: str) -> tuple[int, int]:
        source.set(item.key, text)
        with Engine(app="shop", clock=clock, audit=sink, last_good=LastGood(tmp_path)) as engine:
            assert engine.subscribe(["flow", "degrade"], source).wait_ready(5)
            return len(engine.rules("flow")), len(engine.rules("degrade"))

    assert life(flow % 1 + degrade) == (1, 1)
    assert life(flow % 2) == (1, 1)
    assert life(flow % 2) == (1, 1)
    assert life(flow % 2 + "degradeRules: []\n") == (1, 0)
    assert life(flow % 2) == (1, 0)


def test_the_same_step_made_again_is_another_event(engine: Engine, sink: Sink) -> None:
    """A branch reset back and forth delivers the same two commits again and again."""
    for number in range(6):
        apply(engine, revision(1 + number % 2, version=str(number % 2)))
    flows = [event.id for event in sink.events if event.subject == "flow"]
    assert len(flows) == len(set(flows)) == 6


def test_rules_loaded_while_others_are_being_loaded_are_not_lost(engine: Engine, sink: Sink) -> None:
    """A signal handler, or a sink that loads rules, comes in between on the same thread."""
    degrade = [{"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 5}]

    def once() -> None:
        sink.on_append = lambda: None
        engine.load_rules("degrade", degrade)

    sink.on_append = once
    engine.load_rules("flow", rules_text(5))
    assert (len(engine.rules("flow")), len(engine.rules("degrade"))) == (1, 1)
    assert sorted(event.subject for event in sink.events) == ["degrade", "flow", "flow"]
    assert len({event.id for event in sink.events}) == 2


def test_a_kind_that_a_subscription_feeds_is_not_loaded_by_hand(engine: Engine) -> None:
    subscription = engine.subscribe("flow", MemorySource())
    with pytest.raises(KindTaken, match="change them there, or close that subscription"):
        engine.load_rules("flow", [])
    subscription.close()
    engine.load_rules("flow", [])


def test_a_source_of_an_engine_like_java_is_read_like_java(clock: FakeClock) -> None:
    """What Java takes from a store is taken, and what it fails to build is refused, as `load_rules` has it."""
    engine = Engine(clock=clock, compat="sentinel-1.8.9")

    def listed(text: str) -> Revision:
        return Revision((SourceText("rules.json", text.encode(), "json"),), "/prod/memory/rules", text)

    engine._activation.apply(("flow",), listed('[{"resource": "r", "count": 0.3}]'), Layers().layer(), restored=False)
    assert [rule.count for rule in engine.rules("flow").rules] == [0.3]
    queue = '[{"resource": "r", "count": 0.3, "controlBehavior": 2, "maxQueueingTimeMs": 9}]'
    with pytest.raises(RuleRejected, match="divides by zero"):
        engine._activation.apply(("flow",), listed(queue), Layers().layer(), restored=False)
    with pytest.raises(RuleRejected, match="SR113"):
        Engine(clock=clock)._activation.apply(
            ("flow",), listed('[{"resource": "r", "count": 0.3}]'), Layers().layer(), restored=False
        )
