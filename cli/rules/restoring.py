"""Bringing back an older revision of one item: what that would change, and the write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.rules.diff import Difference, change_lines, compare, summary
from sentinel_core.cli.rules.past import Past
from sentinel_core.cli.rules.sides import short_version, title_of
from sentinel_core.cli.stores import history_command
from sentinel_core.datasources.contract import Absent, DatasourceError, Item, Readable, Reading, Writable, Written
from sentinel_core.publishing.quarantine import Quarantined, add, quarantined, take_back
from sentinel_core.publishing.running import newest_valid
from sentinel_core.publishing.standing import sets_of
from sentinel_core.rules import (
    Kind,
    Provenance,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    clear_kinds,
    parse_revision,
)


@dataclass(frozen=True, slots=True)
class Step:
    """What a rollback would do to an item: from what stands to the revision whose rules come back."""

    item: Item
    number: int
    """Of the revision that it would make."""
    standing: Reading
    """Absent where the rules were deleted."""
    target: Revision
    name: str
    """The target as messages call it: `revision 3 (9f1c2ab34d5e)`."""
    compared: str
    """What the difference starts from: what stands, or the newest valid revision where that has no valid rules."""
    note: str | None
    """Why the comparison does not start from what stands."""
    difference: Difference
    emptied: tuple[Kind, ...]
    """Kinds that would lose all their rules."""
    cleared: tuple[Kind, ...]
    """Kinds that the target does not carry and that have rules now: the new revision says that they are empty, because
    engines would keep the rules of a kind that is only absent."""
    same: bool
    """The rules of the target stand already."""
    restored: Mapping[Kind, str]
    """Digests of the rules that come back."""
    undone: Mapping[Kind, str]
    """Digests of the rules that the rollback takes back: they go under quarantine."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What a rollback takes back in an item, and what comes back instead."""

    item: Item
    bad: Reading
    good: Revision


@dataclass(frozen=True, slots=True)
class Rollback:
    """What is to be done in a store: a step an item."""

    steps: tuple[Step, ...]
    undone: tuple[Undone, ...]
    """With what was undone before."""
    done: str | None = None
    """Why nothing is left to do."""
    plan: str | None = None
    """That of the publish that is undone; None where an item goes back to a revision."""


def step_to(source: Readable, item: Item, revisions: Past, standing: Reading, target: Revision, name: str) -> Step:
    """Raises CommandError where the target cannot come back."""
    _check_one_text(revisions, standing, target, name)
    try:
        new = parse_revision(target, item.kinds)
    except RuleRejected as rejection:
        raise CommandError(
            f"{name} is not valid and cannot come back; nothing was changed\n{rejection}",
            next_step=f"choose another revision: {history_command(item)}",
            code=Exit.INVALID_RULES,
        ) from rejection
    old, compared, note = _baseline(source, item, revisions, standing)
    cleared = tuple(kind for kind, rules in old.items() if rules.rules and kind not in new)
    new = {**new, **{kind: RuleSet.empty(kind) for kind in cleared}}
    difference = compare(old, new)
    return Step(
        item=item,
        number=max(revisions) + 1,
        standing=standing,
        target=replace(target, texts=_with_empty_lists(target, cleared, name)),
        name=name,
        compared=compared,
        note=note,
        difference=difference,
        emptied=tuple(kind for kind, rules in old.items() if rules.rules and kind in new and not new[kind].rules),
        cleared=cleared,
        same=note is None and old.keys() == new.keys() and not difference.count,
        restored={kind: rules.digest for kind, rules in new.items()},
        undone={kind: rules.digest for kind, rules in old.items() if kind in new and new[kind].digest != rules.digest},
    )


def _check_one_text(revisions: Past, standing: Reading, target: Revision, name: str) -> None:
    """Of a folder of several files the audit store knows the rules and not the files."""
    number = revisions.number_of(target.version)
    gone = number is not None and revisions.lines[number].origin == "audit"
    if gone and isinstance(standing, Revision) and len(standing.texts) > 1:
        files = ", ".join(text.name for text in standing.texts)
        raise CommandError(
            f"the store remembers {name} no more, and which of its rules stood in which file ({files}) is not known",
            next_step=f"sentinelctl rules diff live history:{number}    (shows what to write by hand)",
        )


def _with_empty_lists(target: Revision, kinds: tuple[Kind, ...], name: str) -> tuple[SourceText, ...]:
    try:
        return clear_kinds(target.texts, kinds) if kinds else target.texts
    except ValueError as error:
        raise CommandError(
            f"{name} says nothing of {', '.join(kinds)}, so engines would keep the rules they run; {error}",
            next_step="write the older rules and the empty lists by hand, and commit them",
        ) from error


def _baseline(
    source: Readable, item: Item, revisions: Past, standing: Reading
) -> tuple[Mapping[Kind, RuleSet], str, str | None]:
    """What the target is compared with, what it is called, and why it is not what stands."""
    stands = _sets_or_none(standing, item.kinds)
    if stands is not None and isinstance(standing, Revision):
        return stands, title_of(source, standing), None
    older = newest_valid((revisions[number] for number in range(revisions.newest, 0, -1)), item.kinds)
    number = revisions.number_of(older.revision.version) if older else None
    name = f"revision {number} ({short_version(older.revision)})" if older else ""
    state = "are deleted" if isinstance(standing, Absent) else "are not valid"
    note = f"the rules that stand {state}; engines run older ones, so {name or 'nothing'} is compared"
    return older.sets if older else {}, name, note


def _sets_or_none(standing: Reading, kinds: Sequence[Kind]) -> Mapping[Kind, RuleSet] | None:
    return None if isinstance(standing, Absent) else sets_of(standing, kinds)


def say_step(app: App, step: Step) -> None:
    """The difference, on stderr."""
    if step.note:
        app.out.say(f"note: {step.note}")
    app.out.say(step.compared, "  →  ", step.name)
    for line in change_lines(step.difference):
        app.out.say(*line)
    for kind in step.cleared:
        app.out.say(f"note: {step.name} has no {kind} rules at all; the new revision says so with an empty list")
    app.out.say(summary(step.difference, now="now", then="then"))


def write(app: App, source: Readable, step: Step, reason: str | None) -> Written:
    """By compare-and-set. Raises CommandError, DatasourceError."""
    if not isinstance(source, Writable):
        raise CommandError(
            f"{source.uri} cannot be written by this version", next_step="use a Git store on this machine: git+file://…"
        )
    provenance = Provenance(
        channel="cli",
        environment=app.settings.environment,
        reason=reason or f"rollback to {step.name}",
        message=f"Roll back rules to {step.name}",
        rollback_of=step.standing.version or None,
        published_by=actor(),  # Git has its own identity of an author; other stores have this
    )
    expected = step.standing.version if isinstance(step.standing, Revision) else None
    return source.write(step.item, step.target.texts, expected=expected, provenance=provenance)


def check_quarantine(source: Readable, step: Step) -> None:
    """What was rolled back once does not come back by another rollback either. Raises CommandError (3)."""
    sets = parse_revision(step.target, step.item.kinds)
    held = [
        each for each in quarantined(source, step.item) if each.kind in sets and sets[each.kind].digest == each.digest
    ]
    if held:
        raise CommandError(
            f"the {held[0].kind} rules of {step.name} are under quarantine since {local(held[0].since)}"
            f"{f': {held[0].reason}' if held[0].reason else ''}; nothing was changed",
            next_step=f'sentinelctl rules release {held[0].digest[:12]} --reason "why"    (lets them come back)',
            code=Exit.REFUSED,
        )


@contextmanager
def under_quarantine(app: App, source: Readable, step: Step, reason: str | None) -> Iterator[None]:
    """Before the rollback, so that a pipeline that runs at the same moment is refused; taken back where the rollback
    fails. That it cannot be done is told and keeps nobody from rolling back."""
    since = utc_now()
    found = [
        Quarantined(kind, digest, step.standing.version, since, actor(), reason) for kind, digest in step.undone.items()
    ]
    added: Sequence[Quarantined] | None = None
    try:
        added = add(source, step.item, found) if found else []
    except DatasourceError as error:
        app.out.say(f"warning: not put under quarantine, so it may be published again: {error}")
    try:
        yield
    except BaseException:
        with suppress(DatasourceError):
            take_back(source, step.item, added or (), "the rollback failed")
        raise
    if found and added is not None:
        names = ", ".join(f"{each.kind} {each.digest[:12]}" for each in found)
        app.out.say(f"Under quarantine until released: {names}")
