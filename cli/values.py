"""What may stand as a value on the command line, for the shells: what is on this machine; nobody waits for a server.

A parameter finds its values by `of`; each function gives them for one run, in the order in which they are shown, and
may raise.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from sentinel_core.cli.app import App
from sentinel_core.cli.shells import item, matching

Items = Iterable[CompletionItem[str]]
WAIT_S = 0.3
"""For a store that has to be asked."""
MOST_BYTES = 8 * 2**20
"""Of each file that is looked through for resources."""
COMMITS = 15
_RESOURCE = re.compile(
    rb"""\bresource["']?\s*:\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[^\s"'#&*!|>%@`{\[\]},][^,}\]\n#]*)"""
)


def of(command: click.Command, parameter: click.Parameter) -> Callable[[App, str], Items] | None:
    """The values of a parameter; None where they are its type's, or nobody knows them."""
    name = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.name)
    return _VALUES.get(f"{command.name} {name}") or (_VALUES.get(name) if name.startswith("--") else None)


def answer(values: Callable[[App, str], Items], context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """What was found before something failed; it is not told that something did."""
    found: list[CompletionItem[str]] = []
    with suppress(Exception):
        for each in values(context.ensure_object(App), incomplete):
            found.append(each)  # noqa: PERF402 -- what came before a failure is kept
    return matching(found, incomplete)


def _soon(items: Items) -> list[CompletionItem[str]]:
    """What a store has said within `WAIT_S`, however long it takes."""
    found: list[CompletionItem[str]] = []

    def ask() -> None:
        with suppress(Exception), click.Context(click.Command("complete")):  # what is opened ends with it
            for each in items:
                found.append(each)  # noqa: PERF402 -- as above

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return list(found)


def contexts(app: App, _: str) -> Items:
    from sentinel_core.settings_contexts import contexts as known

    for name, each in known(app.config).items():
        yield item(name, str(each.data.get("environment", "")))


def stores(app: App, _: str) -> Items:
    """Of the settings and of every context; not those that hold a credential."""
    from sentinel_core.masking import mask_uri
    from sentinel_core.settings_contexts import contexts as known

    named = [*app.settings.stores]
    for each in known(app.config).values():
        written = each.data.get("stores")
        named += [str(uri) for uri in written] if isinstance(written, list) else []
    return [item(uri) for uri in named if mask_uri(uri) == uri]


def ends_of_a_promotion(app: App, incomplete: str) -> Items:
    yield from contexts(app, incomplete)
    yield from stores(app, incomplete)


def environments(app: App, incomplete: str) -> Items:
    from sentinel_core.rules.overlay import FOLDER

    yield item(app.settings.environment)
    for path in sorted((Path(app.settings.rules) / FOLDER).glob("*.y*ml")):
        yield item(path.stem)
    yield from (item(each.help) for each in contexts(app, incomplete) if each.help)


def resources(app: App, _: str) -> Items:
    """Of the rules as code, of stores that are files, and of what services of this machine ran last."""
    named = dict.fromkeys(name for path in _rule_files(app) for name in _resources_in(path))
    return [item(name) for name in named]


def _rule_files(app: App) -> Iterator[Path]:
    from sentinel_core.datasources.names import is_rule_file
    from sentinel_core.datasources.uri import SourceUri

    places = [Path(app.settings.rules), Path(app.settings.last_known_good)]
    places += [Path(SourceUri.parse(uri).path) for uri in app.settings.stores if uri.startswith("file://")]
    for place in places:
        if place.is_dir():
            files = [
                each for each in sorted(place.rglob("*")) if each.suffix == ".last-good" or is_rule_file(each.name)
            ]
            yield from (each for each in files if each.is_file())
        elif place.is_file():
            yield place


def _resources_in(path: Path) -> Iterator[str]:
    """As somebody is writing it: a text that is not valid yet has resources, too."""
    with path.open("rb") as file:
        text = file.read(MOST_BYTES)
    for found in _RESOURCE.findall(text):
        word = found.decode("utf-8", "replace").strip()
        if word[:1] == '"':
            with suppress(ValueError):
                yield str(json.loads(word))
        else:
            yield word[1:-1].replace("''", "'") if word[:1] == "'" else word


def states(app: App, incomplete: str) -> Items:
    """WHAT, A and B: paths are the shell's own."""
    yield CompletionItem(incomplete, type="file")
    if incomplete.startswith("git:"):
        yield from (item(f"git:{each.value}", each.help or "") for each in commits(app, incomplete))
    elif incomplete.startswith("history:"):
        yield from (item(f"history:{each.value}", each.help or "") for each in numbers(app, incomplete))
    else:
        yield from (item("live", "the stores of the settings"), item("git:"), item("history:"))
        yield from stores(app, incomplete)


def commits(app: App, _: str) -> Items:
    """Branches, tags and the newest commits of the repository around the rules."""
    from sentinel_core.cli import git

    rules = Path(app.settings.rules)
    top = git.top_of(rules)
    if top is None:
        return
    yield item("HEAD")
    for name in git.references(top):
        yield item(name)
    for commit, subject in git.newest(top, rules, COMMITS):
        yield item(commit, subject)


def numbers(app: App, _: str) -> Items:
    """Revisions of the store that keeps a history."""
    import sentinel_core.cli.rules.past  # noqa: F401 -- importing takes time of its own, which is not the store's

    return _soon(_numbers(app))


def _numbers(app: App) -> Items:
    from sentinel_core.cli.rules.past import past
    from sentinel_core.cli.stores import history_store

    with history_store(app, None, None) as (source, its):
        for number, line in reversed(past(app, source, its).lines.items()):
            provenance = line.revision.provenance
            yield item(str(number), provenance.reason or (provenance.message or "").partition("\n")[0])


def quarantined(app: App, _: str) -> Items:
    return _soon(_quarantined(app))


def _quarantined(app: App) -> Items:
    from sentinel_core.cli.stores import opened, store_uris
    from sentinel_core.publishing.quarantine import quarantined as held
    from sentinel_core.rules import KINDS

    with opened(app, store_uris(app)[0]) as source:
        for each in source.items(KINDS):
            yield from (item(kept.digest[:12], f"{kept.kind}: {kept.reason or ''}") for kept in held(source, each))


def instances(app: App, _: str) -> Items:
    from sentinel_core.status_file import read

    return [item(each.instance, each.app) for each in read(Path(app.settings.status or ""))]


def running_revisions(app: App, _: str) -> Items:
    from sentinel_core.status_file import read

    for each in read(Path(app.settings.status or "")):
        for kind, what in each.kinds.items():
            yield from (item(str(what[name])[:12], kind) for name in ("commit", "digest") if what.get(name))


def fields(_: App, __: str) -> Items:
    from sentinel_core.rules.registry import MODELS

    names = {name for model in MODELS.values() for name in model.fields_by_alias()}
    return [item(name) for name in sorted(names)]


def zones(_: App, __: str) -> Items:
    from zoneinfo import available_timezones

    return [item(name) for name in sorted(available_timezones())]


def terms(app: App, incomplete: str) -> Items:
    """Of a query."""
    from sentinel_core.audit.query.grammar import QUALIFIERS, TIMES

    if incomplete.startswith("resource:"):
        return [item(f"resource:{each.value}") for each in resources(app, incomplete)]
    return [item(f"{name}:") for name in (*QUALIFIERS, *TIMES)]


def settings(_: App, __: str) -> Items:
    from sentinel_core.settings import Settings
    from sentinel_core.settings_sources import dotted, leaves

    return [item(dotted(location)) for location, _ in leaves(Settings)]


def assignments(app: App, incomplete: str) -> Items:
    return [item(f"{each.value}=") for each in settings(app, incomplete)]


_VALUES: dict[str, Callable[[App, str], Items]] = {
    "--context": contexts,
    "--store": stores,
    "--env": environments,
    "--resource": resources,
    "--from": states,
    "--zone": zones,
    "--field": fields,
    "--not-at": running_revisions,
    "--unset": settings,
    "rollback --to": numbers,
    "rollback --to-commit": commits,
    "explain resource": resources,
    "who resource": resources,
    "show side": states,
    "diff old": states,
    "diff new": states,
    "drift what": states,
    "plan what": states,
    "publish what": states,
    "promote source": ends_of_a_promotion,
    "promote to": ends_of_a_promotion,
    "release digest": quarantined,
    "show name": instances,
    "query terms": terms,
    "tail terms": terms,
    "export terms": terms,
    "use-context name": contexts,
    "set-context name": contexts,
    "set-context settings": assignments,
    "delete-context name": contexts,
}
"""By the option, or by the command and one of its parameters."""
