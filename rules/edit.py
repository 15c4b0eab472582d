"""Canonical formatting of a rule text that keeps its comments and its meaning.

The text is never written anew: spans of it are replaced where the parser's events say they stand. A step that would
change what the text means is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml.events import ScalarEvent

from sentinel_core.rules.build import paused_gc
from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.indent import indented
from sentinel_core.rules.registry import BY_DOCUMENT_KEY
from sentinel_core.rules.revision import SourceText
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.text import decode, read_text
from sentinel_core.rules.yaml_text import read_nodes

_COLON = re.compile(r"[ \t]*:[ \t]*")
Splice = tuple[int, int, str]
"""(start, end, replacement), offsets in characters."""


def format_text(text: SourceText) -> bytes:
    """The text in its canonical layout: UTF-8, LF, two spaces a level, one after a colon, codes by name, comments kept.

    JSON is written with two spaces a level. Formatting twice changes nothing. Raises RuleRejected for unreadable text.
    """
    source = read_text(text)
    if text.format == "json":
        return (json.dumps(source.data, ensure_ascii=False, indent=2) + "\n").encode()
    with paused_gc():
        return _formatted(decode(text.content, text.name)).encode()


def _formatted(text: str) -> str:
    data, root = read_nodes(text, "")
    meaning = _meaning(data)
    for step in (_tidied, _named, _spaced, indented):
        candidate = step(text, data, root)
        try:
            nodes = read_nodes(candidate, "")
        except RuleRejected:
            continue
        if _meaning(nodes[0]) == meaning:
            text, (data, root) = candidate, nodes
    return text


def _tidied(text: str, _data: Any, _root: Any) -> str:
    """LF, no blanks at line ends, at most one empty line in a row, one newline at the end."""
    lines = [line.rstrip(" \t") for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept).strip("\n") + "\n"


def _named(text: str, data: Any, root: Any) -> str:
    """Codes by their names."""
    splices = []
    for model, rule, children in _rules(data, root):
        for field in model.names.keys() & rule.keys():
            event = children[field][1]
            code = _mended(model, rule).get(field)
            if type(event) is ScalarEvent and event.anchor is None and type(code) is int:
                splices.append((event.start_mark.index, event.end_mark.index, model.code_name(field, code)))
    return _spliced(text, splices)


def _spaced(text: str, _data: Any, root: Any) -> str:
    """`key: value` with one blank."""
    splices = []
    for key, node in _pairs(root):
        value = node[0] if isinstance(node, tuple) else node
        gap = (key.end_mark.index, value.start_mark.index)
        if getattr(value, "value", None) != "" and _COLON.fullmatch(text, *gap):
            splices.append((*gap, ": "))
    return _spliced(text, splices)


def _spliced(text: str, splices: list[Splice]) -> str:
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
