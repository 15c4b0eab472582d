"""Ctrl-C at any time, from the moment in which our own code begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BEGIN = """
import signal
from sentinel_core.cli.entry import main

handle = signal.signal
def handled(*arguments):
    signal.signal = handle
    before = handle(*arguments)
    print("begun", flush=True)
    return before

signal.signal = handled
main()
"""
"""Says so when our own handler stands; what comes before is Python's."""


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


AT = """
import signal, sys

def trace(frame, event, argument):
    if frame.f_code.co_filename.endswith(("cli/entry.py", "cli/main.py")) and frame.f_code.co_name == {function!r}:
        if event == {event!r}:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return trace

from sentinel_core.cli import main
sys.settrace(trace)
main.main()
"""


EDGES = [(function, event) for function in ("run", "_run", "_log_through") for event in ("line", "return")]


@pytest.mark.parametrize(("function", "event"), EDGES)
def test_an_interrupt_at_the_edge_of_a_run_is_no_traceback(here: Path, function: str, event: str) -> None:
    script = AT.format(function=function, event=event)
    done = subprocess.run(
        [sys.executable, "-c", script, "version"], capture_output=True, cwd=here, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.split()) == (130, [b"interrupted"])


FORGOTTEN = """
import signal
from sentinel_core.cli import main

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

run = main.run
def meets_a_finalizer(arguments):
    Finalized()
    return run(arguments)

main.run = meets_a_finalizer
main.main()
"""


def test_an_interrupt_that_meets_a_finalizer_is_not_forgotten(here: Path) -> None:
    """It is read until stdin ends, which is never."""
    command = [sys.executable, "-c", FORGOTTEN, "rules", "validate", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here) as running:
        try:
            assert running.stderr is not None
            assert running.stderr.read().split() == [b"interrupted"]
            assert running.wait(timeout=30) == 130
        finally:
            running.kill()


def test_a_shell_that_ignores_interrupts_for_a_command_is_obeyed(here: Path) -> None:
    (here / "r.yaml").write_text("flowRules: []\n", encoding="utf-8")
    script = f'trap "" INT; {sys.executable} -c "$BEGIN" rules validate - <r.yaml & sleep 0.2; kill -INT $!; wait $!'
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "BEGIN": BEGIN}, cwd=here, timeout=60, check=False)
    assert done.returncode == 0
