"""`sentinelctl rules rollback`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem, code_of
from sentinel_core.cli.lock.holding import locked
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.rules import reverting
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.history import SHORT
from sentinel_core.cli.rules.options import kind_option, lock_option, past_store_option
from sentinel_core.cli.rules.past import Past, past
from sentinel_core.cli.rules.restoring import (
    Rollback,
    Step,
    Undone,
    check_quarantine,
    say_step,
    step_to,
    under_quarantine,
    write,
)
from sentinel_core.cli.rules.sides import at_revision, short_version, shortened
from sentinel_core.cli.rules.undoing import undo
from sentinel_core.cli.rules.waiting import asked, convergence_json, prepared, show_then_wait, wait_options
from sentinel_core.cli.stores import history_command, history_items, present, the_item
from sentinel_core.cli.text import Span, plural
from sentinel_core.datasources.contract import DatasourceError, Item, Readable, Reading, Written
from sentinel_core.masking import mask_text, mask_uri
from sentinel_core.publishing.make import freezes
from sentinel_core.publishing.standing import sets_of
from sentinel_core.rules import Kind, Revision

if TYPE_CHECKING:
    from sentinel_core.publishing.convergence import Convergence


@click.command()
@click.option(
    "--to", "number", type=click.IntRange(1), metavar="N", help="Number of the revision, as `history` shows it."
)
@click.option("--to-commit", "commit", metavar="SHA", help="Revision by its commit, for stores in Git.")
@click.option("--steps", type=click.IntRange(1), metavar="COUNT", help="How many valid revisions back (default: 1).")
@click.option(
    "--plan", type=WORDS, metavar="ID", help="Undo what this plan wrote, every kind of it (default: the newest one)."
)
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
    plan: str | None,
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
    sentinelctl rules rollback --plan p-0123456789ab              what that publish wrote, all kinds of it

    Shows the difference, asks, then writes a NEW revision whose rules are those of the older one; the history keeps
    both. In a Git store that is one commit by the caller, made only if nobody else has committed since (otherwise exit
    code 5). A rollback that was done already is recognised and not done again.

    In a store that keeps every kind by itself, the publish that was written last is undone, all kinds that it wrote;
    what was written over it since is refused (5). With --kind one kind goes back, by its own history.

    The rules that are undone go under quarantine: publishing refuses them, whoever brings them again, until they are
    released by name.
    """
    wait = asked(options)
    if [number, commit, steps, plan].count(None) < 3:
        raise UsageProblem(
            "--to, --to-commit, --steps and --plan name the target in four ways", next_step="give one of them"
        )
    with history_items(app, store, kind) as (source, items):
        if plan is None and (len(items) == 1 or (number, commit, steps) != (None, None, None)):
            to_do = _of_item(app, source, the_item(source, items), number, commit, steps, open_revert)
        else:
            to_do = undo(app, source, items, plan)
        if to_do.done is not None:
            app.out.say(to_do.done)
            if open_revert:
                reverting.open_revert(app, source, to_do.undone, reason)
            return Exit.DONE
        for step in to_do.steps:
            say_step(app, step)
        if dry_run or all(step.same for step in to_do.steps):
            app.out.show(_view(to_do, {}))
            app.out.say(_nothing_written(to_do))
            return Exit.DONE
        reason = reason and mask_text(reason)
        for step in to_do.steps:
            check_quarantine(source, step)
        _say_freeze(app)
        with prepared(app, source, wait) as waiting:
            _confirm(app, to_do, source.uri)
            written = _carry_out(app, source, to_do, reason, under)
            found = show_then_wait(
                app,
                lambda found: _view(to_do, written, found),
                waiting,
                lambda waiting: waiting.for_revisions(
                    (step.item.source, written[step.item.source], step.restored) for step in to_do.steps
                ),
            )
            if open_revert:
                reverting.open_revert(app, source, to_do.undone, reason)
            if waiting and found:
                waiting.end(found)
    return Exit.DONE


def _of_item(
    app: App,
    source: Readable,
    item: Item,
    number: int | None,
    commit: str | None,
    steps: int | None,
    open_revert: bool,
) -> Rollback:
    revisions = past(app, source, item)
    if not revisions:
        raise CommandError(f"{source.uri} has no revisions yet", next_step="sentinelctl doctor")
    one_step = (number, commit) == (None, None) and steps in (None, 1)
    done_before = _rolled_back_before(revisions) if one_step else None
    if done_before is not None:
        if not open_revert:
            return Rollback((), (), done_before)
        newest = revisions[revisions.newest]
        bad = _of_commit(source, item, revisions, str(newest.provenance.rollback_of))
        return Rollback((), (Undone(item, bad, newest),), done_before)
    standing = source.read(item)
    target, name = _target(source, item, revisions, standing, number, commit, steps)
    step = step_to(source, item, revisions, standing, target, name)
    return Rollback((step,), (Undone(item, standing, step.target),))


def _carry_out(
    app: App, source: Readable, to_do: Rollback, reason: str | None, under: str | None
) -> dict[str, Written]:
    """What was written, by the source of the item. Raises CommandError, DatasourceError."""
    written: dict[str, Written] = {}
    items = [step.item for step in to_do.steps]
    with locked(app, source, mask_uri(source.uri), items, "rollback", reason, under) as lock:
        for step in to_do.steps:
            try:
                with under_quarantine(app, source, step, reason):
                    lock.check(step.item)
                    written[step.item.source] = write(app, source, step, reason)
            except DatasourceError as error:
                if not written:
                    raise
                app.out.show(_view(to_do, written))
                again = f"sentinelctl rules rollback --plan {to_do.plan} --store {shlex.quote(mask_uri(source.uri))}"
                raise CommandError(
                    f"not everything was rolled back: {error}",
                    next_step=f"{again}    (goes on where this ended)",
                    code=code_of(error),
                ) from error
    return written


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
    stands = isinstance(standing, Revision) and sets_of(standing, kinds) is not None
    left = steps
    for number in range(newest - 1 if stands else newest, 0, -1):
        if revisions.was_dropped(number):
            continue
        left -= sets_of(revisions[number], kinds) is not None
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


def _nothing_written(to_do: Rollback) -> str:
    if all(step.same for step in to_do.steps):
        names = ", ".join(step.name for step in to_do.steps)
        return f"The store stands at the rules of {names} already. Nothing was written."
    return "Dry run: nothing was written. The same without --dry-run does it."


def _confirm(app: App, to_do: Rollback, title: str) -> None:
    typed = ",".join(kind for step in to_do.steps for kind in step.emptied)
    what = "a new revision" if len(to_do.steps) == 1 else f"{len(to_do.steps)} new revisions"
    question = f"This removes every rule of {typed}." if typed else f"Write this as {what} of {title}?"
    confirm(app, question, typed, store=title)


def _say_freeze(app: App) -> None:
    """A rollback goes on: what it brings back has run before, and an incident does not wait for the end of a freeze."""
    for each in freezes(app.settings.guards.freeze, [app.settings.environment], utc_now()):
        app.out.say(f"note: {each.text}; a rollback is not kept from it")


def _view(to_do: Rollback, written: Mapping[str, Written], found: Convergence | None = None) -> View:
    steps = [_document(step, written.get(step.item.source)) for step in to_do.steps]
    if to_do.plan is None:
        (document,) = ({**step, "convergence": convergence_json(found)} for step in steps)
    else:
        named = [
            {"source": step.item.source, "kinds": list(step.item.kinds), **each}
            for step, each in zip(to_do.steps, steps, strict=True)
        ]
        document = {"plan": to_do.plan, "steps": named, "convergence": convergence_json(found)}

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        for step in to_do.steps:
            made = written.get(step.item.source)
            kinds = f"{', '.join(step.item.kinds)}: " if to_do.plan else ""
            if made is not None:
                yield (
                    f"{kinds}Rolled back to {step.name}: this is revision {step.number} ({shortened(made.version)}).",
                )
            elif written:
                yield (f"{kinds}not rolled back",)

    return View(document=document, items=steps, names=[each.version for each in written.values()], lines=lines)


def _document(step: Step, written: Written | None) -> dict[str, Any]:
    return {
        "written": written is not None,
        "number": step.number if written else None,
        "version": written.version if written else step.standing.version,
        "restores": step.target.version or None,
        "rollbackOf": step.standing.version if written else None,
        "changes": [change for each in step.difference.changes.values() for change in each],
    }
