"""What this package offers to the tests of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sentinel_core.testing import FakeClock

USER_TEST = """
from sentinel_core import guard

def test_orders_are_limited(sentinel_engine, fake_clock):
    sentinel_engine.load_rules("flow", [{"resource": "order", "grade": 1, "count": 1}])

    @guard("order", block_handler=lambda error: "busy")
    def order():
        return "ok"

    assert [order(), order()] == ["ok", "busy"]
    fake_clock.advance(ms=1000)
    assert order() == "ok"
"""


def test_the_pytest_plugin_gives_an_engine_on_a_fake_clock(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "sentinel_core.testing.plugin", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stdout


def test_the_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(start_ms=5)
    assert clock.monotonic_ns() == 5_000_000
    clock.advance(ms=1.5)
    clock.sleep(500_000)
    assert (clock.monotonic_ns(), clock.waits) == (7_000_000, [0.5])
    before = clock.wall()
    clock.step_wall(-3600)
    assert (before - clock.wall()).total_seconds() == 3600
    assert clock.monotonic_ns() == 7_000_000
