"""Every store is down: from `start()` to the first refused call, with the last good rules of three stores.

    .venv/bin/python benchmarks/cold_start.py [--starts 15]

The stores are a file that is gone, a Git URL of which no clone is left, and an etcd on a port where nobody listens.
Each start is a process of its own; what importing costs is shown beside it and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from sentinel_core import datasources
from sentinel_core.datasources import LastGood
from sentinel_core.rules import Revision, SourceText

TREE = Path(__file__).resolve().parents[1]
RULES = (1, 1_000, 10_000)
LIFE = """\
import time
begin = time.perf_counter()
import sys
from pathlib import Path
from sentinel_core import start
from sentinel_core.settings import load_settings
settings = load_settings(Path(sys.argv[1]))
began, busy = time.perf_counter(), time.process_time()
engine = start(settings)
refused = [bool(engine.try_entry("pay")) for _ in range(2)] == [True, False]
ended, busy = time.perf_counter(), time.process_time() - busy
assert refused
print((began - begin) * 1000, (ended - began) * 1000, busy * 1000, flush=True)
engine.close(0.2)
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--starts", type=int, default=15)
    starts = arguments.parse_args().starts
    print(f"{'rules':>8} {'import':>8} {'start to refusal':>18} {'best':>8} {'longest':>9} {'CPU':>8}   (ms)")
    for number in RULES:
        with tempfile.TemporaryDirectory() as name:
            settings = prepare(Path(name), number)
            life(settings)  # leaves the bytecode of all modules behind, as an installation has it
            rounds = [life(settings) for _ in range(starts)]
        imports, times, busy = zip(*rounds, strict=True)
        figures = f"{median(times):>18.0f} {min(times):>8.0f} {max(times):>9.0f} {median(busy):>8.0f}"
        print(f"{number:>8} {median(imports):>8.0f} {figures}")


def prepare(folder: Path, number: int) -> Path:
    """The settings of a service whose stores are gone, and what it saved of them."""
    flow = [{"resource": "pay", "grade": 1, "count": 1}]
    flow += [{"resource": f"r{index}", "grade": 1, "count": 10} for index in range(1, number)]
    last_good = LastGood(folder / "last-good")
    stores = {
        f"file://{folder}/flow/sentinel-flow-rules.json?kind=flow": json.dumps(flow),
        f"git+file://{folder}/rules.git?path=sentinel-degrade-rules.json&clone=true&cache={folder}/cache": "[]",
        "etcd://127.0.0.1:1?kind=authority": "[]",
    }
    for uri, content in stores.items():
        source = datasources.open(uri)
        (item,) = source.items(("flow", "degrade", "authority"))
        texts = (SourceText(item.key, content.encode(), "json"),)
        last_good.save(item, Revision(texts, item.source, "1"), frozenset(item.kinds))
        source.close()
    settings = folder / "sentinel.yaml"
    settings.write_text(
        json.dumps({"stores": list(stores), "lastKnownGood": str(last_good.path(item).parent)}), encoding="utf-8"
    )
    return settings


def life(settings: Path) -> tuple[float, float, float]:
    """Milliseconds of importing, from `start()` to the refusal, and what of that the process was busy."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=settings.parent,
        env={**environment, "PYTHONPATH": str(TREE), "PYTHONPYCACHEPREFIX": str(settings.parent / "bytecode")},
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    imported, took, busy = map(float, done.stdout.split())
    return imported, took, busy


if __name__ == "__main__":
    main()
