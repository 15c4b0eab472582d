"""One life of a service, for `test_crash.py`: `service_process.py SETTINGS DIGEST [KILL_POINT]`.

Starts an engine from the settings, waits until the flow rules with DIGEST are active and all events are delivered,
and closes cleanly. With a KILL_POINT the real step is wrapped so that the process kills itself right before or after.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.publish.store import StorePublisher
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.datasources.git import GitSource
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.engine import Engine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start

STEPS: dict[str, tuple[type, str]] = {
    "read": (GitSource, "read"),
    "make durable": (Outbox, "append"),
    "swap": (Engine, "_swap"),
    "save last good": (LastGood, "save"),
    "publish": (StorePublisher, "publish"),
    "ingest": (SqliteStore, "ingest"),
    "mark sent": (Outbox, "mark_sent"),
}


def kill_at(point: str) -> None:
    when, _, step = point.partition(" ")
    owner, name = STEPS[step]
    original: Callable[..., Any] = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


def main(settings: str, digest: str, *kill_points: str) -> int:
    for point in kill_points:
        kill_at(point)
    engine = start(load_settings(Path(settings)))
    deadline = time.monotonic() + 20
    while engine.rules("flow").digest != digest and time.monotonic() < deadline:
        time.sleep(0.005)
    arrived = engine.rules("flow").digest == digest
    drained = engine.forwarder.drain(10)
    engine.close()
    return 0 if arrived and drained else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
