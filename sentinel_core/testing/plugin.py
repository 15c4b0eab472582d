"""pytest fixtures: `pytest -p sentinel_core.testing.plugin`, or `pytest_plugins = ["sentinel_core.testing.plugin"]`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sentinel_core import Engine, set_default_engine
from sentinel_core.testing import FakeClock


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock at zero that moves when told."""
    return FakeClock()


@pytest.fixture
def sentinel_engine(fake_clock: FakeClock) -> Iterator[Engine]:
    """An engine on the fake clock, which module-level `entry`, `guard` and the like use for the time of the test."""
    engine = Engine(app="test", clock=fake_clock)
    before = set_default_engine(engine)
    yield engine
    set_default_engine(before)
    engine.close()
