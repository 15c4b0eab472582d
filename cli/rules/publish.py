"""`sentinelctl rules publish`."""

from __future__ import annotations

from typing import Any

import click

from sentinel_core.cli.app import App, env_option, output_options, pass_app
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.rules.options import kind_option, lock_option, store_option
from sentinel_core.cli.rules.proposing import (
    allowed_among,
    check_guards,
    check_reason,
    confirm_plan,
    finish,
    guard_options,
    plan_view,
    propose,
    say_plan,
    target,
    write,
)
from sentinel_core.cli.rules.waiting import Wait, asked, prepared, wait_options
from sentinel_core.datasources.contract import Readable
from sentinel_core.publishing import Outcome
from sentinel_core.publishing.make import Proposal
from sentinel_core.rules import Kind


@click.command()
@click.argument("what", required=False, metavar="[WHAT]")
@click.option("--dry-run", is_flag=True, help="Show what would be written and write nothing.")
@store_option
@kind_option("Publish only this kind.")
@guard_options
@wait_options
@env_option
@lock_option
@output_options
@pass_app
def publish(
    app: App,
    /,
    what: str | None,
    dry_run: bool,
    store: str | None,
    kind: Kind | None,
    reason: str | None,
    under: str | None,
    **flags: Any,
) -> int:
    """Write rules into a store: plan and apply in one, for CI.

    WHAT is what is to stand in the store: a path (default: `rules` of the settings), git:REV, history:N, a store URI or
    - for stdin. Author, commit and reason are those of the commit that the rules are from.

    \b
    sentinelctl rules publish --yes             in a pipeline: no question
    sentinelctl rules publish git:v1.4 --yes    the rules of a tag
    sentinelctl rules publish --yes --wait      and until the fleet runs it
    """
    wait = asked(flags)
    with target(app, store) as named:
        proposal = propose(app, named, what, kind, reason, allowed_among(flags), store)
        return carry(app, named, proposal, dry_run=dry_run, command="publish", under=under, wait=wait)


def carry(
    app: App,
    named: tuple[str, Readable],
    proposal: Proposal,
    *,
    dry_run: bool,
    command: str,
    under: str | None,
    wait: Wait | None,
) -> int:
    """Shows the plan, asks, writes, and waits where that was asked for; the exit code of the command. `under`: the lock
    that is held already."""
    made = proposal.plan
    if not made.steps:
        app.out.say("Nothing to do: these rules stand there.")
    else:
        if not (dry_run and app.out.for_people):
            say_plan(app, made)
        else:
            app.out.show(plan_view(made, proposal))
        check_guards(app, proposal)
        check_reason(made)
    if dry_run:
        if not app.out.for_people:
            app.out.show(plan_view(made, proposal))
        if made.steps:
            app.out.say("Dry run: nothing was written. The same without --dry-run does it.")
        return Exit.DONE
    with prepared(app, named[1], wait) as waiting:
        outcomes: list[Outcome] = []
        if made.steps:
            confirm_plan(app, made)
            again = "run it again: what stands already is not written twice"
            outcomes = write(app, made, named[1], again, command=command, under=under)
        finish(app, made, proposal, outcomes, waiting)
    return Exit.DONE
