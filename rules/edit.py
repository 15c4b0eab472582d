"""Canonical formatting of a rule text that keeps its comments and its meaning.

The text is never written anew: spans of it are replaced where the parser's events say they stand. A step that would
change what the text means is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ruamel.yaml.events import ScalarEvent

from sentinel_core.rules.build import paused_gc
from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.indent import indented
from sentinel_core.rules.registry import BY_DOCUMENT_KEY
from sentinel_core.rules.revision import SourceText
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.text import blank, decode, read_text
from sentinel_core.rules.yaml_text import read_nodes

_COLON = re.compile(r"[ \t]*:[ \t]*")
_BEFORE = re.compile(r"([{\[]|(?<=[^:\s])[ \t]*,|,)[ \t]*\Z")
_CLOSING = re.compile(r"(?:[ \t]*[}\]])+")
_FAR = 80
"""Blanks beyond this are left as they are."""
Splice = tuple[int, int, str]
"""(start, end, replacement), offsets in characters."""
Nodes = tuple[Any, Any]
"""(data, tree of events) of a text."""
Step = Callable[[str, Any, Any], str]


def format_text(text: SourceText) -> bytes:
    """The text in its canonical layout: UTF-8, LF, two spaces a level, one after a colon, codes by name, comments kept.

    JSON is written with two spaces a level. Formatting twice changes nothing. Raises RuleRejected for unreadable text.
    """
    if text.format == "json":
        source = read_text(text)
        if source.faults:
            raise RuleRejected(source.faults)
        return (json.dumps(source.data, ensure_ascii=False, indent=2) + "\n").encode()
    with paused_gc():
        content = decode(text.content, text.name)
        nodes = _nodes(content, text.name)
        if not nodes[0] and nodes[0] != []:
            raise blank(text.name, "null" if nodes[0] is None else "{}")
        return _formatted(content, nodes).encode()


def _nodes(text: str, name: str = "") -> Nodes:
    """What a text holds. Raises RuleRejected."""
    data, root, faults = read_nodes(text, name)
    if faults:
        raise RuleRejected(faults)
    return data, root


def _formatted(text: str, nodes: Nodes) -> str:
    """Reading a text again takes most of the time: all steps share one look at the result, if it says the same."""
    meaning = _meaning(nodes[0])
    text, nodes = _after(_tidied, text, nodes, meaning)
    whole = indented(_respelled(text, *nodes), *nodes)
    if whole == text or _read_again(whole, meaning) is not None:
        return whole
    for step in (_named, _spaced, _packed, indented):
        text, nodes = _after(step, text, nodes, meaning)
    return text


def _after(step: Step, text: str, nodes: Nodes, meaning: str) -> tuple[str, Nodes]:
    """The text after a step, which is left out if it would change the meaning."""
    candidate = step(text, *nodes)
    if candidate == text or (read := _read_again(candidate, meaning)) is None:
        return text, nodes
    return candidate, read


def _read_again(text: str, meaning: str) -> Nodes | None:
    try:
        nodes = _nodes(text)
    except RuleRejected:
        return None
    return nodes if _meaning(nodes[0]) == meaning else None


def _tidied(text: str, _data: Any, _root: Any) -> str:
    """LF, no blanks at line ends, at most one empty line in a row, one newline at the end."""
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept).strip("\n") + "\n"


def _respelled(text: str, data: Any, root: Any) -> str:
    return _spliced(text, [*_names(data, root), *_gaps(text, root), *_flow_gaps(text, root)])


def _named(text: str, data: Any, root: Any) -> str:
    return _spliced(text, _names(data, root))


def _spaced(text: str, _data: Any, root: Any) -> str:
    return _spliced(text, _gaps(text, root))


def _packed(text: str, _data: Any, root: Any) -> str:
    return _spliced(text, _flow_gaps(text, root))


def _names(data: Any, root: Any) -> Iterator[Splice]:
    """Codes by their names."""
    for model, rule, children in _rules(data, root):
        for field in model.names.keys() & rule.keys():
            event = children[field][1]
            code = _mended(model, rule).get(field)
            if type(event) is ScalarEvent and event.anchor is None and type(code) is int:
                yield event.start_mark.index, event.end_mark.index, model.code_name(field, code)


def _gaps(text: str, root: Any) -> Iterator[Splice]:
    """`key: value` with one blank."""
    for key, node in _pairs(root):
        value = node[0] if isinstance(node, tuple) else node
        gap = (key.end_mark.index, value.start_mark.index)
        if getattr(value, "value", None) != "" and _COLON.fullmatch(text, *gap):
            yield (*gap, ": ")


def _flow_gaps(text: str, root: Any) -> Iterator[Splice]:
    """`{a: 1, b: [2, 3]}`: one blank after a comma, none inside of brackets."""
    for first, last in _flow_parts(root):
        start = first.start_mark.index
        if found := _BEFORE.search(text, max(0, start - _FAR), start):
            yield found.start(), start, ", " if found[1].endswith(",") else found[1]
        if type(last) is ScalarEvent and (found := _CLOSING.match(text, last.end_mark.index)):
            yield found.start(), found.end(), re.sub(r"[ \t]+", "", found[0])


def _flow_parts(node: Any, *, within: bool = False) -> Iterator[tuple[Any, Any]]:
    """(event of the key or item, event of the value or item) of everything inside of brackets."""
    event, children = node if isinstance(node, tuple) else (node, None)
    if children is None:
        return
    within = within or bool(event.flow_style)
    pairs = children.values() if isinstance(children, dict) else [(child, child) for child in children]
    for first, last in pairs:
        if within:
            yield _event(first), _event(last)
        yield from _flow_parts(last, within=within)


def _event(node: Any) -> Any:
    return node[0] if isinstance(node, tuple) else node


def _spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with the spans replaced. Merged mappings name a span more than once; it is replaced once."""
    pieces = []
    done = 0
    for start, end, replacement in sorted(set(splices)):
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]])


def _rules(data: Any, root: Any) -> Iterator[tuple[type[Rule], dict[str, Any], dict[str, Any]]]:
    """(model, rule as written, its nodes) of every rule of a document."""
    children = root[1] if isinstance(root, tuple) else None
    for key, model in BY_DOCUMENT_KEY.items():
        if isinstance(children, dict) and isinstance(data.get(key), list):
            for rule, node in zip(data[key], children[key][1][1], strict=True):
                if isinstance(rule, dict):
                    yield model, rule, node[1]


def _pairs(node: Any) -> Iterator[tuple[Any, Any]]:
    """(event of the key, node of the value) of every mapping."""
    children = node[1] if isinstance(node, tuple) else None
    if isinstance(children, dict):
        for key, value in children.values():
            yield key, value
            yield from _pairs(value)
    elif isinstance(children, list):
        for value in children:
            yield from _pairs(value)


def _mended(model: type[Rule], rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with numbers for names, as it is read."""
    mended = dict(rule)
    for field, names in model.names.items():
        if isinstance(value := mended.get(field), str):
            mended[field] = names.get(value, value)
    model.repair(mended)
    return mended


def _meaning(data: Any) -> Any:
    """What two texts must agree on to say the same."""
    if not isinstance(data, dict):
        return repr(data)
    return repr(
        {
            key: [_mended(model, rule) if isinstance(rule, dict) else rule for rule in value]
            if (model := BY_DOCUMENT_KEY.get(key)) is not None and isinstance(value, list)
            else value
            for key, value in data.items()
        }
    )
