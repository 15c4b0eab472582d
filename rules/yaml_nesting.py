"""Brackets and quotes of a text that is no YAML: which are not closed, or closed by another."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CLOSING = {"{": "}", "[": "]"}
QUOTES = "'\""
_TELLING = {"": re.compile(r"[#'\"{}\[\]]"), '"': re.compile(r'["\\]'), "'": re.compile("'")}
"""What to look at next, by the quote that is open."""
_BLOCK_TEXT = re.compile(r".*[:-] +(?:[&!]\S+ +)*[|>][-+0-9]*(?: +#.*)?$")


@dataclass(frozen=True, slots=True)
class Opening:
    """A bracket or a quote, at a 0-based position."""

    what: str
    line: int
    column: int


@dataclass(slots=True)
class Nesting:
    """Follows the lines of a text, which it forgives everything else, until something does not fit."""

    opened: list[Opening] = field(default_factory=list)
    unclosed: Opening | None = None
    """What was never closed, or a quote that seems to be closed by the next text's own."""
    mismatch: tuple[Opening, Opening] | None = None
    """A bracket, and the bracket that stands where its end is needed."""

    def follow(self, lines: list[str]) -> None:
        skipped_below: int | None = None
        for number, line in enumerate(lines):
            indent = len(line) - len(line.lstrip(" "))
            if skipped_below is not None and (not line.strip() or indent > skipped_below):
                continue
            skipped_below = indent if not self.opened and _BLOCK_TEXT.match(line) else None
            column = 0
            while (found := self._telling().search(line, column)) is not None:
                step = self._in_quote if self._quote() else self._outside
                column = step(number, line, found.start())
                if self.unclosed or self.mismatch:
                    return
        self.unclosed = self.opened[-1] if self.opened else None

    def _quote(self) -> str:
        """The quote that is open, empty for none."""
        return self.opened[-1].what if self.opened and self.opened[-1].what in QUOTES else ""

    def _telling(self) -> re.Pattern[str]:
        return _TELLING[self._quote()]

    def _in_quote(self, number: int, line: str, column: int) -> int:
        """The column behind the piece that begins here."""
        quote, character = self.opened[-1].what, line[column]
        if (quote == '"' and character == "\\") or (quote == "'" and line.startswith("''", column)):
            return column + 2
        if character == quote:
            opening = self.opened.pop()
            if opening.line < number and re.compile(r"\s*[^\s,:}\]#]").match(line, column + 1):
                self.unclosed = opening
        return column + 1

    def _outside(self, number: int, line: str, column: int) -> int:
        character, before = line[column], column
        while before and line[before - 1] in " \t":
            before -= 1
        begins = not before or line[before - 1] in "[{,:-"
        in_flow = bool(self.opened)
        if character == "#" and (column == 0 or line[column - 1] in " \t"):
            return len(line)
        if (begins and character in QUOTES) or ((begins or in_flow) and character in CLOSING):
            self.opened.append(Opening(character, number, column))
        elif in_flow and character in "}]":
            opening = self.opened.pop()
            if CLOSING[opening.what] != character:
                self.mismatch = (opening, Opening(character, number, column))
        return column + 1
