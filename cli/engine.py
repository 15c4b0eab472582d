"""`sentinelctl engine`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from sentinel_core.cli.app import App, output_options, pass_app, shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span
from sentinel_core.engine import Engine

COMMANDS = {"slots": Lazy("sentinel_core.cli.engine:slots", "The slot chain, in the order in which rules are asked.")}
engine = LazyGroup(
    "engine",
    help="""Look into the engine.

    \b
    sentinelctl engine slots
    """,
    lazy=COMMANDS,
    shared=shared_options,
)


@click.command()
@output_options
@pass_app
def slots(app: App) -> None:
    """The slot chain, in the order in which rules are asked.

    \b
    sentinelctl engine slots

    The first slot that refuses a call ends it; own slots of the entry-point group `sentinel.slots` are included.
    """
    names = Engine().slots()
    items = [{"order": order, "slot": name} for order, name in enumerate(names, start=1)]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield from table(["ORDER", "SLOT"], [[str(item["order"]), str(item["slot"])] for item in items])

    app.out.show(View(document={"slots": items}, items=items, names=names, lines=lines))
