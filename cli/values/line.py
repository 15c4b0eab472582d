"""The line that is being written, as far as it is understood, and how its values are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from sentinel_core.cli.app import App
from sentinel_core.cli.shells import item

Items = Iterable[CompletionItem[str]]


@dataclass(frozen=True, slots=True)
class Line:
    """What a shell asks about: the run with its context and environment, what is given, and how the value begins."""

    app: App
    given: Mapping[str, Any]
    """By the name of the parameter."""
    incomplete: str

    @property
    def kind(self) -> str | None:
        """`--kind`."""
        return self.given.get("kind") or None

    @property
    def store(self) -> str | None:
        """`--store`."""
        return self.given.get("store") or None

    def stores(self) -> tuple[str, ...]:
        """URIs of those that the command would use: the one that is named, else the side that is one, else those of the
        context that is written to, else those of the settings."""
        named = [self.store, *(self.given.get(name) for name in ("to", "side", "old", "new", "what"))]
        uris = tuple(each for each in named if isinstance(each, str) and "://" in each)
        if uris:
            return uris
        to = self.given.get("to")
        return (self.app.in_context(to) if isinstance(to, str) else self.app).settings.stores


Values = Callable[[Line], Items]
"""The values of a parameter, in the order in which they are shown. May raise: what was found before counts."""


def line_of(context: click.Context, incomplete: str) -> Line:
    """Click reads no argument where the last option has no value yet; they are put in their places here."""
    given = dict(context.params)
    left = list(context.args)
    for each in context.command.params:
        if isinstance(each, click.Argument) and left and not given.get(str(each.name)):
            many = each.nargs == -1
            given[str(each.name)] = tuple(left) if many else left[0]
            del left[: len(left) if many else 1]
    return Line(context.ensure_object(App), given, incomplete)


def behind(prefix: str, items: Items) -> Items:
    """The same values with something in front of each."""
    return (item(f"{prefix}{each.value}", each.help or "") for each in items)


def said(who: str | None, when: datetime | None, why: str | None) -> str:
    """`chen, 3 h ago: raise it`, of what is known."""
    from sentinel_core.cli.moments import age, utc_now

    ago = f"{age((utc_now() - when).total_seconds())} ago" if when else ""
    name = (who or "").partition(" <")[0]
    return ": ".join(filter(None, (", ".join(filter(None, (name, ago))), (why or "").strip().partition("\n")[0])))
