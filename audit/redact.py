"""What must not be stored: credentials, and values that may belong to a person. Masked once, before an event exists.

Credentials are found by how they are written (`sentinel_core.masking`).
Personal values are found by model field (`sentinel_core.audit.redaction`). Digests stay those of the true rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from sentinel_core.audit.redaction import NONE, OPEN, Redaction
from sentinel_core.masking import MASK, mask_name, mask_text, may_hold_secret
from sentinel_core.rules import Problem

_QUOTED = re.compile(r"""(["'])(?:(?!\1).)*\1""")

_SAID = re.compile(r"""(?<= is )[^\s"';,][^"';]*(?=[;,])""")
_SCALARS = {str, int, float, bool, type(None)}


def mask_problem(problem: Problem, redaction: Redaction) -> Problem:
    """The same without a value that is hidden: for whoever is not its author."""
    hidden = redaction.hides(problem.path) or redaction.hides(problem.field) or redaction.is_named_in(problem.message)
    return replace(problem, message=mask_quoted(problem.message)) if hidden else problem


def mask_quoted(message: str) -> str:
    """A message about a personal field: whatever it quotes is the value, and so is what the field is said to be."""
    return _QUOTED.sub(rf"\1{MASK}\1", _SAID.sub(MASK, message))


def needs_masking(rules: Sequence[BaseModel]) -> bool:
    """A cheap no for the common case (2 ms for 10,000 rules); a yes may be wrong and only costs the time of masking."""
    if not rules:
        return False
    texts: set[str | None] = set()
    for name, is_text in _fields(type(rules[0])):
        values = map(attrgetter(name), rules)
        if is_text:
            texts.update(values)
        elif any(values):
            return True
    return may_hold_secret("\n".join(filter(None, texts)))


@lru_cache(maxsize=64)
def _fields(model: type[BaseModel]) -> tuple[tuple[str, bool], ...]:
    """Fields that may hold what must be masked: texts (True), and objects and lists, which are not looked into."""
    kept = [(name, _leaves(info.annotation)) for name, info in model.model_fields.items() if not info.exclude]
    return tuple((name, leaves <= _SCALARS) for name, leaves in kept if not leaves <= _SCALARS - {str})


def _leaves(annotation: Any) -> set[Any]:
    """The classes of which an annotation is made: `list[X] | None` gives list, X and NoneType."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _leaves(get_args(annotation)[0])
    if origin is Literal:
        return set()
    inner = {leaf for argument in get_args(annotation) for leaf in _leaves(argument)}
    return inner if origin in {Union, UnionType} else inner | {origin or annotation}


class Masker:
    """Masks the JSON values of one event. The same hidden value gets the same label on both sides."""

    def __init__(self, redaction: Redaction = NONE) -> None:
        self._redaction = redaction
        self._labels: dict[str, str] = {}
        self.redacted: set[str] = set()
        """Fields of which a value was hidden."""
        self.masked = False
        """True once anything was replaced."""

    def value(self, value: Any, *, hidden: str | None = None, inside: str = "") -> Any:
        """A copy of a JSON value without what must not be stored. `hidden`: the field that hides all of it; `inside`:
        the field in which it stands."""
        if isinstance(value, dict):
            return {self._name(name): self._member(inside, name, member, hidden) for name, member in value.items()}
        if isinstance(value, list):
            return [self.value(member, hidden=hidden, inside=inside) for member in value]
        if hidden is not None and value is not None and value not in OPEN:
            return self._label(value, hidden)
        if isinstance(value, str):
            return self._text(value)
        return value

    def _member(self, inside: str, name: str, member: Any, hidden: str | None) -> Any:
        field = f"{inside}.{name}" if inside else name
        return self.value(member, hidden=field if field in self._redaction.fields else hidden, inside=field)

    def change(self, change: dict[str, Any], kind: str | None = None) -> dict[str, Any]:
        """A field change as `Change.to_json` writes it, with `old` and `new` read in the light of its field."""
        field = change.get("field")
        masked = {name: self.value(member) for name, member in change.items() if name not in {"old", "new"}}
        if "rule" in change:
            masked["rule"] = self.value(self._redaction.path(change["rule"], kind, change.get("resource")))
        for side in ("old", "new"):
            if side in change:
                masked[side] = self._member("", field, change[side], None) if field else self.value(change[side])
        return masked

    def _label(self, value: Any, field: str) -> str:
        self.masked = True
        self.redacted.add(field)
        return self._redaction.keyed(value) or self._labels.setdefault(repr(value), f"{MASK}#{len(self._labels) + 1}")

    def _name(self, name: str) -> str:
        clean = mask_name(name)
        self.masked = self.masked or clean != name
        return clean

    def _text(self, text: str) -> str:
        clean = mask_text(text)
        self.masked = self.masked or clean != text
        return clean
