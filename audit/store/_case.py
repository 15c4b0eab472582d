"""Letter case and patterns, alike in every store."""

from __future__ import annotations

from collections.abc import Callable


def lower(text: str) -> str:
    """Letter by letter, so that nothing grows and nothing becomes ASCII (`K` of kelvin, `İ`): where a text is all
    ASCII, SQL's `lower` and a search server find the same."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def _lower(letter: str) -> str:
    small = letter.lower()
    return small if letter.isascii() or (len(small) == 1 and not small.isascii()) else letter


def pattern(text: str) -> Callable[[str], bool]:
    """Whether a text is as this one, in which `*` stands for any text; in linear time for each part between two."""
    first, *middle = text.split("*")
    if not middle:
        return text.__eq__
    last = middle.pop()

    def matches(value: str) -> bool:
        place, end = len(first), len(value) - len(last)
        if end < place or not value.startswith(first) or not value.endswith(last):
            return False
        for part in middle:
            found = value.find(part, place, end)
            if found < 0:
                return False
            place = found + len(part)
        return True

    return matches
