"""`sentinelctl instances show`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import CommandError
from sentinel_core.cli.instances.found import (
    Instance,
    believed,
    coloured,
    found,
    items,
    say_whose,
    seconds,
    since_s,
)
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.rules.ruleset import SHORT


@click.command()
@click.argument("name", metavar="INSTANCE", type=WORDS)
@output_options
@pass_app
def show(app: App, name: str) -> None:
    """One service of this machine: its kinds, its stores, their states, ages and last errors.

    \b
    sentinelctl instances show order-1
    sentinelctl instances show order-1 -o json

    INSTANCE as `instances list` prints it, how it begins where that is one only, or the id of its process.
    """
    folder, instances = found(app)
    instance = _named(name, instances)
    app.out.show(_view(instance))
    say_whose(app, folder, len(instances))


def _named(name: str, instances: Sequence[Instance]) -> Instance:
    """Raises CommandError where there is none, or more than one."""
    exact = [each for each in instances if name in (each.status.instance, str(each.status.document.get("pid")))]
    matching = exact or [each for each in instances if name and each.status.instance.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    names = [each.status.instance for each in matching or instances]
    if matching:
        what = f"{name} stands for {plural(len(matching), 'instance')}: {', '.join(names)}"
    else:
        near = difflib.get_close_matches(name, names, n=1)
        what = f"there is no instance {name}" + (f"; did you mean {near[0]}?" if near else "")
    raise CommandError(what, next_step="sentinelctl instances list    (lists them with their process ids in -o wide)")


def _view(instance: Instance) -> View:
    facts = instance.to_json()
    document = {**instance.status.document, **facts}

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        status = instance.status
        yield (Styled(status.instance, "bold"), f"  {status.app}, {status.environment}  ", coloured(instance.state))
        yield from believed(instance)
        yield (f"  on {facts['host']}, process {facts['pid']}, seen {seconds(instance.age_s)} ago",)
        for kind, each in status.kinds.items():
            if wide or each.get("version") is not None:
                yield from _kind_lines(kind, each)
        for store in status.subscriptions:
            yield from _store_lines(instance, store, wide=wide)
        audit = status.document.get("audit")
        if isinstance(audit, dict) and audit.get("error"):
            yield (Styled(f"  audit: {audit.get('lateEvents')} events wait in memory: {audit['error']}", "red"),)

    return View(document=document, items=[facts], names=[instance.status.instance], lines=lines)


def _kind_lines(kind: str, each: Mapping[str, Any]) -> Iterator[Sequence[Span]]:
    rules = each.get("rules")
    counted = plural(rules, "rule") if isinstance(rules, int) else "? rules"
    commit = f", commit {str(each['commit'])[:SHORT]}" if each.get("commit") else ""
    yield (f"  {kind:<11} {counted}, {str(each.get('digest'))[:SHORT]}, revision {each.get('version')}{commit}",)
    sources = each.get("sources")
    for source, number in sources.items() if isinstance(sources, dict) else ():
        yield (Styled(f"              {number} of {source}", "dim"),)


def _store_lines(instance: Instance, store: Mapping[str, Any], *, wide: bool) -> Iterator[Sequence[Span]]:
    transport = f"  {store.get('role') or 'store'}  {store.get('source')}  over {store.get('transport')}  "
    yield (transport, coloured(str(store.get("state"))))
    for item in items(store):
        yield from _item_lines(instance, item, wide=wide)


def _item_lines(instance: Instance, item: Mapping[str, Any], *, wide: bool) -> Iterator[Sequence[Span]]:
    """Items that are ready, never failed and have no problem are told in `-o wide` alone."""
    problems = [
        (said, item[name])
        for said, name in (
            ("whose the rules are is not known", "provenanceProblem"),
            ("last good", "lastGoodProblem"),
        )
        if item.get(name)
    ]
    if not (wide or problems or item.get("reason") or item.get("lastError")):
        return
    written = instance.status.written_at
    for_s = seconds(since_s(item.get("since"), written))
    read = f", read {seconds(since_s(item['lastRead'], written))} before" if item.get("lastRead") else ", never read"
    yield (f"    {item.get('source')}  ", coloured(str(item.get("state"))), f" for {for_s}{read}")
    if item.get("reason"):
        yield (f"      {item['reason']}",)
    if item.get("lastError"):
        ago = seconds(since_s(item.get("lastErrorAt"), written))
        yield (Styled(f"      last error, {ago} before: {item['lastError']}", "dim"),)
    for said, problem in problems:
        yield (Styled(f"      {said}: {problem}", "yellow"),)
