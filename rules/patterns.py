"""Resources as regular expressions: which patterns may be used, and which names look like a pattern.

A pattern is tried on every new resource name, which may come from outside. Python's matcher goes back to every choice
it had: a loop within a loop has so many that a name of forty characters keeps it busy for years. Such patterns are
found here by their shape; what is left takes at most the third power of the length of a name, which the engine bounds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sentinel_core.expression import expression

LONGEST_NAME = 512
"""Characters; no pattern is tried on longer resource names."""
_MOST_LOOPS = 3
"""Loops over the same characters in one sequence: the power of the time that they take."""
_MOST_CHOICES = 12
"""Optional pieces in one sequence: each may double the time."""
_MANY = 10
"""A loop that runs so often may as well run for ever."""
_SAMPLE = frozenset(map(chr, range(32, 127))) | {"é", "中"}
_ATOM = expression(r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|[0-7]{1,3}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_TIMES = expression(r"([*+?]|\{(\d+)?(,)?(\d+)?\})[?+]?")
_GROUP = expression(r"\((?:\?(?:P<\w+>|P=\w+|<?[=!]|[:>]|#[^)]*|\(\w+\)|[aiLmsux-]*:?))?")
_PLAIN = expression(r"[^\s*+^$|\\()\[\]]+")
_PATTERN_LIKE = expression(r"\*|\.\+|\\[dwsDWS.]|^\^|\$$|\([^()]*\|[^()]*\)|\[[^\]]+-[^\]]+\]")


def is_plain(name: str) -> bool:
    """Whether nothing about a name asks for a second look. Fast: asked of every rule."""
    return _PLAIN.fullmatch(name) is not None


def looks_like_pattern(name: str) -> bool:
    """Whether a name was probably meant as a pattern."""
    return _PATTERN_LIKE.search(name) is not None


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern does not compile, None when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set" is a remark for Python's own future
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as fault:
        return str(fault)
    return None


@dataclass(slots=True)
class _Item:
    """A piece of a sequence and how often it may stand: characters, or alternatives in brackets."""

    chars: frozenset[str]
    options: list[list[_Item]] = field(default_factory=list)
    least: int = 1
    most: int = 1

    @property
    def varies(self) -> bool:
        return self.least != self.most or any(item.varies for option in self.options for item in option)


@lru_cache(maxsize=1024)
def runs_away(pattern: str) -> bool:
    """Whether a pattern that compiles may take time beyond all bounds on a name that it does not match."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options, _ = _parsed(pattern, 0)
    return any(_is_slow(option, looped=False) for option in options)


def _is_slow(sequence: Sequence[_Item], *, looped: bool) -> bool:
    if _power(sequence) > _MOST_LOOPS or _choices(sequence) > _MOST_CHOICES:
        return True
    for item in sequence:
        repeated = item.most >= _MANY
        if (repeated or (looped and item.most > 1)) and any(_can_split(option) for option in item.options):
            return True
        if looped and item.least != 1 and any(_may_be_empty(option) for option in item.options):
            return True
        if (repeated or looped) and _can_choose(item.options):
            return True
        if any(_is_slow(option, looped=repeated or looped) for option in item.options):
            return True
    return False


def _power(sequence: Sequence[_Item]) -> int:
    """How many loops over one character follow each other with nothing between that keeps them apart."""
    run: list[frozenset[str]] = []
    power = 0
    for item in sequence:
        if not item.varies and item.chars and not _may_be_empty([item]):
            run = [chars for chars in run if chars & item.chars]
        run += _loops(item)
        power = max([power, *(sum(char in chars for chars in run) for char in _SAMPLE)])
    return power


def _loops(item: _Item) -> list[frozenset[str]]:
    """The characters of the loops that a piece runs through."""
    if item.most >= _MANY:
        return [item.chars]
    return [
        chars
        for option in item.options
        for inner in option
        for chars in _loops(inner) * (item.most if _can_split(option) else 1)
    ]


def _choices(sequence: Sequence[_Item]) -> int:
    """How often one way through a sequence can go on or stop, loops left aside."""
    return sum(
        item.most * max((_choices(option) for option in item.options), default=0) + (item.least != item.most)
        for item in sequence
        if item.most < _MANY
    )


def _can_split(body: Sequence[_Item]) -> bool:
    """Whether the same text can be divided between rounds of a loop in several ways."""
    varying = [index for index, item in enumerate(body) if item.varies]
    if varying and _may_be_empty(body):
        return True
    for index in varying:
        for step in range(1, len(body) + 1):
            other = body[(index + step) % len(body)]
            if other.varies and other.chars & body[index].chars:
                return True
            if other.chars and not other.chars & body[index].chars and not _may_be_empty([other]):
                break  # something that must stand between keeps the rounds apart
    return False


def _may_be_empty(sequence: Sequence[_Item]) -> bool:
    return all(
        not item.least or (item.options and any(_may_be_empty(option) for option in item.options)) for item in sequence
    )


def _can_choose(options: Sequence[Sequence[_Item]]) -> bool:
    """Whether two alternatives of a loop match the same text."""
    for number, one in enumerate(options):
        for other in options[:number]:
            if any(item.varies or item.options for item in (*one, *other)):
                if _first(one) & _first(other) or _varying(one) & _first(other) or _varying(other) & _first(one):
                    return True
                continue
            short, long = sorted((_spelled(one), _spelled(other)), key=len)
            if short and all(chars & short[place % len(short)] for place, chars in enumerate(long)):
                return True
    return False


def _first(sequence: Sequence[_Item]) -> frozenset[str]:
    """The characters that a match can begin with."""
    found: frozenset[str] = frozenset()
    for item in sequence:
        found |= item.chars
        if item.least and item.chars:
            break
    return found


def _varying(sequence: Sequence[_Item]) -> frozenset[str]:
    return frozenset().union(*(item.chars for item in sequence if item.varies))


def _spelled(sequence: Sequence[_Item]) -> list[frozenset[str]]:
    return [item.chars for item in sequence for _ in range(min(item.least, _MANY)) if item.chars]


def _parsed(pattern: str, at: int) -> tuple[list[list[_Item]], int]:
    """(alternatives from `at` to the bracket that closes them, the place behind it)"""
    options: list[list[_Item]] = [[]]
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            options.append([])
            at += 1
            continue
        item, at = _piece(pattern, at)
        if (found := _TIMES.match(pattern, at)) is not None and found[0] not in ("{}", "{,}"):
            item.least, item.most = _times(found)
            at = found.end()
        options[-1].append(item)
    return options, at + 1


def _piece(pattern: str, at: int) -> tuple[_Item, int]:
    if (opened := _GROUP.match(pattern, at)) is not None:
        if "#" in opened[0] or opened[0].startswith("(?P="):
            return _Item(_SAMPLE if "=" in opened[0] else frozenset()), pattern.index(")", at) + 1
        options, at = _parsed(pattern, opened.end())
        return _Item(frozenset().union(*(item.chars for option in options for item in option)), options), at
    atom = _ATOM.match(pattern, at)
    text = atom[0] if atom else pattern[at]
    return _Item(_chars(text)), at + len(text)


def _times(found: re.Match[str]) -> tuple[int, int]:
    sign, least, comma, most = found.groups()
    if sign in ("*", "+", "?"):
        return (1 if sign == "+" else 0), (1 if sign == "?" else _MANY)
    low = int(least or 0)
    return low, (int(most) if most else _MANY + low) if comma else low


@lru_cache(maxsize=256)
def _chars(atom: str) -> frozenset[str]:
    """Which characters of the sample an atom matches; none for places such as `^` and `\\b`."""
    try:
        compiled = re.compile(atom, re.IGNORECASE | re.DOTALL)
    except re.error:  # a back reference, or a bracket out of its place
        return _SAMPLE
    return frozenset(filter(compiled.fullmatch, _SAMPLE))
