"""Rule sets as texts: the JSON list of a kind that stores hold, and the YAML document of all kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sentinel_core.rules.edit import format_text
from sentinel_core.rules.registry import KINDS, model_of
from sentinel_core.rules.revision import Kind, SourceText
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.*-]*(:[A-Za-z0-9_/.*-]+)*")
_MEANS_ELSE = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")
"""What some YAML reader takes for something else than a text."""


def json_list(rules: RuleSet) -> bytes:
    """As Java Sentinel reads it, a rule a line, in the order of evaluation."""
    lines = ",\n".join(f"  {json.dumps(rule.to_json(), ensure_ascii=False)}" for rule in rules)
    return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"


def document(sets: Mapping[Kind, RuleSet], name: str) -> bytes:
    """A YAML document that manages these kinds, as `rules fmt` writes it; defaults are left out."""
    text = "".join(_kind(sets[kind]) for kind in KINDS if kind in sets)
    return format_text(SourceText(name, text.encode()))


def _kind(rules: RuleSet) -> str:
    key = model_of(rules.kind).document_key
    return f"{key}:\n{''.join(map(_rule, rules))}" if rules.rules else f"{key}: []\n"


def _rule(rule: Rule) -> str:
    lines = [f"{name}: {scalar(value)}" for name, value in fields_of(rule)]
    return f"  - {lines[0]}\n" + "".join(f"    {line}\n" for line in lines[1:])


def fields_of(rule: Rule) -> Iterator[tuple[str, Any]]:
    """The resource first; of the rest what is not the default, and what Java reads as 0 when it is absent."""
    told = {"resource", "id"}
    wanted = rule.model_dump(mode="json", exclude_defaults=True).keys() | set(rule.loud_defaults)
    rest = [(name, value) for name, value in rule.to_json().items() if name in wanted - told]
    if not rest or "resource" in rule.to_json():  # a system rule names none
        yield "resource", rule.resource
    yield from rest


def scalar(value: Any) -> str:
    """A value as readers of YAML 1.2 and of 1.1 understand it alike."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _MEANS_ELSE.fullmatch(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:  # 1e+22 is a text to readers of YAML 1.1
        return text.replace("e", ".0e")
    return text
