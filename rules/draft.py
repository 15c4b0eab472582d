"""A YAML or JSON text that is changed in places: what is not named stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml.events import AliasEvent, ScalarEvent

from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.revision import SourceText
from sentinel_core.rules.source import Path, json_path
from sentinel_core.rules.write import scalar
from sentinel_core.rules.yaml_text import read_nodes

_BOM = "\ufeff"
_ANCHOR = re.compile(r"&[^\s,\[\]{}]+\s*")
_COMMENT = re.compile(r"[ \t]*#")
Fields = Sequence[tuple[str, Any]]
"""Names and values of a rule, in the order in which they are written."""


class Unchangeable(ValueError):
    """A place that cannot be changed without touching what stands around it; the message says where."""


class Draft:
    """Changes are noted down and made together by `result`; of two that overlap the first is made. Paths are those of
    the text as it was given. Raises RuleRejected for a text that cannot be read, Unchangeable for JSON that no reader
    of YAML takes."""

    def __init__(self, text: SourceText) -> None:
        self.source = text
        content = text.content.decode()
        self._mark = _BOM if content.startswith(_BOM) else ""
        self.text = content.removeprefix(_BOM)
        self._is_json = text.format == "json"
        try:
            self.data, self._root, faults = read_nodes(self.text, text.name)
        except RuleRejected as rejection:
            if not self._is_json:
                raise
            hint = "write the characters themselves in place of escapes such as \\ud83d"
            raise Unchangeable(f"{text.name}: {hint}\n{rejection}") from rejection
        if faults:
            raise RuleRejected(faults)
        self._newline = "\r\n" if "\r\n" in self.text else "\n"
        self._splices: list[tuple[int, int, str]] = []
        self._gone: dict[Path, set[int]] = {}
        self._grown: set[Path] = set()
        self._sections: dict[str, list[Fields]] = {}
        self._entries: dict[int, list[str]] = {}
        """What comes into brackets, by where those open."""

    def result(self) -> SourceText:
        """The text with every change made; a list that gets new items first loses all the old ones another time."""
        for path, indexes in self._gone.items():
            if path not in self._grown or len(indexes) < len(self._node(path)[1]):
                self._remove(path, indexes)
        self._write_sections()  # behind everything else that is added at the end
        for opening, entries in self._entries.items():
            self._fill(opening, entries)
        pieces, done = [self._mark], 0
        for start, end, replacement in sorted(self._splices, key=lambda splice: splice[:2]):
            if start >= done:
                pieces += [self.text[done:start], replacement]
                done = end
        content = "".join([*pieces, self.text[done:]]).encode()
        return SourceText(self.source.name, content, self.source.format)

    # -- looking -----------------------------------------------------------------------------------------------------

    def owns(self, path: Path, key: str) -> bool:
        """Whether the mapping at `path` writes the key itself, rather than by a merge or an alias."""
        event, children = self._mapping(path)
        return key in children and type(event) is not AliasEvent and _start(children[key][0]) >= _start(event)

    def is_shared(self, path: Path) -> bool:
        """Whether an alias stands there."""
        return type(_event(self._node(path))) is AliasEvent

    def is_mapping(self, path: Path) -> bool:
        node = self._node(path)
        return isinstance(node, tuple) and isinstance(node[1], dict)

    def anchors(self, path: Path) -> set[str]:
        """The names of those that what stands at `path` carries itself."""
        return set(_anchors(self._node(path)))

    def line(self, path: Path) -> int:
        """1-based, where that begins."""
        return int(_event(self._node(path)).start_mark.line) + 1

    def _node(self, path: Path) -> Any:
        node = self._root
        for step in path:
            child = node[1][step]
            node = child[1] if isinstance(step, str) else child
        return node

    def _mapping(self, path: Path) -> tuple[Any, dict[str, Any]]:
        event, children = self._node(path)
        return event, children

    def _entry(self, path: Path) -> tuple[Any, Any]:
        """(event of the key, node of the value) of what stands at a path."""
        entry: tuple[Any, Any] = self._mapping(path[:-1])[1][str(path[-1])]
        return entry

    def _own(self, path: Path) -> list[tuple[Any, Any]]:
        """(event of the key, node of the value) of what a mapping writes itself, in the order of the text."""
        _, children = self._mapping(path)
        own = [children[key] for key in children if self.owns(path, key)]
        return sorted(own, key=lambda pair: _start(pair[0]))

    # -- fields ------------------------------------------------------------------------------------------------------

    def write(self, path: Path, key: str, value: Any, *, plain: str | None = None) -> None:
        """Writes the key of the mapping at `path`, anew or over what stands there. `plain`: the word for a code."""
        if self.is_shared(path):
            raise self._unchangeable(path, "it is an alias")
        if self.owns(path, key):
            self._overwrite(path, key, value, plain)
        else:
            self._insert(path, key, value, plain)

    def remove(self, path: Path, key: str) -> None:
        """Takes a key away that the mapping at `path` writes itself."""
        own = self._own(path)
        index = next(i for i, pair in enumerate(own) if pair[0].value == key)
        start, end = _start(own[index][0]), self._end(own[index][1])
        if self._mapping(path)[0].flow_style:
            self._splices.append(self._with_comma(start, end))
        elif index == 0:  # it stands behind the dash
            self._overwrite(path, key, None, None)
        else:
            self._splices.append((self._line_start(start), self._line_end(end), ""))

    def _overwrite(self, path: Path, key: str, value: Any, plain: str | None) -> None:
        name, node = self._mapping(path)[1][key]
        event = _event(node)
        start, end = _start(event), self._end(node)
        if getattr(event, "anchor", None) is not None and type(event) is not AliasEvent:
            start = _ANCHOR.match(self.text, start).end()  # type: ignore[union-attr]  # the event says that there is one
        text = plain if plain is not None else self._like(event, value, self._mapping(path)[0])
        if type(event) is ScalarEvent and event.style in ("|", ">"):
            text += self._newline
        elif type(event) is not AliasEvent and (not event.flow_style if isinstance(node, tuple) else start == end):
            start, text = name.end_mark.index, f": {text}"  # a block below its key, or nothing at all
        self._splices.append((start, end, text))

    def _like(self, event: Any, value: Any, around: Any) -> str:
        """A value in the quotes of the one that it replaces."""
        style = event.style if type(event) is ScalarEvent else None
        if isinstance(value, str) and style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, str) and style == '"':
            return json.dumps(value, ensure_ascii=False)
        return self._flow(value) if around.flow_style else self._block(value)

    def _block(self, value: Any) -> str:
        return self._flow(value) if self._is_json or not isinstance(value, str) else scalar(value)

    def _flow(self, value: Any) -> str:
        """A value as it stands within brackets, where a colon in a text would end it."""
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self._key(name)}: {self._flow(inner)}" for name, inner in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(self._flow, value)) + "]"
        quoted = self._is_json or (isinstance(value, str) and ":" in value)
        return json.dumps(value, ensure_ascii=False) if quoted else scalar(value)

    def _key(self, name: str) -> str:
        return json.dumps(name) if self._is_json else name

    def _insert(self, path: Path, key: str, value: Any, plain: str | None) -> None:
        event, _ = self._mapping(path)
        if event.flow_style:
            self._into_brackets(event, f"{self._key(key)}: {plain or self._flow(value)}")
            return
        own = self._own(path)
        if not own:
            raise self._unchangeable(path, "it has no field of its own")
        end = self._end(own[-1][1])
        margin = " " * own[0][0].start_mark.column
        self._add_lines(self._line_end(end), [f"{margin}{key}: {plain or self._block(value)}"])

    def _into_brackets(self, event: Any, entry: str) -> None:
        self._entries.setdefault(self._opening(event), []).append(entry)

    def _fill(self, opening: int, entries: Sequence[str]) -> None:
        before = self.text[opening + 1 : self._closing(opening) - 1].rstrip()
        at = opening + 1 + len(before)
        comma = ("" if before.endswith(",") else ",") + " " if before else ""
        self._splices.append((at, at, comma + ", ".join(entries)))

    # -- rules -------------------------------------------------------------------------------------------------------

    def append(self, path: Path, fields: Fields, *, after: int | None = None) -> None:
        """A rule into the list at `path`, behind item `after` (default: the last), written as its neighbour is."""
        event, items = self._node(path)
        if type(event) is AliasEvent:
            raise self._unchangeable(path, "it is an alias")
        if not items:
            self._first(path, fields)
            return
        self._grown.add(path)
        index = len(items) - 1 if after is None else after
        end = self._end(items[index])
        if event.flow_style:
            start = _start(_event(items[index]))
            before = self.text[self._line_start(start) : start]
            gap = f"{self._newline}{before}" if not before.strip() else " "
            self._splices.append((end, end, f",{gap}{self._flow(dict(fields))}"))
            return
        dash = self._dash(_start(_event(items[index])))
        column = dash - self._line_start(dash)
        gap = " " * max(1, _event(items[index]).start_mark.column - column - 1)
        is_flow = bool(getattr(_event(items[index]), "flow_style", False))
        self._add_lines(self._item_end(end, column), self._rule(fields, " " * column, gap, is_flow=is_flow))

    def _first(self, path: Path, fields: Fields) -> None:
        if not path or self._mapping(path[:-1])[0].flow_style:
            self._into_brackets(_event(self._node(path)), self._flow(dict(fields)))
            return
        name, node = self._entry(path)
        lines = self._rule(fields, " " * (name.start_mark.column + 2), " ", is_flow=False)
        text = ":" + "".join(f"{self._newline}{line}" for line in lines)
        self._splices.append((name.end_mark.index, self._end(node), text))

    def _rule(self, fields: Fields, margin: str, gap: str, *, is_flow: bool) -> list[str]:
        if is_flow:
            return [f"{margin}-{gap}{self._flow(dict(fields))}"]
        lines = [f"{name}: {self._block(value)}" for name, value in fields]
        return [f"{margin}-{gap}{lines[0]}", *(f"{margin} {gap}{line}" for line in lines[1:])]

    def add_section(self, key: str, rules: Sequence[Fields]) -> None:
        """A list of rules under a key that the document does not have yet; none says that there are none."""
        self._sections.setdefault(key, []).extend(rules)

    def _write_sections(self) -> None:
        event = _event(self._root)
        lines: list[str] = []
        for key, rules in self._sections.items():
            if getattr(event, "flow_style", True):
                self._into_brackets(event, f"{self._key(key)}: {self._flow([dict(rule) for rule in rules])}")
                continue
            lines.append(f"{key}:{'' if rules else ' []'}")
            lines += [line for rule in rules for line in self._rule(rule, "  ", " ", is_flow=False)]
        if lines:
            self._add_lines(len(self.text), lines)

    def drop(self, path: Path, index: int) -> None:
        """Takes an item out of the list at `path`; a list that loses all of them says so."""
        self._gone.setdefault(path, set()).add(index)

    def _remove(self, path: Path, indexes: set[int]) -> None:
        event, items = self._node(path)
        if type(event) is AliasEvent:
            raise self._unchangeable(path, "it is an alias")
        if len(indexes) == len(items):
            if event.flow_style or not path:
                opening = self._opening(event)
                self._splices.append((opening + 1, self._closing(opening) - 1, ""))
            else:
                name, _ = self._entry(path)
                last = items[-1]
                end = self._item_end(self._end(last), self._column(items[-1])) if items else name.end_mark.index
                self._splices.append((name.end_mark.index, end, f": []{self._newline}"))
            return
        for index in indexes:
            start, end = _start(_event(items[index])), self._end(items[index])
            if event.flow_style:
                self._splices.append(self._with_comma(start, end))
            else:
                self._splices.append((*self._lines_of(items, index), ""))

    def _lines_of(self, items: Sequence[Any], index: int) -> tuple[int, int]:
        """The lines of an item of a block list, with the comment right above it where that is of this item alone: what
        follows has a comment of its own, or stands apart."""
        dash = self._dash(_start(_event(items[index])))
        start = self._line_start(dash)
        end = self._item_end(self._end(items[index]), dash - start)
        top = start
        while index and top and _COMMENT.match(self.text, above := self._line_start(top - 1)):
            top = above
        following = self.text[end : self._line_end(end)]
        apart = not following.strip() or index == len(items) - 1 or _COMMENT.match(following)
        return (top if apart else start), end

    def _item_end(self, end: int, column: int) -> int:
        """Behind the last line of a block item: what is indented further than its dash belongs to it (a merge is in no
        tree)."""
        at = self._line_end(end)
        while at < len(self.text):
            line = self.text[at : self._line_end(at)]
            if not line.strip() or _COMMENT.match(line) or len(line) - len(line.lstrip(" ")) <= column:
                break
            at = self._line_end(at)
        return at

    def _column(self, item: Any) -> int:
        dash = self._dash(_start(_event(item)))
        return dash - self._line_start(dash)

    def _dash(self, start: int) -> int:
        dash = self.text.rfind("-", 0, start)
        if dash < 0 or self.text[dash + 1 : start].strip() or self.text[self._line_start(dash) : dash].strip():
            line = self.text.count("\n", 0, start) + 1
            raise Unchangeable(f"{self.source.name}:{line}: the dash of this rule stands elsewhere")
        return dash

    # -- places in the text ------------------------------------------------------------------------------------------

    def _line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        """Behind the line end."""
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1

    def _add_lines(self, at: int, lines: Sequence[str]) -> None:
        text = "".join(f"{line}{self._newline}" for line in lines)
        if at and self.text[at - 1] != "\n":
            text = self._newline + text.removesuffix(self._newline)
        self._splices.append((at, at, text))

    def _with_comma(self, start: int, end: int) -> tuple[int, int, str]:
        """A piece of a flow collection with the comma behind it, or, of the last, with the one before it."""
        if found := re.compile(r"\s*,[ \t]*").match(self.text, end):
            return start, found.end(), ""
        before = re.search(r",\s*\Z", self.text[:start])
        return (before.start() if before else start), end, ""

    def _end(self, node: Any) -> int:
        """Behind the last character of a node, line ends of block scalars left aside."""
        event, children = node if isinstance(node, tuple) else (node, None)
        if children is None or type(event) is AliasEvent:
            end: int = event.end_mark.index
            while end > _start(event) and self.text[end - 1] in "\r\n":
                end -= 1
            return end
        if event.flow_style:
            return self._closing(self._opening(event))
        parts = [pair[1] for pair in children.values()] if isinstance(children, dict) else children
        own = [part for part in parts if _start(_event(part)) >= _start(event)]
        return max((self._end(part) for part in own), default=event.end_mark.index)

    def _opening(self, event: Any) -> int:
        start = _start(event)
        found = _ANCHOR.match(self.text, start)
        return found.end() if found else start

    def _closing(self, opening: int) -> int:
        """Behind the bracket that closes the one at `opening`."""
        depth, at = 0, opening
        spans = self._scalars
        while at < len(self.text):
            if at in spans and spans[at] > at:
                at = spans[at]
                continue
            character = self.text[at]
            if character == "#" and self.text[at - 1] in " \t\n":
                at = self._line_end(at)
                continue
            depth += (character in "[{") - (character in "]}")
            at += 1
            if depth == 0:
                break
        return at

    @property
    def _scalars(self) -> dict[int, int]:
        """Where scalars begin, and where each ends."""
        if not hasattr(self, "_spans"):
            self._spans: dict[int, int] = {}
            _spans(self._root, self._spans)
        return self._spans

    def _unchangeable(self, path: Path, why: str) -> Unchangeable:
        mark = _event(self._node(path)).start_mark
        return Unchangeable(f"{self.source.name}:{mark.line + 1}:{mark.column + 1}: {json_path(path)}: {why}")


def _anchors(node: Any) -> Iterator[str]:
    event = _event(node)
    if type(event) is AliasEvent:
        return
    if event.anchor:
        yield str(event.anchor)
    children = node[1] if isinstance(node, tuple) else ()
    for child in (pair[1] for pair in children.values()) if isinstance(children, dict) else children:
        if _start(_event(child)) >= _start(event):  # what is merged stands elsewhere
            yield from _anchors(child)


def _event(node: Any) -> Any:
    return node[0] if isinstance(node, tuple) else node


def _start(event: Any) -> int:
    start: int = event.start_mark.index
    return start


def _spans(node: Any, found: dict[int, int]) -> None:
    event, children = node if isinstance(node, tuple) else (node, None)
    if children is None:
        found[_start(event)] = event.end_mark.index
    parts = children.values() if isinstance(children, dict) else children or ()
    for part in parts:
        if isinstance(children, dict):
            key, part = part
            found[_start(key)] = key.end_mark.index
        _spans(part, found)
