"""Why a text is no JSON: where the slip was made, which may be before the place where a parser gives up."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sentinel_core.expression import expression
from sentinel_core.rules.slips import Slip, conflict, cut, line_of, not_closed, quoted

_TOKEN = expression(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CLOSING = {"{": "}", "[": "]"}
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null", "nil": "null"}
_CURLY_QUOTES = "“”„‟‘’"


def explain(text: str, fault: json.JSONDecodeError) -> Slip:
    """The slip behind a parser's complaint."""
    if found := conflict(text):
        return found
    return _Reading(text, fault).slip()


@dataclass(slots=True)
class _Open:
    """A bracket that is open where the parser gave up, with what was read in it."""

    bracket: str
    offset: int
    key: str | None = None
    resource: str | None = None


class _Reading:
    """The tokens before the fault. Those are well formed, but maybe not what was meant."""

    def __init__(self, text: str, fault: json.JSONDecodeError) -> None:
        self.text, self.fault, self.at = text, fault, fault.pos
        if "trailing comma" in fault.msg:  # CPython 3.13 on points at the comma, others at what follows it
            self.at = len(text) - len(text[fault.pos + 1 :].lstrip())
        self.open: list[_Open] = []
        self.last: tuple[str, int] = ("", 0)
        before = ""
        for token in _TOKEN.finditer(text, 0, self.at):
            piece = token.group()
            if piece in "{[":
                self.open.append(_Open(piece, token.start()))
            elif piece in "}]":
                if self.open:
                    self.open.pop()
            elif self.open and self.open[-1].bracket == "{" and piece[0] == '"':
                inner = self.open[-1]
                if before in "{,":
                    inner.key = _plain(piece)
                elif before == ":" and inner.key == "resource":
                    inner.resource = _plain(piece)
            before = piece
            self.last = (piece, token.start())

    def slip(self) -> Slip:
        message, offset = self._string() or self._bracket() or self._comma() or self._word() or self._other()
        inner = self.open[-1] if self.open else None
        field = inner.key if inner else None
        return Slip(offset, message, field, inner.resource if inner and field != "resource" else None)

    @property
    def rest(self) -> str:
        return self.text[self.at : self.at + 1]

    @property
    def end_of_last(self) -> int:
        return self.last[1] + len(self.last[0])

    def _string(self) -> tuple[str, int] | None:
        """Texts that do not end, and what cannot stand in them."""
        piece, start = self.last
        reason = self.fault.msg.lower()
        if reason.startswith("unterminated string"):
            return _open_text(self.text, self.at), self.at
        if "control character" in reason and self.rest == "\n":
            opening = self.text.rfind('"', 0, self.at)
            return _open_text(self.text, opening), opening
        if "control character" in reason:
            shown = json.dumps(self.rest)[1:-1]
            return f"a control character in a text; write {shown}", self.at
        if "escape" in reason:
            return "a backslash that stands for itself is written twice: \\\\", self.at
        if piece[:1] == '"' and len(piece) > 1 and self.end_of_last == self.at and self.rest.isalnum():
            return _open_text(self.text, start), start
        return None

    def _bracket(self) -> tuple[str, int] | None:
        """Brackets that are not closed, closed by another, or never opened."""
        inner = self.open[-1] if self.open else None
        if not self.rest and inner:
            return (
                f"{not_closed(inner.bracket, line_of(self.text, inner.offset))} (was the text cut off?)",
                inner.offset,
            )
        if not self.rest:
            return "the text ends too early, was it cut off?", self.at
        if self.rest in "}]" and inner is None:
            return f"this {self.rest} closes nothing; remove it", self.at
        if self.rest in "}]" and inner and _CLOSING[inner.bracket] != self.rest:
            return not_closed(inner.bracket, line_of(self.text, inner.offset)), inner.offset
        if self.rest == "{" and inner and inner.bracket == "{" and self.last[0] == ",":
            return not_closed(inner.bracket, line_of(self.text, inner.offset)), inner.offset
        return None

    def _comma(self) -> tuple[str, int] | None:
        piece, start = self.last
        if piece == "," and self.rest in "}],":
            return f"a comma too many; remove the , before {self.rest}", start
        if self.rest in "/#":
            return "JSON has no comments; remove it", self.at
        if "',' delimiter" in self.fault.msg and self.rest not in "'=" and not _number_before(self.text, self.at):
            following = _TOKEN.match(self.text, self.at)
            shown = cut(following.group()) if following else self.rest
            return f"a comma is missing before {shown}; write , here", self.end_of_last
        if "':' delimiter" in self.fault.msg:
            instead = " in the place of =" if self.rest == "=" else ""
            return f"a colon is missing after {cut(piece)}; write :{instead}", self.end_of_last
        return None

    def _word(self) -> tuple[str, int] | None:
        """Words and numbers that JSON spells otherwise."""
        if self.rest in _CURLY_QUOTES:
            return 'JSON has straight quotes only; write "…"', self.at
        if found := re.compile(r"'([^'\n]*)'").match(self.text, self.at):
            return f"write texts in double quotes: {quoted(found[1])}", self.at
        if self.rest == "'":
            return 'write texts in double quotes: "…"', self.at
        start = self.at
        while start and (self.text[start - 1].isalnum() or self.text[start - 1] in "+-._"):
            start -= 1
        word = re.compile(r"[^\s{}\[\],:\"]*").match(self.text, start)
        return (_instead_of(word.group()), start) if word and word.group() and self.open else None

    def _other(self) -> tuple[str, int]:
        if "extra data" in self.fault.msg.lower():
            return "extra data after the end of the list; keep one list", self.at
        if not self.open:
            return "a list of rules begins with [ (is this YAML? then name the file .yaml)", self.at
        return f"{self.fault.msg[:1].lower()}{self.fault.msg[1:]}", self.at


def _plain(piece: str) -> str:
    try:
        return str(json.loads(piece))
    except ValueError:
        return piece.strip('"')


def _open_text(text: str, opening: int) -> str:
    begun = re.compile(r"[^\"\n,:{}\[\]]*").match(text, opening + 1)
    shown = quoted(begun.group().rstrip()) if begun else '"…"'
    return f"the text that begins on line {line_of(text, opening)} has no closing quote; write {shown}"


def _number_before(text: str, at: int) -> bool:
    """`0|1`, `5|.`, `0|x1`: the parser gave up within a number."""
    return at > 0 and text[at - 1].isdigit() and (text[at].isalnum() or text[at] == ".")


def _instead_of(word: str) -> str:
    if word in _CONSTANTS:
        return f"{word} is not JSON; write {_CONSTANTS[word]}"
    for read in (float, lambda text: float(int(text, 0))):
        try:
            return f"{cut(word)} is not how JSON writes a number; write {read(word):g}"
        except (ValueError, OverflowError):
            continue
    return f"write texts in double quotes: {quoted(word)}"
