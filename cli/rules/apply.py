"""`sentinelctl rules apply`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.rules.options import lock_option
from sentinel_core.cli.rules.proposing import (
    check_overruling,
    confirm_plan,
    finish,
    overruling,
    plan_view,
    refused,
    say_plan,
    stale_plan,
    uri_of,
    write,
)
from sentinel_core.cli.rules.waiting import asked, prepared, wait_options
from sentinel_core.cli.stores import opened
from sentinel_core.datasources.contract import Readable
from sentinel_core.masking import mask_text
from sentinel_core.publishing import Plan, PlanInvalid, PlanStale, carry_out, examine, read_plan
from sentinel_core.publishing.carry_out import items_of
from sentinel_core.publishing.make import environments_of, freezes, rolled_back


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option("--dry-run", is_flag=True, help="Show what would be written and write nothing.")
@click.option("--allow-freeze", is_flag=True, help="Write during a freeze; needs --reason.")
@click.option("--reason", type=WORDS, metavar="TEXT", help="Why it is written during a freeze; kept with the rules.")
@lock_option
@wait_options
@output_options
@pass_app
def apply(
    app: App,
    /,
    plan: str,
    dry_run: bool,
    allow_freeze: bool,
    reason: str | None,
    under: str | None,
    **options: Any,
) -> int:
    """Carry out a saved plan: exactly what it says.

    \b
    sentinelctl rules apply release.plan
    sentinelctl rules apply release.plan --dry-run

    Refused with exit code 5, with nothing written, where the store has changed since the plan was made. A plan that
    broke off half-way is finished by applying it again: what stands already is not written twice. A freeze counts when
    a plan is applied, whenever it was made; what other guards said stands in the plan.
    """
    wait = asked(options)
    check_overruling(reason, ["freeze"] if allow_freeze else [])
    try:
        made = read_plan(plan)
    except PlanInvalid as error:
        raise UsageProblem(str(error), next_step="sentinelctl rules plan -o FILE") from error
    except OSError as error:
        raise UsageProblem(f"{plan}: cannot be read: {error.strerror}", next_step="check the path") from error
    app.env = made.environment
    if not made.steps:
        app.out.show(plan_view(made, None))
        app.out.say("Nothing to do: these rules stood there when the plan was made.")
        return Exit.DONE
    overruled = reason if allow_freeze else None
    with opened(app, uri_of(app, made)) as source:
        if _is_done(made, source):
            app.out.say("Nothing to do: this plan is applied already.")
            with prepared(app, source, None if dry_run else wait) as waiting:
                finish(app, made, None, carry_out(made, source), waiting)
            return Exit.DONE
        if not (dry_run and app.out.for_people):  # else it is shown, once
            say_plan(app, made)
        made = _unless_frozen(app, made, source, overruled)
        if dry_run:
            app.out.show(plan_view(made, None))
            app.out.say("Dry run: nothing was written. The same without --dry-run does it.")
            return Exit.DONE
        with prepared(app, source, wait) as waiting:
            confirm_plan(app, made)
            if found := rolled_back(made, source):
                raise refused(found, made.store)
            again = f"sentinelctl rules apply {plan}    (goes on where this ended)"
            outcomes = write(app, made, source, again, command="apply", under=under)
            finish(app, made, None, outcomes, waiting)
    return Exit.DONE


def _is_done(made: Plan, source: Readable) -> bool:
    """Whether every step stands there. Raises CommandError (5) where the store has moved on, before anybody is asked;
    DatasourceError."""
    try:
        _, _, done = examine(made, source)
    except PlanStale as stale:
        raise stale_plan(made, stale) from stale
    return len(done) == len(made.steps)


def _unless_frozen(app: App, made: Plan, source: Readable, reason: str | None) -> Plan:
    """The plan, with the reason for which it is written all the same. Raises CommandError (3), DatasourceError."""
    windows = app.settings.guards.freeze
    if not windows:
        return made
    theirs = environments_of(source.read(item) for item in items_of(made, source))
    environments = [made.environment, app.settings.environment, *theirs]
    found = freezes(windows, environments, utc_now())
    has_leave = "freeze" in made.allowed
    if not found or (has_leave and freezes(windows, environments, made.made_at)):
        return made
    if reason is None and not has_leave:
        raise refused(found, made.store)
    for each in found:
        app.out.say(f"guard {each.guard} is overruled: {each.text}")
    reasons = [each for each in (made.provenance.reason, reason) if each]
    why = overruling(mask_text("; ".join(reasons)), ["freeze"])
    allowed = tuple(dict.fromkeys((*made.allowed, "freeze")))
    return replace(made, allowed=allowed, provenance=replace(made.provenance, reason=why))
