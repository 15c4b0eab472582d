"""What the explainers of the two syntaxes share: a slip, a merge conflict, words in quotes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sentinel_core.expression import expression
from sentinel_core.rules.errors import Problem
from sentinel_core.rules.source import VALUE_LENGTH

CODE = "SR004"
_CONFLICT = expression(r"^(?:<{7}|>{7})(?: .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slip:
    """What was probably done, at an offset of the text, with what to write instead."""

    offset: int
    message: str
    field: str | None = None
    resource: str | None = None

    def problem(self, text: str, name: str, syntax: str) -> Problem:
        line, column = line_of(text, self.offset), self.offset - text.rfind("\n", 0, self.offset)
        message = f"not {syntax}: {self.message}"
        return Problem(CODE, "error", message, name, line, column, resource=self.resource, field=self.field)


def conflict(text: str) -> Slip | None:
    """Markers that a merge left behind."""
    if (found := _CONFLICT.search(text)) is None:
        return None
    message = "a merge conflict; keep one side and remove the lines that begin with <<<<<<<, ======= and >>>>>>>"
    return Slip(found.start(), message)


def line_of(text: str, offset: int) -> int:
    """1-based."""
    return text.count("\n", 0, offset) + 1


def quoted(text: str) -> str:
    """In double quotes, as both syntaxes read them."""
    return json.dumps(cut(text), ensure_ascii=False)


def cut(text: str) -> str:
    """Short enough for a line."""
    return text if len(text) <= VALUE_LENGTH else f"{text[: VALUE_LENGTH - 1]}…"


def not_closed(bracket: str, line: int) -> str:
    """The message for a bracket that opens on a line."""
    return f"the {bracket} of line {line} is not closed; write {'}' if bracket == '{' else ']'} where it ends"
