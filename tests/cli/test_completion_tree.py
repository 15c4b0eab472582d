"""Whatever takes a free text on the command line is completed, or it is said here why nobody could know it."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from sentinel_core.cli.lazy import LazyGroup
from sentinel_core.cli.main import cli
from sentinel_core.cli.values import _VALUES, of
from tests.cli.test_help import commands

UNKNOWN = {
    "--reason": "words of somebody",
    "import --branch": "a new name",
    "sync --branch": "a new name",
    "serve --branch": "a new name",
    "query --after": "a token that the page before printed",
    "hash value": "a value that events hide",
}
"""By the option, or by the command and one of its parameters, as `cli/values` has them."""


def parameters() -> Iterator[tuple[click.Command, click.Parameter]]:
    yield from ((cli, each) for each in cli.params)
    for _, command in commands():
        yield from ((command, each) for each in command.params)


def spelled(command: click.Command, parameter: click.Parameter) -> set[str]:
    name = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.name)
    return {f"{command.name} {name}", *([name] if name.startswith("--") else [])}


def takes_text(parameter: click.Parameter) -> bool:
    """Choices and paths are completed by click, numbers by nobody."""
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return False
    return isinstance(parameter.type, click.types.StringParamType)


FREE = [(command, each) for command, each in parameters() if takes_text(each)]
IDS = [f"{command.name} {(each.opts or [each.name])[0]}" for command, each in FREE]


@pytest.mark.parametrize(("command", "parameter"), FREE, ids=IDS)
def test_a_free_text_is_completed_or_nobody_can_know_it(command: click.Command, parameter: click.Parameter) -> None:
    known = of(command, parameter) is not None
    assert known != bool(spelled(command, parameter) & UNKNOWN.keys()), "one of the two, and not both"


def test_numbers_that_name_something_are_completed() -> None:
    named = [each for command, each in parameters() if isinstance(each.type, click.IntRange) and of(command, each)]
    assert sorted(each.opts[0] for each in named) == ["--before", "--to"]


@pytest.mark.parametrize("key", [*_VALUES, *UNKNOWN])
def test_what_is_completed_is_there(key: str) -> None:
    assert any(key in spelled(command, each) for command, each in parameters())


def test_groups_complete_their_commands() -> None:
    for group in [cli, *(command for _, command in commands() if isinstance(command, LazyGroup))]:
        with click.Context(group) as context:
            assert [each.value for each in group.shell_complete(context, "")] == list(group.lazy)
