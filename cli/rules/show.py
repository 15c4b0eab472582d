"""`sentinelctl rules show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from sentinel_core.cli.app import App, env_option, output_options, pass_app
from sentinel_core.cli.moments import local
from sentinel_core.cli.output import View, table
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.cli.rules.sides import Side, resolve, short_version
from sentinel_core.cli.text import Span, Styled
from sentinel_core.rules import Kind, Provenance, Revision, Rule, describe_rule
from sentinel_core.rules.ownership import owner_of
from sentinel_core.settings import Owner


@click.command()
@click.argument("side", required=False, metavar="[WHAT]")
@kind_option("Show only this kind.")
@click.option("--resource", metavar="NAME", help="Show only rules of this resource.")
@env_option
@output_options
@pass_app
def show(app: App, side: str | None, kind: Kind | None, resource: str | None) -> None:
    """What a store holds, with its provenance.

    \b
    sentinelctl rules show
    sentinelctl rules show git:HEAD~1 --resource payment_invoke
    sentinelctl rules show history:1 -o yaml

    WHAT: live (the stores of the settings; the default), git:REV, history:N, a store URI, a path, or - for stdin.
    """
    found = resolve(app, "live" if side is None else side, kind)
    app.out.show(_view(found, resource, app.settings.owners))
    names = {rule.resource for ruleset in found.sets.values() for rule in ruleset}
    if resource is not None and resource not in names:
        import difflib

        close = difflib.get_close_matches(resource, names, n=1)
        app.out.say(f"note: {found.title} has no rule of {resource}{f'; did you mean {close[0]}?' if close else ''}")


def _view(side: Side, resource: str | None, owners: Sequence[Owner]) -> View:
    rules = [
        (kind, rule)
        for kind, ruleset in side.sets.items()
        for rule in ruleset.rules
        if resource is None or rule.resource == resource
    ]
    teams = {rule.resource: owner.team for _, rule in rules if (owner := owner_of(rule.resource, owners)) is not None}
    items = [_item(kind, rule, side.store_of(rule)) | {"team": teams.get(rule.resource)} for kind, rule in rules]
    standing_by = [(uri, rule) for uri, rule in side.standing_by if resource is None or rule.resource == resource]

    kinds: dict[str, list[Kind]] = {}
    for kind, ruleset in side.sets.items():
        if ruleset.revision is not None and len(side.revisions) > 1:
            kinds.setdefault(ruleset.revision.source, []).append(kind)

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        for revision in filter(lambda each: each.version, side.revisions):
            yield (Styled(_origin(revision, kinds.get(revision.source, ())), "dim"),)
        headers = (
            ["KIND", "RESOURCE", "RULE"]
            + (["STORE"] if side.stores else [])
            + (["ORIGIN", "PATH"] if wide else [])
            + (["OWNER"] if wide and owners else [])
        )
        rows = [(rule, side.store_of(rule) or "") for _, rule in rules]
        rows += [(rule, f"stands by: {uri}") for uri, rule in standing_by]
        yield from table(
            headers,
            [
                [rule.kind, rule.resource, describe_rule(rule)]
                + ([store] if side.stores else [])
                + ([rule.scope, rule.path] if wide else [])
                + ([teams.get(rule.resource, "–")] if wide and owners else [])
                for rule, store in rows
            ],
        )

    return View(
        document={
            "from": side.title,
            "overlays": list(side.overlays),
            "revisions": [revision_json(revision) for revision in side.revisions],
            "digests": {kind: ruleset.digest for kind, ruleset in side.sets.items()},
            "rules": items,
            "standingBy": [_item(rule.kind, rule, uri) for uri, rule in standing_by],
        },
        items=items,
        names=[rule.path for _, rule in rules],
        lines=lines,
    )


def _item(kind: Kind, rule: Rule, store: str | None) -> dict[str, Any]:
    return {"kind": kind, "rule": rule.to_json(), "store": store}


def _origin(revision: Revision, kinds: Sequence[Kind]) -> str:
    """`kinds`: that it holds, where several revisions stand beside each other."""
    provenance = masked(revision.provenance)
    when = provenance.committed_at or provenance.published_at
    of = f" ({', '.join(kinds)})" if kinds else ""
    parts = [f"revision {short_version(revision)}{of}", provenance.author, local(when) if when else None]
    reason = provenance.reason or (provenance.message or "").partition("\n")[0]
    return ", ".join(part for part in (*parts, f"channel {provenance.channel}", reason) if part)


def revision_json(revision: Revision) -> dict[str, Any]:
    """Identity and provenance of a revision; unknown values are null, times RFC 3339."""
    return {"source": revision.source, "version": revision.version, **provenance_json(revision.provenance)}


def masked(provenance: Provenance) -> Provenance:
    """Without the credentials that somebody wrote into a commit message or a trailer; as events carry it."""
    from sentinel_core.masking import mask_text

    texts: dict[str, Any] = {
        name: getattr(provenance, name) for name in ("author", "message", "reason", "plan_id", "rollback_of")
    }
    for name, text in texts.items():
        texts[name] = text and mask_text(text)
    return replace(provenance, **texts)


def provenance_json(provenance: Provenance) -> dict[str, Any]:
    """Under the names of the provenance document that stands beside a list in a store."""
    from sentinel_core.settings_sources import camel

    shown = masked(provenance)
    facts = {name: getattr(shown, name) for name in shown.__slots__}
    return {camel(name): value.isoformat() if hasattr(value, "isoformat") else value for name, value in facts.items()}
