"""The line that a problem points at, as evidence may show it."""

from __future__ import annotations

from sentinel_core.audit.redaction import Redaction
from sentinel_core.rules import Problem, Revision
from sentinel_core.rules.secrets import mask_text

MAX_EXCERPT = 200
_AROUND = 4000
"""Characters on each side that are looked at: a list of 10,000 rules may stand on one line, and a secret that begins
further away than this is out of sight anyway."""


class Excerpts:
    """The texts of one revision, taken apart into lines at first need and once."""

    def __init__(self, revision: Revision, redaction: Redaction) -> None:
        self._redaction = redaction
        self._contents = {text.name: text.content for text in revision.texts}
        self._lines: dict[str, list[str]] = {}

    def of(self, problem: Problem) -> str | None:
        """At most MAX_EXCERPT characters around the problem's column, masked; None where there is no such line."""
        if problem.file not in self._contents or problem.line is None:
            return None
        if problem.file not in self._lines:
            text = self._contents[problem.file].decode("utf-8", errors="replace")
            self._lines[problem.file] = text.split("\n")
        lines = self._lines[problem.file]
        if not 0 < problem.line <= len(lines):
            return None
        column = (problem.column or 1) - 1
        left = max(0, column - _AROUND)
        line = mask_text(self._redaction.excerpt(lines[problem.line - 1][left : column + _AROUND]))
        start = max(0, min(column - left - MAX_EXCERPT // 2, len(line) - MAX_EXCERPT))
        return line[start : start + MAX_EXCERPT].strip()
