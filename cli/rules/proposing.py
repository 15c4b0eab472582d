"""What `plan`, `apply` and `publish` share: the proposal, how it is shown, and the step that writes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sentinel_core.cli.actor import actor
from sentinel_core.cli.app import WORDS, App
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem, code_of
from sentinel_core.cli.lock.holding import locked
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.diff import change_lines
from sentinel_core.cli.rules.inputs import STDIN, given_or_default
from sentinel_core.cli.rules.past import remembering
from sentinel_core.cli.rules.reporting import compared, count_line, difference_of, flags_for, objection_text
from sentinel_core.cli.rules.show import masked
from sentinel_core.cli.rules.sides import Side, head_of, resolve
from sentinel_core.cli.rules.waiting import Waiting, convergence_json, show_then_wait
from sentinel_core.cli.stores import opened, store_uris
from sentinel_core.cli.text import Span, Styled
from sentinel_core.datasources import mask_uri
from sentinel_core.datasources.contract import Absent, Readable, SourceMisconfigured
from sentinel_core.publishing import Outcome, Plan, PlanStale, carry_out, make_plan
from sentinel_core.publishing.carry_out import items_of
from sentinel_core.publishing.checks import installed
from sentinel_core.publishing.make import Proposal, Wanted, Whose
from sentinel_core.publishing.standing import digests_of
from sentinel_core.rules import KINDS, Kind, Provenance, RuleSet
from sentinel_core.rules.guard import GUARDS, Objection

if TYPE_CHECKING:
    from sentinel_core.publishing.convergence import Convergence

Command = TypeVar("Command", bound=Callable[..., Any])


def guard_options(command: Command) -> Command:
    """`--allow-…` for each guard, and `--reason`."""
    command = click.option(
        "--allow-check",
        "allow_check",
        multiple=True,
        type=WORDS,
        metavar="NAME",
        help="Overrule the own check of this name; needs --reason.",
    )(command)
    for guard in reversed(GUARDS):
        command = click.option(
            f"--allow-{guard}", f"allow_{guard}", is_flag=True, help=f"Overrule the guard {guard}; needs --reason."
        )(command)
    return click.option(
        "--reason", type=WORDS, metavar="TEXT", help="Why; kept with the rules (default: that of the commit)."
    )(command)


def allowed_among(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """As plans list them. Raises UsageProblem for a check that there is not."""
    names = dict.fromkeys(flags.get("allow_check", ()))
    if names:
        _check_names(names)
    return (*(guard for guard in GUARDS if flags.get(f"allow_{guard}")), *(f"check:{name}" for name in names))


def _check_names(names: Iterable[str]) -> None:
    import difflib

    known = [check.name for check in installed()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageProblem(
                f"there is no check {name}{hint}",
                next_step=f"--allow-check takes one of: {', '.join(known)}"
                if known
                else "leave --allow-check out: no checks are installed here",
            )


def one_store(app: App, store: str | None) -> str:
    """The URI of the store that is meant. Raises BadSettings where it must be named."""
    uris = (store,) if store else store_uris(app)
    if len(uris) > 1:
        raise BadSettings(
            f"the settings name {len(uris)} stores, and only one is meant at a time",
            next_step=f"add --store with one of them: {', '.join(uris)}",
        )
    return uris[0]


@contextmanager
def target(app: App, store: str | None) -> Iterator[tuple[str, Readable]]:
    """The store that is written, with its URI. Raises BadSettings where it must be named."""
    uri = one_store(app, store)
    with opened(app, uri) as source:
        yield mask_uri(uri), source


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
    check_overruling(reason, allowed)
    (text,) = (what,) if what else given_or_default(app, ())
    side = resolve(app, text, kind, store=named)
    return propose_side(app, store, side, _provenance(app, text, side, kind, reason), allowed)


def propose_side(
    app: App, store: tuple[str, Readable], side: Side, provenance: Provenance | Whose, allowed: tuple[str, ...]
) -> Proposal:
    """The same for rules that were read already, and whose provenance is known; the reason names the guards that were
    overruled."""
    uri, source = store
    with app.out.waiting(f"reading {source.uri}"):
        proposal = make_plan(
            source,
            uri,
            Wanted(side.title, side.sets, side.texts, side.files),
            environment=app.environment,
            home=app.settings.environment,
            provenance=provenance,
            policy=app.settings.guards,
            max_bytes=app.settings.guards.max_bytes,
            owners=app.settings.owners,
            allowed=allowed,
            now=utc_now(),
            remembers=remembering(app, source),
        )
    against = {each.overruled_by for each in proposal.overruled}
    return _with_reason(proposal, [each for each in allowed if each in against])


def _with_reason(proposal: Proposal, overruled: Sequence[str]) -> Proposal:
    """A flag that was not needed has overruled nothing."""
    found = proposal.plan.provenance
    if not overruled or not found.reason:
        return proposal
    told = replace(found, reason=overruling(found.reason, overruled))
    return replace(proposal, plan=replace(proposal.plan, provenance=told))


def check_overruling(reason: str | None, allowed: Sequence[str]) -> None:
    """Raises UsageProblem for a blank reason, and for guards that are overruled without one."""
    if reason is not None and not reason.strip():
        raise UsageProblem("the reason is blank", next_step='write --reason "why"')
    if allowed and not reason:
        raise UsageProblem("to overrule a guard needs a reason", next_step='add --reason "why this is right"')


def overruling(reason: str, allowed: Sequence[str]) -> str:
    """The reason as it is kept with the rules."""
    return f"{reason} (overruled: {', '.join(allowed)})" if allowed else reason


def _provenance(app: App, text: str, side: Side, kind: Kind | None, reason: str | None) -> Provenance:
    """Of the commit that the rules are from, where they are as they were committed."""
    found = _committed(app, text, side, kind) or Provenance(channel="cli")
    return published(app, found, reason or found.reason)


def published(app: App, found: Provenance, why: str | None) -> Provenance:
    """What is kept beside rules that somebody publishes now: whose they are and why."""
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
    yield from change_lines(difference_of(plan))
    yield (count_line(plan),)


def plan_view(
    plan: Plan, proposal: Proposal | None, outcomes: Sequence[Outcome] = (), found: Convergence | None = None
) -> View:
    """The plan without its texts; `steps` tell what became of each, where it was carried out, and `convergence` who
    runs it."""
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
        "convergence": convergence_json(found),
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if outcomes:
            for outcome in outcomes:
                version = f" @{outcome.version}" if outcome.version else ""
                yield (f"{outcome.state:14}{outcome.step.source}{version}",)
        else:
            yield from _plan_lines(plan)

    return View(document=document, items=plan.changes, names=[plan.id], lines=lines)


def check_guards(app: App, proposal: Proposal, *, later: bool = False) -> None:
    """Raises CommandError (3) with every objection that nobody has overruled. `later`: nothing is written now, so a
    freeze is only told."""
    for note in compared(proposal):
        app.out.say(f"note: {note}")
    for each in proposal.overruled:
        app.out.say(f"guard {each.guard} is overruled: {each.text}")
    if against := proposal.refusals if later else proposal.objections:
        raise refused(against, proposal.plan.store)
    for each in proposal.freezes:
        app.out.say(f'note: {each.text}; meanwhile it is applied with --allow-freeze --reason "why" alone')


def refused(objections: Sequence[Objection], store: str) -> CommandError:
    """What guards have against it, and how each is overruled."""
    return CommandError(
        "refused by a guard; nothing was changed\n" + "\n".join(map(objection_text, objections)),
        next_step=overruled_by(objections, store),
        code=Exit.REFUSED,
    )


def overruled_by(objections: Sequence[Objection], store: str, command: str = "") -> str:
    """What to type so that it is written all the same. `command`: to which the flags belong, if not the one that was
    typed."""
    flags = " ".join(filter(None, (command, flags_for(objections))))
    is_overruled = any(each.guard != "quarantine" for each in objections)
    steps = [f'if it is meant: {flags} --reason "why"    (the reason is kept with the rules)'] if is_overruled else []
    steps += [
        f'sentinelctl rules release {digest[:12]} --store {shlex.quote(store)} --reason "why"    (lets them come back)'
        for digest in dict.fromkeys(each.digest for each in objections if each.digest)
    ]
    return "\n  ".join(steps)


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
    confirm(app, question, typed, store=plan.store)


def write(
    app: App, plan: Plan, source: Readable, again: str, *, command: str = "publish", under: str | None = None
) -> list[Outcome]:
    """Carries the plan out and says of each step what became of it. `again`: the command that finishes the job.
    `command` is what holds the lock meanwhile, `under` that of a person under which it is written.

    Raises CommandError: 5 where the store has moved on or is locked, else with the code of the first failure.
    """
    try:
        with locked(app, source, plan.store, items_of(plan, source), command, plan.provenance.reason, under) as lock:
            outcomes = carry_out(plan, source, told=lambda outcome: _say_failure(app, outcome), check=lock.check)
    except PlanStale as stale:
        raise stale_plan(plan, stale) from stale
    failed = next((outcome for outcome in outcomes if outcome.error is not None), None)
    if failed is not None and failed.error is not None:
        app.out.show(plan_view(plan, None, outcomes))
        hopeless = isinstance(failed.error, SourceMisconfigured)
        raise CommandError(
            f"not everything was written: {failed.error}",
            next_step=f"mend that first; then {again}" if hopeless else again,
            code=code_of(failed.error),
        ) from failed.error
    return outcomes


def finish(
    app: App, plan: Plan, proposal: Proposal | None, outcomes: Sequence[Outcome], waiting: Waiting | None
) -> None:
    """Shows what was done, and waits where that was asked for. Raises CommandError (6) where too few run it."""
    found = show_then_wait(
        app,
        lambda found: plan_view(plan, proposal, outcomes, found),
        waiting,
        lambda waiting: waiting.for_steps(outcomes),
    )
    if waiting and found:
        waiting.end(found)


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
