"""YAML text to plain data with positions, built from the parser's events; no round-trip tree, no tags, no surprises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.fields import form_at
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Path, Position, Source, find, json_path, owner
from sentinel_core.rules.yaml_scalars import Refused, resolve
from sentinel_core.rules.yaml_syntax import explain

try:
    from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]  # it is passed on from the compiled module
except ImportError:  # no compiled parser on this platform: ten times slower, the same events
    CParser = None

_CORE = "tag:yaml.org,2002:"
_MERGE = "<<"


def next_event(text: str) -> Callable[[], Any]:
    """A function that gives the parser's next event each time it is called, and raises YAMLError."""
    if CParser is not None:
        get_event: Callable[[], Any] = CParser(text).get_event
        return get_event
    events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)
    return events.__next__


def read_yaml(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> Source:
    """One YAML 1.2 document. Raises RuleRejected for a text that has no meaning; lesser faults are the source's."""
    data, root, faults = read_nodes(text, name, limits)

    def locate(path: Path, *, at_key: bool = False) -> Position:
        return _position(find(root, path, at_key=at_key))

    return Source(name=name, data=data, dialect="yaml", locate=locate, faults=faults)


def read_nodes(text: str, name: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Any, Any, tuple[Problem, ...]]:
    """(data, tree of the parser's events as `source.find` describes it, lesser faults). Raises RuleRejected.

    Of a key that is written twice the first value is taken, and a scalar that is refused is its text.
    """
    builder = _Builder(text, name, limits)
    try:
        data, root = builder.document()
    except YAMLError as fault:
        raise RuleRejected([*builder.problems(None), _syntax(fault, text, name)]) from None
    except _FatalError as fatal:
        raise RuleRejected([*builder.problems(None), fatal.problem]) from None
    return data, root, tuple(builder.problems(data))


def _position(event: Any) -> Position:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


class _FatalError(Exception):
    """A fault after which the rest of the text has no meaning."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Anchored:
    value: Any
    node: Any
    size: int


@dataclass(slots=True)
class _Builder:
    """One pass over the events. Values are built beside a tree of the events they came from (see `source.find`)."""

    text: str
    name: str
    limits: Limits
    faults: list[tuple[str, Path, Any, str]] = field(default_factory=list)
    """(code, path, event, message)"""
    _next: Callable[[], Any] = field(init=False)
    _anchors: dict[str, _Anchored | None] = field(default_factory=dict)
    _scalars: dict[str, Any] = field(default_factory=dict)
    """Plain scalars that were seen, by their text."""
    _keys: set[str] = field(default_factory=set)
    """Plain keys that were seen."""
    _size: int = 0

    def document(self) -> tuple[Any, Any]:
        self._next = next_event(self.text)
        event = self._next()
        while not isinstance(event, (DocumentStartEvent, StreamEndEvent)):
            event = self._next()
        if isinstance(event, StreamEndEvent):
            return None, event
        result = self._value(self._next(), ())
        while not isinstance(event := self._next(), StreamEndEvent):
            if isinstance(event, DocumentStartEvent):
                raise self._fatal("SR008", event, (), "a second document begins here; keep one (remove the line ---)")
        return result

    def problems(self, data: Any) -> list[Problem]:
        """The collected faults in the order of the text; `data` lets them name the resource."""
        problems = [
            self._problem(code, path, event, message, owner(data, path))
            for code, path, event, message in self.faults[: self.limits.max_problems]
        ]
        return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))

    def _problem(self, code: str, path: Path, event: Any, message: str, resource: str | None = None) -> Problem:
        line, column = _position(event)
        name = str(path[-1]) if path else None
        return Problem(code, "error", message, self.name, line, column, json_path(path), resource=resource, field=name)

    def _fatal(self, code: str, event: Any, path: Path, message: str) -> _FatalError:
        return _FatalError(self._problem(code, path, event, message))

    def _fault(self, code: str, path: Path, event: Any, message: str) -> None:
        self.faults.append((code, path, event, message))

    def _value(self, event: Any, path: Path) -> tuple[Any, Any]:
        """(value, node) of what begins with `event`."""
        if isinstance(event, ScalarEvent):
            value: Any = self._scalar(event, path)
            node: Any = event
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(value, node, 1)
            return value, node
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        return self._container(event, path)

    def _container(self, event: Any, path: Path) -> tuple[Any, Any]:
        if len(path) > self.limits.max_depth:
            raise self._fatal("SR003", event, path, f"nested more than {self.limits.max_depth} levels deep")
        is_mapping = isinstance(event, MappingStartEvent)
        if event.tag is not None and str(event.tag) not in (f"{_CORE}map", f"{_CORE}seq", "!"):
            self._fault("SR009", path, event, f"tag {event.tag} is not used in rules; remove it")
        before = self._size
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        value, children = self._mapping(path) if is_mapping else self._sequence(path)
        self._grow(len(value) + 1, event, path)
        node = (event, children)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, node, self._size - before)
        return value, node

    def _grow(self, size: int, event: Any, path: Path) -> None:
        self._size += size
        if self._size > self.limits.max_nodes:
            raise self._fatal("SR003", event, path, "aliases make this text far larger than it looks; write it out")

    def _sequence(self, path: Path) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        nodes: list[Any] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            value, node = self._value(event, (*path, len(values)))
            values.append(value)
            nodes.append(node)
        return values, nodes

    def _mapping(self, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        values: dict[str, Any] = {}
        nodes: dict[str, Any] = {}
        merges: list[tuple[Any, Any]] = []
        following = self._next
        scalars, keys = self._scalars, self._keys
        while type(key_event := following()) is not MappingEndEvent:
            # Twice the usual case, a plain scalar seen before, in line: ten thousand rules have a hundred thousand.
            if type(key_event) is ScalarEvent and key_event.implicit[0] and key_event.value in keys:
                key = key_event.value
            else:
                key = self._key(key_event, path)
            event = following()
            if type(event) is ScalarEvent and event.implicit[0] and event.anchor is None and event.value in scalars:
                value, node = scalars[event.value], event
            else:
                value, node = self._value(event, (*path, key))
            if key == _MERGE and not key_event.style:
                merges += self._merged(value, node, (*path, key))
                continue
            if key in values:
                first, second = nodes[key][0].start_mark.line + 1, key_event.start_mark.line + 1
                where = f"line {first} and line {second}" if first != second else f"line {first}"
                self._fault("SR005", (*path, key), key_event, f"{key} is written twice ({where}); keep one")
                continue
            values[key] = value
            nodes[key] = (key_event, node)
        for merged, children in merges:  # keys written here win over merged ones, earlier merges over later ones
            values = {**merged, **values}
            nodes = {**children, **nodes}
        return values, nodes

    def _key(self, event: Any, path: Path) -> str:
        if type(event) is not ScalarEvent:
            raise self._fatal("SR009", event, path, "a key must be a plain text")
        if event.value == _MERGE and not event.style:
            return _MERGE
        key = self._scalar(event, (*path, event.value))
        if not isinstance(key, str):
            self._fault("SR009", (*path, event.value), event, f'key {event.value} is not a text; write "{event.value}"')
            return str(event.value)
        if event.implicit[0] and key in self._scalars:
            self._keys.add(key)
        return key

    def _merged(self, value: Any, node: Any, path: Path) -> list[tuple[Any, Any]]:
        parts, nodes = (value, node[1]) if isinstance(value, list) else ([value], [node])
        if not all(isinstance(part, dict) for part in parts):
            event = node[0] if isinstance(node, tuple) else node
            self._fault("SR009", path, event, "<< merges mappings only; write << : *name, where &name marks a mapping")
            return []
        return [(part, part_node[1]) for part, part_node in zip(parts, nodes, strict=True)]

    def _alias(self, event: Any, path: Path) -> tuple[Any, Any]:
        if event.anchor not in self._anchors:
            raise self._fatal(
                "SR009", event, path, f"alias *{event.anchor} refers to nothing; write &{event.anchor} before"
            )
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise self._fatal("SR009", event, path, f"alias *{event.anchor} refers to itself")
        self._grow(anchored.size, event, path)
        children = anchored.node[1] if isinstance(anchored.node, tuple) else None
        return anchored.value, event if children is None else (event, children)

    def _scalar(self, event: Any, path: Path) -> Any:
        text: str = event.value
        if event.tag is not None and str(event.tag) not in (f"{_CORE}str", "!"):
            self._fault("SR009", path, event, f"tag {event.tag} is not used in rules; remove it")
            return text
        if not event.implicit[0]:
            return text
        if text in self._scalars:
            return self._scalars[text]
        value = resolve(text)
        if type(value) is not Refused:
            self._scalars[text] = value
            return value
        name = path[-1] if path and path[-1] != text else "key"
        self._fault(value.code, path, event, f"{name}: {value.text} {value.reason}; {_instead(value, path)}")
        return text


def _instead(value: Refused, path: Path) -> str:
    """What to write at a place of the document."""
    form, choices = form_at(path)
    if form == "code":
        return choices
    if form == "text":
        return f'write "{value.text}" in quotes'
    written = " or ".join(value.meant)
    if form == "number":
        return f"write {written}" if value.is_number and written else "write a number"
    if form == "truth":
        return f"write {written}" if not value.is_number and written else "write true or false"
    return f'write {written}, or "{value.text}" in quotes' if written else f'write "{value.text}" in quotes'


def _syntax(fault: YAMLError, text: str, name: str) -> Problem:
    """The parser's complaint in our words, where the slip was made if that is recognised."""
    mark = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    reason = (
        (fault.problem or fault.context or "") if isinstance(fault, MarkedYAMLError) else str(fault).partition("\n")[0]
    )
    line, column = (mark.line, mark.column) if mark is not None else (None, None)
    if (slip := explain(text, line, column, reason)) is not None:
        return slip.problem(text, name, "YAML")
    where = (line + 1, column + 1) if line is not None and column is not None else (None, None)
    return Problem("SR004", "error", f"not YAML: {reason or 'it cannot be read'}", name, *where)
