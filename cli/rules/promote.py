"""`sentinelctl rules promote`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import App, output_options_and, pass_app
from sentinel_core.cli.config.known import context_named
from sentinel_core.cli.exits import BadSettings, Exit, UsageProblem
from sentinel_core.cli.rules.options import kind_option, lock_option
from sentinel_core.cli.rules.plan import check_file, save
from sentinel_core.cli.rules.proposing import (
    allowed_among,
    check_guards,
    check_overruling,
    guard_options,
    plan_view,
    propose_side,
    published,
    target,
)
from sentinel_core.cli.rules.publish import carry
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.rules.waiting import asked, wait_options
from sentinel_core.cli.stores import store_uris
from sentinel_core.datasources import mask_uri
from sentinel_core.rules import Kind, Provenance, Revision


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("to", metavar="TO")
@click.option("--dry-run", is_flag=True, help="Show what would be written and write nothing.")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write nothing, and save the plan for sentinelctl rules apply.",
)
@kind_option("Promote only this kind.")
@guard_options
@lock_option
@wait_options
@output_options_and(by_name=True)
@pass_app
def promote(
    app: App,
    /,
    source: str,
    to: str,
    dry_run: bool,
    out: Path | None,
    kind: Kind | None,
    reason: str | None,
    under: str | None,
    **flags: Any,
) -> int:
    """Bring the rules of one environment into another: shows the difference, asks, and writes it.

    FROM and TO are contexts (sentinelctl config get-contexts) or store URIs. What stands in the store of FROM goes into
    that of TO through the guards of TO, by compare-and-set. Author, commit and reason are those of what stands in FROM,
    and beside them is kept who promoted it and from where.

    \b
    sentinelctl rules promote staging prod --dry-run
    sentinelctl rules promote staging prod
    sentinelctl rules promote staging prod -o release.plan
    """
    wait = asked(flags)
    check_file(out)
    allowed = allowed_among(flags)
    check_overruling(reason, allowed)
    before, uri = _named(app, source)
    after, store = _named(app, to)
    if mask_uri(uri) == mask_uri(store):
        raise UsageProblem(f"{source} and {to} are the same store", next_step="name two contexts, or two stores")
    side = resolve(before, uri, kind)
    with target(after, store) as named:
        proposal = propose_side(
            after, named, side, partial(_provenance, after, side, mask_uri(source), reason), allowed
        )
        if out is None:
            return carry(after, named, proposal, dry_run=dry_run, command="promote", under=under, wait=wait)
    app.out.show(plan_view(proposal.plan, proposal))
    if not proposal.plan.steps:
        app.out.say("Nothing to do: these rules stand there.")
    check_guards(app, proposal, later=True)
    save(app, proposal.plan, out)
    return Exit.DONE


def _named(app: App, text: str) -> tuple[App, str]:
    """How the run looks from there, and its store."""
    if "://" in text or text.startswith("git:"):
        return app, text
    context_named(app, text)
    there = app.in_context(text)
    uris = store_uris(there)
    if len(uris) > 1:
        raise BadSettings(
            f"the context {text} names {len(uris)} stores, and rules are promoted from one into one",
            next_step=f"name one of them instead of the context: {', '.join(map(mask_uri, uris))}",
        )
    return there, uris[0]


def _provenance(app: App, side: Side, source: str, reason: str | None, kinds: Collection[Kind]) -> Provenance:
    """Whose the rules of these kinds are, where that is one commit's; a kind each has its own where a store keeps them
    apart."""
    meant = [side.sets[kind].revision for kind in kinds]
    revisions = [each for each in meant if each is not None] or side.revisions
    found = {_origin(each.provenance) for each in revisions}
    whose = found.pop() if len(found) == 1 else Provenance(channel="cli")
    why = reason or whose.reason or _reasons(revisions)
    return published(app, whose, f"{why} (promoted from {source})" if why else f"promoted from {source}")


def _origin(provenance: Provenance) -> Provenance:
    """Without what is of that store alone."""
    return replace(
        provenance,
        channel=provenance.channel if provenance.commit_hash else "cli",
        environment=None,
        plan_id=None,
        published_by=None,
        published_at=None,
        previous_digest=None,
        rollback_of=None,
    )


def _reasons(revisions: Sequence[Revision]) -> str:
    """Where several commits stand in FROM: each with its author and reason."""
    told = {
        f"{(each.provenance.commit_hash or each.version)[:12]} of {each.provenance.author or 'unknown'}: "
        f"{each.provenance.reason or '–'}"
        for each in revisions
    }
    return "; ".join(sorted(told)) if len(told) > 1 else ""
