"""JSON text to plain data: read at the speed of C, looked at again token by token only when something is wrong."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sentinel_core.expression import expression
from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.json_syntax import explain
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Path, Position, Source, find, json_path, owner

_TOKEN = expression(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")


def read_json(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> Source:
    """Strict JSON. Raises RuleRejected for bad syntax and too deep nesting.

    Duplicate keys, of which the first value is taken, NaN and infinities are faults of the source.
    """
    try:
        data, suspicious = _load(text)
    except json.JSONDecodeError as fault:
        raise RuleRejected([explain(text, fault).problem(text, name, "JSON")]) from None
    except RecursionError:
        raise RuleRejected([Problem("SR003", "error", "the text is nested too deeply", file=name)]) from None
    except ValueError as fault:  # a number of thousands of digits
        raise RuleRejected([Problem("SR004", "error", f"a number cannot be read: {fault}", file=name)]) from None
    if "\\ud" in text.lower() and not _is_text(data):
        message = "an escape \\ud… is half of a surrogate pair; write the character itself"
        raise RuleRejected([Problem("SR002", "error", message, file=name)])
    faults = tuple(_explain(text, data, name, limits)) if suspicious else ()

    @lru_cache(maxsize=1)
    def marks() -> Any:
        return _Scan(text, limits.max_problems).root

    def locate(path: Path, *, at_key: bool = False) -> Position:
        return position(text, find(marks(), path, at_key=at_key))

    return Source(name=name, data=data, dialect="json", locate=locate, faults=faults)


def _load(text: str) -> tuple[Any, bool]:
    """(data, whether strict JSON would not have it); where the fault stands is found out afterwards."""
    suspicious = False

    def constant(name: str) -> float:
        nonlocal suspicious
        suspicious = True
        return float(name)

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal suspicious
        result = dict(pairs)
        if len(result) != len(pairs):
            suspicious = True
            result = dict(reversed(pairs))
        return result

    return json.loads(text, parse_constant=constant, object_pairs_hook=mapping), suspicious


def position(text: str, offset: int) -> Position:
    """1-based line and column of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _is_text(data: Any) -> bool:
    """Whether every text in `data` can be written as UTF-8."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _explain(text: str, data: Any, name: str, limits: Limits) -> list[Problem]:
    """What was suspicious, with positions."""
    scan = _Scan(text, limits.max_problems)
    problems = []
    for code, path, offset, message in scan.faults:
        line, column = position(text, offset)
        problems.append(
            Problem(
                code,
                "error",
                message,
                file=name,
                line=line,
                column=column,
                path=json_path(path),
                resource=owner(data, path),
                field=str(path[-1]) if path else None,
            )
        )
    return problems


class _Scan:
    """Where everything stands in a text that is known to be well formed."""

    def __init__(self, text: str, most_faults: int) -> None:
        self.text = text
        self.most_faults = most_faults
        self.root: Any = None
        self.faults: list[tuple[str, Path, int, str]] = []
        """(code, path, offset, message)"""
        self._open: list[Any] = []
        self._steps: list[str | int] = []
        self._key: tuple[str, int] | None = None
        for token in _TOKEN.finditer(text):
            self._take(token.group(), token.start())

    def _take(self, piece: str, offset: int) -> None:
        if piece in "{[":
            children: Any = {} if piece == "{" else []
            self._attach((offset, children), offset)
            self._open.append(children)
        elif piece in "}]":
            self._open.pop()
            if self._steps:
                self._steps.pop()
        elif piece in ",:":
            return
        elif self._open and isinstance(self._open[-1], dict) and self._key is None:
            self._key = (json.loads(piece), offset)
        else:
            self._attach(offset, offset)
            if piece in _NOT_NUMBERS and len(self.faults) < self.most_faults:
                message = f"{self._steps[-1] if self._steps else 'the value'} is {piece}; write a finite number"
                self.faults.append(("SR007", tuple(self._steps), offset, message))
            if self._steps:
                self._steps.pop()

    def _attach(self, node: Any, offset: int) -> None:
        """Puts a node into the container that is open, and its name on the path."""
        if not self._open:
            self.root = node
            return
        container = self._open[-1]
        if isinstance(container, list):
            container.append(node)
            self._steps.append(len(container) - 1)
            return
        name, key_offset = self._key or ("", offset)
        self._steps.append(name)
        if name in container and len(self.faults) < self.most_faults:
            first, second = (position(self.text, at)[0] for at in (container[name][0], key_offset))
            where = f"line {first} and line {second}" if first != second else f"line {first}"
            message = f"{name} is written twice ({where}); keep one"
            self.faults.append(("SR005", tuple(self._steps), key_offset, message))
        container.setdefault(name, (key_offset, node))
        self._key = None
