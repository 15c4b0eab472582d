"""`sentinelctl rules history`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.moments import local
from sentinel_core.cli.output import View, table
from sentinel_core.cli.rules.options import kind_option, store_option
from sentinel_core.cli.rules.show import masked, revision_json
from sentinel_core.cli.rules.sides import numbered, short_version
from sentinel_core.cli.stores import history_store
from sentinel_core.cli.text import Span, Styled
from sentinel_core.rules import Kind, Revision, RuleRejected, RuleSet, parse_revision

SHORT = 12


@dataclass(frozen=True, slots=True)
class Entry:
    """One revision in a history. `digest` is None where the rules of the revision are not valid."""

    number: int
    revision: Revision
    digest: str | None
    counts: Mapping[Kind, int]
    undone: int | None
    """Number of the revision that this one rolled back, where it is in the history."""

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            **revision_json(self.revision),
            "valid": self.digest is not None,
            "digest": self.digest,
            "rules": dict(self.counts),
            "rollbackOfNumber": self.undone,
        }


@click.command()
@store_option
@kind_option("Whose history, for a store that keeps every kind by itself.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many revisions to show.")
@output_options
@pass_app
def history(app: App, store: str | None, kind: Kind | None, limit: int) -> None:
    """Revisions of a store in which the rules changed, newest first: who, when, why.

    \b
    sentinelctl rules history
    sentinelctl rules history --limit 5 -o json

    Number 1 is the oldest and a number never changes its meaning, so it can be used in `diff history:N` and in
    `rollback --to N`.
    """
    with history_store(app, store, kind) as (source, item):
        revisions = numbered(app, source, item)
        newest = sorted(revisions, reverse=True)[:limit]
        with app.out.waiting("reading the rules of each revision"):
            entries = [entry(number, revisions, item.kinds) for number in newest]
    app.out.show(_view(entries))
    if len(revisions) > len(entries):
        app.out.say(f"{len(entries)} of {len(revisions)} revisions; --limit {len(revisions)} shows all")


def entry(number: int, revisions: Mapping[int, Revision], kinds: Sequence[Kind]) -> Entry:
    """Parses one revision for its digest; an invalid one stays in the history and says so."""
    revision = revisions[number]
    of = revision.provenance.rollback_of
    undone = next((each for each, other in revisions.items() if of and other.version == of), None)
    try:
        sets = parse_revision(revision, kinds)
    except RuleRejected:
        return Entry(number, revision, None, {}, undone)
    counts = {kind: len(ruleset.rules) for kind, ruleset in sets.items()}
    return Entry(number, revision, digest_of(sets), counts, undone)


def digest_of(sets: Mapping[Kind, RuleSet]) -> str:
    """The digest of the kind; of a document with several kinds, SHA-256 over `kind:digest` lines in order of kind."""
    if len(sets) == 1:
        return next(iter(sets.values())).digest
    text = "".join(f"{kind}:{sets[kind].digest}\n" for kind in sorted(sets))
    return hashlib.sha256(text.encode()).hexdigest()


def _view(entries: Sequence[Entry]) -> View:
    items = [each.to_json() for each in entries]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        headers = ["N", "WHEN", "WHO", "VERSION", "DIGEST", "WHY"] + (
            ["CHANNEL", "RULES", "ROLLBACK OF"] if wide else []
        )
        yield from table(headers, [_row(each, wide=wide) for each in entries])

    return View(
        document={"revisions": items}, items=items, names=[each.revision.version for each in entries], lines=lines
    )


def _row(each: Entry, *, wide: bool) -> list[Span]:
    provenance = masked(each.revision.provenance)
    when = provenance.published_at or provenance.committed_at
    row: list[Span] = [
        str(each.number),
        local(when) if when else "–",
        provenance.author or provenance.published_by or "unknown",
        short_version(each.revision),
        each.digest[:SHORT] if each.digest else Styled("invalid", "red"),
        why(each),
    ]
    if wide:
        counts = " ".join(f"{kind}:{count}" for kind, count in each.counts.items())
        row += [provenance.channel, counts or "–", (provenance.rollback_of or "–")[:SHORT]]
    return row


def why(each: Entry) -> str:
    """The reason, else the first line of the message; of a rollback first that it is one, and of what."""
    provenance = masked(each.revision.provenance)
    reason = provenance.reason or (provenance.message or "").partition("\n")[0]
    if provenance.rollback_of is None:
        return reason or "–"
    short = provenance.rollback_of[:SHORT]
    undone = f"rollback of {each.undone} ({short})" if each.undone else f"rollback of {short}"
    return f"{undone}: {reason.removeprefix('rollback ')}" if reason else undone
