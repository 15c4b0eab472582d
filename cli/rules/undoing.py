"""Undoing a publish: which items it wrote, and what stood there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.moments import local
from sentinel_core.cli.rules.past import Past, past
from sentinel_core.cli.rules.restoring import Rollback, Step, Undone, step_to
from sentinel_core.cli.rules.show import masked
from sentinel_core.cli.rules.sides import short_version
from sentinel_core.datasources.contract import Item, LooseVersions, Readable
from sentinel_core.publishing.standing import digests_of, sets_of
from sentinel_core.rules import Provenance, Revision, RuleSet, SourceText
from sentinel_core.rules.write import json_list


@dataclass(frozen=True, slots=True)
class _Past:
    """An item with its revisions."""

    item: Item
    standing: Revision
    revisions: Past

    @property
    def kinds(self) -> str:
        return ", ".join(self.item.kinds)

    def provenance(self, number: int) -> Provenance:
        return self.revisions.lines[number].revision.provenance

    def when(self, number: int) -> datetime | None:
        return self.revisions.lines[number].when

    def written_by(self, plan: str) -> int | None:
        """The newest revision of this plan."""
        return next(
            (
                number
                for number in sorted(self.revisions, reverse=True)
                if self.provenance(number).plan_id == plan and not self.revisions.was_dropped(number)
            ),
            None,
        )

    def undone_by(self, source: Readable, number: int) -> int | None:
        """The number of the revision that `number` rolled back."""
        version = self.provenance(number).rollback_of
        loose = source.same_version if isinstance(source, LooseVersions) else str.__eq__
        lines = self.revisions.lines.items()
        return next((each for each, line in lines if version and loose(line.revision.version, version)), None)


def undo(app: App, source: Readable, items: Sequence[Item], plan: str | None) -> Rollback:
    """Takes back what the plan wrote, else what the newest publish did: each item goes back to what stood there before.
    One that went back already is left, so that what broke off is finished by the same again. Raises CommandError where
    something else was written there since."""
    pasts = []
    for item in items:
        reading = source.read(item)
        if isinstance(reading, Revision) and (revisions := past(app, source, item)):
            pasts.append(_Past(item, reading, revisions))
    if not pasts:
        raise CommandError(f"{source.uri} has no revisions yet", next_step="sentinelctl doctor")
    plan = plan or _newest_plan(source, pasts)
    parts = [(each, number) for each in pasts if (number := each.written_by(plan)) is not None]
    if not parts:
        raise UsageProblem(
            f"nothing that stands in {source.uri} was written by the plan {plan}",
            next_step="sentinelctl rules history    (lists what was written, with its plan)",
        )
    app.out.say(_told(plan, *parts[0]))
    steps: list[Step] = []
    undone: list[Undone] = []
    for each, number in parts:
        newest = each.revisions.newest
        if newest != number and each.undone_by(source, newest) == number:
            app.out.say(f"{each.kinds}: undone already, by revision {newest}")
            undone.append(Undone(each.item, each.revisions[number], each.revisions[newest]))
            continue
        _check_stands(each, number, parts)
        target, name = _before(each, number)
        step = step_to(source, each.item, each.revisions, each.standing, target, name)
        steps.append(step)
        undone.append(Undone(each.item, each.standing, step.target))
    done = None if steps else f"Already rolled back: nothing of {plan} stands any more. Nothing was written."
    return Rollback(tuple(steps), tuple(undone), done, plan)


def _newest_plan(source: Readable, pasts: Sequence[_Past]) -> str:
    """Of what was written last. A rollback counts as the plan that it undid: there may be more of it to undo."""
    dated = [(when, each) for each in pasts if (when := each.when(each.revisions.newest)) is not None]
    if len(dated) < len(pasts):
        unknown = next(each for each in pasts if each.when(each.revisions.newest) is None)
        raise UsageProblem(
            f"it is not known when {unknown.kinds} revision {unknown.revisions.newest} was written, so not what was "
            "written last",
            next_step="name what is to be undone with --plan ID (sentinelctl rules history lists them), or --kind",
        )
    _, last = max(dated, key=lambda pair: pair[0])
    number = last.revisions.newest
    undone = last.undone_by(source, number)
    plan = last.provenance(number).plan_id or (last.provenance(undone).plan_id if undone else None)
    if plan is None:
        what = f"a rollback of revision {undone}" if undone else f"written by {_who(last.provenance(number))}"
        raise UsageProblem(
            f"what was written last, {last.kinds} revision {number}, is {what} and no publish",
            next_step=f"sentinelctl rules rollback --kind {last.item.kinds[0]}, or name a publish with --plan ID "
            "(sentinelctl rules history lists them)",
        )
    return plan


def _told(plan: str, part: _Past, number: int) -> str:
    found, when = masked(part.provenance(number)), part.when(number)
    commit = f", commit {found.commit_hash[:12]}" if found.commit_hash else ""
    why = f": {found.reason}" if found.reason else ""
    return f"Undoing the publish {plan} of {local(when) if when else 'a time unknown'} by {_who(found)}{commit}{why}"


def _who(provenance: Provenance) -> str:
    found = masked(provenance)
    return found.published_by or found.author or "unknown"


def _check_stands(part: _Past, number: int, parts: Sequence[tuple[_Past, int]]) -> None:
    """What was written later is not undone unseen."""
    newest = part.revisions.newest
    same = digests_of(sets_of(part.standing, part.item.kinds)) == digests_of(
        sets_of(part.revisions[number], part.item.kinds)
    )
    if newest != number or not same:
        later = f"revision {newest} (by {_who(part.provenance(newest))})" if newest != number else "something newer"
        kinds = ", ".join(each.kinds for each, _ in parts)
        raise CommandError(
            f"{part.kinds} was written again since: {later} stands on top of revision {number}; nothing was changed",
            next_step=f"undo them one by one, with --kind and --to ({kinds})",
            code=Exit.CONFLICT,
        )


def _before(part: _Past, number: int) -> tuple[Revision, str]:
    """What stood there before, and how it is called: the newest valid revision, or an empty list where there was none
    at all."""
    revisions, item = part.revisions, part.item
    for older in range(number - 1, 0, -1):
        if not revisions.was_dropped(older) and sets_of(revisions[older], item.kinds) is not None:
            return revisions[older], f"revision {older} ({short_version(revisions[older])})"
    if len(item.kinds) > 1 or number > 1 or part.provenance(number).previous_digest is not None:
        raise UsageProblem(
            f"what stood before {part.kinds} revision {number} is not known any more, or was not valid",
            next_step="publish what shall stand there instead: sentinelctl rules publish git:REV",
        )
    empty = json_list(RuleSet.empty(item.kinds[0]))  # engines would keep the rules of a list that is only absent
    return Revision((SourceText(item.key, empty, "json"),), item.source, ""), "no rules, as before it"
