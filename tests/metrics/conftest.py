"""What the tests of metrics share: an engine on a clock that moves when told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sentinel_core import Engine
from sentinel_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(clock: FakeClock) -> Iterator[Engine]:
    with Engine(app="shop", environment="prod", instance="shop-1", clock=clock) as made:
        yield made
