"""`sentinelctl audit checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sentinel_core.audit.checkpoints import append, signed
from sentinel_core.audit.signing import SigningKey
from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.audit.common import opened_chain
from sentinel_core.cli.exits import BadSettings
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural


@click.command()
@output_options
@pass_app
def checkpoint(app: App) -> None:
    """Sign how far the chain of each source has come, and append it to the file of audit.checkpoints.

    By it `audit verify` can tell that events were taken from the end, or that a chain was made anew. Run it by a timer,
    and keep the file and the key where nobody who writes the store can write.
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
    with opened_chain(app) as store:
        made = signed(store.heads(), key, utc_now())
    append(Path(settings.checkpoints), made)
    app.out.show(_view(made))
    app.out.say(f"{plural(len(made), 'checkpoint')} signed with key {key.public.id}, in {settings.checkpoints}.")


def _view(made: Sequence[dict[str, Any]]) -> View:
    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if made:
            yield from table(
                ["SOURCE", "NUMBER", "HASH"],
                [[each["source"], str(each["number"]), each["hash"][:12]] for each in made],
            )

    return View(document={"checkpoints": made}, items=made, names=[each["source"] for each in made], lines=lines)
