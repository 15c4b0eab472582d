"""What must not be stored: credentials, and values that may belong to a person. Masked once, before an event exists.

Credentials are found by how they are written (user information in a URI, `password=…`, well-known token shapes).
Personal values are found by model field: the `object` of a hot-parameter item is a user's number as often as a shop's.
A personal value becomes `***#1`, `***#2`, … in order of first appearance within one event, so a change of it stays
visible while the value cannot be guessed back, as it could from an unkeyed hash. Digests stay those of the true rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

MASK = "***"
PERSONAL_FIELDS = {"paramFlowItemList": "object"}
"""List field of a rule → the field of its members that may hold a person's value."""

_URI_USER = re.compile(r"(?<=://)(?:[^/\s\"'?#:@]+:(?!\d+/)[^\s\"']*|[^/\s\"'?#]+)@")
"""A password with an unescaped `/` is no URI any more, but it is still a secret; digits and a `/` are a port."""
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?(?:id|secret))?|secret[_-]?key|"
    r"credential|signature)[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"'&,;}\])]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_TOKEN_SHAPE = re.compile(
    r"\b(?:gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}|sk-[A-Za-z0-9_-]{16,}|LTAI[A-Za-z0-9]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_PERSONAL_TEXT = re.compile(r"""((?<![\w.])["']?object["']?\s*:\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}\]]+)""")
_QUOTED = re.compile(r"""(["'])(?:(?!\1).)*\1""")

_LITERALS = re.compile(r"\S+").findall(
    "passw pwd secret token key credential signature bearer basic "
    "ghp_ gho_ ghr_ ghs_ ghu_ github_pat_ glpat- xox akia asia sk- ltai eyj"
)
_SCALARS = {str, int, float, bool, type(None)}


def mask_text(text: str) -> str:
    """The text with every credential in it replaced by `***`. Idempotent."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URI_USER.sub(f"{MASK}@", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _NAMED_SECRET.sub(rf"\1{MASK}", text)
    return _TOKEN_SHAPE.sub(MASK, text)


def mask_excerpt(line: str) -> str:
    """A line of rule text, credentials and personal values blanked; length and columns stay where they can."""
    return mask_text(_PERSONAL_TEXT.sub(lambda found: found[1] + "*" * len(found[2]), line))


def mask_quoted(message: str) -> str:
    """A message about a personal field: whatever it quotes is the value."""
    return _QUOTED.sub(rf"\1{MASK}\1", message)


def is_personal(path: str | None) -> bool:
    """Whether a JSON path or field name ends in a field that may hold a person's value."""
    return (path or "").rpartition(".")[2] in PERSONAL_FIELDS.values()


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
    joined = "\n".join(filter(None, texts)).lower()
    has_uri_user = "://" in joined and _URI_USER.search(joined) is not None
    return has_uri_user or any(literal in joined for literal in _LITERALS)


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
    """Masks the JSON values of one event. The same personal value gets the same label on both sides."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self.masked = False
        """True once anything was replaced."""

    def value(self, value: Any, *, personal: bool = False) -> Any:
        """A copy of a JSON value without what must not be stored."""
        if isinstance(value, dict):
            return {name: self._member(name, member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.value(member, personal=personal) for member in value]
        if personal and value is not None:
            return self._label(repr(value))
        if isinstance(value, str):
            return self._text(value)
        return value

    def _member(self, name: str, member: Any) -> Any:
        if name in PERSONAL_FIELDS and isinstance(member, list):
            return [self._item(item, PERSONAL_FIELDS[name]) for item in member]
        return self.value(member)

    def _item(self, item: Any, secret_field: str) -> Any:
        if not isinstance(item, dict):
            return self.value(item)
        return {name: self.value(member, personal=name == secret_field) for name, member in item.items()}

    def change(self, change: dict[str, Any]) -> dict[str, Any]:
        """A field change as `Change.to_json` writes it, with `old` and `new` read in the light of its field."""
        field = change.get("field")
        masked = {name: self.value(member) for name, member in change.items() if name not in {"old", "new"}}
        for side in ("old", "new"):
            if side in change:
                in_context = self._member(field, change[side]) if field else self.value(change[side])
                masked[side] = self.value(change[side], personal=True) if is_personal(field) else in_context
        return masked

    def _label(self, value: str) -> str:
        self.masked = True
        return self._labels.setdefault(value, f"{MASK}#{len(self._labels) + 1}")

    def _text(self, text: str) -> str:
        clean = mask_text(text)
        self.masked = self.masked or clean != text
        return clean
