"""A parsed text before it has a meaning: plain data, and where each piece of it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sentinel_core.rules.errors import Problem, Severity

Dialect = Literal["json", "yaml", "objects"]
Path = tuple[str | int, ...]
Position = tuple[int, int]
"""1-based line and column, in characters."""

VALUE_LENGTH = 60
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds against texts that are broken or hostile; far above honest use."""

    max_bytes: int = 32 * 1024 * 1024
    """Holds `max_rules` rules in their full spelling."""
    max_rules: int = 100_000
    max_depth: int = 32
    max_nodes: int = 5_000_000
    """After expansion of YAML aliases."""
    max_problems: int = 100
    """Kept in a rejection; the rest is counted."""


DEFAULT_LIMITS = Limits()


class Locate(Protocol):
    """Where things stand in one text."""

    def __call__(self, path: Path, *, at_key: bool = False) -> Position | None:
        """The position of the value at `path` (or of its key), or of the nearest thing around it; None: no text."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text, or rules given as objects."""

    name: str
    data: Any
    dialect: Dialect
    locate: Locate
    faults: tuple[Problem, ...] = ()
    """What is wrong with the text although it can be read: the rest is looked at too, all of it is refused."""

    def problem(
        self,
        code: str,
        severity: Severity,
        message: str,
        path: Path = (),
        *,
        at_key: bool = False,
        kind: str | None = None,
        index: int | None = None,
        resource: str | None = None,
        field: str | None = None,
    ) -> Problem:
        """A problem that stands at `path` of this text."""
        line, column = self.locate(path, at_key=at_key) or (None, None)
        return Problem(
            code=code,
            severity=severity,
            message=printable(message),
            file=self.name,
            line=line,
            column=column,
            path=printable(json_path(path)),
            kind=kind,
            index=index,
            resource=printable(resource) if resource is not None else None,
            field=printable(field) if field is not None else None,
        )


def printable(text: str) -> str:
    """Control characters and halves of surrogate pairs as escapes: a message is UTF-8, and safe for a terminal."""
    return text.encode(errors="backslashreplace").decode().translate(_CONTROL)


def find(node: Any, path: Path, *, at_key: bool) -> Any:
    """The mark at `path` in a tree of marks, or that of the nearest thing around it.

    A node is a mark or `(mark, children)`; children are a list of nodes or a dict of name → (mark of the key, node).
    """
    mark, children = node if type(node) is tuple else (node, None)
    for depth, step in enumerate(path):
        if isinstance(children, dict) and step in children:
            key_mark, node = children[step]
            if at_key and depth == len(path) - 1:
                return key_mark
        elif isinstance(children, list) and isinstance(step, int) and step < len(children):
            node = children[step]
        else:
            break
        mark, children = node if type(node) is tuple else (node, None)
    return mark


def owner(data: Any, path: Path) -> str | None:
    """The resource of the rule that `path` lies in, where it can be told."""
    resource = None
    for step in path:
        if isinstance(data, dict) and isinstance(data.get("resource"), str):
            resource = data["resource"]
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            break
    return resource


def nowhere(path: Path, *, at_key: bool = False) -> None:
    """The position of things that were never text."""
    del path, at_key


def json_path(path: Sequence[str | int]) -> str:
    """`("flowRules", 2, "count")` → `$.flowRules[2].count`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
