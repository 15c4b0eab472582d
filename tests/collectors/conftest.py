"""An engine on a fake clock, and real servers where a test asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from sentinel_core import Engine
from sentinel_core.testing import FakeClock
from tests.services.redis import Redis
from tests.services.server import Server, Unavailable, cannot

Kind = TypeVar("Kind", bound=Server)


@contextmanager
def running(make: Callable[[], Kind]) -> Iterator[Kind]:
    """The server, started; skips the test where this machine cannot have it, and fails it on CI."""
    try:
        server = make()
    except Unavailable as missing:
        cannot(str(missing))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(clock: FakeClock) -> Iterator[Engine]:
    with Engine(app="test", clock=clock) as made:
        yield made


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Redis]:
    with running(lambda: Redis(tmp_path)) as server:
        yield server
