"""What `plan`, `apply` and `publish` share: the proposal, how it is shown, and the step that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem, code_of
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.diff import Difference, change_lines
from sentinel_core.cli.rules.inputs import STDIN, given_or_default
from sentinel_core.cli.rules.show import masked
from sentinel_core.cli.rules.sides import Side, head_of, resolve
from sentinel_core.cli.stores import opened, store_uris
from sentinel_core.cli.text import Span, Styled, visible
from sentinel_core.datasources import mask_uri
from sentinel_core.datasources.contract import Absent, Readable
from sentinel_core.publishing import Outcome, Plan, PlanStale, carry_out, make_plan
from sentinel_core.publishing.make import Proposal, Wanted
from sentinel_core.publishing.standing import digests_of
from sentinel_core.rules import KINDS, Kind, Provenance, RuleSet
from sentinel_core.rules.guard import GUARDS, Objection

Command = TypeVar("Command", bound=Callable[..., Any])
_SHOWN = 10
"""Resources that an objection names at most."""


def guard_options(command: Command) -> Command:
    """`--allow-…` for each guard, and `--reason`."""
    for guard in reversed(GUARDS):
        command = click.option(
            f"--allow-{guard}", f"allow_{guard}", is_flag=True, help=f"Overrule the guard {guard}; needs --reason."
        )(command)
    return click.option(
        "--reason", type=WORDS, metavar="TEXT", help="Why; kept with the rules (default: that of the commit)."
    )(command)


def allowed_among(flags: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(guard for guard in GUARDS if flags.get(f"allow_{guard}"))


@contextmanager
def target(app: App, store: str | None) -> Iterator[tuple[str, Readable]]:
    """The store that is written, with its URI. Raises BadSettings where it must be named."""
    uris = (store,) if store else store_uris(app)
    if len(uris) > 1:
        raise BadSettings(
            f"the settings name {len(uris)} stores, and only one is written at a time",
            next_step=f"add --store with one of them: {', '.join(uris)}",
        )
    with opened(app, uris[0]) as source:
        yield mask_uri(uris[0]), source


def uri_of(app: App, plan: Plan) -> str:
    """Where a plan goes: a plan holds no credentials, so a store of the settings has its own."""
    stores = app.settings.stores
    return next((uri for uri in stores if mask_uri(uri) == plan.store), plan.store)


def propose(
    app: App,
    store: tuple[str, Readable],
    what: str | None,
    kind: Kind | None,
    reason: str | None,
    allowed: tuple[str, ...],
    named: str | None,
) -> Proposal:
    """Compares what is wanted with what stands in the store, and asks the guards. `named`: the store of the command
    line, whose history is meant."""
    check_words(reason, allowed)
    (text,) = (what,) if what else given_or_default(app, ())
    side = resolve(app, text, kind, store=named)
    return propose_side(app, store, side, _provenance(app, text, side, kind, reason, allowed), allowed)


def check_words(reason: str | None, allowed: tuple[str, ...]) -> None:
    """Raises UsageProblem where a reason is needed or says nothing."""
    if reason is not None and not reason.strip():
        raise UsageProblem("the reason is blank", next_step='write --reason "why"')
    if allowed and not reason:
        raise UsageProblem("to overrule a guard needs a reason", next_step='add --reason "why this is right"')


def propose_side(
    app: App, store: tuple[str, Readable], side: Side, provenance: Provenance, allowed: tuple[str, ...]
) -> Proposal:
    """The same for rules that were read already, and whose provenance is known."""
    uri, source = store
    with app.out.waiting(f"reading {source.uri}"):
        return make_plan(
            source,
            uri,
            Wanted(side.title, side.sets, side.texts),
            environment=app.environment,
            provenance=provenance,
            policy=app.settings.guards,
            max_bytes=app.settings.guards.max_bytes,
            allowed=allowed,
        )


def _provenance(
    app: App, text: str, side: Side, kind: Kind | None, reason: str | None, allowed: tuple[str, ...]
) -> Provenance:
    """Of the commit that the rules are from, where they are as they were committed."""
    found = _committed(app, text, side, kind) or Provenance(channel="cli")
    return published(app, found, reason or found.reason, allowed)


def published(app: App, found: Provenance, why: str | None, allowed: tuple[str, ...]) -> Provenance:
    """What is kept beside rules that somebody publishes now: whose they are and why."""
    if allowed:
        why = f"{why} (overruled: {', '.join(allowed)})"
    # What stands beside the rules is read by everybody: no credential that somebody wrote into a message goes there.
    return masked(replace(found, reason=why, environment=app.environment, published_by=actor()))


def check_reason(plan: Plan) -> None:
    """Every write has one."""
    if not plan.provenance.reason:
        raise UsageProblem(
            f"{plan.title} is not as it was committed, and nothing says why it shall be published",
            next_step='commit it, or add --reason "why"',
        )


def _committed(app: App, text: str, side: Side, kind: Kind | None) -> Provenance | None:
    if side.revisions and side.revisions[0].provenance.commit_hash:
        return side.revisions[0].provenance
    if text == STDIN or "://" in text or not Path(text).exists():
        return None
    head = head_of(app, Path(text), kind)
    same = head is not None and digests_of(head.sets) == digests_of(side.sets)
    return head.revisions[0].provenance if head is not None and same else None


# -- showing -----------------------------------------------------------------------------------------------------------


def say_plan(app: App, plan: Plan) -> None:
    """On stderr, as the talk before a question."""
    for line in _plan_lines(plan):
        app.out.say(*line)


def _plan_lines(plan: Plan) -> Iterator[Sequence[Span]]:
    """For people: what would change, and how much that is."""
    if not plan.steps:
        return
    yield (Styled(plan.title, "bold"), "  →  ", Styled(plan.store, "bold"))
    yield from change_lines(_difference(plan))
    yield (_count_line(plan),)


def _count_line(plan: Plan) -> str:
    rules = {action: {_rule(change) for change in plan.changes if change["action"] == action} for action in
             ("add", "change", "remove")}  # fmt: skip
    add, change, remove = (len(rules[action]) for action in ("add", "change", "remove"))
    return f"Plan: {add} to add, {change} to change, {remove} to remove."


def _rule(change: Mapping[str, Any]) -> tuple[str, str]:
    return str(change["rule"]), "" if change["action"] == "change" else str(change["new"] or change["old"])


def _difference(plan: Plan) -> Difference:
    changes: dict[Kind, list[Mapping[str, Any]]] = {}
    for change in plan.changes:
        changes.setdefault(str(change["rule"]).partition("/")[0], []).append(change)
    return Difference({kind: changes[kind] for kind in KINDS if kind in changes}, (), ())


def plan_view(plan: Plan, proposal: Proposal | None, outcomes: Sequence[Outcome] = ()) -> View:
    """The plan without its texts; `steps` tell what became of each, where it was carried out."""
    states = {outcome.step.source: outcome for outcome in outcomes}
    document = {
        "plan": plan.id,
        "rules": plan.title,
        "store": plan.store,
        "environment": plan.environment,
        "reason": plan.provenance.reason,
        "allowed": list(plan.allowed),
        "objections": [each.to_json() for each in proposal.objections] if proposal else [],
        "overruled": [each.to_json() for each in proposal.overruled] if proposal else [],
        "changes": plan.changes,
        "steps": [
            {
                "source": step.source,
                "expected": step.expected,
                "digests": dict(step.digests),
                "state": states[step.source].state if step.source in states else "planned",
                "version": states[step.source].version if step.source in states else None,
            }
            for step in plan.steps
        ],
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if outcomes:
            for outcome in outcomes:
                version = f" @{outcome.version}" if outcome.version else ""
                yield (f"{outcome.state:14}{outcome.step.source}{version}",)
        else:
            yield from _plan_lines(plan)

    return View(document=document, items=plan.changes, names=[plan.id], lines=lines)


def check_guards(app: App, proposal: Proposal) -> None:
    """Raises CommandError (3) with every objection that nobody has overruled."""
    for source in proposal.invalid:
        app.out.say(f"note: what stands at {source} is not valid and would be replaced; engines run older rules")
    for each in proposal.overruled:
        app.out.say(f"guard {each.guard} is overruled: {each.text}")
    if proposal.objections:
        guards = dict.fromkeys(each.guard for each in proposal.objections)
        flags = " ".join(f"--allow-{guard}" for guard in guards if guard in GUARDS)
        steps = [f'if it is meant: {flags} --reason "why"    (the reason is kept with the rules)'] if flags else []
        steps += [
            f"sentinelctl rules release {digest[:12]} --store {proposal.plan.store} "
            '--reason "why"    (lets them come back)'
            for digest in dict.fromkeys(each.digest for each in proposal.objections if each.digest)
        ]
        raise CommandError(
            "refused by a guard; nothing was changed\n" + "\n".join(map(_objection, proposal.objections)),
            next_step="\n  ".join(steps),
            code=Exit.REFUSED,
        )


def _objection(objection: Objection) -> str:
    names = visible(", ".join(objection.resources[:_SHOWN]))
    more = f", … ({len(objection.resources)} in all)" if len(objection.resources) > _SHOWN else ""
    shown = f"\n  {names}{more}" if objection.guard in ("empty", "shrink", "last") and names else ""
    return f"{objection.guard}: {visible(objection.text)}{shown}"


# -- writing -----------------------------------------------------------------------------------------------------------


def confirm_plan(app: App, plan: Plan) -> None:
    """Asks; where a kind would lose all its rules, for its name."""
    empty = {kind: RuleSet.empty(kind).digest for kind in KINDS}
    emptied = {str(change["rule"]).partition("/")[0] for change in plan.changes if change["action"] == "remove"}
    typed = ",".join(
        kind
        for step in plan.steps
        for kind, digest in step.digests.items()
        if kind in emptied and digest == empty[kind]
    )
    question = f"This removes every rule of {typed}." if typed else f"Write this to {plan.store}?"
    confirm(app, question, typed)


def write(app: App, plan: Plan, source: Readable, again: str) -> list[Outcome]:
    """Carries the plan out and says of each step what became of it. `again`: the command that finishes the job.

    Raises CommandError: 5 where the store has moved on, else with the code of the first failure.
    """
    try:
        outcomes = carry_out(plan, source, told=lambda outcome: _say_failure(app, outcome))
    except PlanStale as stale:
        raise stale_plan(plan, stale) from stale
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed is not None and failed.error is not None:
        app.out.show(plan_view(plan, None, outcomes))
        raise CommandError(
            f"not everything was written: {failed.error}", next_step=again, code=code_of(failed.error)
        ) from failed.error
    return outcomes


def stale_plan(plan: Plan, stale: PlanStale) -> CommandError:
    """What stands where, and what the plan was made for."""
    stands = "\n".join(
        f"{name} stands at {'nothing' if isinstance(now, Absent) else now.version}, not at "
        f"{next(step.expected for step in plan.steps if step.source == name) or 'nothing'}"
        for name, now in stale.moved.items()
    )
    return CommandError(
        f"the store has changed since the plan was made; nothing was written\n{stands}",
        next_step="make the plan anew (sentinelctl rules plan): it shows what would change now",
        code=Exit.CONFLICT,
    )


def _say_failure(app: App, outcome: Outcome) -> None:
    if outcome.state == "failed":
        app.out.say(Styled(f"failed: {outcome.step.source}", "red"))
