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

TOLL = """
from sentinel_core.errors import BlockException
from sentinel_core.plan import BLOCK, PASS, Checker
from sentinel_core.slots import Slot


class TollException(BlockException):
    kind = "toll"


class Toll(Checker):
    def __init__(self, rule):
        super().__init__("toll", rule)
        self.left = rule.calls

    def check(self, now, count, call):
        self.left -= count
        return PASS if self.left >= 0 else BLOCK

    def detail(self, call):
        return f"caller {call.origin}"


def compile_toll(build, node, rules):
    return [build.keep(("toll", rule), lambda: Toll(rule)) for rule in rules]


SLOT = Slot("toll", 1, compile_toll)
"""


@dataclass(frozen=True)
class TollRule:
    resource: str
    calls: int


@pytest.fixture
def toll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "toll.py").write_text(TOLL)
    monkeypatch.setattr(sentinel_core.slots, "__path__", [*sentinel_core.slots.__path__, str(tmp_path)])
    yield
    sys.modules.pop("sentinel_core.slots.toll", None)


def rules(*made: TollRule) -> RuleSet:
    return RuleSet("toll", made, b"[]", str(hash(made)))


@pytest.mark.usefixtures("toll")
def test_a_file_in_slots_enforces_its_kind(clock: FakeClock) -> None:
    engine = Engine(clock=clock)
    assert engine.slots()[0] == "toll"
    engine.load_rules("toll", rules(TollRule("r", 2), TollRule("s", 1)))
    assert [bool(engine.try_entry("r", origin="web")) for _ in range(3)] == [True, True, False]
    blocked = engine.try_entry("r", origin="web")
    assert isinstance(blocked, Blocked)
    error = blocked.exception()
    assert (type(error).__name__, error.kind, error.detail) == ("TollException", "toll", "caller web")
    assert isinstance(error, BlockException)
    engine.load_rules("toll", rules(TollRule("r", 2)))
    assert not engine.try_entry("r"), "the rule that stayed has kept its count"


def test_a_kind_without_a_slot_is_loaded_and_said_aloud(clock: FakeClock) -> None:
    engine = Engine(clock=clock)
    engine.load_rules("toll", rules(TollRule("r", 0)))
    assert engine.try_entry("r")
    assert "no slot enforces this kind" in engine.status()["kinds"]["toll"]["warnings"][0]
