"""The demo shows what it says, on figures that were measured, and leaves nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DEMO = (sys.executable, "-m", "sentinel_core.cli", "demo")


def services(folder: Path) -> list[int]:
    """Processes of the sample service that follow the settings of this folder."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = command.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "sentinel_core.examples.service" in text and str(folder) in text:
            found.append(int(command.parent.name))
    return found


def test_the_demo_tells_the_whole_loop(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    done = subprocess.run(
        [*DEMO, "--keep", str(folder), "-o", "json"], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stderr
    figures = {figure["what"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}

    # 80 calls a second meet a limit of 20, then 25, then 20 again; two buckets a second leave a little play.
    assert 18 <= figures["calls/s let through before"] <= 22
    assert 22 < figures["calls/s let through after"] <= 28
    assert 22 < figures["calls/s let through with the bad commit on main"] <= 28
    assert 18 <= figures["calls/s let through after the rollback"] <= 22
    assert 0 < figures["commit → active"] < 1000

    assert 'sentinel-rules.yaml:8:12: error SR102 payment_invoke: count is "2O"' in done.stderr
    assert "count  20 → 25" in done.stderr
    assert "with it: payment_refund.count 10 → 12" in done.stderr
    assert "count  25 → 20" in done.stderr
    assert "Traceback" not in done.stderr

    assert sorted(path.name for path in folder.iterdir()) == [
        ".sentinel",
        "rules",
        "sentinel.yaml",
        "service.log",
        "service.ndjson",
    ]
    assert services(folder) == []


def test_an_interrupted_demo_takes_its_service_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    demo = subprocess.Popen(
        [*DEMO, "--keep", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 30
    while not services(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert services(folder)
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=30)
    assert demo.returncode == 130, said
    assert "Traceback" not in said
    deadline = time.monotonic() + 10
    while services(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert services(folder) == []
    assert not folder.exists()
    assert "Everything lies in" not in said


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    done = subprocess.run([*DEMO, "--keep", str(tmp_path)], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 64
    assert "is not an empty folder" in done.stderr
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_demo_that_fails_leaves_a_folder_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    done = subprocess.run(
        [*DEMO, "--keep", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": str(tmp_path)},  # no Git there
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []
