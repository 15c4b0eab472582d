"""Canonical formatting of a rule text that keeps its comments."""

from __future__ import annotations

import json

from sentinel_core.rules.revision import SourceText
from sentinel_core.rules.text import decode, read_text


def format_text(text: SourceText) -> bytes:
    """The text in its canonical layout, UTF-8 with LF. Raises RuleRejected for text that cannot be read."""
    source = read_text(text)
    if text.format == "json":
        return (json.dumps(source.data, ensure_ascii=False, indent=2) + "\n").encode()
    lines = [line.rstrip() for line in decode(text.content, text.name).splitlines()]
    return ("\n".join(lines).rstrip("\n") + "\n").encode()
