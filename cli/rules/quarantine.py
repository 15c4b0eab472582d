"""`sentinelctl rules quarantine` and `sentinelctl rules release`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.output import View, table
from sentinel_core.cli.rules.options import kind_option, store_option
from sentinel_core.cli.stores import opened, store_uris
from sentinel_core.cli.text import Span
from sentinel_core.masking import mask_text
from sentinel_core.publishing import quarantine as notes
from sentinel_core.publishing.quarantine import Quarantined, Released
from sentinel_core.rules import KINDS, Kind

_SHORTEST = 8


@click.command()
@store_option
@kind_option("Of this kind only.")
@output_options
@pass_app
def quarantine(app: App, store: str | None, kind: Kind | None) -> None:
    """Rules that were rolled back: publishing refuses them until they are released by name.

    \b
    sentinelctl rules quarantine
    sentinelctl rules quarantine -o wide       also those that were released, by whom and why
    """
    found: list[Quarantined] = []
    released: list[Released] = []
    with opened(app, store or store_uris(app)[0]) as source:
        kinds = (kind,) if kind else KINDS
        for item in source.items(kinds):
            note = notes.noted(source, item)
            found += [each for each in note.held if each.kind in kinds]
            released += [each for each in note.released if each.rules.kind in kinds]
    app.out.show(_view(found, released))
    if not found:
        app.out.say("Nothing is under quarantine.")


@click.command()
@click.argument("digest", metavar="DIGEST", type=WORDS)
@click.option("--reason", type=WORDS, required=True, metavar="TEXT", help="Why they may come back.")
@click.option("--dry-run", is_flag=True, help="Show what would be released and write nothing.")
@store_option
@kind_option("Of this kind only.")
@output_options
@pass_app
def release(app: App, digest: str, reason: str, dry_run: bool, store: str | None, kind: Kind | None) -> None:
    """Let rules under quarantine be published again.

    \b
    sentinelctl rules release 854140fd13b1 --reason "the cause is mended"

    DIGEST is what quarantine shows, or the first eight characters of it or more.
    """
    if not reason.strip():
        raise UsageProblem("the reason is blank", next_step='write --reason "why"')
    if len(digest) < _SHORTEST:
        raise UsageProblem(f"{digest!r} is too short to name rules", next_step="sentinelctl rules quarantine")
    with opened(app, store or store_uris(app)[0]) as source:
        kinds = (kind,) if kind else KINDS
        items = source.items(kinds)  # of a store that holds documents, the one item with every kind
        held = [
            each
            for item in items
            for each in notes.quarantined(source, item)
            if each.digest.startswith(digest) and each.kind in kinds
        ]
        if not held:
            raise UsageProblem(
                f"nothing under quarantine{f' of {kind}' if kind else ''} begins with {digest}",
                next_step="sentinelctl rules quarantine    (lists them)",
            )
        if dry_run:
            app.out.show(_view(held))
            app.out.say("Dry run: nothing was written. The same without --dry-run does it.")
            return
        if not app.confirm(f"Let {', '.join(f'{each.kind} {each.digest[:12]}' for each in held)} come back?"):
            raise UsageProblem("not confirmed; nothing was changed", next_step="run it again, or add --yes")
        released = [
            each
            for item in items
            for each in notes.release(source, item, digest, mask_text(reason), by=actor(), at=utc_now(), kinds=kinds)
        ]
    app.out.show(_view(released))
    app.out.say(f"Released: {len(released)}.")


def _view(found: Sequence[Quarantined], released: Sequence[Released] = ()) -> View:
    rows = [(each.kind, each.digest[:12], local(each.since), each.by or "–", each.reason or "–") for each in found]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if rows:
            yield from table(("KIND", "DIGEST", "SINCE", "BY", "REASON"), rows)
        for each in released if wide else ():
            rules = f"{each.rules.kind} {each.rules.digest[:12]}"
            yield (f"released {local(each.at)}: {rules}, by {each.by or '–'}: {each.reason}",)

    items = [each.to_json() for each in found]
    document = {"quarantined": items, "released": [each.to_json() for each in released]}
    return View(document=document, items=items, names=[each.digest for each in found], lines=lines)
