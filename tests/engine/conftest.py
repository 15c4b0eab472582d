"""What the engine's tests share: a clock that moves when told, and an engine on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sentinel_core import Blocked, Engine, Entry
from sentinel_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(clock: FakeClock) -> Iterator[Engine]:
    with Engine(app="test", clock=clock) as made:
        yield made


@pytest.fixture
def passes(engine: Engine) -> Callable[..., int]:
    """passes(n, resource, **call): how many of n calls pass; all of them end at once."""

    def count(calls: int, resource: str, **call: object) -> int:
        outcomes: list[Entry | Blocked] = [engine.try_entry(resource, **call) for _ in range(calls)]  # type: ignore[arg-type]  # whatever the test passes on
        for outcome in outcomes:
            if isinstance(outcome, Entry):
                outcome.exit()
        return sum(map(bool, outcomes))

    return count


@pytest.fixture
def fails(engine: Engine) -> Callable[..., int]:
    """fails(n, resource): n calls that fail one after the other; how many of them were let in."""

    def count(calls: int, resource: str) -> int:
        entered = 0
        for _ in range(calls):
            outcome = engine.try_entry(resource)
            if isinstance(outcome, Entry):
                entered += 1
                outcome.trace(RuntimeError("downstream"))
                outcome.exit()
        return entered

    return count
