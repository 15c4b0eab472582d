"""JSON and YAML as programs read them, safe on a person's terminal too."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from sentinel_core.cli.text import is_hidden
from sentinel_core.expression import expression

_OTHER_IN_YAML_1_1 = expression(
    r"(?i)(y|n|yes|no|on|off|true|false|null|~|[-+.\d][-+.\d_:eExXoOa-f]*|\.?(nan|inf)|=|<<)?"
)
"""Strings that an older YAML reader takes for something else when they stand without quotes."""


def to_json(value: object, *, ascii_only: bool, indent: int | None = None) -> str:
    """JSON text; invisible characters stand as `\\u` escapes, which say the same and cannot turn a terminal around."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators, allow_nan=False)
    return re.sub(r"[^\x00-\x7e]", lambda match: _escaped(match[0]), text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if is_hidden(char) and char != "\x7f" else "\\u007f" if char == "\x7f" else char


def to_yaml(value: object, *, ascii_only: bool) -> str:
    """The same as YAML 1.2, quoted so that YAML 1.1 readers understand it alike."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import ScalarNode
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        def string(self, data: str) -> ScalarNode:
            style = "'" if _OTHER_IN_YAML_1_1.fullmatch(data) else None
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Representer.add_representer(str, Representer.string)
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 4096
    text = json.dumps(value, ensure_ascii=False)
    yaml.allow_unicode = not ascii_only and not any(is_hidden(char) for char in text)
    stream = io.StringIO()
    try:
        yaml.dump(json.loads(text), stream)
    except RecursionError:  # it is nested deeper than that writer goes; JSON is YAML too
        return to_json(value, ascii_only=ascii_only)
    return stream.getvalue().rstrip("\n")
