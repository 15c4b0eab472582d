"""The program as a process: pipes that close, terminals that are not there, locales that know no letters."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, Project, Run

PROGRAM = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()"]
LONG = "r" * 200
MANY = "flowRules:\n" + "".join(f"  - {{resource: {LONG}{number}, grade: 1, count: 5}}\n" for number in range(400))


@pytest.fixture
def many(here: Path) -> Path:
    """Rules whose listing is larger than a pipe's buffer."""
    path = here / "many.yaml"
    path.write_text(MANY, encoding="utf-8")
    return path


# -- pipes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_leaves_early_makes_no_noise_and_no_other_exit_code(many: Path, process: Run, form: str) -> None:
    ended = process(
        script=f'$SENTINELCTL rules show many.yaml -o {form} | head -c 10 >/dev/null; echo "${{PIPESTATUS[0]}}"'
    )
    assert (ended.out, ended.err) == ("0\n", "")


def test_the_exit_code_of_a_difference_survives_a_closed_pipe(many: Path, process: Run) -> None:
    ended = process(
        script='echo "flowRules: []" | $SENTINELCTL rules diff many.yaml - 2>/dev/null | head -c 1 >/dev/null; '
        'echo "${PIPESTATUS[1]}"'
    )
    assert ended.out == "1\n"


def test_a_rollback_is_finished_although_nobody_reads(project: Project, process: Run) -> None:
    ended = process(script='$SENTINELCTL rules rollback --to 1 --yes 2>&1 | true; echo "${PIPESTATUS[0]}"')
    assert ended.out == "0\n"
    assert project.rules.read_text(encoding="utf-8") == FIRST


@pytest.mark.parametrize(
    "script",
    [
        "$SENTINELCTL --help | true",
        "$SENTINELCTL rules diff --help | head -c 1 >/dev/null",
        "$SENTINELCTL nope 2>&1 | true",
    ],
)
def test_help_and_usage_errors_into_a_closed_pipe_are_quiet(here: Path, process: Run, script: str) -> None:
    assert process(script=script).err == ""


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_from_the_beginning_are_survived(many: Path, process: Run, closed: str) -> None:
    ended = process(script=f'$SENTINELCTL rules show many.yaml {closed} | cat >/dev/null; echo "${{PIPESTATUS[0]}}"')
    assert ended.out == "0\n"


def test_stdin_that_is_closed_is_named(here: Path, process: Run) -> None:
    ended = process(script="$SENTINELCTL rules validate - <&-")
    assert (ended.code, ended.err.splitlines()[0]) == (64, "error: stdin is closed")


@pytest.mark.parametrize("command", ["rules show many.yaml", "--help"])
def test_a_full_disk_is_an_error_that_is_told(many: Path, process: Run, command: str) -> None:
    ended = process(script=f"$SENTINELCTL {command} >/dev/full")
    assert ended.code == 74
    assert "No space left on device" in ended.err


def test_a_process_substitution_is_a_file(here: Path, process: Run) -> None:
    ended = process(script="$SENTINELCTL rules diff <(echo 'flowRules: []') <(echo 'flowRules: []')")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def _wait_until_reading_stdin(process: int) -> None:
    """The kernel tells in which call a process waits; the first argument of that one is descriptor 0."""
    for _ in range(2000):
        if Path(f"/proc/{process}/syscall").read_text(encoding="ascii").split()[1:2] == ["0x0"]:
            return
        time.sleep(0.01)
    raise AssertionError("it never read stdin")


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="only Linux tells where a process waits")
def test_an_interrupt_ends_with_130_and_one_word(here: Path) -> None:
    running = subprocess.Popen(
        [*PROGRAM, "rules", "validate", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=here,
    )
    try:
        _wait_until_reading_stdin(running.pid)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    finally:
        running.kill()
    assert (running.returncode, out, err.split()) == (130, b"", [b"interrupted"])


# -- locales -----------------------------------------------------------------------------------------------------------

ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
]
CHINESE = "flowRules:\n  - {resource: 支付, grade: 1, count: 5}\n"


@pytest.mark.parametrize("env", ASCII)
def test_an_ascii_locale_shows_escapes_and_never_fails(here: Path, process: Run, env: dict[str, str]) -> None:
    (here / "规则.yaml").write_text(CHINESE, encoding="utf-8")
    ended = process("rules", "show", "规则.yaml", env=env)
    assert (ended.code, ended.err) == (0, "")
    assert "\\u652f\\u4ed8" in ended.out
    told = json.loads(process("rules", "show", "规则.yaml", "-o", "json", env=env).out)
    assert told["rules"][0]["rule"]["resource"] == "支付"


def test_ascii_has_words_for_the_signs_we_use(here: Path, process: Run) -> None:
    (here / "a.yaml").write_text(FIRST, encoding="utf-8")
    (here / "b.yaml").write_text(FIRST.replace("20", "25"), encoding="utf-8")
    ended = process("rules", "diff", "a.yaml", "b.yaml", env={"PYTHONIOENCODING": "ascii"})
    assert "a.yaml  ->  b.yaml" in ended.out
    assert "count  20 -> 25" in ended.out


def test_a_file_name_that_is_no_utf_8_is_survived(here: Path, process: Run) -> None:
    Path(os.fsdecode(os.fsencode(here) + b"/\xff.yaml")).write_text("flowRules: [\n", encoding="utf-8")
    ended = process(script="$SENTINELCTL rules validate $'\\xff.yaml'")
    assert ended.code == 65
    assert ended.out.startswith("\\udcff.yaml:")


# -- terminals ---------------------------------------------------------------------------------------------------------


def on_terminal(
    *arguments: str,
    cwd: Path,
    answer: str = "",
    env: dict[str, str] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> tuple[int, str]:
    """The exit code, and everything that a terminal of 24 lines would show. `meanwhile` happens while it asks."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PAGER": "cat", "LINES": "24", "COLUMNS": "80", **(env or {})}
    running = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=cwd,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    answered = False
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the other side is gone
                break
            if not chunk:
                break
            shown += chunk
        if answer and not answered and (b"[y/N] " in shown or b"type " in shown):
            meanwhile()
            os.write(ours, answer.encode())
            answered = True
        if running.poll() is not None and not select.select([ours], [], [], 0)[0]:
            break
    code = running.wait(timeout=10)
    os.close(ours)
    text = shown.decode("utf-8").replace("\r\n", "\n")
    assert "Traceback" not in text
    return code, text


def test_signs_are_coloured_on_a_terminal(here: Path) -> None:
    (here / "a.yaml").write_text(FIRST, encoding="utf-8")
    (here / "b.yaml").write_text("flowRules: []\n", encoding="utf-8")
    code, shown = on_terminal("rules", "diff", "a.yaml", "b.yaml", cwd=here)
    assert (code, "\x1b[31m-\x1b[0m payment_invoke" in shown) == (1, True)


@pytest.mark.parametrize(("answer", "code", "count"), [("y\n", 0, "25"), ("\x04", 2, "30")])
def test_a_rollback_asks_on_a_terminal_and_takes_no_for_an_answer(
    project: Project, answer: str, code: int, count: str
) -> None:
    ended, shown = on_terminal("rules", "rollback", cwd=project.folder, answer=answer)
    assert "Write this as a new revision of git+file://" in shown
    assert ended == code
    assert project.rules.read_text(encoding="utf-8") == FIRST.replace("20", count)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 2), ("flow\n", 0)])
def test_emptying_a_kind_asks_for_its_name(project: Project, answer: str, code: int) -> None:
    project.commit("flowRules: []\n", "Empty")
    project.commit(FIRST, "Back")
    ended, shown = on_terminal("rules", "rollback", "--steps", "1", cwd=project.folder, answer=answer)
    assert "This removes every rule of flow. To go on, type flow:" in shown
    assert ended == code


def test_no_input_never_asks_even_on_a_terminal(project: Project) -> None:
    code, shown = on_terminal("rules", "rollback", "--no-input", cwd=project.folder)
    assert code == 64
    assert "add --yes" in shown


def test_a_pager_is_used_for_long_listings_on_a_terminal_only(many: Path, here: Path, process: Run) -> None:
    env = {"PAGER": "sed s/^/paged:/"}
    assert "paged:" in on_terminal("rules", "show", "many.yaml", cwd=here, env=env)[1]
    assert "paged:" not in on_terminal("rules", "show", "many.yaml", cwd=here, env={**env, "TERM": "dumb"})[1]
    assert "paged:" not in process("rules", "show", "many.yaml", env=env).out
    assert "paged:" not in on_terminal("rules", "show", "many.yaml", "--no-pager", cwd=here, env=env)[1]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"SENTINEL_PAGER": "sed s/^/ours:/", "PAGER": "sed s/^/theirs:/"}, "ours:"),
        ({"SENTINEL_PAGER": "", "PAGER": "sed s/^/theirs:/"}, "RESOURCE"),
        ({"SENTINEL_PAGER": "cat"}, "RESOURCE"),
        ({"SENTINEL_PAGER": "/nope/pager"}, "RESOURCE"),
        ({"SENTINEL_PAGER": "sh -c 'echo LESS is $LESS; cat >/dev/null'"}, "LESS is FRX"),
        ({"SENTINEL_PAGER": "sh -c 'echo LESS is $LESS; cat >/dev/null'", "LESS": "-S"}, "LESS is -S"),
        ({"SENTINEL_PAGER": "true"}, ""),
    ],
)
def test_the_pager_is_found_as_git_finds_its_own(many: Path, here: Path, env: dict[str, str], said: str) -> None:
    code, shown = on_terminal("rules", "show", "many.yaml", cwd=here, env=env)
    assert code == 0
    assert said in shown
    assert "theirs:" not in shown
