"""Work that goes on until it is told to end, beside a main thread that talks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence


def run_until(
    stop: threading.Event, works: Sequence[Callable[[], None]], meanwhile: Callable[[], None], *, end_s: float
) -> None:
    """Runs each work on a thread of its own, so that a library which waits cannot hold up the end, and `meanwhile` on
    this one; SIGTERM and the end of any of them set `stop`. They are waited for `end_s` each at the most. The first
    error of a work is raised."""
    failed: list[Exception] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- raised again below
            failed.append(error)
        finally:
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work,), name="sentinel-work", daemon=True) for work in works]
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        stop.set()
        for thread in threads:
            thread.join(end_s)
        signal.signal(signal.SIGTERM, before)
    if failed:
        raise failed[0]
