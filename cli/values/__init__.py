"""What may stand as a value on the command line, for the shells.

    line.py       the line that is being written
    soon.py       asking stores, and not waiting for them
    words.py      what is the same everywhere: times, durations, fields, zones
    settings.py   contexts, stores, environments, settings
    files.py      rules, plans, running services, commits and readings of this machine
    store.py      what stands in stores: revisions, rules, quarantine
    locks.py      what is locked
    audit.py      what the audit store was told: events, and the terms that find them

Nothing is written, nothing is told but answers, and no answer holds a credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from sentinel_core.cli.shells import item, matching
from sentinel_core.cli.values import audit, files, locks, settings, store, words
from sentinel_core.cli.values.line import Values, line_of


def of(command: click.Command, parameter: click.Parameter) -> Values | None:
    """The values of a parameter; None where they are its type's, or nobody knows them."""
    name = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.name)
    return _VALUES.get(f"{command.name} {name}") or (_VALUES.get(name) if name.startswith("--") else None)


def answer(values: Values, context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """What was found before something failed; it is not told that something did."""
    found: list[CompletionItem[str]] = []
    with suppress(Exception):
        for each in values(line_of(context, incomplete)):
            found.append(each)  # noqa: PERF402 -- what came before a failure is kept
    return [_masked(each) for each in matching(found, incomplete) if not _holds_secret(each.value)]


def _holds_secret(value: str) -> bool:
    from sentinel_core.masking import mask_text, mask_uri

    return mask_text(value) != value or mask_uri(value) != value


def _masked(found: CompletionItem[str]) -> CompletionItem[str]:
    from sentinel_core.masking import mask_text, mask_uri

    return item(found.value, mask_text(mask_uri(found.help))) if found.help else found


_VALUES: Mapping[str, Values] = {
    "--context": settings.contexts,
    "--store": settings.stores,
    "--env": settings.environments,
    "--resource": store.resources,
    "--from": store.states,
    "--lock": locks.held_by_hand,
    "--zone": words.zones,
    "--field": words.fields,
    "--since": words.since,
    "--until": words.since,
    "--between": words.between,
    "--at": words.at,
    "--before": words.ago,
    "--timeout": words.durations,
    "--interval": words.durations,
    "--every": words.durations,
    "--window": words.durations,
    "--min-converged": words.shares,
    "--metrics": words.addresses,
    "--allow-check": files.checks,
    "demo --keep": files.folders,
    "validate paths": files.paths,
    "fmt paths": files.paths,
    "explain resource": store.resources,
    "show side": store.states,
    "diff old": store.states,
    "diff new": store.states,
    "drift what": store.states,
    "import path": files.paths,
    "plan what": store.states,
    "apply plan": files.plans,
    "publish what": store.states,
    "promote source": settings.ends_of_a_promotion,
    "promote to": settings.ends_of_a_promotion,
    "history --before": store.numbers,
    "rollback --to": store.numbers,
    "rollback --to-commit": store.versions,
    "rollback --plan": store.plans,
    "release digest": store.quarantined,
    "sync git": files.repositories,
    "serve --sync": files.repositories,
    "hold --for": words.durations,
    "release lock": locks.held,
    "break lock": locks.held,
    "query terms": audit.terms,
    "tail terms": audit.terms,
    "export terms": audit.terms,
    "who resource": audit.resources,
    "who --kind": words.kinds,
    "who --env": audit.environments,
    "show event_id": audit.events,
    "show --source": audit.sources,
    "hash --event": audit.events,
    "ingest --file": files.paths,
    "list --not-at": store.running,
    "show name": files.instances,
    "observe metric": files.metrics,
    "suggest metric": files.metrics,
    "observe --resource": files.observed_resources,
    "suggest --resource": files.observed_resources,
    "observe --dimension": files.observed_dimensions,
    "suggest --dimension": files.observed_dimensions,
    "observe --file": files.paths,
    "suggest --file": files.paths,
    "use-context name": settings.contexts,
    "set-context name": settings.contexts,
    "set-context settings": settings.assignments,
    "set-context --unset": settings.set_in_context,
    "delete-context name": settings.contexts,
}
"""By the option, or by the command and one of its parameters, which counts first."""
