"""Ctrl-C at any time, from the moment in which our own code begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGIN = "from sentinel_core.cli.entry import main; print('begun', flush=True); main()"


def interrupted(here: Path, delay_s: float, *arguments: str) -> tuple[int, bytes]:
    """The exit code and stderr of a command that is interrupted so long after it began."""
    running = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        cwd=here,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        time.sleep(delay_s)
        running.send_signal(signal.SIGINT)
        running.stdout.close()
        running.stdout = None
        _, err = running.communicate(timeout=30)
    finally:
        running.kill()
    return running.returncode, err


@pytest.mark.parametrize("delay_ms", [0, 5, 10, 20, 40, 60, 90, 130, 180, 250, 350, 500])
def test_an_interrupt_while_it_starts_is_130_and_one_word(here: Path, delay_ms: int) -> None:
    """It reads stdin, so it has not ended by then."""
    code, err = interrupted(here, delay_ms / 1000, "rules", "validate", "-")
    assert (code, err.split()) == (130, [b"interrupted"])


def test_a_shell_that_ignores_interrupts_for_a_command_is_obeyed(here: Path) -> None:
    (here / "r.yaml").write_text("flowRules: []\n", encoding="utf-8")
    script = f'trap "" INT; {sys.executable} -c "$BEGIN" rules validate - <r.yaml & sleep 0.2; kill -INT $!; wait $!'
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "BEGIN": BEGIN}, cwd=here, timeout=60, check=False)
    assert done.returncode == 0
