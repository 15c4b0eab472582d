"""Why a text is no YAML: a look at its lines for the slip, which is often above the place where a parser gives up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sentinel_core.rules.messages import near
from sentinel_core.rules.registry import BY_DOCUMENT_KEY, MODELS
from sentinel_core.rules.slips import Slip, conflict, cut, not_closed, quoted
from sentinel_core.rules.source import VALUE_LENGTH
from sentinel_core.rules.yaml_nesting import CLOSING, Nesting, Opening

_PAIR = re.compile(
    r"(?P<lead>[ \t]*(?:- +)*)(?P<key>[^\s#:{}\[\],\"'&*!|>%@`-][^\s:{}\[\],\"']*) *:(?: +(?P<value>.*))?$"
)
_HALF = re.compile(r"(?P<lead>[ \t]*(?:- *)?)(?P<key>[A-Za-z]+)(?P<sign>(?: *[=：]| *:| +|$) *)(?P<value>.*)$")
_NO_BLANK = re.compile(r"[ \t]*-(?P<rest>[A-Za-z]+ *:(?: .*|))$")
_CANNOT_BEGIN = "@`%*&!|>"
_BEFORE = 3
"""Lines above the parser's one in which the slip is looked for."""
Found = tuple[int, int, str, str | None]
"""(line, column, message, key), positions from 0."""


def explain(text: str, line: int | None, column: int | None, reason: str) -> Slip | None:
    """The slip behind a parser's complaint at a 0-based position; None where none is recognised."""
    if found := conflict(text):
        return found
    if line is None or column is None:
        return None
    return _Reading(text.split("\n"), line, column, reason).slip()


@dataclass
class _Reading:
    lines: list[str]
    line: int
    column: int
    reason: str

    def slip(self) -> Slip | None:
        for look in (self._tab, self._nesting, self._pairs, self._value, self._comma, self._indentation, self._others):
            if found := look():
                line, column, message, key = found
                offset = sum(len(each) + 1 for each in self.lines[:line]) + column
                return Slip(offset, message, key, self._resource(line) if key != "resource" else None)
        return None

    @cached_property
    def words(self) -> frozenset[str]:
        """Every key that rules know."""
        shapes = [shape for model in MODELS.values() for shape in (model, *model.nested.values())]
        return frozenset(BY_DOCUMENT_KEY).union(*(shape.fields_by_alias() for shape in shapes))

    def _known(self, word: str) -> bool:
        return word in self.words or (len(word) <= VALUE_LENGTH and near(word, sorted(self.words)) is not None)

    @property
    def here(self) -> str:
        return self.lines[self.line] if self.line < len(self.lines) else ""

    def _above(self) -> Iterator[tuple[int, str]]:
        """The line of the fault and those above it, without blank lines and comments."""
        numbers = range(min(self.line, len(self.lines) - 1), -1, -1)
        told = [(number, self.lines[number]) for number in numbers if self.lines[number].strip().strip("#")]
        yield from [each for each in told if not each[1].lstrip().startswith("#")][: _BEFORE + 1]

    def _tab(self) -> Found | None:
        lead = self.here[: len(self.here) - len(self.here.lstrip())]
        return (self.line, lead.index("\t"), "a tab cannot indent, use spaces", None) if "\t" in lead else None

    def _nesting(self) -> Found | None:
        """Brackets and quotes that are not closed, or closed by another."""
        nesting = Nesting()
        nesting.follow(self.lines)
        if nesting.mismatch:
            opening, at = nesting.mismatch
            message = (
                f"the {opening.what} of line {opening.line + 1} ends with {at.what}; write {CLOSING[opening.what]}"
            )
            return at.line, at.column, message, None
        if (opened := nesting.unclosed) is not None:
            return self._unclosed(opened)
        if (closing := self.here[self.column : self.column + 1]) in ("}", "]") and "expected ','" not in self.reason:
            return self.line, self.column, f"this {closing} closes nothing; remove it", None
        return None

    def _unclosed(self, opened: Opening) -> Found:
        line, column = opened.line, opened.column
        if opened.what in CLOSING:
            return line, column, not_closed(opened.what, line + 1), None
        pair = _PAIR.match(self.lines[line])
        key = pair["key"] if pair else None
        begun = self.lines[line][column + 1 :].split(" #")[0].strip()
        shown = f"{key}: {quoted(begun)}" if key else quoted(begun)
        return line, column, f"the quote of line {line + 1} is not closed; write {shown}", key

    def _pairs(self) -> Found | None:
        """`count 2`, `count:2`, `count = 2`, `-resource: a`."""
        for number, line in self._above():
            if found := _NO_BLANK.match(line):
                return number, line.index("-"), f"a blank is missing after the dash; write - {cut(found['rest'])}", None
            found = _HALF.match(line)
            if not found or _PAIR.match(line) or not self._known(found["key"]):
                continue
            key, sign, value = found["key"], found["sign"].strip(), found["value"].strip()
            if sign == ":" and not value:
                continue
            what = "a blank is missing after the colon" if sign == ":" else f"{key} has no colon"
            shown = f"{key}: {cut(value)}" if value else f"{key}:"
            return number, found.start("key"), f"{what}; write {shown}", key
        return None

    def _value(self) -> Found | None:
        """Values that need quotes."""
        pair = _PAIR.match(self.here)
        if pair is None or not (value := (pair["value"] or "").split(" #")[0].strip()):
            return None
        key, column = pair["key"], pair.start("value")
        if value[0] in _CANNOT_BEGIN:
            return self.line, column, f"a text cannot begin with {value[0]}; write {key}: {quoted(value)}", key
        if value[0] == '"' and "escape" in self.reason:
            doubled = value.replace("\\", "\\\\")
            message = f"in double quotes a backslash is written twice; write {key}: {cut(doubled)}"
            return self.line, self.column, message, key
        if value[0] in "'\"":
            inner = value.replace(value[0], "")
            return self.line, column, f"text stands behind the closing quote; write {key}: {quoted(inner)}", key
        if value[0] not in "[{" and re.search(r": |:$", value) and self.column > column:
            return self.line, column, f"a text with a colon and a blank needs quotes; write {key}: {quoted(value)}", key
        return None

    def _comma(self) -> Found | None:
        if "expected ','" not in self.reason:
            return None
        before = self.here[max(0, self.column - VALUE_LENGTH) : self.column].rstrip()
        word = re.search(r"[^\s,{}\[\]]+$", before) if self.here[self.column : self.column + 1] == ":" else None
        column = self.column - (len(before) - word.start()) if word else self.column
        following = re.match(r"\"[^\"]*\"|[^\s,:{}\[\]]+|.", self.here[column:])
        shown = cut(following.group()) if following else "the next"
        return self.line, column, f"a comma is missing before {shown}; write , here", word and word.group()

    def _indentation(self) -> Found | None:
        """A key that is in no column of a key above it."""
        pair = _PAIR.match(self.here)
        if pair is None or pair["lead"].strip():
            return None
        key, column = pair["key"], pair.start("key")
        above = [
            (number, found) for number, line in self._above() if number < self.line and (found := _PAIR.match(line))
        ]
        if not above:
            return None
        number, model = above[0]
        expected = model.start("key")
        if key == "resource" and self._item_column() == column:
            return self.line, column, f"a rule of a list begins with a dash; write - {self.here.strip()}", key
        if expected == column:
            return None
        place = f"column {expected + 1}, as {model['key']} of line {number + 1}"
        message = f"{key} is in column {column + 1}; write it in {place}"
        return self.line, column, message, key

    def _item_column(self) -> int | None:
        """Where the dashes of the list stand that this line would belong to."""
        for number in range(self.line - 1, -1, -1):
            if (found := re.match(r" *- ", self.lines[number])) is not None:
                return found.end() - 2
        return None

    def _others(self) -> Found | None:
        if self.lines[0].startswith("%") or self.here.startswith("%"):
            return 0, 0, "rules need no % line; remove it", None
        if "anchor" in self.reason or "alias" in self.reason:
            return self.line, self.column, 'names after * must be quoted, as in "*name"', None
        return None

    def _resource(self, line: int) -> str | None:
        """The resource of the rule that a line belongs to."""
        first = next((n for n in range(line, -1, -1) if re.match(r" *-( |$)", self.lines[n])), None)
        if first is None:
            return None
        for number in range(first, len(self.lines)):
            if number > max(first, line) and re.match(r" *-( |$)|\S", self.lines[number]):
                return None
            pair = _PAIR.match(self.lines[number])
            if pair and pair["key"] == "resource" and pair["value"]:
                return pair["value"].split(" #")[0].strip().strip("'\"") or None
        return None
