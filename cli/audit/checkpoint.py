"""`sentinelctl audit checkpoint`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sentinel_core.audit.checkpointer import Checkpointer
from sentinel_core.audit.signing import SigningKey
from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.audit.common import opened_chain
from sentinel_core.cli.durations import seconds
from sentinel_core.cli.exits import BadSettings, Exit, UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural


@click.command()
@click.option(
    "--every", callback=seconds, metavar="TIME", help="Go on, and so often sign the chains that have moved, e.g. 1h."
)
@output_options
@pass_app
def checkpoint(app: App, every: float | None) -> None:
    """Sign how far the chain of each source has come, and append it to the file of audit.checkpoints.

    \b
    sentinelctl audit checkpoint
    sentinelctl audit checkpoint --every 10m

    By it `audit verify` can tell that events were taken from the end, or that a chain was made anew. Run it by a timer
    or with --every, and keep the file and the key where nobody who writes the store can write.
    """
    settings = app.settings.audit
    if settings.signing_key is None or settings.checkpoints is None:
        missing = "audit.signingKey" if settings.signing_key is None else "audit.checkpoints"
        raise BadSettings(
            f"{missing} is not set, so nothing can be signed",
            next_step="openssl genpkey -algorithm ed25519 -out audit.key, then set audit.signingKeyFile: audit.key and "
            "audit.checkpoints: <file>",
        )
    key = SigningKey.from_pem(settings.signing_key)

    def tell(made: Sequence[dict[str, Any]]) -> None:
        app.out.show(_view(made))
        app.out.say(f"{plural(len(made), 'checkpoint')} signed with key {key.public.id}, in {settings.checkpoints}.")
        app.out.flush()

    with opened_chain(app) as store:
        line = Checkpointer(store, key, Path(settings.checkpoints), utc_now)
        if every is None:
            tell(line.make())
        else:
            _go_on(app, line, every, tell)


def _go_on(app: App, line: Checkpointer, every: float, tell: Callable[[Sequence[dict[str, Any]]], object]) -> None:
    if app.output in {"json", "yaml"} or app.json_into is not None:
        raise UsageProblem(
            "with --every there is no end, and so no whole document", next_step="use -o ndjson, or leave --every out"
        )
    stop = threading.Event()
    ended: list[int] = []

    def end(number: int, _: object) -> None:
        ended.append(number)
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        line.run(stop, every, tell)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in ended:
        raise click.exceptions.Exit(Exit.INTERRUPTED)


def _view(made: Sequence[dict[str, Any]]) -> View:
    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if made:
            yield from table(
                ["SOURCE", "NUMBER", "HASH"],
                [[each["source"], str(each["number"]), each["hash"][:12]] for each in made],
            )

    return View(document={"checkpoints": made}, items=made, names=[each["source"] for each in made], lines=lines)
