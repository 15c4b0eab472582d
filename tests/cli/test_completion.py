"""Completion of values, asked as the shells ask: by a real bash, and by zsh and fish where they are installed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentinel_core.cli.lazy import COMPLETING
from sentinel_core.cli.main import PROGRAM, cli
from sentinel_core.cli.shells import Bash, item
from sentinel_core.cli.values import soon
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Project, Run, git

QUOTED = (
    "flowRules:\n  - {resource: 'order create', grade: 1, count: 1}\n  - {resource: \"支付\", grade: 1, count: 1}\n"
)


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project, with contexts and the program on PATH."""
    with (project.folder / "sentinel.yaml").open("a", encoding="utf-8") as file:
        file.write("contexts:\n  staging: {environment: staging}\n  prod-eu1: {stores: ['file:///srv/prod.yaml']}\n")
    git(project.repo, "tag", "v1.0", "HEAD~1")
    program = project.folder / "bin" / "sentinelctl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom sentinel_core.cli.main import main\n\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return project


ASK = """
eval "$(sentinelctl completion bash)"
compopt() { echo "compopt $*"; }  # it wants a line that is being completed
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_sentinelctl_completion sentinelctl
for each in "${COMPREPLY[@]}"; do echo "$each"; done
"""


def bash(line: str, cwd: Path) -> list[str]:
    """What bash would put where the last word is being written, behind its last `:` or `=`."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", f"sentinelctl {line}"],
        env={name: value for name, value in os.environ.items() if name != COMPLETING},
        capture_output=True,
        cwd=cwd,
        timeout=60,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


@pytest.fixture
def ask(shop: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The same answers without a shell, in this process."""
    monkeypatch.setenv(COMPLETING, "bash_complete")
    monkeypatch.setattr(soon, "WAIT_S", 20)  # the machine may be busy
    monkeypatch.setenv("COMP_BREAKS", " \"'><=;|&(:")

    def answers(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", f"sentinelctl {line}")
        told = Bash(cli, {}, PROGRAM, COMPLETING).complete().splitlines()
        return [value or f"({kind})" for kind, _, value in (each.partition(",") for each in told) if kind != "file"]

    return answers


def test_without_a_shell_the_known_ones_are_named(sentinelctl: Run) -> None:
    ended = sentinelctl("completion")
    assert (ended.code, "Choose from: bash, zsh, fish" in ended.err) == (64, True), ended.err


@pytest.mark.parametrize("line", ["rules diff git:v", "config use-context ", "rules explain pay", "bogus "])
def test_bash_puts_on_the_line_what_it_is_told(shop: Project, ask: Callable[[str], list[str]], line: str) -> None:
    assert [each for each in bash(line, shop.folder) if each != "compopt -o default"] == ask(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ver", ["version"]),
        ("config use-context ", ["prod-eu1", "staging"]),
        ("version --context=st", ["staging"]),
        ("--context st", ["staging"]),
        ("rules --context st", ["staging"]),
        ("rules promote prod-eu1 s", ["staging"]),
        ("rules explain pay", ["payment_invoke"]),
        ("rules show --resource c", ["coupon"]),
        ("audit who payment", ["payment_invoke"]),
        ("audit query resource:pa", ["payment_invoke"]),
        ("audit query env", ["(open)", "env:", "environment:"]),
        ("rules history --kind b", ["biz_metric"]),
        ("rules show -o nd", ["ndjson"]),
        ("rules history --store file", ["file:///srv/prod.yaml"]),
        ("rules diff git:v", ["v1.0"]),
        ("rules diff git:HEAD hist", ["(open)", "history:"]),
        ("rules rollback --to ", ["3", "2", "1"]),
        ("rules validate --kind flow --str", ["--strict"]),
        ("config set-context staging guards.maxJ", ["(open)", "guards.maxJump="]),
        ("audit who coupon --field cou", ["count"]),
        ("audit query --zone Asia/Shangh", ["Asia/Shanghai"]),
        ("rules plan --env sta", ["staging"]),
        ("bogus ", []),
        ("rules explain 'unfinished", []),
    ],
)
def test_what_may_stand_there_is_offered(ask: Callable[[str], list[str]], line: str, expected: list[str]) -> None:
    assert ask(line) == expected


def test_paths_are_left_to_bash(shop: Project) -> None:
    assert "compopt -o default" in bash("rules show ./", shop.folder)


def test_the_newest_commits_are_offered(shop: Project, ask: Callable[[str], list[str]]) -> None:
    assert shop.head()[:12] in ask("rules rollback --to-commit ")


def test_a_name_with_blanks_is_one_word_and_other_letters_are_letters(shop: Project) -> None:
    shop.rules.write_text(QUOTED, encoding="utf-8")
    assert bash("rules explain o", shop.folder) == ["order\\ create"]
    assert bash("rules explain 'order c", shop.folder) == ["order create"]
    assert bash("rules explain 支", shop.folder) == ["支付"]


NAMES = [f"pay{mark}touch pwned{mark} x" for mark in map(chr, range(0x20, 0x7F)) if not mark.isalnum()]
NAMES += ["pay$(touch pwned)", "pay`touch pwned`", "pay'; touch pwned; '", 'pay"; touch pwned; "', "pay!touch", "pay\\"]
NAMES += ["pay\ttouch pwned", "pay\x1b[2J", "pay\ntouch pwned"]
SAFE = [name for name in NAMES if name.isprintable() and not set(name) & set("$`\"'\\!")]


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_name_that_is_put_on_the_line_is_that_word_and_nothing_is_run(
    shop: Project, ask: Callable[[str], list[str]], quote: str
) -> None:
    """Whatever a rule calls its resource. With a mark that is open, the shell puts the closing one."""
    shop.rules.write_text(json.dumps({"flowRules": [{"resource": name} for name in NAMES]}), encoding="utf-8")
    words = [f"{quote}{each}{quote}" for each in ask(f"rules explain {quote}pay") if each != "(open)"]
    whole = [word for word in words if "touch" in word]
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {' '.join(whole)}"],
        capture_output=True, text=True, cwd=shop.folder, timeout=60, check=True,
    )  # fmt: skip
    assert not (shop.folder / "pwned").exists()
    assert sorted(done.stdout.splitlines()) == sorted(SAFE)


@pytest.mark.parametrize(
    "begun", ["pay$", '"pay$(', '"pay`', "'pay'", "'pay'\\''", '"pay\\$(', "pay\\$", "$(", '"`', "pay!"]
)
def test_nothing_is_offered_behind_what_a_shell_runs(
    shop: Project, ask: Callable[[str], list[str]], begun: str
) -> None:
    shop.rules.write_text(json.dumps({"flowRules": [{"resource": name} for name in NAMES]}), encoding="utf-8")
    assert [each for each in ask(f"rules explain {begun}") if set(each) & set("$`\"'!")] == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_no_more(shop: Project, shell: str) -> None:
    shop.rules.write_text(json.dumps({"flowRules": [{"resource": name} for name in NAMES]}), encoding="utf-8")
    told = answers_of(shell, "rules explain", "pay", shop.folder)
    assert "pay;touch pwned; x" in told
    assert not set(told) & set("$`\"'!\\\x1b")


def test_a_name_that_looks_like_an_option_is_not_offered(shop: Project, ask: Callable[[str], list[str]]) -> None:
    shop.rules.write_text('flowRules: [{resource: "--yes"}, {resource: pay}]', encoding="utf-8")
    assert ask("rules explain ")[0] == "pay"
    assert "--yes" not in ask("rules explain ")


def test_what_is_shown_beside_a_value_moves_no_cursor() -> None:
    assert item("1", "Raise \x1b[2J\a it\n\nReason").help == "Raise [2J it Reason"


def test_rules_that_are_half_written_have_resources_too(shop: Project, ask: Callable[[str], list[str]]) -> None:
    shop.rules.write_text("flowRules:\n  - {resource: half, grade: [", encoding="utf-8")
    assert ask("rules explain h") == ["half"]


def test_instances_and_what_they_ran_are_offered(shop: Project, ask: Callable[[str], list[str]]) -> None:
    settings = load_settings()
    engine = start(settings.replace(instance="order-1"))
    try:
        assert engine.wait_ready(timeout_s=10)
        deadline = time.monotonic() + 10
        while not ask("instances show o") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert ask("instances show o") == ["order-1"]
        assert shop.head()[:12] in ask("instances list --not-at ")
    finally:
        engine.close()


@pytest.mark.parametrize("text", ["contexts: {", "stores: [consul://h]", "nonsense: 1"])
def test_bad_settings_are_no_words_on_the_line(shop: Project, ask: Callable[[str], list[str]], text: str) -> None:
    (shop.folder / "sentinel.yaml").write_text(text, encoding="utf-8")
    for line in ("config use-context ", "rules explain ", "rules rollback --to ", "rules release "):
        assert ask(line) == []


def test_nobody_waits_for_a_store_that_does_not_answer(
    shop: Project, ask: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soon, "WAIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        (shop.folder / "sentinel.yaml").write_text(f"stores: ['etcd://127.0.0.1:{port}/x']", encoding="utf-8")
        assert ask("rules rollback --to ") == []  # what has to be imported is
        began = time.monotonic()
        assert ask("rules rollback --to ") == []
        assert time.monotonic() - began < 1.5, "0.3 s, on a machine that may be busy"
        began = time.monotonic()
        assert answers_of("zsh", "rules rollback --kind flow --to", "", shop.folder).strip() == "", (
            "and the process ends"
        )
        assert time.monotonic() - began < 10, "1 s, and what has to be imported"


# -- by hand -----------------------------------------------------------------------------------------------------------


@contextmanager
def terminal(cwd: Path, *shell: str) -> Iterator[int]:
    """A shell that somebody types into, with nothing of this machine's own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shell,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", "PS1": "$ ", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_person_presses_tab(shop: Project) -> None:
    """A whole line, written with three letters and two tabs a word, on a terminal."""
    with terminal(shop.folder, "bash", "--norc", "-i") as ours:
        _say(ours, 'eval "$(sentinelctl completion bash)"; echo rea""dy\n', until="ready")
        _say(ours, "sentinelctl config use-c\t", until="use-context ")
        _say(ours, "st\t", until="staging ")
        _say(ours, "\n", until="environment staging.")
        _say(ours, "sentinelctl rules diff git:HE\t", until="git:HEAD")
        _say(ours, " git:v\t", until="v1.0")
        _say(ours, "\n", until="Exit code 1.")


def test_a_person_presses_tab_in_zsh(shop: Project) -> None:
    """What goes on has no blank behind it; what is told of a revision stands beside it, the newest above the others."""
    needed("zsh")
    with terminal(shop.folder, "zsh", "-f", "-i") as ours:
        source = "autoload -U compinit; compinit -uD; source <(sentinelctl completion zsh)"
        _say(ours, f'{source}; echo rea""dy\n', until="ready")
        told = _say(ours, "sentinelctl rules rollback --to \t", until="First rules")
        assert re.search(r"3  -- Ada Example, .* ago: Raise it again.*2  -- .*1  -- ", told, re.DOTALL), told
        _say(ours, "\x15sentinelctl rules diff \t", until="-- the stores of the settings")  # behind the paths
        _say(ours, "\x15sentinelctl config set-context staging guards.maxJ\t", until="ump=")
        _say(ours, "3\n", until="Context staging stands")


def test_fish_keeps_order_and_commas(shop: Project) -> None:
    needed("fish")
    line = "sentinelctl completion fish | source; complete --do-complete 'sentinelctl rules rollback --to '"
    done = subprocess.run(["fish", "-c", line], capture_output=True, text=True, cwd=shop.folder, timeout=60, check=True)
    told = [re.sub(r", .* ago", ", now", each) for each in done.stdout.splitlines()]
    assert told == [
        "3\tAda Example, now: Raise it again",
        "2\tAda Example, now: Raise payment",
        "1\tAda Example, now: First rules",
    ]
    assert "--keep-order" in subprocess.check_output(["sentinelctl", "completion", "fish"], text=True, cwd=shop.folder)


def needed(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion is NOT tested by a shell here, only its answers are")


def _say(terminal: int, keys: str, *, until: str) -> str:
    os.write(terminal, keys.encode())
    shown = ""
    deadline = time.monotonic() + 30
    while until not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
    return shown


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        (
            "zsh",
            "autoload -U compinit; compinit -uD; source <(sentinelctl completion zsh); print $_comps[sentinelctl]",
        ),
        ("fish", "sentinelctl completion fish | source; complete --do-complete 'sentinelctl config use-context st'"),
    ],
)
def test_other_shells_take_the_script(shop: Project, shell: str, line: str) -> None:
    needed(shell)
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, cwd=shop.folder, timeout=60, check=True)
    assert done.stdout.split()[0] in ("_sentinelctl_completion", "staging")


@pytest.mark.parametrize(("shell", "answer"), [("zsh", "plain\nstaging\nstaging"), ("fish", "plain,staging\tstaging")])
def test_what_other_shells_are_answered(shop: Project, shell: str, answer: str) -> None:
    assert answers_of(shell, "config use-context", "st", shop.folder).strip() == answer


def answers_of(shell: str, command: str, begun: str, cwd: Path) -> str:
    """What the program prints for that shell."""
    words = f"sentinelctl {command} {begun}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(command.split()) + 1) if shell == "zsh" else begun}
    done = subprocess.run(
        ["sentinelctl"],
        env={**os.environ, **asked, COMPLETING: f"{shell}_complete"},
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        check=True,
    )
    return done.stdout
