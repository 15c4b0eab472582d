"""Whatever stands on the command line, the program ends with a code of its table and with words, never a traceback."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from sentinel_core.cli.exits import Exit
from sentinel_core.cli.lazy import LazyGroup
from tests.cli.conftest import Project, Run
from tests.cli.test_help import ALL

LINES = 12
"""A seed; with 30 seeds that is 360 in all."""
LONGEST_S = 20.0
"""Of a line, on a machine that is busy: most take hundredths."""
NOT_RUN = {
    ("demo",): "it takes 20 seconds, and has tests of its own",
    ("serve",): "it does not end; what it is given is as for sync",
}
ENDLESS = {"--follow", "-f", "--every", "--interval"}
ALWAYS = {
    ("sync",): ["--once"],
    ("audit", "ingest"): ["--until-idle"],
}
"""Flags without which a command goes on until it is interrupted."""
COMMANDS = {
    path: command for path, command in ALL.items() if path not in NOT_RUN and not isinstance(command, LazyGroup)
}
WORDS = [
    *("json", "yaml", "name", "xml", "flow", "param-flow", "0", "-1", "9" * 20, "1e999", "NaN", "0x10", "١٢"),
    *("HEAD", "file:///tmp", "file://", "memory://x", "://", "file://[", "git+file:///nope?ref=&path="),
    *("git:", "git:HEAD", "git:-1", "git:--help", "history:", "history:1", "history:²", "live", "-", "--"),
    *("UTC", "now", "yesterday", "2h", "-2h", "last wednesday 12:00", "上周三下午", "2026-02-30", "9999-12-31"),
    *("/nope/x", "/dev/null", "/dev/full", "/", ".", "..", "", " ", "\udc80", "支付", "a\u202eb", "~", "~nobody", "%s"),
    *("{}", "{0}", "sentinel.yaml", "repo", "fifo", "broken.yaml", "binary", "link", "count>3", "\x1b[2J", "🧯" * 50),
    *("x" * 100_000, "a=b", "environment=x", "stores=consul://x", "$(true)", "`true`", "a\nb", "'", '"', "\\", "\x7f"),
    *("etcd://127.0.0.1:{closed}/x", "nacos://127.0.0.1:{closed}/public/G?transport=http", "git+http://127.0.0.1:1/r"),
    *("opensearch://127.0.0.1:{closed}/", "sqlite:///audit.db", "staging", "prod", "pay*", "🧨"),
]


@pytest.fixture(scope="module")
def closed() -> Iterator[int]:
    """A port of this machine at which nobody listens, while the tests run."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def odd(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project among things that are no rules, with contexts, and impatient."""
    folder = project.folder
    with (folder / "sentinel.yaml").open("a", encoding="utf-8") as file:
        file.write("timeout: 300ms\ncontexts: {staging: {environment: staging}, prod: {production: true}}\n")
    (folder / "broken.yaml").write_text("flowRules: [\n", encoding="utf-8")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "link").symlink_to("link")
    os.mkfifo(folder / "fifo")
    ended = threading.Event()
    fed = threading.Thread(target=_feed, args=(folder / "fifo", ended), daemon=True)
    fed.start()
    yield project
    ended.set()
    fed.join(timeout=10)


def _feed(fifo: Path, ended: threading.Event) -> None:
    """Whoever reads the pipe finds that nothing comes."""
    while not ended.is_set():
        with suppress(OSError):  # nobody reads it now
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        time.sleep(0.01)


def a_line(dice: random.Random, path: tuple[str, ...], closed: int) -> list[str]:
    """A command with some of its options; most values are of the kind that is wanted there, and hostile ones among
    them, so that lines come further than to the parser."""
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option)]
    usable = [each for each in options if not ENDLESS.intersection(each.opts) and "--help" not in each.opts]
    line: list[str] = []
    for option in dice.sample(usable, dice.randint(0, min(3, len(usable)))):
        values = [] if option.is_flag else [a_value(dice, option, closed) for _ in range(option.nargs)]
        line += [dice.choice(option.opts), *values]
    for argument in COMMANDS[path].params:
        if isinstance(argument, click.Argument):
            count = argument.nargs if argument.nargs > 0 else dice.randint(0, 2)
            line += [a_value(dice, argument, closed) for _ in range(count)]
    if dice.random() < 0.1:
        line.append(dice.choice(WORDS))
        dice.shuffle(line)
    return [*path, *ALWAYS.get(path, ()), *line]


def a_value(dice: random.Random, parameter: click.Parameter, closed: int) -> str:
    if dice.random() < 0.75:
        if isinstance(parameter.type, click.Choice):
            return str(dice.choice(list(parameter.type.choices)))
        if isinstance(parameter.type, (click.types.IntParamType, click.types.FloatParamType)):
            return dice.choice(("1", "2", "3", "100"))
        if parameter.name in ("plan", "to", "git", "window", "start", "timeout", "before", "event_id"):
            return dice.choice(PLAUSIBLE[str(parameter.name)])
        return dice.choice(RIGHT).replace("{closed}", str(closed))
    return dice.choice(WORDS).replace("{closed}", str(closed))


RIGHT = [
    *(
        "live",
        "git:HEAD",
        "git:HEAD~1",
        "history:1",
        "repo",
        "repo/sentinel-rules.yaml",
        "payment_invoke",
        "2h",
        "prod",
    ),
    *("git:repo?path=sentinel-rules.yaml", "file://{here}/other.yaml", "etcd://127.0.0.1:{closed}/x", "why"),
]
PLAUSIBLE = {
    "plan": ["release.plan"],
    "to": ["1", "2", "prod", "staging", "segments"],
    "git": ["git:repo?path=sentinel-rules.yaml", "git:repo?ref=main&path=sentinel-rules.yaml"],
    "window": ["2h", "yesterday", "now"],
    "start": ["2h", "yesterday", "last monday"],
    "timeout": ["300ms"],
    "before": ["90 days ago", "yesterday"],
    "event_id": ["00000000"],
}


def check(code: int, err: str, line: list[str]) -> None:
    assert code in set(Exit), line
    assert "error: unexpected " not in err, (line, err)
    assert "Traceback" not in err or "--debug" in line, (line, err)


@pytest.mark.parametrize("seed", range(30))
def test_random_lines_end_with_a_known_code_and_no_unexpected_error(
    odd: Project, sentinelctl: Run, closed: int, seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(LINES):
        line = [word.replace("{here}", str(odd.folder)) for word in a_line(dice, dice.choice(list(COMMANDS)), closed)]
        began = time.monotonic()
        ended = sentinelctl(*line)
        assert time.monotonic() - began < LONGEST_S, line
        check(ended.code, ended.err, line)
        assert not {"\x1b", "\u202e"} & set(ended.out + ended.err), line


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_option_of_any_command_takes_a_value_that_breaks_it(
    odd: Project, sentinelctl: Run, closed: int, path: tuple[str, ...]
) -> None:
    """Each option once, with the worst of what its type lets through."""
    dice = random.Random(" ".join(path))
    for option in COMMANDS[path].params:
        if not isinstance(option, click.Option) or ENDLESS.intersection(option.opts) or "--help" in option.opts:
            continue
        values = [] if option.is_flag else [dice.choice(WORDS).replace("{closed}", str(closed))] * option.nargs
        arguments = [dice.choice(("payment_invoke", "prod", "git:HEAD", "1")) for _ in range(dice.randint(0, 2))]
        line = [*path, *ALWAYS.get(path, ()), *arguments, option.opts[0], *values]
        ended = sentinelctl(*line)
        check(ended.code, ended.err, line)


# -- as processes ------------------------------------------------------------------------------------------------------

POOR: dict[str, dict[str, str] | None] = {
    "no environment": {},
    "ascii": {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    "no home": {"TERM": "dumb", "HOME": "/nope", "XDG_CONFIG_HOME": ""},
    "stdin closed": None,
    "audit store down": {"SENTINEL_AUDIT__STORE": "opensearch://127.0.0.1:1/", "SENTINEL_TIMEOUT": "1s"},
    "no such context": {"SENTINEL_CONTEXT": "nope"},
    "odd terminal": {"SENTINEL_PAGER": "'", "PAGER": "/nope", "COLUMNS": "x", "LINES": "-1"},
}
"""What the process is given, and nothing else; None: what this one has, but for stdin."""
PLAIN = (
    "rules show",
    "rules validate sentinel.yaml",
    "rules diff",
    "audit query",
    "doctor",
    "config view",
    "version",
    "--help",
)


@pytest.mark.parametrize("how", POOR)
def test_a_poor_environment_is_survived(odd: Project, how: str) -> None:
    """A real process each, because it is what the process is given that is odd."""
    for line in PLAIN:
        ended = subprocess.run(
            [sys.executable, "-c", "from sentinel_core.cli.main import main; main()", *line.split()],
            env=POOR[how],
            stdin=subprocess.DEVNULL,
            preexec_fn=_without_stdin if POOR[how] is None else None,
            capture_output=True,
            cwd=odd.folder,
            timeout=60,
            check=False,
        )
        check(ended.returncode, ended.stderr.decode(), [line])


def _without_stdin() -> None:
    os.close(0)
