"""How long a command takes from the shell to its end, beside what Python and click take by themselves.

    .venv/bin/python benchmarks/startup.py [--runs 15] [--python installed/bin/python]

`--python`: the interpreter of an environment into which the package was installed, as users have it; without it, the
one that runs this, where an editable installation and whatever else is installed there cost time.

Each run is a process of its own; all commands take turns, so that what else the machine does is shared alike. CPU is
user and system time of the process. Only the ratios within one run mean anything on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from sentinel_core.audit.events import rule_changed
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.rules import KINDS, Revision, RuleSet, SourceText, parse_revision

PROGRAM = "from sentinel_core.cli.entry import main; main()"
COMMANDS = {
    "python -c pass": "pass",
    "import click": "import click",
    "sentinelctl --help": (PROGRAM, "--help"),
    "sentinelctl version": (PROGRAM, "version"),
    "rules validate, 100 rules": (PROGRAM, "rules", "validate", "rules.yaml"),
    "audit who": (PROGRAM, "audit", "who", "r1"),
}
Spent = tuple[float, float]
"""Wall clock and CPU, milliseconds."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=15)
    arguments.add_argument(
        "--python", type=os.path.abspath, default=sys.executable, help="of the environment that is measured"
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        once(given.python, Path(name))  # leaves the bytecode of all modules behind, as an installation has it
        rounds = [once(given.python, Path(name)) for _ in range(given.runs)]
    click = median(each["import click"][1] for each in rounds)
    print(f"{'':<28} {'median':>8} {'best':>8} {'CPU':>8} {'of click':>9}   (ms)")
    for command in COMMANDS:
        wall, busy = zip(*(each[command] for each in rounds), strict=True)
        figures = f"{median(wall):>8.0f} {min(wall):>8.0f} {median(busy):>8.0f} {median(busy) / click:>9.1f}"
        print(f"{command:<28} {figures}")


def prepare(folder: Path) -> None:
    """Settings, a hundred rules, and an audit store that knows of them."""
    text = "flowRules:\n" + "".join(
        f"  - {{resource: r{each}, grade: qps, count: {each + 1}}}\n" for each in range(100)
    )
    (folder / "rules.yaml").write_text(text, encoding="utf-8")
    (folder / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n", encoding="utf-8")
    revision = Revision((SourceText("rules.yaml", text.encode()),), "/prod/file/rules.yaml", "1")
    new = parse_revision(revision, KINDS)["flow"]
    at = datetime(2026, 11, 25, 6, 30, tzinfo=UTC)
    old = RuleSet.empty("flow")
    event = rule_changed(environment="prod", app="shop", old=old, new=new, revision=revision, at=at, instance="shop-1")
    store = SqliteStore(folder / "audit.db")
    store.ingest([event])
    store.close()


def once(python: str, folder: Path) -> dict[str, Spent]:
    return {
        name: spent(python, folder, [code] if isinstance(code, str) else list(code)) for name, code in COMMANDS.items()
    }


def spent(python: str, folder: Path, arguments: list[str]) -> Spent:
    began = time.perf_counter()
    process = subprocess.Popen(
        [python, "-c", *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{arguments} ended with {process.returncode}")
    return wall * 1000, (usage.ru_utime + usage.ru_stime) * 1000


if __name__ == "__main__":
    main()
