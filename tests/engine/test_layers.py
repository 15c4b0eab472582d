"""Several stores for one engine: precedence, ownership, and a bootstrap under them."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import BlockException, Engine, datasources
from sentinel_core.audit.events import Event
from sentinel_core.audit.outbox import Outbox
from sentinel_core.datasources import (
    FileSource,
    LastGood,
    MemorySource,
    Readable,
    SourceMisconfigured,
    SourceUnavailable,
    State,
    Subscription,
    SubscriptionOptions,
)
from sentinel_core.errors import KindTaken
from sentinel_core.plan import Snapshot
from tests.git_identity import IDENTITY
from tests.services import etcd

QUICK = SubscriptionOptions(compare_s=30, backoff_base_s=0.02, backoff_cap_s=0.1)


class Kept:
    """What the audit was told, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, events: Sequence[Event]) -> None:
        self.events += events

    @property
    def told(self) -> list[tuple[str, str, list[Any]]]:
        """(source, kind, new resources) of each change."""
        return [
            (each.source, each.subject, [rule["resource"] for rule in each.payload["newRules"]]) for each in self.events
        ]


def flow(**counts: float) -> str:
    return json.dumps([{"resource": resource, "grade": 1, "count": count} for resource, count in counts.items()])


def active(engine: Engine, kind: str = "flow") -> dict[str, float]:
    return {rule.resource: rule.count for rule in engine.rules(kind).rules}


def owners(engine: Engine, kind: str = "flow") -> dict[str, str]:
    ruleset = engine.rules(kind)
    revisions = {rule.resource: ruleset.owner(rule).revision for rule in ruleset.rules}
    return {resource: revision.source.split("/")[3] for resource, revision in revisions.items() if revision}


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def made(tmp_path: Path, kept: Kept) -> Iterator[Callable[[], Engine]]:
    """Makes engines that share a folder of last good rules, as one service does from start to start."""
    engines: list[Engine] = []

    def make() -> Engine:
        engines.append(Engine(audit=kept, last_good=LastGood(tmp_path / "last-good")))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(made: Callable[[], Engine]) -> Engine:
    return made()


@pytest.fixture
def upper() -> MemorySource:
    return MemorySource("upper")


@pytest.fixture
def lower() -> MemorySource:
    return MemorySource("lower")


def follow(engine: Engine, *stores: Readable, **options: Any) -> tuple[Subscription, ...]:
    options.setdefault("options", QUICK)
    followed = engine.follow(stores, **options)
    settle(*followed)
    return followed


def settle(*subscriptions: Subscription) -> None:
    """All that stands in the stores has been dealt with."""
    for each in subscriptions:
        assert each.refresh(10)


def test_a_resource_has_its_rules_from_the_first_store_that_names_it(
    engine: Engine, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    follow(engine, upper, lower)
    assert active(engine) == {"a": 1, "b": 3}
    assert owners(engine) == {"a": "upper", "b": "lower"}


def test_it_does_not_matter_which_store_answers_first(engine: Engine, upper: MemorySource, lower: MemorySource) -> None:
    lower.set("flow", flow(a=2, b=3))
    followed = follow(engine, upper, lower)
    assert active(engine) == {"a": 2, "b": 3}
    upper.set("flow", flow(a=1))
    settle(*followed)
    assert active(engine) == {"a": 1, "b": 3}


def test_a_store_takes_away_its_own_rules_and_nobody_elses(
    engine: Engine, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    followed = follow(engine, upper, lower)
    upper.set("flow", "[]")
    settle(*followed)
    assert active(engine) == {"a": 2, "b": 3}
    lower.set("flow", "[]")
    settle(*followed)
    assert active(engine) == {}, "both said so"
    upper.set("flow", flow(a=1))
    settle(*followed)
    lower.set("flow", "[]")
    settle(*followed)
    assert active(engine) == {"a": 1}


def test_a_deleted_key_takes_nothing_away(engine: Engine, upper: MemorySource, lower: MemorySource) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(b=3))
    followed = follow(engine, upper, lower)
    upper.delete("flow")
    settle(*followed)
    assert active(engine) == {"a": 1, "b": 3}
    assert [each.state for each in followed] == [State.STALE, State.READY]


def test_stores_of_different_kinds_do_not_meet(engine: Engine, upper: MemorySource, lower: MemorySource) -> None:
    upper.set("flow", flow(a=1))
    lower.set("degrade", '[{"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 5}]')
    follow(engine, upper, lower)
    assert (active(engine), active(engine, "degrade")) == ({"a": 1}, {"a": 0.5})


def test_a_store_that_becomes_invalid_keeps_its_rules_and_the_other_goes_on(
    engine: Engine, kept: Kept, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(b=3))
    followed = follow(engine, upper, lower)
    upper.set("flow", '[{"resource": "a", "grade": 1, "count": "2O"}]')
    lower.set("flow", flow(a=9, b=4))
    settle(*followed)
    assert active(engine) == {"a": 1, "b": 4}
    assert [each.type for each in kept.events].count("sentinel.rules.rejected.v1") == 1


def test_a_store_that_is_down_at_the_start_joins_when_it_is_back(
    engine: Engine, upper: MemorySource, lower: MemorySource
) -> None:
    upper.fail(SourceUnavailable("upper is down"))
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    followed = follow(engine, upper, lower)
    assert active(engine) == {"a": 2, "b": 3}
    upper.recover()
    settle(*followed)
    assert active(engine) == {"a": 1, "b": 3}


def test_a_restart_with_every_store_down_has_the_last_good_rules_of_each(
    made: Callable[[], Engine], kept: Kept, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    first = made()
    follow(first, upper, lower)
    first.close()
    told = len(kept.events)
    for store in (upper, lower):
        store.fail(SourceUnavailable("down"))
    again = made()
    followed = again.follow([upper, lower], options=QUICK)
    assert active(again) == {"a": 1, "b": 3}
    assert owners(again) == {"a": "upper", "b": "lower"}
    assert all(each.status()[0].restored for each in followed)
    upper.recover()
    upper.set("flow", "[]")
    settle(followed[0])
    assert active(again) == {"a": 2, "b": 3}
    assert kept.told[told:] == [("/default/memory/upper/sentinel-flow-rules", "flow", [])], "a restart is no event"


def test_a_change_is_told_once_of_the_store_that_made_it_in_whatever_order_stores_answer(
    upper: MemorySource, lower: MemorySource
) -> None:
    def told_when(first: MemorySource, second: MemorySource) -> set[str]:
        kept = Kept()
        with Engine(audit=kept) as engine:
            first.fail(SourceUnavailable("not yet"))
            followed = follow(engine, upper, lower)
            first.recover()
            settle(*followed)
            assert active(engine) == {"a": 1, "b": 3}
        assert len(kept.events) == 2
        return {each.id for each in kept.events}

    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    assert told_when(upper, lower) == told_when(lower, upper)


def test_a_change_of_rules_that_stand_by_is_told_and_changes_no_decision(
    engine: Engine, kept: Kept, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2))
    followed = follow(engine, upper, lower)
    number = engine.snapshot.number
    lower.set("flow", flow(a=7))
    settle(*followed)
    assert (active(engine), engine.snapshot.number) == ({"a": 1}, number)
    assert kept.events[-1].payload["changes"][0]["new"] == 7
    assert followed[1].status()[0].counters.activated == 2


def test_rules_after_a_store_that_was_cleared_are_a_change_and_no_first_look(engine: Engine, kept: Kept) -> None:
    first, second = MemorySource("first"), MemorySource("second")
    first.set("flow", "[]")
    (followed,) = follow(engine, first, kinds=["flow"])
    first.set("flow", flow(a=1))
    settle(followed)
    first.set("flow", "[]")
    settle(followed)
    followed.close()
    second.set("flow", flow(b=2))
    follow(engine, second, kinds=["flow"])
    assert [each.payload["initial"] for each in kept.events] == [False, False, False]


def test_counters_of_rules_that_stayed_go_on_when_another_store_changes(
    engine: Engine, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", json.dumps([{"resource": "a", "grade": 0, "count": 1}]))
    lower.set("flow", flow(b=3))
    followed = follow(engine, upper, lower)
    with engine.entry("a"):
        lower.set("flow", flow(b=4))
        settle(*followed)
        assert not engine.try_entry("a")


def test_a_refusal_names_the_revision_of_the_store_that_owns_the_rule(
    engine: Engine, upper: MemorySource, lower: MemorySource
) -> None:
    upper.set("flow", flow(a=5))
    lower.set("flow", flow(b=0))
    follow(engine, upper, lower)
    with pytest.raises(BlockException) as refused:
        engine.entry("b")
    (rule,) = [each for each in engine.rules("flow").rules if each.resource == "b"]
    assert refused.value.revision.digest == engine.rules("flow").owner(rule).digest != engine.rules("flow").digest


def test_the_owner_follows_equal_rules_from_store_to_store(
    engine: Engine, kept: Kept, upper: MemorySource, lower: MemorySource
) -> None:
    lower.set("flow", flow(a=1))
    followed = follow(engine, upper, lower)
    upper.set("flow", flow(a=1))
    settle(*followed)
    assert owners(engine) == {"a": "upper"}
    upper.set("flow", "[]")
    settle(*followed)
    assert owners(engine) == {"a": "lower"}
    assert len(kept.events) == 3, "each store's own changes, and nothing else"


def test_status_and_explain_tell_whose_rules_hold(engine: Engine, upper: MemorySource, lower: MemorySource) -> None:
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3, c=4))
    follow(engine, upper, lower)
    counted = engine.status()["kinds"]["flow"]["sources"]
    assert counted == {
        f"/default/memory/{name}/sentinel-flow-rules": number for name, number in (("upper", 1), ("lower", 2))
    }
    (told,) = next(each["rules"] for each in engine.explain("b") if each["slot"] == "flow")
    assert told["source"] == "/default/memory/lower/sentinel-flow-rules"


def test_kinds_of_stores_that_are_followed_are_taken(engine: Engine, upper: MemorySource, lower: MemorySource) -> None:
    followed = follow(engine, upper, lower, kinds=["flow"])
    with pytest.raises(KindTaken, match=r"memory://upper already.*follow both stores together"):
        engine.subscribe("flow", MemorySource("third"))
    with pytest.raises(KindTaken):
        engine.load_rules("flow", [])
    engine.load_rules("degrade", [])
    for each in followed:
        each.close()
    engine.load_rules("flow", [])


def test_one_store_named_twice_is_refused(engine: Engine, upper: MemorySource) -> None:
    with pytest.raises(SourceMisconfigured, match="name it once"):
        engine.follow([upper, MemorySource("upper")])
    engine.load_rules("flow", [])


# -- bootstrap ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def bootstrap(tmp_path: Path) -> FileSource:
    (tmp_path / "bootstrap.yaml").write_text(
        "flowRules: [{resource: a, grade: qps, count: 10}, {resource: b, grade: qps, count: 20}]\n"
        "degradeRules: [{resource: a, grade: error_ratio, count: 0.5, timeWindow: 5}]\n",
        encoding="utf-8",
    )
    return FileSource(tmp_path / "bootstrap.yaml")


def test_the_bootstrap_is_in_force_when_follow_returns_while_the_store_is_down(
    engine: Engine, upper: MemorySource, bootstrap: FileSource
) -> None:
    upper.fail(SourceUnavailable("down"))
    engine.follow([upper], bootstrap=bootstrap, options=QUICK)
    assert active(engine) == {"a": 10, "b": 20}


def test_a_kind_that_the_store_delivers_is_its_own_and_others_stay_with_the_bootstrap(
    engine: Engine, upper: MemorySource, bootstrap: FileSource
) -> None:
    upper.set("flow", flow(a=1))
    follow(engine, upper, bootstrap=bootstrap)
    assert (active(engine), active(engine, "degrade")) == ({"a": 1}, {"a": 0.5}), "b of the bootstrap is not added"


def test_an_explicit_empty_list_ends_the_bootstrap_too(
    engine: Engine, upper: MemorySource, bootstrap: FileSource
) -> None:
    followed = follow(engine, upper, bootstrap=bootstrap)
    assert active(engine) == {"a": 10, "b": 20}
    upper.set("flow", "[]")
    settle(*followed)
    assert active(engine) == {}
    upper.delete("flow")
    settle(*followed)
    assert active(engine) == {}, "what was delivered once is the store's"


def test_a_change_of_the_bootstrap_never_overrides_a_store(
    engine: Engine, upper: MemorySource, bootstrap: FileSource, tmp_path: Path
) -> None:
    upper.set("flow", flow(a=1))
    followed = follow(engine, upper, bootstrap=bootstrap)
    (tmp_path / "bootstrap.yaml").write_text("flowRules: [{resource: a, grade: qps, count: 99}]\n", encoding="utf-8")
    settle(*followed)
    assert active(engine) == {"a": 1}


def test_after_a_restart_the_last_good_rules_of_the_store_go_before_the_bootstrap(
    made: Callable[[], Engine], upper: MemorySource, bootstrap: FileSource
) -> None:
    upper.set("flow", flow(a=1))
    first = made()
    follow(first, upper, bootstrap=bootstrap)
    first.close()
    upper.fail(SourceUnavailable("down"))
    again = made()
    seen: list[dict[str, float]] = []
    swap = again._activation.swap

    def watched(snapshot: Snapshot) -> None:
        swap(snapshot)
        seen.append(active(again))

    again._activation.swap = watched
    follow(again, upper, bootstrap=bootstrap)
    assert active(again) == {"a": 1}
    assert {"a": 10, "b": 20} not in seen


def test_without_a_bootstrap_file_everything_else_works(engine: Engine, upper: MemorySource, tmp_path: Path) -> None:
    upper.set("flow", flow(a=1))
    follow(engine, upper, bootstrap=FileSource(tmp_path / "missing.yaml"))
    assert active(engine) == {"a": 1}


def test_a_bad_bootstrap_is_refused_and_stops_nothing(engine: Engine, upper: MemorySource, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("flowRules: [{resource: a, count: 2O}]\n", encoding="utf-8")
    upper.set("degrade", "[]")
    _, under = follow(engine, upper, bootstrap=FileSource(tmp_path / "bad.yaml"))
    assert under.state is State.ERROR
    upper.set("flow", flow(a=1))
    settle(_)
    assert active(engine) == {"a": 1}


# -- real stores -------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=IDENTITY_ENV)


IDENTITY_ENV = {"PATH": "/usr/bin:/bin:/usr/local/bin", **IDENTITY}


def test_etcd_over_git_over_a_file(
    made: Callable[[], Engine], tmp_path: Path, bootstrap: FileSource, request: pytest.FixtureRequest
) -> None:
    """The order of a fleet: what operators set in etcd, what was reviewed in Git, what the image brought along."""
    etcd.needed()
    (tmp_path / "etcd").mkdir()
    server = etcd.EtcdServer(tmp_path / "etcd").start()
    request.addfinalizer(server.stop)
    live = datasources.open(server.uri())
    (tmp_path / "rules").mkdir()
    git(tmp_path / "rules", "init", "-q", "-b", "main")

    def commit(text: str) -> None:
        (tmp_path / "rules" / "rules.yaml").write_text(text, encoding="utf-8")
        git(tmp_path / "rules", "add", ".")
        git(tmp_path / "rules", "commit", "-qm", "Change rules")

    commit("flowRules: [{resource: a, grade: qps, count: 5}, {resource: c, grade: qps, count: 6}]\n")
    reviewed = datasources.open(f"git:{tmp_path / 'rules'}?ref=main&path=rules.yaml")
    key = next(item.key for item in live.items(["flow"]))
    server.put(key, flow(a=1).encode())
    engine = made()
    followed = follow(engine, live, reviewed, bootstrap=bootstrap)
    assert (active(engine), active(engine, "degrade")) == ({"a": 1, "c": 6}, {"a": 0.5})
    changed = threading.Event()
    followed[1].on_state(lambda _: changed.set())
    commit("flowRules: [{resource: a, grade: qps, count: 7}, {resource: c, grade: qps, count: 8}]\n")
    assert changed.wait(10)
    assert active(engine) == {"a": 1, "c": 8}
    server.put(key, b"[]")
    settle(*followed)
    assert active(engine) == {"a": 7, "c": 8}
    engine.close()
    server.kill()
    (tmp_path / "rules").rename(tmp_path / "gone")
    again = made()
    again.follow([live, reviewed], bootstrap=bootstrap, options=QUICK)
    assert (active(again), active(again, "degrade")) == ({"a": 7, "c": 8}, {"a": 0.5})
    again.close()
    for source in (live, reviewed):
        source.close()


def test_events_of_layers_are_durable_like_all_others(tmp_path: Path, upper: MemorySource, lower: MemorySource) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    upper.set("flow", flow(a=1))
    lower.set("flow", flow(a=2, b=3))
    with Engine(audit=outbox) as engine:
        follow(engine, upper, lower)
    assert outbox.depth() == 2
    outbox.close()
