"""`sentinelctl rules history`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.moments import local
from sentinel_core.cli.output import View, table
from sentinel_core.cli.rules.diff import Difference, change_lines, compare
from sentinel_core.cli.rules.options import kind_option, past_store_option
from sentinel_core.cli.rules.past import Line, Past, event_sources, past
from sentinel_core.cli.rules.show import masked, revision_json
from sentinel_core.cli.rules.sides import short_version
from sentinel_core.cli.stores import history_items, the_item
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.datasources.contract import Item, Readable
from sentinel_core.rules import Kind, Revision, RuleRejected, RuleSet, parse_revision

if TYPE_CHECKING:
    from sentinel_core.audit.query.told import Ran
    from sentinel_core.audit.standing import Standing
    from sentinel_core.audit.store.contract import AuditStore

SHORT = 12
_FROM = {"store": "store", "audit": "audit store", "both": "both"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One revision in a history."""

    number: int
    kinds: tuple[Kind, ...]
    """Of its item."""
    revision: Revision
    line: Line
    sets: Mapping[Kind, RuleSet] | None
    """None where the rules are not valid, or cannot be put together any more."""
    digest: str | None
    """None where the rules are not valid."""
    undone: int | None
    """Number of the revision that this one rolled back, where it is in the history."""
    ran: Ran | None
    """None where nobody can tell, as of a time of which events were purged."""
    difference: Difference | None
    """To the revision before, where that was asked for and both are known."""

    def to_json(self) -> dict[str, Any]:
        changes = self.difference and [change for each in self.difference.changes.values() for change in each]
        patch = {} if changes is None else {"changes": changes}
        return {
            "number": self.number,
            "kinds": list(self.kinds),
            **revision_json(self.revision),
            "valid": self.digest is not None,
            "digest": self.digest,
            "rules": {kind: len(found.rules) for kind, found in (self.sets or {}).items()},
            "rollbackOfNumber": self.undone,
            "from": self.line.origin,
            "toldAt": self.line.seen and self.line.seen.isoformat(),
            "ran": self.ran
            and {
                "instances": list(self.ran.instances),
                "first": self.ran.first and self.ran.first.isoformat(),
                "last": self.ran.last and self.ran.last.isoformat(),
                "rejected": list(self.ran.rejected),
                "rejectedAt": self.ran.rejected_at and self.ran.rejected_at.isoformat(),
            },
            **patch,
        }


@click.command()
@past_store_option
@kind_option("Whose history, for a store that keeps every kind by itself.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many revisions to show.")
@click.option("--before", type=click.IntRange(2), metavar="N", help="Go on with those that are older than number N.")
@click.option("-p", "--patch", is_flag=True, help="Show what each changed, field by field.")
@output_options
@pass_app
def history(app: App, store: str | None, kind: Kind | None, limit: int, before: int | None, patch: bool) -> None:
    """Revisions of a store in which the rules changed, newest first: who, when, why, and who ran them.

    \b
    sentinelctl rules history
    sentinelctl rules history --limit 5 -o json

    Number 1 is the oldest and a number never changes its meaning, so it can be used in `diff history:N` and in
    `rollback --to N`. What the store remembers is joined with what the audit store was told: revisions that the store
    has forgotten are still here.

    Of a store that keeps every kind by itself, all kinds are shown together: what one publish wrote has its PLAN, by
    which rollback --plan undoes it at once.
    """
    with history_items(app, store, kind) as (source, items):
        if before is not None:
            the_item(source, items)  # numbers are those of one item
        pages = [
            _page(app, source, item, limit, before, patch=patch)
            for item in items
            if len(items) == 1 or isinstance(source.read(item), Revision)
        ]
    found = [each for page in pages for each in page.entries]
    if len(pages) > 1:
        found.sort(key=_moment, reverse=True)
    entries = found[:limit]
    app.out.show(_view(entries, patch=patch, several=len(items) > 1))
    _say_what_is_left(app, pages, entries)
    for page in pages:
        if page.stands is not None and not page.stands.is_sound:
            from sentinel_core.cli.audit.stands import say_tampered

            say_tampered(app, page.stands)
            raise click.exceptions.Exit(Exit.ERROR)


@dataclass(frozen=True, slots=True)
class _Page:
    """Of the history of one item."""

    revisions: Past
    entries: Sequence[Entry]
    left: int
    """Older revisions that are not on it."""
    stands: Standing | None


def _page(app: App, source: Readable, item: Item, limit: int, before: int | None, *, patch: bool) -> _Page:
    revisions = past(app, source, item, may_begin=True)
    numbers = [number for number in sorted(revisions, reverse=True) if before is None or number < before]
    with app.out.waiting("reading the rules of each revision"):
        entries = list(_entries(revisions, item, numbers[:limit], patch=patch))
        return _Page(revisions, entries, len(numbers) - len(entries), revisions.stands(numbers[:limit]))


def _say_what_is_left(app: App, pages: Sequence[_Page], shown: Sequence[Entry]) -> None:
    for missing in dict.fromkeys(page.revisions.missing for page in pages if page.revisions.missing is not None):
        app.out.say(f"note: only what the store itself remembers; the audit store cannot be asked: {missing}")
    for page in pages:
        gone = [each.number for each in page.entries if each.line.origin == "audit" and each in shown]
        if gone:
            span = f"{gone[-1]} to {gone[0]}" if len(gone) > 1 else f"{gone[0]}"
            of = f" of {', '.join(page.entries[0].kinds)}" if len(pages) > 1 else ""
            app.out.say(
                f"{plural(len(gone), 'revision')}{of} ({span}) from the audit store: the store has them no more"
            )
    known = sum(len(page.revisions) for page in pages)
    if sum(len(page.entries) + page.left for page in pages) > len(shown):
        older = "--kind those of one kind" if len(pages) > 1 else f"--before {shown[-1].number} shows older ones"
        app.out.say(f"{len(shown)} of {known} revisions; {older}, --limit {known} shows all")


def _entries(revisions: Past, item: Item, numbers: Sequence[int], *, patch: bool) -> Iterator[Entry]:
    from sentinel_core.audit.query.told import Ran, ran

    versions = {number: _versions(revisions.lines[number]) for number in numbers}
    asked = [version for each in versions.values() for version in each]
    who = ran(revisions.audit, item.source, event_sources(item), asked) if revisions.audit else {}
    purged = _purged_before(revisions.audit) if revisions.audit else None
    for number in numbers:
        when = revisions.lines[number].when
        may_be_gone = purged is not None and (when is None or when < purged)
        nobody = Ran() if revisions.audit and not may_be_gone else None
        runs = next((who[version] for version in versions[number] if version in who), nobody)
        yield entry(number, revisions, item.kinds, runs, patch=patch)


def _purged_before(audit: AuditStore) -> datetime | None:
    """Events of before this time may have left the store."""
    from sentinel_core.audit.retention.past import past_of

    record = past_of(audit, (), None).record
    return record.before if record else None


def _versions(line: Line) -> list[str]:
    """As the store names it, and as events do."""
    return list(dict.fromkeys([line.revision.version, *([line.told.version] if line.told else [])]))


def entry(number: int, revisions: Past, kinds: Sequence[Kind], runs: Ran | None, *, patch: bool) -> Entry:
    """Parses one revision for its digest; an invalid one stays in the history and says so."""
    line = revisions.lines[number]
    of = line.revision.provenance.rollback_of
    undone = revisions.number_of(of) if of else None
    revision, sets = _read(revisions, number, kinds)
    digest = digest_of({kind: found.digest for kind, found in sets.items()}) if sets else None
    if sets is None and line.origin == "audit":
        digest = digest_of({kind: head.new_digest or "" for kind, head in line.state.items()})
    difference = _difference(revisions, number, kinds, sets) if patch and sets is not None else None
    return Entry(number, tuple(kinds), revision, line, sets, digest, undone, runs, difference)


def _read(revisions: Past, number: int, kinds: Sequence[Kind]) -> tuple[Revision, Mapping[Kind, RuleSet] | None]:
    try:
        revision = revisions[number]
    except CommandError:  # hidden fields: the line is shown, and whoever wants the rules is told why
        return revisions.lines[number].revision, None
    try:
        return revision, parse_revision(revision, kinds)
    except RuleRejected:
        return revision, None


def _difference(revisions: Past, number: int, kinds: Sequence[Kind], sets: Mapping[Kind, RuleSet]) -> Difference:
    """To the newest valid revision before; to nothing, for the oldest that is known."""
    older = next((found for each in range(number - 1, 0, -1) if (found := _read(revisions, each, kinds)[1])), {})
    empty = {kind: RuleSet.empty(kind) for kind in sets.keys() | older}
    return compare({**empty, **older}, {**empty, **sets})


def digest_of(digests: Mapping[Kind, str]) -> str:
    """The digest of the kind; of a document with several kinds, SHA-256 over `kind:digest` lines in order of kind."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    text = "".join(f"{kind}:{digests[kind]}\n" for kind in sorted(digests))
    return hashlib.sha256(text.encode()).hexdigest()


def _view(entries: Sequence[Entry], *, patch: bool, several: bool) -> View:
    items = [each.to_json() for each in entries]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        if patch:
            for each in entries:
                yield from _block(each, several=several)
            return
        gone = any(each.line.origin == "audit" for each in entries)
        headers = ["N", *(["KIND", "PLAN"] if several else []), "WHEN", "WHO", "VERSION", "DIGEST", "RAN"]
        headers += [*(["FROM"] if gone or wide else []), "WHY"]
        headers += ["CHANNEL", "RULES", "ROLLBACK OF", *([] if several else ["PLAN"]), "INSTANCES"] if wide else []
        rows = [_row(each, several=several, gone=gone or wide, wide=wide) for each in entries]
        yield from table(headers, rows)

    return View(
        document={"revisions": items}, items=items, names=[each.revision.version for each in entries], lines=lines
    )


def _row(each: Entry, *, several: bool, gone: bool, wide: bool) -> list[Span]:
    provenance = masked(each.revision.provenance)
    row: list[Span] = [
        str(each.number),
        *([", ".join(each.kinds), provenance.plan_id or "–"] if several else []),
        _when(each),
        _who(each),
        short_version(each.revision),
        each.digest[:SHORT] if each.digest else Styled("invalid", "red"),
        _ran(each.ran),
        *([_FROM[each.line.origin]] if gone else []),
        why(each),
    ]
    if wide:
        counts = " ".join(f"{kind}:{len(found.rules)}" for kind, found in (each.sets or {}).items())
        row += [provenance.channel, counts or "–", (provenance.rollback_of or "–")[:SHORT]]
        row += [] if several else [provenance.plan_id or "–"]
        row.append(", ".join(each.ran.instances) if each.ran and each.ran.instances else "–")
    return row


def _moment(each: Entry) -> datetime:
    return each.line.when or datetime.min.replace(tzinfo=UTC)


def _when(each: Entry) -> str:
    return local(when) if (when := each.line.when) else "–"


def _who(each: Entry) -> str:
    provenance = masked(each.revision.provenance)
    return provenance.author or provenance.published_by or "unknown"


def _ran(ran: Ran | None) -> Span:
    """`20`, `19, 1 refused it`."""
    if ran is None:
        return "–"
    if ran.rejected:
        return Styled(f"{len(ran.instances)}, {len(ran.rejected)} refused it", "red")
    return str(len(ran.instances))


def _block(each: Entry, *, several: bool) -> Iterator[Sequence[Span]]:
    """As `git log -p` has it."""
    of = f" of {', '.join(each.kinds)}" if several else ""
    yield (Styled(f"revision {each.number}{of} ({each.revision.version})", "yellow"),)
    provenance = masked(each.revision.provenance)
    facts = {
        "Who": f"{_who(each)} ({provenance.channel})",
        "When": _when(each),
        "Why": why(each),
        "Plan": provenance.plan_id,
        "Digest": each.digest or "the rules are not valid",
        "Ran": _activity(each.ran),
        "Refused": _refusal(each.ran),
        "From": _FROM[each.line.origin],
    }
    for name, fact in facts.items():
        if fact:
            yield (Styled(f"{name + ':':9}", "dim"), fact)
    yield ("",)
    if each.difference is None:
        yield (Styled("  (its rules are not valid, or hidden: no comparison)", "dim"),)
    else:
        told = {kind: changes for kind, changes in each.difference.changes.items() if changes}
        if told:
            yield from change_lines(Difference(told, (), ()))
        else:
            yield (Styled("  (no rule changed)", "dim"),)
    yield ("",)


def _activity(ran: Ran | None) -> str | None:
    if ran is None or ran.first is None or ran.last is None:
        return None
    return f"{plural(len(ran.instances), 'instance')}, first {local(ran.first)}, last {local(ran.last)}"


def _refusal(ran: Ran | None) -> str | None:
    if ran is None or not ran.rejected:
        return None
    return ", ".join(ran.rejected) + (f", first {local(ran.rejected_at)}" if ran.rejected_at else "")


def why(each: Entry) -> str:
    """The reason, else the first line of the message; of a rollback first that it is one, and of what."""
    provenance = masked(each.revision.provenance)
    reason = provenance.reason or (provenance.message or "").partition("\n")[0]
    if provenance.rollback_of is None:
        return reason or "–"
    short = provenance.rollback_of[:SHORT]
    undone = f"rollback of {each.undone} ({short})" if each.undone else f"rollback of {short}"
    return f"{undone}: {reason.removeprefix('rollback ')}" if reason else undone
