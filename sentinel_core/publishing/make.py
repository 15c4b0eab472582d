"""What would have to be written so that a store holds given rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from sentinel_core.datasources.contract import Absent, Item, Readable, Reading, SourceMisconfigured
from sentinel_core.datasources.names import DOCUMENT_NAME
from sentinel_core.freeze import Freeze, frozen, said
from sentinel_core.publishing.carry_out import items_of
from sentinel_core.publishing.checks import Check, CheckContext, ask, installed
from sentinel_core.publishing.plan import Plan, Step, plan_id
from sentinel_core.publishing.quarantine import quarantined
from sentinel_core.publishing.running import (
    Older,
    Remembers,
    last_published,
    newest_valid,
    store_remembers,
    told_beside,
)
from sentinel_core.publishing.standing import changes_between, digests_of, sets_of
from sentinel_core.rules import (
    KINDS,
    Kind,
    Provenance,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    parse_revision,
)
from sentinel_core.rules.guard import Objection, Policy, objections, unowned
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.rules.ownership import Owner
from sentinel_core.rules.rewrite import rewrite
from sentinel_core.rules.write import document, json_list

Whose = Callable[[Collection[Kind]], Provenance]
"""Whose the rules of these kinds are: where they come from several commits, that depends on which are written."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to stand in the store."""

    title: str
    sets: Mapping[Kind, RuleSet]
    """The kinds that are managed; others stay as they are."""
    texts: Sequence[SourceText] = ()
    """The document that they were read from, which a store that holds documents gets as it is written; empty where
    there is none of one text."""
    files: Sequence[SourceText] = ()
    """All that they were read from, where those are files: whose they are is a question of ownership."""


class PublishPolicy(Policy, Protocol):
    """`guards` of the settings."""

    @property
    def freeze(self) -> Sequence[Freeze]: ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan with what stands against it."""

    plan: Plan
    objections: Sequence[Objection]
    """Of guards that nobody has overruled."""
    overruled: Sequence[Objection]
    invalid: Sequence[str]
    """Items whose rules are not valid and would be replaced."""
    standing: Mapping[str, Reading]
    """What was read, by the source of each step."""
    older: Mapping[str, Older | None]
    """By the source of a step of which the store does not tell what engines run: what they run, with which the rules
    are compared; None where nobody remembers it."""

    @property
    def refusals(self) -> list[Objection]:
        """Those that hold whenever it is carried out."""
        return [each for each in self.objections if each.guard != "freeze"]

    @property
    def freezes(self) -> list[Objection]:
        """Those that hold now and are over later: a plan may be made meanwhile, and is not carried out."""
        return [each for each in self.objections if each.guard == "freeze"]


def make_plan(
    source: Readable,
    uri: str,
    wanted: Wanted,
    *,
    environment: str,
    home: str | None = None,
    provenance: Provenance | Whose,
    policy: PublishPolicy,
    max_bytes: int,
    owners: Sequence[Owner] = (),
    checks: Sequence[Check] | None = None,
    allowed: Sequence[str] = (),
    now: datetime | None = None,
    remembers: Remembers | None = None,
) -> Proposal:
    """Reads the store and writes nothing; `uri` is how it is called, without credentials. `checks` are those that are
    installed, unless others are given. `now` decides about freezes, which count for `environment`, for `home`, the
    environment of whoever publishes, and for those whose rules stand in the store. `provenance` may depend on the kinds
    that change. `remembers` tells what stood there before: the store, unless another is given. Raises
    DatasourceError."""
    steps, found, invalid = [], list[Objection](), []
    remembers = remembers or store_remembers(source)
    older: dict[str, Older | None] = {}
    back: list[Kind] = []
    read: dict[str, Reading] = {}
    readings: list[Reading] = []
    stands: dict[Kind, RuleSet] = {}
    changed: dict[Kind, RuleSet] = {}
    now = now or datetime.now(UTC)
    for item in source.items(KINDS):
        kinds = [kind for kind in item.kinds if kind in wanted.sets]
        if not kinds:
            continue
        reading = source.read(item)
        readings.append(reading)
        standing = sets_of(reading, item.kinds)
        if standing is None:
            invalid.append(item.source)
        runs = dict(standing or {})
        if missing := [kind for kind in kinds if kind not in runs]:
            known = newest_valid(remembers(item), item.kinds, missing)
            if known is not None or standing is None or not told_beside(source, item).keys().isdisjoint(missing):
                older[item.source] = known
            runs = {**(known.sets if known is not None else {}), **runs}
        stands |= runs
        sets = {kind: wanted.sets[kind] for kind in kinds}
        step = _step(item, reading, standing, runs, sets, wanted.texts)
        if step is not None:
            steps.append(step)
            read[step.source] = reading
            published = last_published(source, reading, item, remembers)
            again = [kind for kind, rules in sets.items() if published.get(kind) == rules.digest]
            back += again
            changed |= sets
            if item.source in older and older[item.source] is None and len(again) < len(sets):
                found.append(_unknown(item, reading, is_valid=standing is not None))
            found += _foreign(item, reading, environment)
            found += _too_long(step, kinds[0], max_bytes)
            found += _quarantined(source, item, step)
    written = [kind for kind, rules in changed.items() if kind not in stands or stands[kind].digest != rules.digest]
    whose = provenance(written) if callable(provenance) else provenance
    # The largest first: where a store refuses its size, nothing was written yet.
    steps.sort(key=lambda step: -sum(len(text.content) for text in step.texts))
    plan = Plan(
        id=plan_id(uri, steps),
        store=uri,
        environment=environment,
        title=wanted.title,
        made_at=now,
        provenance=whose,
        allowed=tuple(allowed),
        steps=tuple(steps),
    )
    if steps:
        author = whose.author or whose.published_by
        context = CheckContext(environment, uri, wanted.title, whose.published_by, whose.author, whose.reason)
        before = {kind: rules for kind, rules in stands.items() if kind in wanted.sets}
        # What was published last was guarded then: going back to it from an edit is no change of anybody.
        guarded = {kind: rules for kind, rules in changed.items() if kind not in back}
        owned = {kind: rules for kind, rules in wanted.sets.items() if kind not in back}
        found = [
            *_limits(source, stands, guarded, policy),
            *found,
            *unowned(stands, owned, owners, wanted.files, author),
            *ask(installed() if checks is None else checks, before, dict(wanted.sets), context),
            *freezes(policy.freeze, [environment, home, *environments_of(readings)], now),
        ]
    against = [each for each in found if each.overruled_by not in allowed]
    return Proposal(plan, against, [each for each in found if each.overruled_by in allowed], invalid, read, older)


def _limits(
    source: Readable, stands: Mapping[Kind, RuleSet], changed: Mapping[Kind, RuleSet], policy: Policy
) -> list[Objection]:
    """A resource has lost its last rule only where no kind has one: those that nobody asked for are read, too, where it
    depends on them."""
    found = objections(stands, changed, policy)
    if not any(each.guard == "last" for each in found):
        return found
    every = dict(stands)
    for item in source.items(KINDS):
        if not any(kind in stands or kind in changed for kind in item.kinds):
            every |= sets_of(source.read(item), item.kinds) or {}
    return objections(every, changed, policy)


def freezes(windows: Sequence[Freeze], environments: Iterable[str | None], now: datetime) -> list[Objection]:
    """The windows that keep rules from being published now, each told of the first environment that it holds for."""
    found: dict[Freeze, tuple[str, datetime]] = {}
    for name in dict.fromkeys(each for each in environments if each):
        for window, end in frozen(windows, name, now):
            found.setdefault(window, (" ".join(name.split()), end))
    return [
        Objection("freeze", None, f"{name} is frozen {said(end)}: {window.name}")
        for window, (name, end) in found.items()
    ]


def environments_of(readings: Iterable[Reading]) -> list[str | None]:
    """Whose rules stand in a store, as far as it says so: a freeze of theirs counts, whatever name somebody publishes
    under."""
    return [each.provenance.environment for each in readings if isinstance(each, Revision)]


def _step(
    item: Item,
    reading: Reading,
    standing: Mapping[Kind, RuleSet] | None,
    runs: Mapping[Kind, RuleSet],
    sets: Mapping[Kind, RuleSet],
    texts: Sequence[SourceText],
) -> Step | None:
    """None where what is wanted stands there already. What cannot be read keeps the kinds that nobody asked for as
    engines run them."""
    if standing is not None and all(kind in standing and standing[kind].digest == sets[kind].digest for kind in sets):
        return None
    whole = {**(runs if standing is None else standing), **sets}
    return Step(
        source=item.source,
        key=item.key,
        expected=reading.version if isinstance(reading, Revision) else None,
        digests=digests_of(whole),
        texts=_texts(item, reading, whole, texts if whole.keys() == sets.keys() else ()),
        changes=changes_between(runs, sets),
    )


def _texts(
    item: Item, reading: Reading, sets: Mapping[Kind, RuleSet], texts: Sequence[SourceText]
) -> tuple[SourceText, ...]:
    """A store of documents keeps comments: it gets the document as somebody wrote it, where there is one; of a base
    with an overlay the base with the overlay's rules."""
    if len(item.kinds) == 1:
        (rules,) = sets.values()
        return (SourceText(item.key, json_list(rules), "json"),)
    stands = reading.texts if isinstance(reading, Revision) else ()
    if len(stands) > 1:
        names = ", ".join(text.name for text in stands)
        raise SourceMisconfigured(
            f"{item.source} is a folder of several texts ({names}), of which publishing would make one; change those"
        )
    if len(texts) == 1 and texts[0].format == "yaml":
        return tuple(texts)
    name = stands[0].name if stands else DOCUMENT_NAME
    overlays = overlays_among(text.name for text in texts)
    base = [replace(text, name=name) for text in texts if text.name not in overlays]
    return (_commented(base, sets) or _commented(stands, sets) or SourceText(name, document(sets, name), "yaml"),)


def _commented(texts: Sequence[SourceText], sets: Mapping[Kind, RuleSet]) -> SourceText | None:
    """One text with other rules and its own comments; None where that cannot be."""
    try:
        (text,) = rewrite(texts, sets)
    except (
        ValueError,
        RuleRejected,
    ):  # none or several; changes that cannot be made in place; rules that are not valid
        return None
    found = parse_revision(Revision((text,), "document", ""), KINDS)
    return text if digests_of(found) == digests_of(sets) else None


def rolled_back(plan: Plan, source: Readable) -> list[Objection]:
    """What a plan would bring back although it was rolled back, maybe since the plan was made. Raises
    DatasourceError."""
    steps = {step.source: step for step in plan.steps}
    return [each for item in items_of(plan, source) for each in _quarantined(source, item, steps[item.source])]


def _quarantined(source: Readable, item: Item, step: Step) -> list[Objection]:
    """Rules that were rolled back, whoever brings them again."""
    return [
        Objection(
            "quarantine",
            each.kind,
            f"the {each.kind} rules {each.digest[:12]} were rolled back ({each.since:%Y-%m-%d %H:%M} UTC"
            f"{f', by {each.by}' if each.by else ''}{f': {each.reason}' if each.reason else ''})",
            digest=each.digest,
        )
        for each in quarantined(source, item)
        if step.digests.get(each.kind) == each.digest
    ]


def _foreign(item: Item, reading: Reading, environment: str) -> list[Objection]:
    """Rules of another environment that would be replaced: a store holds those of one."""
    stands = reading.provenance.environment if isinstance(reading, Revision) else None
    if stands is None or stands == environment:
        return []
    text = (
        f"what stands at {item.source} was published for the environment {stands} and would be replaced by the rules "
        f"for {environment}; a store holds one environment: is this the right one?"
    )
    return [Objection("environment", item.kinds[0] if len(item.kinds) == 1 else None, text)]


def _unknown(item: Item, reading: Reading, *, is_valid: bool) -> Objection:
    """Without it a text that is not valid, or gone, would be a way around the guards: it loses nothing and changes
    nothing."""
    if isinstance(reading, Absent):
        what = f"what was published at {item.source} is gone"
    elif is_valid:
        what = f"what stands at {item.source} says nothing of some rules that were published there"
    else:
        what = f"what stands at {item.source} are no valid rules"
    text = f"{what}, and nobody remembers those that engines run in their place: nothing can be compared"
    return Objection("unknown", item.kinds[0] if len(item.kinds) == 1 else None, text)


def _too_long(step: Step, kind: Kind, max_bytes: int) -> list[Objection]:
    size = max(len(text.content) for text in step.texts)
    if size <= max_bytes:
        return []
    text = f"{step.source}: {size / 2**20:.1f} MiB; the limit is {max_bytes / 2**20:g} MiB"
    return [Objection("size", kind, text)]
