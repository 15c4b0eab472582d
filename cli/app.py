"""What every command shares: the global flags, the output, the settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.output import FORMATS, Output

if TYPE_CHECKING:
    from sentinel_core.settings import Settings
    from sentinel_core.settings_contexts import Chosen

Command = TypeVar("Command", bound=Callable[..., Any])


class App:
    """One run of the program. Flags are set while click parses; output and settings are made at first use."""

    def __init__(self) -> None:
        self.config: Path | None = None
        self.named_context: str | None = None
        self.debug = False
        self.no_color = False
        self.no_input = False
        self.no_pager = False
        self.yes = False
        self.env: str | None = None
        self.output = "table"
        self.json_into: Path | None = None
        self.code_of_errors: int | None = None
        """What every error ends with, for a command whose exit codes are those of another tool."""

    @cached_property
    def out(self) -> Output:
        return Output(form=self.output, json_into=self.json_into, colour=not self.no_color, pager=not self.no_pager)

    @cached_property
    def context(self) -> Chosen:
        """The context in use, by name; whether there is one of that name is found out by `settings`."""
        from sentinel_core.settings_contexts import chosen_context

        return chosen_context(self.config, self.named_context)

    @cached_property
    def settings(self) -> Settings:
        """Raises SettingsError with every problem found."""
        from sentinel_core.settings import load_settings

        return load_settings(self.config, context=self.context.name)

    def in_context(self, name: str) -> App:
        """The same run as the context of that name has it."""
        other = copy(self)
        for made in ("context", "settings"):
            other.__dict__.pop(made, None)
        other.named_context = name
        other.__dict__["out"] = self.out
        return other

    @property
    def environment(self) -> str:
        """`--env`, where a command has it, else the one of the settings."""
        return self.env or self.settings.environment

    def confirm(self, question: str, *, typed: str | None = None) -> bool:
        """A moderate step: y/N on a terminal, yes with `--yes`; otherwise refused, never guessed.

        `typed` makes it a severe one: the answer must be that text.
        """
        if self.yes:
            return True
        reason = "--no-input is set" if self.no_input else "there is no terminal to ask on"
        if self.no_input or not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
            raise UsageProblem(
                f"this writes something and must be confirmed, but {reason}; nothing was changed",
                next_step="add --yes to go on without a question, or --dry-run to see what would happen",
            )
        if self.context.name:
            question = f"[{self.context.name}] {question}"
        if typed is not None:
            return self.out.ask(f"{question} To go on, type {typed}:") == typed
        return self.out.ask(f"{question} [y/N]").lower() in ("y", "yes")


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a stream that was closed before we started
        return False


pass_app = click.make_pass_decorator(App, ensure=True)


def shared_options() -> list[click.Option]:
    """The global flags; they may stand before or after the command's name."""
    return [
        _shared(
            "--config",
            "config",
            type=_FILE,
            metavar="FILE",
            help="Settings file instead of the sentinel.yaml that is found.",
        ),
        _shared(
            "--context",
            "named_context",
            type=WORDS,
            metavar="NAME",
            help="Context to use instead of the chosen one (also: SENTINEL_CONTEXT).",
        ),
        _shared("--debug", "debug", is_flag=True, help="Show tracebacks and what is going on, on stderr."),
        _shared(
            "--no-color", "no_color", is_flag=True, help="No colours, whatever the terminal can do (also: NO_COLOR=1)."
        ),
        _shared("--no-input", "no_input", is_flag=True, help="Never ask: fail where a question would be needed."),
        _shared("--no-pager", "no_pager", is_flag=True, help="Never show long output through a pager."),
        _shared("--yes", "yes", is_flag=True, help="Answer yes to every question, for automation."),
    ]


_FILE = click.Path(path_type=Path)


class Words(click.types.StringParamType):
    """Text that goes into a store or a question: bytes of the command line that are not UTF-8 are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(super().convert(value, param, ctx))
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8", param, ctx)
        return text


WORDS = Words()


def _shared(flag: str, attribute: str, **attributes: Any) -> click.Option:
    return click.Option([flag], expose_value=False, callback=_remember(attribute), **attributes)


def _remember(attribute: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value not in (None, False):  # not given here: what stands elsewhere on the line stays
            setattr(context.ensure_object(App), attribute, value)

    return callback


def env_option(command: Command) -> Command:
    """`--env`: as which environment a folder of rules is read."""
    return click.option(
        "--env",
        type=WORDS,
        metavar="NAME",
        expose_value=False,
        callback=_remember("env"),
        help="Environment whose overlay is laid over a folder (default: the setting).",
    )(command)


def output_options(command: Command) -> Command:
    """`-o` and `--json-into`, the same on every command that lists or shows."""
    return _output_options(command, "-o", "--output")


def output_options_and(*forms: str, by_name: bool = False) -> Callable[[Command], Command]:
    """The same with further forms; `by_name` where `-o` names a file that the command makes."""
    spellings = ("--output",) if by_name else ("-o", "--output")
    return lambda command: _output_options(command, *spellings, forms=forms)


def _output_options(command: Command, *spellings: str, forms: Sequence[str] = ()) -> Command:
    for decorate in (
        click.option(
            "--json-into",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_remember("json_into"),
            help="Write the JSON document to FILE as well.",
        ),
        click.option(
            *spellings,
            type=click.Choice((*FORMATS, *forms)),
            expose_value=False,
            callback=_remember("output"),
            help="Form of the output on stdout (default: table).",
        ),
    ):
        command = decorate(command)
    return command
