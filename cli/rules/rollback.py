"""`sentinelctl rules rollback`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem
from sentinel_core.cli.lock.holding import locked
from sentinel_core.cli.moments import local, utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.rules import reverting
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.diff import Difference, change_lines, compare, summary
from sentinel_core.cli.rules.history import SHORT
from sentinel_core.cli.rules.options import kind_option, lock_option, past_store_option
from sentinel_core.cli.rules.past import Past, past
from sentinel_core.cli.rules.sides import at_revision, short_version, shortened, title_of
from sentinel_core.cli.rules.waiting import asked, convergence_json, prepared, show_then_wait, wait_options
from sentinel_core.cli.stores import history_command, history_store, present
from sentinel_core.cli.text import Span, plural
from sentinel_core.datasources.contract import Absent, DatasourceError, Item, Readable, Reading, Writable, Written
from sentinel_core.masking import mask_text, mask_uri
from sentinel_core.publishing.make import freezes
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

if TYPE_CHECKING:
    from sentinel_core.publishing.convergence import Convergence


@dataclass(frozen=True, slots=True)
class Step:
    """What a rollback would do: from what stands to the revision whose rules come back."""

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


@click.command()
@click.option(
    "--to", "number", type=click.IntRange(1), metavar="N", help="Number of the revision, as `history` shows it."
)
@click.option("--to-commit", "commit", metavar="SHA", help="Revision by its commit, for stores in Git.")
@click.option("--steps", type=click.IntRange(1), metavar="COUNT", help="How many valid revisions back (default: 1).")
@click.option(
    "--reason",
    type=WORDS,
    metavar="TEXT",
    help="Why; goes into the commit and the audit (default: names the revision).",
)
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@click.option("--open-revert", is_flag=True, help="Revert it in Git, too: a commit on the new branch revert-COMMIT.")
@past_store_option
@kind_option("What to roll back, in a store that keeps every kind by itself.")
@lock_option
@wait_options
@output_options
@pass_app
def rollback(
    app: App,
    /,
    number: int | None,
    commit: str | None,
    steps: int | None,
    reason: str | None,
    dry_run: bool,
    open_revert: bool,
    store: str | None,
    kind: Kind | None,
    under: str | None,
    **options: Any,
) -> int:
    """Bring back the rules of an older revision as a new one.

    \b
    sentinelctl rules rollback --dry-run                          what one step back would change
    sentinelctl rules rollback --reason "error rate after 1.4"
    sentinelctl rules rollback --to 2

    Shows the difference, asks, then writes a NEW revision whose rules are those of the older one; the history keeps
    both. In a Git store that is one commit by the caller, made only if nobody else has committed since (otherwise exit
    code 5). A rollback that was done already is recognised and not done again.

    The rules that are undone go under quarantine: publishing refuses them, whoever brings them again, until they are
    released by name.
    """
    wait = asked(options)
    with history_store(app, store, kind) as (source, item):
        revisions = past(app, source, item)
        if not revisions:
            raise CommandError(f"{source.uri} has no revisions yet", next_step="sentinelctl doctor")
        one_step = (number, commit) == (None, None) and steps in (None, 1)
        done_before = _rolled_back_before(revisions) if one_step else None
        if done_before is not None:
            app.out.say(done_before)
            if open_revert:
                newest = revisions[revisions.newest]
                bad = _of_commit(source, item, revisions, str(newest.provenance.rollback_of))
                reverting.open_revert(app, source, item, bad, newest, reason)
            return Exit.DONE
        standing = source.read(item)
        target, name = _target(source, item, revisions, standing, number, commit, steps)
        _check_one_text(revisions, standing, target, name)
        step = _plan(source, item, revisions, standing, target, name)
        _show_plan(app, step)
        if step.same or dry_run:
            app.out.show(_view(step, written=None, number=None))
            app.out.say(_nothing_written(step))
            return Exit.DONE
        reason = reason and mask_text(reason)
        _check_quarantine(source, item, step)
        _say_freeze(app)
        with prepared(app, source, wait) as waiting:
            _confirm(app, step, source.uri)
            with (
                locked(app, source, mask_uri(source.uri), [item], "rollback", reason, under) as lock,
                _under_quarantine(app, source, item, step, reason),
            ):
                lock.check(item)
                written = _write(app, source, item, step, reason)
            found = show_then_wait(
                app,
                lambda found: _view(step, written=written, number=max(revisions) + 1, found=found),
                waiting,
                lambda waiting: waiting.for_revision(item, written.texts, step.restored, written.version),
            )
            if open_revert:
                reverting.open_revert(app, source, item, step.standing, step.target, reason)
            if waiting and found:
                waiting.end(found)
    return Exit.DONE


def _rolled_back_before(revisions: Past) -> str | None:
    """A retry of `rollback` must not undo the rollback, as going one step back again would."""
    newest = revisions.newest
    revision = revisions.lines[newest].revision
    undone = revision.provenance.rollback_of
    if undone is None:
        return None
    return (
        f"Already rolled back: revision {newest} ({short_version(revision)}) undid {undone[:SHORT]}. "
        "Nothing was written. To go to another revision: sentinelctl rules rollback --to N"
    )


def _target(
    source: Readable,
    item: Item,
    revisions: Past,
    standing: Reading,
    number: int | None,
    commit: str | None,
    steps: int | None,
) -> tuple[Revision, str]:
    if [number, commit, steps].count(None) < 2:
        raise UsageProblem("--to, --to-commit and --steps name the target in three ways", next_step="give one of them")
    if commit is not None:
        found = _of_commit(source, item, revisions, commit)
        return found, f"commit {short_version(found)}"
    if number is not None:
        if number not in revisions:
            raise UsageProblem(
                f"there is no revision {number}; the store has 1 to {max(revisions)}",
                next_step=f"{history_command(item)}    (lists them with their numbers)",
            )
        wanted = number
    else:
        wanted = _steps_back(revisions, standing, item, steps or 1)
    return revisions[wanted], f"revision {wanted} ({short_version(revisions[wanted])})"


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


def _of_commit(source: Readable, item: Item, revisions: Past, commit: str) -> Revision:
    """Of the store, else of the audit store."""
    try:
        return present(at_revision(source, item, commit), source)
    except (UsageProblem, BadSettings):
        number = revisions.named(commit)
        if number is None:
            raise
        return revisions[number]


def _steps_back(revisions: Past, standing: Reading, item: Item, steps: int) -> int:
    """The number of the revision so many valid ones back. What stands is not counted where it is valid itself; rules
    that are deleted or not valid are one step behind the newest valid revision."""
    newest, kinds = revisions.newest, item.kinds
    stands = _sets_or_none(standing, kinds) is not None
    left = steps
    for number in range(newest - 1 if stands else newest, 0, -1):
        if revisions.was_dropped(number):
            continue
        left -= _sets_or_none(revisions[number], kinds) is not None
        if left == 0:
            return number
    found = steps - left
    only = (
        f"there {'is' if found == 1 else 'are'} only {plural(found, 'valid revision')}"
        if found
        else "there is no valid revision"
    )
    raise UsageProblem(
        f"{only} to go back to",
        next_step=f"{history_command(item)}    (lists them with their numbers)",
    )


def _plan(source: Readable, item: Item, revisions: Past, standing: Reading, target: Revision, name: str) -> Step:
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


def _show_plan(app: App, step: Step) -> None:
    if step.note:
        app.out.say(f"note: {step.note}")
    app.out.say(step.compared, "  →  ", step.name)
    for line in change_lines(step.difference):
        app.out.say(*line)
    for kind in step.cleared:
        app.out.say(f"note: {step.name} has no {kind} rules at all; the new revision says so with an empty list")
    app.out.say(summary(step.difference, now="now", then="then"))


def _nothing_written(step: Step) -> str:
    if step.same:
        return f"The store stands at the rules of {step.name} already. Nothing was written."
    return "Dry run: nothing was written. The same without --dry-run does it."


def _confirm(app: App, step: Step, title: str) -> None:
    typed = ",".join(step.emptied)
    question = f"This removes every rule of {typed}." if typed else f"Write this as a new revision of {title}?"
    confirm(app, question, typed, store=title)


def _write(app: App, source: Readable, item: Item, step: Step, reason: str | None) -> Written:
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
    return source.write(item, step.target.texts, expected=expected, provenance=provenance)


def _say_freeze(app: App) -> None:
    """A rollback goes on: what it brings back has run before, and an incident does not wait for the end of a freeze."""
    for each in freezes(app.settings.guards.freeze, [app.settings.environment], utc_now()):
        app.out.say(f"note: {each.text}; a rollback is not kept from it")


def _check_quarantine(source: Readable, item: Item, step: Step) -> None:
    """What was rolled back once does not come back by another rollback either."""
    sets = parse_revision(step.target, item.kinds)
    held = [each for each in quarantined(source, item) if each.kind in sets and sets[each.kind].digest == each.digest]
    if held:
        raise CommandError(
            f"the {held[0].kind} rules of {step.name} are under quarantine since {local(held[0].since)}"
            f"{f': {held[0].reason}' if held[0].reason else ''}; nothing was changed",
            next_step=f'sentinelctl rules release {held[0].digest[:12]} --reason "why"    (lets them come back)',
            code=Exit.REFUSED,
        )


@contextmanager
def _under_quarantine(app: App, source: Readable, item: Item, step: Step, reason: str | None) -> Iterator[None]:
    """Before the rollback, so that a pipeline that runs at the same moment is refused; taken back where the rollback
    fails. That it cannot be done is told and keeps nobody from rolling back."""
    since = utc_now()
    found = [
        Quarantined(kind, digest, step.standing.version, since, actor(), reason) for kind, digest in step.undone.items()
    ]
    added: Sequence[Quarantined] | None = None
    try:
        added = add(source, item, found) if found else []
    except DatasourceError as error:
        app.out.say(f"warning: not put under quarantine, so it may be published again: {error}")
    try:
        yield
    except BaseException:
        with suppress(DatasourceError):
            take_back(source, item, added or (), "the rollback failed")
        raise
    if found and added is not None:
        names = ", ".join(f"{each.kind} {each.digest[:12]}" for each in found)
        app.out.say(f"Under quarantine until released: {names}")


def _view(step: Step, *, written: Written | None, number: int | None, found: Convergence | None = None) -> View:
    changes = [change for each in step.difference.changes.values() for change in each]
    document = {
        "written": written is not None,
        "number": number,
        "version": written.version if written else step.standing.version,
        "restores": step.target.version,
        "rollbackOf": step.standing.version if written else None,
        "changes": changes,
        "convergence": convergence_json(found),
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if written is not None:
            yield (f"Rolled back to {step.name}: this is revision {number} ({shortened(written.version)}).",)

    return View(document=document, items=[document], names=[written.version] if written else [], lines=lines)
