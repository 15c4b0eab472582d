"""The words of `audit query`: `resource:order-* field:count author:chen -env:staging count>300 since:2h`.

A term is `qualifier:value`, `field<number` (also `<= = >= >`) or a bare word, which is a resource. All terms must hold;
`-` in front turns one round; commas are "or"; `*` stands for any text; quotes keep blanks and commas. `since:`,
`until:` and `in:` take times (see `interval.py`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from sentinel_core.audit.errors import QueryInvalid
from sentinel_core.audit.query.interval import Interval, between, since, until, window
from sentinel_core.audit.store.contract import COLUMNS, Condition, Query, Test
from sentinel_core.expression import expression
from sentinel_core.masking import mask_text

MAX_LENGTH = 1000
MAX_TERMS = 32
MAX_VALUES = 32

QUALIFIERS: dict[str, tuple[str, Test]] = {
    "resource": ("resource", "is"),
    "field": ("field", "is"),
    "action": ("action", "is"),
    "rule": ("rule", "is"),
    "kind": ("kind", "is"),
    "type": ("type", "is"),
    "source": ("source", "is"),
    "env": ("environment", "is"),
    "environment": ("environment", "is"),
    "app": ("app", "is"),
    "instance": ("instance", "is"),
    "channel": ("channel", "is"),
    "author": ("author", "contains"),
    "commit": ("commit", "starts"),
    "revision": ("revision", "starts"),
    "reason": ("reason", "contains"),
    "message": ("message", "contains"),
    "plan": ("plan", "is"),
    "digest": ("digest", "starts"),
}
"""Written name → what is compared, and how where the value holds no `*`."""
TIMES = ("since", "until", "in")
TYPES = {
    "changed": "sentinel.rules.changed.v1",
    "rejected": "sentinel.rules.rejected.v1",
    "applied": "sentinel.rules.applied.v1",
    "breaker": "sentinel.breaker.*",
    "purged": "sentinel.audit.purged.v1",
}
ACTIONS = ("add", "remove", "change", "seen", "rejected", "moved", "purged")

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_VALUE = rf"(?:{_QUOTED}|[^\s\"])+"
_TERM = expression(rf"(-?)(?:([A-Za-z]\w*(?:\.\w+)*)(:|<=|>=|<|>|=))?({_VALUE})(?:\s+|$)")
_VALUELESS = expression(r"[A-Za-z][\w.]*(?::|<=?|>=?|=)")
_PIECE = expression(rf"{_QUOTED}|[^,\"]+|,")


@dataclass(frozen=True, slots=True)
class Question:
    """A text as understood."""

    conditions: tuple[Condition, ...]
    interval: Interval | None
    """The window the text names; None where it names none."""

    def query(self, *, limit: int = 50, after: str | None = None) -> Query:
        """What a store is asked. Moves of breakers and what instances run are no changes of rules: only a question
        about types finds them, and moves one about actions."""
        return replace(self.of_every_type(limit=limit, after=after), conditions=self._of_changes())

    def of_every_type(self, *, limit: int = 50, after: str | None = None) -> Query:
        """The same of all events, whatever they tell of."""
        start, end = (self.interval.start, self.interval.end) if self.interval else (None, None)
        return Query(self.conditions, start, end, limit, after)

    def _of_changes(self) -> tuple[Condition, ...]:
        conditions = self.conditions
        asked = {condition.column for condition in conditions}
        if "type" not in asked:
            conditions += (Condition("type", "is", (TYPES["applied"],), negated=True),)
        if not asked & {"type", "action"}:
            conditions += (Condition("action", "is", ("moved",), negated=True),)
        return conditions


def parse_query(text: str, *, now: datetime, zone: tzinfo) -> Question:
    """Raises QueryInvalid with the term and what to write instead."""
    if len(text) > MAX_LENGTH:
        raise QueryInvalid(f"a query of {len(text)} characters; at most {MAX_LENGTH} are read")
    conditions: list[Condition] = []
    times: dict[str, str] = {}
    terms = _terms(text)
    _refuse_words_between(terms)
    for sign, name, operator, value in terms:
        if operator == ":" and name in TIMES:
            if sign or name in times:
                raise QueryInvalid(f"{name}: stands once and without `-`")
            times[name] = _unquote(value)
        elif operator and operator != ":":
            conditions.append(_comparison(name, operator, value, negated=bool(sign)))
        else:
            conditions.append(text_condition(name or "resource", value, negated=bool(sign)))
    return Question(tuple(conditions), _interval(times, now, zone))


def _refuse_words_between(terms: Sequence[tuple[str, str, str, str]]) -> None:
    """Raises QueryInvalid for `a OR b`, which would look for three resources at once."""
    for place, (_, name, _, value) in enumerate(terms):
        if name or value not in _BETWEEN:
            continue
        if value in {"OR", "||"} and 0 < place < len(terms) - 1:
            (_, name, operator, one), (_, other_name, _, other) = terms[place - 1], terms[place + 1]
            if name == other_name and operator in {"", ":"}:
                near = (f"{name or 'resource'}:{one},{other}",)
                raise QueryInvalid(f"{value} is no word of a query; a comma between values is 'or'", suggestions=near)
        raise QueryInvalid(
            f"{value} is no word of a query (in quotes it is a resource): all terms must hold, a comma between values "
            "is 'or', and `-` in front of a term is 'not'"
        )


_BETWEEN = {"OR", "AND", "NOT", "||", "&&"}


def resource_condition(value: str) -> Condition:
    """A resource by name or pattern, in the spelling that events have it (credentials masked)."""
    clean = mask_text(value)
    return Condition("resource", "like" if "*" in clean else "is", (clean,))


def unknown_fields(question: Question) -> tuple[str, ...]:
    """What to say of each field that a question names and no rule has."""
    asked: list[str] = []
    for condition in question.conditions:
        if condition.column == "field" and condition.test == "is":
            asked += map(str, condition.values)
        elif condition.column not in COLUMNS:
            asked.append(condition.column)
    known = _rule_fields() if asked else ()
    found = []
    for name in asked:
        if name not in known and name.partition(".")[0] not in known:
            near = difflib.get_close_matches(name, known, n=1)
            found.append(f"no rule has a field {name}" + (f"; did you mean {near[0]}?" if near else ""))
    return tuple(found)


def _rule_fields() -> tuple[str, ...]:
    from sentinel_core.rules.registry import MODELS  # as for kinds; asked where nothing was found

    return tuple(sorted({name for model in MODELS.values() for name in model.fields_by_alias()}))


def _terms(text: str) -> list[tuple[str, str, str, str]]:
    terms: list[tuple[str, str, str, str]] = []
    clean = text.strip()
    position = 0
    while position < len(clean):
        found = _TERM.match(clean, position)
        if not found:
            rest = clean[position : position + 40]
            hint = "close the quotes" if '"' in rest else "write qualifier:value"
            raise QueryInvalid(f"{rest!r} is not understood; {hint}")
        if not found[2] and _VALUELESS.fullmatch(found[4]):
            raise QueryInvalid(f"{found[4]} has no value; write qualifier:value")
        terms.append((found[1], found[2] or "", found[3] or "", found[4]))
        position = found.end()
    if len(terms) > MAX_TERMS:
        raise QueryInvalid(f"{len(terms)} terms; at most {MAX_TERMS} are read")
    return terms


def text_condition(name: str, value: str, *, negated: bool = False) -> Condition:
    """`name:value` as a condition. Raises QueryInvalid."""
    if name not in QUALIFIERS:
        raise _unknown(name, value)
    column, test = QUALIFIERS[name]
    values = [mask_text(part) for part in _split(value)]
    if not values or not all(values):
        raise QueryInvalid(f"{name}: has no value")
    if len(values) > MAX_VALUES:
        raise QueryInvalid(f"{name}: has {len(values)} values; at most {MAX_VALUES} are read")
    if column == "type":
        values = [TYPES.get(part, part) for part in values]
    if any("*" in part for part in values):
        return Condition(column, "like", tuple(values), negated)
    for part in values:
        known = _choices(column)
        if known and part not in known and not part.startswith("sentinel."):
            raise QueryInvalid(
                f"{name}:{part} is none of {', '.join(known)}",
                suggestions=tuple(f"{name}:{near}" for near in difflib.get_close_matches(part, known, 1, 0.4)),
            )
    return Condition(column, test, tuple(values), negated)


def _choices(column: str) -> Sequence[str]:
    """What may be asked for; nothing where that is anything."""
    if column == "kind":
        from sentinel_core.rules import KINDS  # with it comes all that reads rules: a tenth of a second

        return KINDS
    return {"action": ACTIONS, "type": tuple(TYPES)}.get(column, ())


def _comparison(name: str, operator: str, value: str, *, negated: bool) -> Condition:
    if name in QUALIFIERS or name in TIMES:
        raise QueryInvalid(f"{name} is compared with `:`", suggestions=(f"{name}:{value}",))
    try:
        number = float(_unquote(value))
    except ValueError:
        number = float("nan")
    if number != number or number in (float("inf"), float("-inf")):
        raise QueryInvalid(f"{name}{operator}{value}: a number is needed", suggestions=(f"{name}{operator}300",))
    tests: dict[str, Test] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
    return Condition(name, tests[operator], (number,), negated)


def _unknown(name: str, value: str) -> QueryInvalid:
    if re.fullmatch(r"-?\d+(?:\.\d+)?", value):
        return QueryInvalid(f"{name}: is no qualifier", suggestions=(f"{name}={value}", f"field:{name}"))
    near = difflib.get_close_matches(name.lower(), [*QUALIFIERS, *TIMES], n=1, cutoff=0.5)
    if near:
        return QueryInvalid(f"{name}: is no qualifier", suggestions=(f"{near[0]}:{value}",))
    return QueryInvalid(
        f"{name}: is no qualifier (put the word in quotes to look for it); known: {', '.join(QUALIFIERS)}"
    )


def _split(value: str) -> list[str]:
    """Values between commas that stand outside of quotes."""
    parts = [""]
    for piece in _PIECE.findall(value):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += _unquote(piece)
    return parts


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if len(text) > 1 and text[0] == text[-1] == '"' else text


def _interval(times: dict[str, str], now: datetime, zone: tzinfo) -> Interval | None:
    if "in" in times:
        if len(times) > 1:
            raise QueryInvalid("in: is a whole window; leave since: and until: out")
        return window(times["in"], now=now, zone=zone)
    if "since" in times:
        if "until" in times:
            return between(times["since"], times["until"], now=now, zone=zone)
        return since(times["since"], now=now, zone=zone)
    if "until" in times:
        return until(times["until"], now=now, zone=zone)
    return None
