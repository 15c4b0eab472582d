"""The line that a problem points at, as evidence may show it."""

from __future__ import annotations

from sentinel_core.audit.redaction import Redaction
from sentinel_core.masking import MASK, mask_text
from sentinel_core.rules import Problem, Revision

MAX_EXCERPT = 200
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"
_AROUND = 4000
"""Characters on each side that are looked at: a list of 10,000 rules may stand on one line, and a secret that begins
further away than this is out of sight anyway, but for a private key that does not end."""


class Excerpts:
    """The texts of one revision, taken apart into lines at first need and once."""

    def __init__(self, revision: Revision, redaction: Redaction) -> None:
        self._redaction = redaction
        self._contents = {text.name: text.content for text in revision.texts}
        self._lines: dict[str, tuple[list[str], bool]] = {}
        """And whether a private key stands anywhere in them."""

    def of(self, problem: Problem) -> str | None:
        """At most MAX_EXCERPT characters around the problem's column, masked; None where there is no such line."""
        if problem.file not in self._contents or problem.line is None:
            return None
        if problem.file not in self._lines:
            text = self._contents[problem.file].decode("utf-8", errors="replace")
            self._lines[problem.file] = text.split("\n"), _KEY_BEGINS in text
        lines, has_key = self._lines[problem.file]
        if not 0 < problem.line <= len(lines):
            return None
        line, column = lines[problem.line - 1], (problem.column or 1) - 1
        left = max(0, column - _AROUND)
        if has_key and line.rfind(_KEY_BEGINS, 0, left) > line.rfind(_KEY_ENDS, 0, left):
            return MASK
        line = self._redaction.excerpt(line[left : column + _AROUND])
        shown, start = mask_text(line), len(mask_text(line[: max(0, column - left - MAX_EXCERPT // 2)]))
        if left == 0:  # else what stands in front may be the rest of a secret
            start = max(0, min(start, len(shown) - MAX_EXCERPT))
        return shown[start : start + MAX_EXCERPT].strip()
