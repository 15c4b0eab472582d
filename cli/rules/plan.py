"""`sentinelctl rules plan`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import App, env_option, output_options_and, pass_app
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.output import FORMATS
from sentinel_core.cli.rules.inputs import STDIN, given_or_default, read_revisions, shown
from sentinel_core.cli.rules.options import kind_option, store_option
from sentinel_core.cli.rules.proposing import (
    allowed_among,
    check_guards,
    check_reason,
    guard_options,
    plan_view,
    propose,
    target,
)
from sentinel_core.cli.rules.reporting import FORMS, plan_forms
from sentinel_core.publishing import Plan, write_plan
from sentinel_core.rules import KINDS, Kind
from sentinel_core.rules.positions import Positions

TO_DO = 2
"""With `--detailed-exitcode`, as terraform has it."""


@click.command()
@click.argument("what", required=False, metavar="[WHAT]")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save the plan, for sentinelctl rules apply.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="0: nothing to do, 1: an error, 2: there is something to do; for scripts."
)
@store_option
@kind_option("Plan only this kind.")
@guard_options
@env_option
@output_options_and(*FORMS, by_name=True)
@pass_app
def plan(
    app: App,
    /,
    what: str | None,
    out: Path | None,
    detailed_exitcode: bool,
    store: str | None,
    kind: Kind | None,
    reason: str | None,
    **flags: Any,
) -> int:
    """What publishing would change in a store, and what the guards say; writes nothing there.

    WHAT is what is to stand in the store: a path (default: `rules` of the settings), git:REV, history:N, a store URI or
    - for stdin. A kind that it does not carry stays as it is.

    \b
    sentinelctl rules plan                      what would change
    sentinelctl rules plan -o release.plan      saved, to be reviewed
    sentinelctl rules apply release.plan        exactly that, or refused as stale
    sentinelctl rules plan --output markdown    a comment for a request
    """
    if detailed_exitcode:
        app.code_of_errors = 1
    check_file(out)
    with target(app, store) as named:
        proposal = propose(app, named, what, kind, reason, allowed_among(flags), store)
    made = proposal.plan
    view = plan_view(made, proposal)
    app.out.show(replace(view, forms=plan_forms(made, proposal, lambda: _positions(app, what, kind))))
    if not made.steps:
        app.out.say("Nothing to do: these rules stand there.")
    check_guards(app, proposal, later=True)
    if made.steps and not proposal.overruled and not proposal.objections:
        app.out.say("guards: ok")
    if made.steps and out is None and not made.provenance.reason:
        app.out.say('note: it is not as it was committed: commit it, or publish it with --reason "why"')
    if out is not None:
        save(app, made, out)
    return TO_DO if detailed_exitcode and made.steps else Exit.DONE


def _positions(app: App, what: str | None, kind: Kind | None) -> Positions:
    """Of what is read from files; what a store or a commit holds is beside no line of the checkout."""
    (text,) = (what,) if what else given_or_default(app, ())
    if text == STDIN or not Path(text).exists():
        return Positions((), KINDS)
    parts = read_revisions(text, kind, app.environment)
    return Positions(parts[0][0].texts, parts[0][1])


def check_file(out: Path | None) -> None:
    """Raises UsageProblem for what cannot be meant as the file of a plan."""
    if out is not None and (str(out) == "-" or (out.exists() and not out.is_file())):
        raise UsageProblem(f"{out} is no file that a plan can be kept in", next_step="name a file with -o")
    if out is not None and str(out) in (*FORMATS, *FORMS):
        raise UsageProblem(
            f"-o names the file of the plan here, and {out} is a form", next_step=f"write --output {out}, or -o ./{out}"
        )


def save(app: App, made: Plan, out: Path) -> None:
    """Keeps the plan in a file, for `rules apply`. Raises CommandError."""
    if made.steps:
        check_reason(made)
    try:
        write_plan(made, out.resolve())
    except OSError as error:
        raise CommandError(
            f"{out}: cannot be written: {error.strerror}", next_step="name another file with -o"
        ) from error
    to_do = (
        f"Carry it out with: sentinelctl rules apply {shown(out)}" if made.steps else "There is nothing to carry out."
    )
    app.out.say(f"Saved to {shown(out)}. {to_do}")
