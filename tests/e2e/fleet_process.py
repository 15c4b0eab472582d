"""Some instances of a service in one process, for `test_day.py`: `fleet_process.py SETTINGS FIRST COUNT`.

They are called order-01, order-02, …, each with an outbox of its own; they share one connection to the store. They run
until stdin ends.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from sentinel_core.service import ServiceEngine, open_stores
from sentinel_core.settings import load_settings


def main(path: str, first: str, count: str) -> None:
    settings = load_settings(Path(path))
    here = Path(path).parent / ".sentinel"
    with ExitStack() as undo:
        stores, _ = open_stores(settings, undo)
        for number in range(int(first), int(first) + int(count)):
            name = f"order-{number:02}"
            audit = settings.audit.replace(outbox=str(here / f"{name}.outbox"))
            own = {"instance": name, "audit": audit, "last_known_good": str(here / f"{name}.last-good")}
            engine = ServiceEngine(settings.replace(**own))
            undo.callback(engine.close)
            engine.begin(stores)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
