"""Options that several commands of the group share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sentinel_core.cli.app import WORDS
from sentinel_core.rules import KINDS

Command = TypeVar("Command", bound=Callable[..., Any])


def kind_option(text: str) -> Callable[[Command], Command]:
    """`--kind`, spelled with `_` or `-`."""
    return click.option("--kind", type=_Kind(), help=text)


def store_option(command: Command) -> Command:
    """`--store`: the one that is meant, where the settings name several."""
    return click.option("--store", metavar="URI", help="Store to use (default: the only one of the settings).")(command)


def past_store_option(command: Command) -> Command:
    """`--store`: whose past is meant."""
    return click.option("--store", metavar="URI", help="Store to use (default: the first one that has a history).")(
        command
    )


def lock_option(command: Command) -> Command:
    """`--lock`: the lock of a person under which a command writes."""
    return click.option(
        "--lock", "under", type=WORDS, metavar="ID", help="Write under this lock, held with sentinelctl lock hold."
    )(command)


class _Kind(click.Choice[str]):
    def __init__(self) -> None:
        super().__init__(KINDS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(str(value).replace("-", "_"), param, ctx)
