"""Help and docs that cannot drift from the commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sentinel_core.cli.lazy import LazyGroup
from sentinel_core.cli.main import PROGRAM, cli
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def commands(group: LazyGroup = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, groups included."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, LazyGroup):
                yield from commands(command, (*path, name))


ALL = dict(commands())
IDS = [" ".join(path) for path in ALL]


@pytest.mark.parametrize(("path", "command"), ALL.items(), ids=IDS)
def test_every_command_and_every_option_has_help(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    assert command.help.strip().splitlines()[0].endswith((".", "?"))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{' '.join(path)} {parameter.opts[0]}"
            assert parameter.help.endswith((".", "?", ")"))


@pytest.mark.parametrize(
    "path", [path for path, command in ALL.items() if not isinstance(command, LazyGroup)], ids=" ".join
)
def test_every_command_takes_the_global_flags_and_prints_its_help(path: tuple[str, ...], sentinelctl: Run) -> None:
    ended = sentinelctl(*path, "--help")
    assert ended.code == 0
    for flag in ("--config", "--debug", "--no-color", "--no-input", "--yes"):
        assert flag in ended.out


def test_the_table_of_a_group_says_what_the_command_says() -> None:
    for group in [cli, *(command for command in ALL.values() if isinstance(command, LazyGroup))]:
        for name, lazy in group.lazy.items():
            assert lazy.short_help.endswith("."), name


def named_in_docs() -> list[tuple[str, str]]:
    """Every `sentinelctl a b` in the README and the docs, with the file it stands in."""
    texts = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
    return [
        (path.name, found[1])
        for path in texts
        for found in re.finditer(rf"{PROGRAM}((?: [a-z][a-z-]*)+)", path.read_text(encoding="utf-8"))
    ]


def test_every_command_that_the_docs_name_exists() -> None:
    for file, words in named_in_docs():
        group: click.Command = cli
        for word in words.split():
            if not isinstance(group, LazyGroup):
                break
            assert word in group.lazy, f"{file}: {PROGRAM}{words}"
            with click.Context(group) as context:
                group = group.get_command(context, word) or group


def test_help_imports_no_command() -> None:
    """`sentinelctl --help` must answer at once: of the command line only the frame is loaded."""
    script = (
        "import sys, sentinel_core.cli.main as main\n"
        "main.run(['--help'])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('sentinel_core.cli.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("sentinel_core.cli.") for name in done.stderr.split()}
    assert loaded == {"app", "encode", "exits", "lazy", "main", "output", "text"}


def test_version_tells_what_it_runs_on(sentinelctl: Run) -> None:
    ended = sentinelctl("version", "-o", "yaml")
    assert re.search(r"^version: '?\d+\.\d+\.\d+", ended.out, re.MULTILINE)
    assert re.search(r"^engine: (pure|compiled)$", ended.out, re.MULTILINE)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(sentinelctl: Run, shell: str) -> None:
    ended = sentinelctl("completion", shell)
    assert ended.code == 0
    assert "_SENTINELCTL_COMPLETE" in ended.out


def test_completion_completes_commands(process: Run) -> None:
    ended = process(
        script="export COMP_WORDS='sentinelctl rules va' COMP_CWORD=2 _SENTINELCTL_COMPLETE=bash_complete; $SENTINELCTL"
    )
    assert ended.out == "plain,validate\n"


@pytest.mark.parametrize("place", ["before", "after", "between"])
def test_global_flags_may_stand_anywhere(here: Path, sentinelctl: Run, place: str) -> None:
    flag = ["--config", "other.yaml"]
    line = {"before": [*flag, "rules", "diff"], "after": ["rules", "diff", *flag], "between": ["rules", *flag, "diff"]}
    ended = sentinelctl(*line[place])
    assert ended.code == 78
    assert "other.yaml: cannot be read" in ended.err
