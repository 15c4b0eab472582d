"""`sentinelctl rules apply`."""

from __future__ import annotations

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.rules.proposing import confirm_plan, plan_view, say_plan, stale_plan, uri_of, write
from sentinel_core.cli.stores import opened
from sentinel_core.publishing import PlanInvalid, PlanStale, examine, read_plan


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option("--dry-run", is_flag=True, help="Show what would be written and write nothing.")
@output_options
@pass_app
def apply(app: App, plan: str, dry_run: bool) -> int:
    """Carry out a saved plan: exactly what it says.

    \b
    sentinelctl rules apply release.plan
    sentinelctl rules apply release.plan --dry-run

    Refused with exit code 5, with nothing written, where the store has changed since the plan was made. A plan that
    broke off half-way is finished by applying it again: what stands already is not written twice.
    """
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
    say_plan(app, made)
    if dry_run:
        with opened(app, uri_of(app, made)) as source:
            try:
                examine(made, source)
            except PlanStale as stale:
                raise stale_plan(made, stale) from stale
        app.out.show(plan_view(made, None))
        app.out.say("Dry run: nothing was written. The same without --dry-run does it.")
        return Exit.DONE
    confirm_plan(app, made)
    with opened(app, uri_of(app, made)) as source:
        outcomes = write(app, made, source, f"sentinelctl rules apply {plan}    (goes on where this ended)")
    app.out.show(plan_view(made, None, outcomes))
    return Exit.DONE
