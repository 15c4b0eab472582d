"""A new rule kind is one new file in `slots/`; nothing else is edited."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sentinel_core.slots
from sentinel_core import Blocked, BlockException, Engine
from sentinel_core.rules import RuleSet
from sentinel_core.testing import FakeClock

QUOTA = """
from sentinel_core.errors import BlockException
from sentinel_core.plan import BLOCK, PASS, Checker
from sentinel_core.slots import Slot


class QuotaException(BlockException):
    kind = "quota"


class Quota(Checker):
    def __init__(self, rule):
        super().__init__("quota", rule)
        self.left = rule.calls

    def check(self, now, count, call):
        self.left -= count
        return PASS if self.left >= 0 else BLOCK

    def detail(self, call):
        return f"caller {call.origin}"


def compile_quota(build, node, rules):
    return [build.keep(("quota", rule), lambda: Quota(rule)) for rule in rules]


SLOT = Slot("quota", 50, compile_quota)
"""


@dataclass(frozen=True)
class QuotaRule:
    resource: str
    calls: int


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "quota.py").write_text(QUOTA)
    monkeypatch.setattr(sentinel_core.slots, "__path__", [*sentinel_core.slots.__path__, str(tmp_path)])
    yield
    sys.modules.pop("sentinel_core.slots.quota", None)


def rules(*made: QuotaRule) -> RuleSet:
    return RuleSet("quota", made, b"[]", str(hash(made)))


@pytest.mark.usefixtures("quota")
def test_a_file_in_slots_enforces_its_kind(clock: FakeClock) -> None:
    engine = Engine(clock=clock)
    assert engine.slots()[0] == "quota"
    engine.load_rules("quota", rules(QuotaRule("r", 2), QuotaRule("s", 1)))
    assert [bool(engine.try_entry("r", origin="web")) for _ in range(3)] == [True, True, False]
    blocked = engine.try_entry("r", origin="web")
    assert isinstance(blocked, Blocked)
    error = blocked.exception()
    assert (type(error).__name__, error.kind, error.detail) == ("QuotaException", "quota", "caller web")
    assert isinstance(error, BlockException)
    engine.load_rules("quota", rules(QuotaRule("r", 2)))
    assert not engine.try_entry("r"), "the rule that stayed has kept its count"


def test_a_kind_without_a_slot_is_loaded_and_said_aloud(clock: FakeClock) -> None:
    engine = Engine(clock=clock)
    engine.load_rules("quota", rules(QuotaRule("r", 0)))
    assert engine.try_entry("r")
    assert "no slot enforces this kind" in engine.status()["kinds"]["quota"]["warnings"][0]
