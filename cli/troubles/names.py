"""Names that a reader takes for one another, and what tells them apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from difflib import get_close_matches

_CYRILLIC = "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455\u0501"
_GREEK = "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03b1"
_ALIKE = str.maketrans(_CYRILLIC + _GREEK, "abekmhopctyxijsd" + "ABEZHIKMNOPTYXoa")
_ALIKE |= str.maketrans(_CYRILLIC.upper(), "ABEKMHOPCTYXIJSD")
_SEPARATORS = "-_./:"
_DRAW_NOTHING = ("Cf", "Cc", "Mn")
MOST_NAMES = 3


def _seen(name: str) -> str:
    return "".join(char for char in name if unicodedata.category(char) not in _DRAW_NOTHING)


def _wide(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _latin(name: str) -> str:
    return name.translate(_ALIKE)


def _joined(name: str) -> str:
    """Without separators and blanks, but for those at its ends."""
    inner = name.strip()
    start = name.index(inner) if inner else 0
    joined = "".join(char for char in inner if char not in _SEPARATORS and not char.isspace())
    return name[:start] + joined + name[start + len(inner) :]


_LAYERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("characters that draw nothing", _seen),
    ("full-width or other forms of characters", _wide),
    ("letters of another script that look alike", _latin),
    ("case", str.casefold),
    ("separators", _joined),
    ("blanks at an end", str.strip),
)
"""What is set aside, one after the other."""


def _without(name: str, left_out: str = "") -> str:
    for what, set_aside in _LAYERS:
        if what != left_out:
            name = set_aside(name)
    return name


class Names:
    """Names that were seen, found again by what a reader makes of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._all = sorted(names)
        self._by_look: dict[str, list[str]] = {}
        for name in self._all:
            for look in {_without(name), _without(name.rpartition(":")[2])}:
                self._by_look.setdefault(look, []).append(name)

    def alike(self, name: str) -> list[str]:
        """Others that a reader would take for `name`, and those that end in it behind their module."""
        look = _without(name)
        return [other for other in self._by_look.get(look, ()) if other != name] if look else []

    def close(self, name: str) -> list[str]:
        """Those that may be meant: a letter more, fewer or other. Slow where there are many."""
        return [each for each in get_close_matches(name, self._all, n=MOST_NAMES, cutoff=0.8) if each != name]


def difference(name: str, other: str) -> str:
    """What tells two look-alikes apart, e.g. `they differ in case and separators`."""
    if _without(name) != _without(other):
        return "a guard that is given no name calls its resource module:function"
    said = []
    for what, set_aside in _LAYERS:
        if _without(name, what) != _without(other, what):
            odd = dict.fromkeys(char for char in name + other if ord(char) > 0x7F and set_aside(char) != char)
            told = ", ".join(
                f"U+{ord(char):04X} {unicodedata.name(char, 'CONTROL')}" for char in list(odd)[:MOST_NAMES]
            )
            said.append(f"{what} ({told})" if told and what != "case" else what)
    return f"they differ in {' and '.join(said)}" if said else "they differ"
