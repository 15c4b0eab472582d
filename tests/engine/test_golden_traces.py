"""Decisions of the real Java Sentinel 1.8.9, replayed step by step under `compat="sentinel-1.8.9"`.

Traces are found in `tests/data/traces`, or in the folder that SENTINEL_TRACES names. `X.json` is a scenario,
`X.expected.jsonl` what Java did. Waits are compared to the microsecond, everything else exactly.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from collections.abc import Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine, EntryOrderError, Statistics
from sentinel_core.clock import MS
from sentinel_core.engine import INBOUND
from sentinel_core.entry import DONE, Blocked, Entry, Waiting
from sentinel_core.node import ClusterNode, Node
from sentinel_core.rules import ParamFlowItem, RuleRejected, RuleSet
from sentinel_core.rules.registry import MODELS
from sentinel_core.slots.degrade import Breaker
from sentinel_core.slots.system import limits_of
from sentinel_core.testing import FakeClock

FOLDER = Path(os.environ.get("SENTINEL_TRACES") or Path(__file__).parent.parent / "data" / "traces")
KINDS = {"flow": "flow", "degrade": "degrade", "system": "system", "authority": "authority", "paramFlow": "param_flow"}
BASE_MS = 1_700_000_000_000

NOT_BUILT: dict[str, str] = {}
"""Trace → what the engine does not do yet."""


def supported(name: str) -> bool:
    """Whether the engine does what this trace shows."""
    return name not in NOT_BUILT


def traces() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.expected.jsonl")):
        name = path.name.removesuffix(".expected.jsonl")
        if supported(name):
            yield pytest.param(name, id=name)


@pytest.mark.parametrize("name", list(traces()))
def test_decides_as_java_sentinel(name: str) -> None:
    scenario = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    lines = (FOLDER / f"{name}.expected.jsonl").read_text(encoding="utf-8").splitlines()
    expected = [json.loads(line) for line in lines]
    replay = Replay(scenario, {line["i"]: line for line in expected})
    replay.run()
    for line in expected:
        actual = replay.lines.get(line["i"])
        assert actual == comparable(line), f"step {line['i']}: {scenario['steps'][line['i']]}"


def test_traces_are_found() -> None:
    assert len(list(traces())) > 100


def comparable(line: dict[str, Any]) -> dict[str, Any]:
    """An expected line as far as it is compared."""
    kept = {key: value for key, value in line.items() if key not in ("internal", "logged")}
    if kept["op"] == "load":
        kept.pop("error", None)
        return {key: value for key, value in kept.items() if key in ("i", "t", "op", "system", "breakers", "events")}
    if isinstance(kept.get("stat"), dict):
        kept["stat"] = {key: approximate(value) for key, value in kept["stat"].items()}
    return {key: approximate(value) if key in ("waitMs", "doneAt", "t") else value for key, value in kept.items()}


def approximate(value: Any) -> Any:
    return pytest.approx(value, abs=2e-6)


class Replay:
    """One scenario on a virtual clock: callers that sleep wake up before the next step of the same time."""

    def __init__(self, scenario: dict[str, Any], expected: dict[int, dict[str, Any]]) -> None:
        config = scenario.get("config", {})
        self.base: int = scenario.get("baseMs", BASE_MS)
        self.clock = FakeClock(start_ms=self.base)
        self.engine = Engine(
            clock=self.clock,
            compat="sentinel-1.8.9",
            statistics=Statistics(
                interval_ms=config.get("intervalMs", 1000),
                sample_count=config.get("sampleCount", 2),
                cold_factor=config.get("coldFactor", 3),
                max_rt_ms=config.get("statisticMaxRt", 5000),
                occupy_timeout_ms=config.get("occupyTimeoutMs", 500),
            ),
        )
        self.max_rt: int = config.get("statisticMaxRt", 5000) * MS
        self.scenario = scenario
        self.expected = expected
        self.concurrent = scenario.get("mode") == "concurrent"
        self.lines: dict[int, dict[str, Any]] = {}
        self.entries: dict[str, Entry | Blocked] = {}
        self.contexts: dict[str, Context] = {}
        self.sleeping: list[tuple[int, int, int, dict[str, Any], Waiting, float]] = []
        self.deferred: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self.loaded: dict[str, RuleSet] = {}
        self.events: list[str] = []
        self.order = 0
        self.engine.on_breaker(self.note)

    def run(self) -> None:
        if self.scenario.get("rules"):
            self.load(-1, {"rules": self.scenario["rules"]})
        for index, step in enumerate(self.scenario["steps"]):
            self.go_to((self.base + step["t"]) * MS)
            self.do(index, step)
        self.go_to(1 << 62)

    def go_to(self, instant: int) -> None:
        """Moves the clock, waking the sleepers on the way, earlier sleepers first."""
        while self.sleeping and self.sleeping[0][0] <= instant:
            at, _, index, step, waiting, waited = heapq.heappop(self.sleeping)
            self.clock.now_ns = max(self.clock.now_ns, at)
            self.settle(index, step, self.engine.core.resume(waiting), waited)
        if instant < 1 << 62:
            self.clock.now_ns = max(self.clock.now_ns, instant)

    def do(self, index: int, step: dict[str, Any]) -> None:
        waits_for = step["id"] if step["op"] == "exit" else step.get("parent")
        if waits_for in self.deferred:
            self.deferred[waits_for].append((index, step))
            return
        getattr(self, step["op"])(index, step)

    def now_ms(self) -> float:
        return (self.clock.now_ns - self.base * MS) / MS

    def line(self, index: int, step: dict[str, Any], **more: Any) -> None:
        self.lines[index] = {"i": index, "t": self.now_ms(), "op": step["op"], **more}

    def entry(self, index: int, step: dict[str, Any]) -> None:
        origin, context = step.get("origin", ""), step.get("context") or ("ctx" if step.get("origin") else "")
        parent = self.entries.get(step.get("parent", ""))
        if isinstance(parent, Entry):
            origin, context = parent.call.origin, parent.call.context
        self.line(index, step, id=step["id"], resource=step["resource"])
        outcome = self.engine.core.begin(
            step["resource"],
            origin,
            context,
            tuple(step.get("args", ())),
            step.get("count", 1),
            step.get("priority", False),
            step.get("type", "OUT") == "IN",
        )
        self.settle(index, step, outcome, 0.0)

    def settle(self, index: int, step: dict[str, Any], outcome: Entry | Blocked | Waiting, waited: float) -> None:
        while isinstance(outcome, Waiting):
            waited += outcome.wait / MS
            if self.concurrent:
                self.order += 1
                self.deferred.setdefault(step["id"], [])
                wake = self.clock.now_ns + outcome.wait
                heapq.heappush(self.sleeping, (wake, self.order, index, step, outcome, waited))
                return
            self.clock.now_ns += outcome.wait
            outcome = self.engine.core.resume(outcome)
        self.entries[step["id"]] = outcome
        if isinstance(outcome, Entry):
            around = self.contexts.get(step.get("parent", "")) or Context()
            self.contexts[step["id"]] = around
            around.run(outcome.__enter__)
        line = self.lines[index]
        line["result"] = "pass" if outcome else "block"
        line["waitMs"] = waited
        if waited:
            line["doneAt"] = self.now_ms()
        if isinstance(outcome, Blocked):
            line["block"] = self.block(outcome)
        self.add_breakers(line, step["resource"])
        for later, deferred in self.deferred.pop(step["id"], []):
            self.do(later, deferred)

    def block(self, blocked: Blocked) -> dict[str, Any]:
        error = blocked.exception()
        block = {"exception": type(error).__name__, "rule": self.index_of(blocked.kind, error.rule)}
        block["limitApp"] = error.limit_app
        if blocked.kind == "param_flow":
            block["param"] = error.detail
        return block

    def exit(self, index: int, step: dict[str, Any]) -> None:
        entry = self.entries[step["id"]]
        self.line(index, step, id=step["id"])
        line = self.lines[index]
        if not isinstance(entry, Entry):
            line["result"] = "skipped"
            return
        done = entry.state >= DONE
        if step.get("error"):
            entry.trace(RuntimeError("traced"))
        try:
            self.contexts[step["id"]].run(entry.exit, step.get("count"))
            line["result"] = "ok"
        except EntryOrderError:
            line["result"] = "ErrorEntryFreeException"
        if not done or self.events or self.expected[index].get("breakers"):
            self.add_breakers(line, entry.resource)

    def stat(self, index: int, step: dict[str, Any]) -> None:
        where = step.get("node", "cluster")
        self.line(index, step, resource=step["resource"], node=where)
        node = self.node(step["resource"], where)
        self.lines[index]["stat"] = self.counts(node) if node is not None else None

    def node(self, resource: str, where: str) -> Node | None:
        if where == "entry":
            return self.engine.node(INBOUND)
        node = self.engine.node(resource)
        if where == "cluster" or not isinstance(node, ClusterNode):
            return node
        part, name = where.split(":")
        return (node.origins if part == "origin" else node.contexts).get(name)

    def counts(self, node: Node) -> dict[str, float]:
        now = self.clock.now_ns
        node.roll(now)
        seconds = node.length * node.size / 1_000_000_000
        success = node.base_success + node.success
        minute = node.last_minute(now)
        previous = node.previous_second(now)
        return {
            "passQps": node.pass_sum() / seconds,
            "blockQps": (node.base_blocked + node.blocked) / seconds,
            "successQps": success / seconds,
            "exceptionQps": (node.base_errors + node.errors) / seconds,
            "occupiedPassQps": 0,
            "avgRt": (node.base_rt + node.rt) / success / MS if success else 0,
            "minRt": node.shortest_rt(self.max_rt) / MS,
            "maxSuccessQps": node.busiest_success() * node.size / seconds,
            "curThreadNum": node.threads,
            "previousPassQps": previous.passed if previous else 0,
            "previousBlockQps": previous.blocked if previous else 0,
            "totalPass": minute.passed,
            "totalSuccess": minute.success,
            "totalException": minute.errors,
            "blockRequest": minute.blocked,
            "totalRequest": minute.passed + minute.blocked,
            "waiting": node.borrowed_ahead(now),
        }

    def load(self, index: int, step: dict[str, Any]) -> None:
        self.line(index, {"op": "load"})
        expected = self.expected[index]
        for name, given in step["rules"].items():
            line = expected.get(name, {})
            if None in [place for places in line.get("effective", {}).values() for place in places]:
                continue  # what stands is from an older list: Java remembered the failed one and did not try again
            if "error" in line:
                with pytest.raises(RuleRejected):
                    self.engine.load_rules(KINDS[name], self.ruleset(KINDS[name], given, {}))
            else:
                ruleset = self.ruleset(KINDS[name], given or [], line)
                self.loaded[KINDS[name]] = ruleset
                self.engine.load_rules(KINDS[name], ruleset)
        if "system" in expected:
            self.lines[index]["system"] = self.system(expected["system"])

    def ruleset(self, kind: str, given: list[Any], line: dict[str, Any]) -> RuleSet:
        """The rules that Java keeps, in the order in which it asks them; `id` says where each stands in the list."""
        model = MODELS[kind]
        known = {*model.fields_by_alias()} - {"id"}
        order = [place for places in line["effective"].values() for place in places] if "effective" in line else None
        rules = []
        for place in range(len(given)) if order is None else order:
            fields = {key: value for key, value in given[place].items() if key in known and value is not None}
            if "paramFlowItemList" in fields:
                fields["paramFlowItemList"] = [item for item in fields["paramFlowItemList"] if usable(item)]
            rules.append(model.model_validate({**fields, "id": place}))
        text = json.dumps([rule.to_json() for rule in rules], sort_keys=True).encode()
        return RuleSet(kind, tuple(rules), text, hashlib.sha256(text).hexdigest())

    def system(self, expected: dict[str, Any]) -> dict[str, Any]:
        rules = self.engine.rules("system").rules
        limits = limits_of(rules)
        shown = {name: (None if value < 0 else value) for name, value in limits.items()}
        return {"check": bool(rules) and bool(rules[-1].limits()), **shown} if rules else expected

    def index_of(self, kind: str, rule: Any) -> int | str | None:
        rules = self.loaded[kind].rules
        same = [loaded.id for loaded in rules if loaded is rule] or [loaded.id for loaded in rules if loaded == rule]
        return same[0] if same else None

    def note(self, transition: Any) -> None:
        value = "" if transition.value is None else f":{short(transition.value)}"
        index = self.index_of("degrade", transition.rule)
        self.events.append(f"{transition.rule.resource}#{index}:{transition.before}>{transition.after}{value}")

    def add_breakers(self, line: dict[str, Any], resource: str) -> None:
        plan = self.engine.core.snapshot.plans[resource]
        breakers = [checker for checker in plan.checkers if isinstance(checker, Breaker)]
        if breakers:
            line["breakers"] = [{"rule": self.index_of("degrade", each.rule), "state": each.state} for each in breakers]
        if self.events:
            line["events"] = self.events
            self.events = []


def usable(item: dict[str, Any]) -> bool:
    """Java skips special values without a limit or of another type than they say; our parser refuses them."""
    if not isinstance(item.get("count"), int) or item["count"] < 0 or not isinstance(item.get("object"), str):
        return False
    return ParamFlowItem.model_validate(item).fault() is None


def short(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
