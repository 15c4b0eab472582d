"""`sentinelctl rules drift`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from sentinel_core.cli.app import App, env_option, output_options, pass_app
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.moments import local
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.diff import Difference, change_lines, compare, say_unmanaged
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.cli.rules.show import masked
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.stores import store_uris
from sentinel_core.cli.text import Span, Styled
from sentinel_core.rules import Kind, RuleSet
from sentinel_core.rules.ownership import owner_of
from sentinel_core.settings import Owner

DIRECTIONS = {"add": "only_in_store", "remove": "only_in_git", "change": "changed"}
"""By the action that leads from Git to the store."""


@click.command()
@click.argument("what", required=False, metavar="[WHAT]")
@click.option("--store", metavar="URI", help="Store to look at (default: those of the settings together).")
@kind_option("Look at this kind only.")
@env_option
@output_options
@pass_app
def drift(app: App, what: str | None, store: str | None, kind: Kind | None) -> int:
    """Whether a store still holds what was committed, and if not, who changed it.

    WHAT is what should stand there (default: the rules as code at HEAD). Each difference says whether a rule is only in
    Git, only in the store or another one there, whose edit of that kind stands in the store, and which team owns the
    resource.

    \b
    sentinelctl rules drift                     the last commit against the stores of the settings
    sentinelctl rules drift git:v1.4 --store etcd://localhost:2379/prod

    Exit code 0 and no output: no drift; 1: drift.
    """
    wanted = resolve(app, "git:HEAD" if what is None else what, kind)
    if store is None:
        store_uris(app)  # says what to write where there is none
    standing = resolve(app, "live" if store is None else store, kind, may_be_empty=True)
    lost = {kind: RuleSet.empty(kind) for kind in wanted.sets if kind not in standing.sets}
    difference = compare(wanted.sets, {**standing.sets, **lost})
    say_unmanaged(app, difference, wanted, standing)
    app.out.show(_view(difference, wanted, standing, app.settings.owners))
    if not difference.count:
        return Exit.DONE
    counts = dict.fromkeys(DIRECTIONS.values(), 0)
    for _, change in _changes(difference):
        counts[DIRECTIONS[change["action"]]] += 1
    told = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items() if count)
    app.out.say(f"Drift: {told}. Exit code {Exit.DIFFERENCES}.")
    if not standing.revisions:
        app.out.say(f"{standing.title} holds no rules; sentinelctl rules publish writes what was committed.")
    return Exit.DIFFERENCES


def _changes(difference: Difference) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    for kind, changes in difference.changes.items():
        yield from ((kind, change) for change in changes)


def _owner(standing: Side, kind: Kind, change: Mapping[str, Any]) -> dict[str, Any]:
    """Whose edit of the kind stands in the store; of a rule that is missing there, too."""
    rules = standing.sets.get(kind, RuleSet.empty(kind))
    rule = next((each for each in rules if each.path == change["rule"]), None)
    revision = rules.owner(rule).revision if rule is not None else rules.revision
    if revision is None:
        return {"author": None, "channel": None, "time": None, "reason": None, "store": None}
    provenance = masked(revision.provenance)
    when = provenance.committed_at or provenance.published_at
    return {
        "author": provenance.author or provenance.published_by,
        "channel": provenance.channel,
        "time": when.isoformat() if when else None,
        "reason": provenance.reason,
        "store": standing.stores.get(revision.source, revision.source),
    }


def _view(difference: Difference, wanted: Side, standing: Side, owners: Sequence[Owner]) -> View:
    items = [
        {
            "direction": DIRECTIONS[change["action"]],
            "kind": kind,
            **{name: change[name] for name in ("resource", "rule", "field")},
            "git": change["old"],
            "store": change["new"],
            "owner": _owner(standing, kind, change),
            "team": _team(change, owners),
        }
        for kind, change in _changes(difference)
    ]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if items:
            yield (Styled(wanted.title, "bold"), "  →  ", Styled(standing.title, "bold"))
            yield from change_lines(
                difference,
                lambda kind, change: _said(_owner(standing, kind, change), change, _team(change, owners)),
            )

    return View(
        document={"git": wanted.title, "store": standing.title, "drift": bool(items), "differences": items},
        items=items,
        names=list(dict.fromkeys(str(item["rule"]) for item in items)),
        lines=lines,
    )


def _team(change: Mapping[str, Any], owners: Sequence[Owner]) -> str | None:
    """Whose resource it is, by `owners` of the settings."""
    owner = owner_of(str(change["resource"]), owners)
    return owner.team if owner is not None else None


def _said(owner: Mapping[str, Any], change: Mapping[str, Any], team: str | None) -> str:
    """`only in store; by ops-li (console), 2026-11-25 14:41:07 +08:00; owner payments`."""
    channel = f"({owner['channel']})" if owner["channel"] else None
    who = " ".join(part for part in (owner["author"] or (channel and "somebody"), channel) if part)
    when = local(datetime.fromisoformat(owner["time"])) if owner["time"] else None
    by = f"by {', '.join(part for part in (who, when) if part)}" if who or when else None
    direction = DIRECTIONS[change["action"]].replace("_", " ")
    whose = f"owner {team}" if team else None
    return "; ".join(part for part in (direction if change["action"] != "change" else None, by, whose) if part)
