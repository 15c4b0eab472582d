"""Regular expressions that are compiled when they are first used: a command that needs none of them starts sooner."""

from __future__ import annotations

import re
from typing import Any, cast


def expression(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, of which a mistake in the text is told at first use too."""
    return cast("re.Pattern[str]", _Expression(text, flags))


class _Expression:
    """Finds each method of the pattern once; from then on it is an attribute."""

    def __init__(self, text: str, flags: int) -> None:
        self._made_of = (text, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made_of), name)
        setattr(self, name, found)
        return found
