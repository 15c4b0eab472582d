"""Keeping a store at what is committed: one look at both sides, and what comes of it.

A change in Git is published where it is valid and no guard objects. A store whose rules are not those that were
published last was edited, and so was one that holds rules which nobody published from Git: the policy says whether that
is reported, and left alone whatever Git says, or healed, or adopted, which is to say committed. Rules under quarantine
are never published, so a rollback stands until it is released or Git has other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Literal

from sentinel_core.datasources import GitSource
from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    Item,
    Ordered,
    Readable,
    Reading,
    SourceConflict,
    SourceMisconfigured,
)
from sentinel_core.masking import mask_text, mask_uri
from sentinel_core.publishing.adopt import (
    Edit,
    NotAdopted,
    adoptable,
    commit_edits,
    is_from_git,
    one_line,
    said_by,
)
from sentinel_core.publishing.carry_out import PlanStale, carry_out, items_of
from sentinel_core.publishing.checks import CheckContext, ask, installed
from sentinel_core.publishing.holding import held
from sentinel_core.publishing.locks import LockHeld
from sentinel_core.publishing.make import Proposal, PublishPolicy, Wanted, freezes, make_plan
from sentinel_core.publishing.standing import digests_of, sets_of
from sentinel_core.publishing.sync_note import note, remember, remembered
from sentinel_core.rules import KINDS, Kind, Revision, RuleRejected, RuleSet, SourceText, parse_revision
from sentinel_core.rules.guard import Objection, objections, unowned
from sentinel_core.rules.ownership import Owner

_TRIES = 3
Drift = Literal["report", "heal", "adopt"]
State = Literal[
    "in sync",
    "published",
    "healed",
    "adopted",
    "proposed",
    "drifted",
    "refused",
    "frozen",
    "locked",
    "invalid",
    "absent",
    "failed",
]


@dataclass(frozen=True, slots=True)
class Synced:
    """What a look found, and what was done."""

    state: State
    commit: str | None
    """Of the rules in Git; None where nothing stands there, or where Git could not be read."""
    text: str
    """For people: why, in one line or more."""
    changes: int = 0
    """Fields and rules that differ, or differed."""
    error: DatasourceError | None = None
    """Of a look that failed."""
    not_adopted: bool = False
    """Whether an edit was to be committed and could not be: somebody decides."""
    objections: Sequence[Objection] = ()
    """Of the guards, where they refused it."""
    quarantined: bool = False
    """Whether what is committed may not come back, so that nothing heals the edit."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is synchronised, and how."""

    uri: str
    """Of the store, without credentials."""
    environment: str
    policy: PublishPolicy
    max_bytes: int
    drift: Drift = "report"
    published_by: str | None = None
    branch: str | None = None
    """Where edits are committed that are adopted, to be reviewed; None: to the branch that is followed."""
    owners: Sequence[Owner] = ()


def sync(git: Readable, store: Readable, settings: Settings, now: datetime | None = None) -> Synced:
    """One look. Blocks, bounded by the time-outs of both; raises nothing that a store or a text can cause. `now`
    decides whether there is a freeze: what is committed during one is published by the first look after it."""
    found = _looked(git, store, settings, now or datetime.now(UTC))
    return replace(found, text=_masked(found.text))


def _looked(git: Readable, store: Readable, settings: Settings, now: datetime) -> Synced:
    for _ in range(_TRIES):
        try:
            return _look(git, store, settings, now)
        except SourceConflict as conflict:  # somebody committed meanwhile: look again at what they made of it
            raced = conflict
    return Synced("failed", None, str(raced), error=raced)


def _masked(text: str) -> str:
    return mask_text(mask_uri(text))


def _look(git: Readable, store: Readable, settings: Settings, now: datetime) -> Synced:
    """Raises SourceConflict where a commit was raced."""
    commit: str | None = None
    try:
        committed = _committed(git)
        if not committed:
            return Synced("absent", None, f"{git.uri} holds no rules; nothing is published, nothing is removed")
        revision = _newest(each for _, each in committed)
        commit = revision.version
        sets: dict[Kind, RuleSet] = {}
        for item, each in committed:
            sets |= parse_revision(each, item.kinds)
        _check_forwards(git, revision, store)
        return _compared(git, revision, sets, [each.texts for _, each in committed], store, settings, now)
    except RuleRejected as rejection:
        return Synced("invalid", commit, f"what is committed is not valid and is not published:\n{rejection}")
    except PlanStale:
        return Synced("failed", commit, "somebody else wrote in between; the next look decides")
    except LockHeld as taken:
        return Synced("locked", commit, f"published when nobody locks the store: {taken.who}", error=taken)
    except SourceConflict:
        raise
    except DatasourceError as error:
        return Synced("failed", commit, str(error), error=error)


def _committed(git: Readable) -> list[tuple[Item, Revision]]:
    read = [(item, git.read(item)) for item in git.items(KINDS)]
    return [(item, reading) for item, reading in read if isinstance(reading, Revision)]


def _check_forwards(git: Readable, revision: Revision, store: Readable) -> None:
    """A branch that was reset or pushed with force would bring old rules back. Raises SourceRewound."""
    if not isinstance(git, Ordered):
        return
    item = git.items(KINDS)[0]
    for each in store.items(KINDS):
        commit = (note(store, each) or {}).get("commit")
        if isinstance(commit, str) and commit != revision.version:
            git.admit(item, Revision((), item.source, commit), revision)


def _newest(revisions: Iterable[Revision]) -> Revision:
    return reduce(_newer, revisions)


def _newer(one: Revision, other: Revision) -> Revision:
    if one.provenance.committed_at is None or other.provenance.committed_at is None:
        return other
    return other if other.provenance.committed_at > one.provenance.committed_at else one


def _compared(
    git: Readable,
    revision: Revision,
    sets: dict[Kind, RuleSet],
    files: Sequence[Sequence[SourceText]],
    store: Readable,
    settings: Settings,
    now: datetime,
) -> Synced:
    commit = revision.version
    provenance = replace(
        revision.provenance, environment=settings.environment, published_by=settings.published_by, channel="git"
    )
    whole = [each for item in files for each in item]
    proposal = make_plan(
        store,
        settings.uri,
        Wanted(f"git {commit[:12]}", sets, files[0] if len(files) == 1 else (), whole),
        environment=settings.environment,
        provenance=replace(provenance, reason=provenance.reason or f"sync to {commit[:12]}"),
        policy=settings.policy,
        max_bytes=settings.max_bytes,
        owners=settings.owners,
        now=now,
    )
    changes = len(proposal.plan.changes)
    if not proposal.plan.steps:
        _learn(store, sets, commit)
        return Synced("in sync", commit, "the store holds what is committed")
    found = _edits(store, proposal)
    edits = [each.text for each in found]
    what = "changed" if all(_is_rollback(each.reading) for each in found) else "edited"
    told = f"{what} in the store, not in Git: {'; '.join(edits)}"
    if edits and settings.drift == "report":
        held_back = any(each.guard == "quarantine" for each in proposal.objections)
        return Synced("drifted", commit, told, changes, quarantined=held_back)
    if edits and settings.drift == "adopt":
        return _adopted(git, sets, whole, store, found, settings, now, Synced("drifted", commit, told, changes))
    if proposal.objections:
        told = _told(proposal.objections)
        if all(each.guard == "freeze" for each in proposal.objections):
            return Synced("frozen", commit, f"published when the freeze is over:\n{told}", changes)
        return Synced("refused", commit, f"refused by a guard:\n{told}", changes, objections=proposal.objections)
    return _written(proposal, store, commit, changes, edits, settings)


def _written(
    proposal: Proposal, store: Readable, commit: str, changes: int, edits: Sequence[str], settings: Settings
) -> Synced:
    plan = proposal.plan
    if edits:
        reason = f"back to {commit[:12]}, as committed ({'; '.join(edits)})"
        plan = replace(plan, provenance=replace(plan.provenance, reason=reason))
    items = {item.source: item for item in items_of(plan, store)}
    with held(
        store, plan.store, [*items.values()], holder=settings.published_by, command="sync", reason=commit[:12]
    ) as lock:
        outcomes = carry_out(plan, store, check=lock.check)
        for outcome in outcomes:
            if outcome.error is None and outcome.state != "not tried":
                remember(store, items[outcome.step.source], outcome.step.digests, commit)
    failed = next((each for each in outcomes if each.error is not None), None)
    if failed is not None:
        return Synced("failed", commit, f"not everything was written: {failed.error}", changes, failed.error)
    text = f"{changes} change{'s' if changes != 1 else ''} written"
    return Synced("healed" if edits else "published", commit, text, changes)


def _edits(store: Readable, proposal: Proposal) -> list[Edit]:
    """What was edited in the store since rules of Git were published there."""
    items = {item.source: item for item in items_of(proposal.plan, store)}
    found = []
    for step in proposal.plan.steps:
        item = items[step.source]
        published, reading = remembered(store, item), proposal.standing[step.source]
        if isinstance(reading, Absent):
            if published is not None:
                found.append(Edit(item, reading, f"{_name(item)} deleted by somebody"))
        elif not is_from_git(reading) and digests_of(sets_of(reading, item.kinds)) != published:
            found.append(Edit(item, reading, _edit(item, reading)))
    return found


def _adopted(
    git: Readable,
    sets: Mapping[Kind, RuleSet],
    files: Sequence[SourceText],
    store: Readable,
    found: Sequence[Edit],
    settings: Settings,
    now: datetime,
    drifted: Synced,
) -> Synced:
    """Commits the edits that no guard objects to; to a branch, where they are reviewed, all, and says what guards say.
    `drifted` is what is told of those that cannot be."""
    if not isinstance(git, GitSource):
        raise SourceMisconfigured(f"{git.uri} is no Git repository, so nothing can be committed there")
    notes = {each.item.source: note(store, each.item) or {} for each in found}
    try:
        wanted = adoptable(git, sets, store, found, notes)
        against = _objections(sets, wanted, files, found, settings, now)
        if against and settings.branch is None:
            return replace(drifted, text=f"{drifted.text}\nnot adopted: refused by a guard:\n{_told(against)}")
        commit = commit_edits(git, wanted, settings.uri, found, settings.branch)
    except NotAdopted as reason:
        return replace(drifted, text=f"{drifted.text}\nnot adopted: {reason}", not_adopted=True)
    if settings.branch is not None:
        text = f"{'committed' if commit else 'stands already'} on {settings.branch}, to be merged: {drifted.text}"
        text += f"\nguards object to it:\n{_told(against)}" if against else ""
        return replace(drifted, state="proposed", text=text)
    for each in found:
        remember(store, each.item, digests_of(sets_of(each.reading, each.item.kinds)), commit or str(drifted.commit))
    return Synced("adopted", commit or drifted.commit, f"committed what was {drifted.text}", drifted.changes)


def _objections(
    sets: Mapping[Kind, RuleSet],
    wanted: Mapping[Kind, RuleSet],
    files: Sequence[SourceText],
    found: Sequence[Edit],
    settings: Settings,
    now: datetime,
) -> list[Objection]:
    """What guards have against committing the edits: they ask the same of whoever publishes them."""
    changed = {kind: rules for kind, rules in wanted.items() if kind not in sets or sets[kind].digest != rules.digest}
    if not changed:
        return []
    editors = _editors(found)
    context = CheckContext(
        settings.environment, settings.uri, "what was edited in the store", settings.published_by, editors, None
    )
    return [
        *objections(sets, changed, settings.policy),
        *unowned(sets, changed, settings.owners, files, editors),
        *ask(installed(), dict(sets), {**sets, **changed}, context),
        *freezes(settings.policy.freeze, [settings.environment], now),
    ]


def _editors(found: Sequence[Edit]) -> str | None:
    """Who made all of the edits; None where that is not known, or where several did."""
    known = {
        each.reading.provenance.author or each.reading.provenance.published_by
        for each in found
        if isinstance(each.reading, Revision)
    }
    return known.pop() if len(known) == 1 else None


def _told(against: Sequence[Objection]) -> str:
    return "\n".join(f"{each.guard}: {each.text}" for each in against)


def _name(item: Item) -> str:
    return item.kinds[0] if len(item.kinds) == 1 else "rules"


def _is_rollback(reading: Reading) -> bool:
    return isinstance(reading, Revision) and reading.provenance.rollback_of is not None


def _edit(item: Item, reading: Revision) -> str:
    provenance = reading.provenance
    what = "rolled back" if provenance.rollback_of else "edited"
    why = f": {one_line(provenance.reason)}" if provenance.reason else ""
    return _masked(f"{_name(item)} {what} by {said_by(provenance)}{why}")


def _learn(store: Readable, sets: Mapping[Kind, RuleSet], commit: str) -> None:
    """What stands in a store is what is committed, whoever brought it there: from now on another state is an edit."""
    for item in store.items(KINDS):
        wanted = digests_of({kind: sets[kind] for kind in item.kinds if kind in sets})
        known = remembered(store, item) or {}
        if wanted and any(known.get(kind) != digest for kind, digest in wanted.items()):
            standing = digests_of(sets_of(store.read(item), item.kinds))
            if wanted.items() <= standing.items():
                remember(store, item, standing, commit)
