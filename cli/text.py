"""How foreign text is shown to people: control characters made visible, widths as a terminal draws them.

A rule's resource, an author's name or a commit message may hold anything. None of it may move the cursor, turn text
around or forge a line of output, so everything that is printed for people passes `visible`.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

ZERO_WIDTH_JOINER = "\u200d"
EMOJI_SELECTOR = "\ufe0f"
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = {"→": "->", "≤": "<=", "≥": ">=", "–": "-", "—": "-", "…": "...", "×": "x", "·": "-", "≈": "~", "✓": "ok"}
_PLAIN |= dict(zip("▁▂▃▄▅▆▇█", "_.-:=+*#", strict=True))

COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36, "bold": 1, "dim": 2}


class Styled(NamedTuple):
    """A span with a colour of `COLOURS`; the colour is dropped where colours are not wanted."""

    text: str
    colour: str


Span = str | Styled


def visible(text: str) -> str:
    """The text with control, bidi and other invisible characters written as escapes (`\\n`, `\\x1b`, `\\u202e`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char, text[index - 1] if index else "") for index, char in enumerate(text))


def is_hidden(char: str) -> bool:
    """Whether a character draws nothing of its own and may change how its neighbours are drawn."""
    return unicodedata.category(char) in _HIDDEN_CATEGORIES


def _shown(char: str, before: str) -> str:
    if not is_hidden(char) or (char == ZERO_WIDTH_JOINER and _joins_emoji(before)):
        return char
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _joins_emoji(before: str) -> bool:
    return before == EMOJI_SELECTOR or (bool(before) and unicodedata.category(before) in {"So", "Sk"})


def display_width(text: str) -> int:
    """Columns a terminal uses: 2 for wide characters and emoji, 0 for marks, one glyph for a joined emoji."""
    if text.isascii():
        return len(text)
    width = 0
    before = ""
    for char in text:
        width += _char_width(char, before)
        before = char
    return width


def _char_width(char: str, before: str) -> int:
    if before == ZERO_WIDTH_JOINER or char == ZERO_WIDTH_JOINER:
        return 0
    if char == EMOJI_SELECTOR:  # asks for the emoji form, which is wide, of a character that is narrow by itself
        return 1 if before and unicodedata.east_asian_width(before) not in {"W", "F"} else 0
    if unicodedata.category(char) in {"Mn", "Me", "Cf"} or _is_skin_tone(char, before) or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _is_skin_tone(char: str, before: str) -> bool:
    return "\U0001f3fb" <= char <= "\U0001f3ff" and bool(before)


def pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def plain(text: str) -> str:
    """The same words in ASCII, for a terminal that knows no more; what has no word keeps its character."""
    return "".join(_PLAIN.get(char, char) for char in text)


def plural(count: int, word: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
