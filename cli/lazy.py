"""Command groups whose commands are imported when they are run, so that `--help` answers at once."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

COMPLETING = "_SENTINELCTL_COMPLETE"
"""Set where a shell asks how a line may go on."""
Shared = Callable[[], Sequence[click.Option]]


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command stands, and its line in the help of its group."""

    target: str
    """`module:attribute`."""
    short_help: str


class LazyGroup(click.Group):
    """A group over a table of `Lazy`; `shared` options are added to every command of the tree as it is loaded."""

    def __init__(self, name: str, *, help: str, lazy: Mapping[str, Lazy], shared: Shared) -> None:  # noqa: A002 -- click's word
        super().__init__(name, help=inspect.cleandoc(help), params=list(shared()))
        self.lazy = lazy
        self._shared = shared

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """A value of an option may be asked for before any command is named."""
        if COMPLETING in os.environ:
            _complete_values(self)
        return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        if cmd_name in self.lazy and cmd_name not in self.commands:
            self.commands[cmd_name] = self._load(self.lazy[cmd_name])
        command = self.commands.get(cmd_name)
        if command is not None and COMPLETING in os.environ:
            _complete_values(command)
        return command

    def _load(self, lazy: Lazy) -> click.Command:
        module, _, attribute = lazy.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        known = {spelling for parameter in command.params for spelling in parameter.opts}
        command.params += [option for option in self._shared() if not known.intersection(option.opts)]
        if not isinstance(command, LazyGroup):
            # click asks the command itself, and takes another way to write its help by a class of its own alone.
            command.format_help = partial(_write_page, command, self.everywhere)  # type: ignore[method-assign]
        return command

    @property
    def everywhere(self) -> list[str]:
        """The options that every command has."""
        return [spelling for option in self._shared() for spelling in option.opts]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As every command writes it."""
        _write_page(self, self.everywhere, ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown command names the nearest known one."""
        name = args[0]
        if not name.startswith("-") and name not in self.lazy:
            raise click.UsageError(f"There is no command '{name}'.{self._near(name)}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def _near(self, name: str) -> str:
        import difflib

        near = difflib.get_close_matches(name, list(self.lazy), n=1)
        return f" Did you mean '{near[0]}'?" if near else f" Known: {', '.join(self.lazy)}."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        """From the table alone: nothing is imported to write a help page."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self.lazy.items()])


def _write_page(
    command: click.Command, everywhere: Iterable[str], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    from sentinel_core.cli.pages import write_page

    write_page(command, everywhere, ctx, formatter)


def _complete_values(command: click.Command) -> None:
    """Gives each parameter the values of this machine."""
    from sentinel_core.cli import values

    for parameter in command.params:
        found = values.of(command, parameter)
        if found is not None:
            parameter.shell_complete = partial(values.answer, found)  # type: ignore[method-assign]  # click takes them in constructors alone
