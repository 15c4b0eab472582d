"""What the audit store was told: events, and the terms that find them, with what may stand in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from sentinel_core.cli.shells import item
from sentinel_core.cli.values import files, settings, words
from sentinel_core.cli.values.line import Items, Line, behind, said
from sentinel_core.cli.values.soon import soon

if TYPE_CHECKING:
    from sentinel_core.audit.query.grammar import Question
    from sentinel_core.audit.store.contract import AuditStore, Condition, Query, Row

ROWS = 2000
"""The newest ones that the line means, of which values are offered."""
EVENTS = 50
"""That are offered of them."""
_SHORT = {"digest": 12, "commit": 12}
"""Characters of what is long, where its beginning is enough."""
_OF_EVERY_TYPE = {"type", "instance", "app", "source", "digest"}
"""Asked of what instances run and of breakers, too, which are no changes."""


def terms(line: Line) -> Items:
    """The qualifiers of a query, and what may stand behind each; the terms before it count."""
    from sentinel_core.audit.query.grammar import QUALIFIERS, TIMES

    name, sign, rest = line.incomplete.partition(":")
    if not sign:
        yield from (item(f"{each}:") for each in (*QUALIFIERS, *TIMES))
        yield from resources(line)
    elif name in TIMES:
        times = words.spans if name == "in" else words.since
        yield from behind(f"{name}:", times(replace(line, incomplete=rest)))
    elif name in QUALIFIERS:
        before, comma, begun = rest.rpartition(",")
        values = _values(name, replace(line, incomplete=begun))
        plain = (each for each in values if not set(each.value) & set(',*"'))  # each of which means something there
        yield from behind(f"{name}:{before}{comma}", plain)


def resources(line: Line) -> Items:
    """Those whose rules were changed, and those that have rules here."""
    yield from _told(line, "resource")
    yield from map(item, dict.fromkeys(files.resources(line)))


def environments(line: Line) -> Items:
    yield from settings.environments(line)
    yield from _told(line, "env")


def sources(line: Line) -> Items:
    """Of the event that is named, where one is."""
    begun = str(line.given.get("event_id") or "")

    def ask(store: AuditStore) -> Items:
        heads = [each.event for each in store.query(_query(line, "source")).rows]
        return [item(each.source, each.subject) for each in heads if each.id.startswith(begun)]

    return _ask(line, ask)


def events(line: Line) -> Items:
    """The newest changes by their ids, in short where that is enough."""
    from sentinel_core.cli.audit.common import SHORT_ID, author, what

    def ask(store: AuditStore) -> Items:
        first: dict[str, Row] = {}
        for row in store.query(_query(line, "")).rows:
            first.setdefault(row.event.id, row)
        begun = [id_ for id_ in first if id_.startswith(line.incomplete)]
        for id_ in begun[:EVENTS]:
            row, short = first[id_], id_[:SHORT_ID]
            is_enough = len(line.incomplete) <= SHORT_ID and sum(each.startswith(short) for each in first) == 1
            told = f"{row.resource or row.kind or ''} {what(row.action, row.field, row.old, row.new)}"
            yield item(short if is_enough else id_, said(author(row.event), row.event.time, told))

    return _ask(line, ask)


def _values(name: str, line: Line) -> Items:
    """The values of a qualifier."""
    from sentinel_core.audit.query.grammar import ACTIONS, TYPES

    fixed: dict[str, Callable[[Line], Items]] = {
        "action": lambda _: map(item, ACTIONS),
        "type": lambda _: map(item, TYPES),
        "kind": words.kinds,
        "field": words.fields,
        "resource": resources,
        "env": environments,
        "environment": environments,
    }
    if name in fixed:
        return fixed[name](line)
    here = files.instances(line) if name == "instance" else ()
    return [*here, *_told(line, name)]


def _told(line: Line, name: str) -> Items:
    """Values that stand in events, the newest first; each with who told of it last."""
    from sentinel_core.audit.query.grammar import QUALIFIERS
    from sentinel_core.audit.store.contract import Condition
    from sentinel_core.cli.audit.common import author

    column, _ = QUALIFIERS[name]
    begun = line.incomplete
    is_plain = begun and not set(begun) & set("*?[")
    narrow = [Condition(column, "like", (f"{begun}*",))] if is_plain else []

    def ask(store: AuditStore) -> Items:
        found: dict[str, Row] = {}
        for row in store.query(_query(line, name, narrow)).rows:
            if text := _value(row, column):
                found.setdefault(text[: _SHORT.get(name)], row)
        return [item(text, said(author(row.event), row.event.time, None)) for text, row in found.items()]

    return _ask(line, ask)


def _value(row: Row, column: str) -> str:
    match column:
        case "resource" | "field" | "rule":
            return getattr(row, column) or ""
        case "author":
            return (row.event.author or "").partition(" <")[0]
        case "digest":
            return row.event.new_digest or ""
        case _:
            return str(getattr(row.event, column) or "")


def _query(line: Line, name: str, narrow: Sequence[Condition] = ()) -> Query:
    """What the line means so far."""
    from sentinel_core.audit.store.contract import Condition

    question = _question(line)
    query = (question.of_every_type if name in _OF_EVERY_TYPE else question.query)(limit=ROWS)
    env = line.given.get("env")
    there = [Condition("environment", "is", (str(env),))] if env else []
    return replace(query, conditions=(*query.conditions, *there, *narrow))


def _question(line: Line) -> Question:
    from sentinel_core.audit.errors import QueryInvalid
    from sentinel_core.audit.query.grammar import Question
    from sentinel_core.audit.query.zones import zone_named
    from sentinel_core.cli.audit.asked import asked
    from sentinel_core.cli.exits import UsageProblem

    given = line.given
    span = given.get("span") if isinstance(given.get("span"), tuple) else None
    try:
        zone = zone_named(given.get("zone"))
        terms, start, end = given.get("terms") or (), given.get("start"), given.get("end")
        return asked(line.app, terms, zone, start=start, end=end, span=span)
    except (QueryInvalid, UsageProblem):
        return Question((), None)


def _ask(line: Line, question: Callable[[AuditStore], Items]) -> Items:
    from sentinel_core.audit.store import open_store

    def ask() -> Iterator[CompletionItem[str]]:
        store = open_store(line.app.settings.audit.store, read_only=True)
        try:
            yield from question(store)
        finally:
            store.close()

    return soon(ask)
