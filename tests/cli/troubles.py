"""What tests of `docs/troubleshooting.md` share: a service that runs here, its calls, and what the tools find."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentinel_core import Engine
from sentinel_core.datasources import FileSource
from sentinel_core.entry import Entry
from sentinel_core.rules import KINDS, Revision, RuleSet, parse_revision
from sentinel_core.service import ServiceEngine
from tests.cli.conftest import Run

Start = Callable[..., ServiceEngine]


def tell(engine: ServiceEngine) -> None:
    """The service writes its status now, and not within two seconds."""
    assert engine._status is not None
    engine._status.flush()
    assert engine._status.error is None


def calls(engine: Engine, resource: str, number: int = 3, **said: Any) -> None:
    for _ in range(number):
        entry = engine.try_entry(resource, **said)
        if isinstance(entry, Entry):
            entry.exit()


def load_revision(path: Path) -> dict[str, RuleSet]:
    """The rules of a file as a service has them."""
    source = FileSource(path)
    (item,) = source.items(KINDS)
    reading = source.read(item)
    source.close()
    assert isinstance(reading, Revision)
    return parse_revision(reading, KINDS)


def wait_until(happened: Callable[[], bool], within_s: float = 5) -> None:
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def findings(sentinelctl: Run, resource: str) -> dict[str, str | None]:
    """What explain found → what to do."""
    ended = sentinelctl("rules", "explain", resource, "-o", "json")
    assert ended.code == 0, ended
    return {each["what"]: each["next"] for each in json.loads(ended.out)["findings"]}


def found(told: dict[str, str | None], part: str) -> tuple[str, str]:
    (what,) = [each for each in told if part in each]
    return what, told[what] or ""
