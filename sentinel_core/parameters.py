"""The positional parameters of a guarded function: what rules see of a call, and what handlers are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

Args = tuple[Any, ...]
Keywords = dict[Any, Any]

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Parameters:
    """Knows the order of a function's parameters; of one that does not tell its signature it knows nothing."""

    __slots__ = ("_all", "_places", "number", "own")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._all = _parameters(function) or ()
        positional = [each for each in self._all if each.kind in POSITIONAL]
        self._places = [
            (None if each.kind is Parameter.POSITIONAL_ONLY else each.name, each.default) for each in positional
        ]
        """(what it is called as a keyword, default) of every positional parameter."""
        self.number = len(positional)
        self.own = bool(positional) and positional[0].name in ("self", "cls")
        """Whether the first is the object or class itself, and so no argument for rules."""

    def in_order(self, args: Args, keywords: Keywords) -> Args:
        """Every positional parameter in its place, given by position, keyword or default; ends at a missing one."""
        if len(args) >= self.number:
            return args
        given = [*args]
        for name, default in self._places[len(args) :]:
            value = keywords.get(name, default)
            if value is Parameter.empty:
                break
            given.append(value)
        return tuple(given)

    def others(self, keywords: Keywords) -> Keywords:
        """The keywords that `in_order` did not take."""
        taken = {name for name, _ in self._places}
        return {name: value for name, value in keywords.items() if name not in taken}

    def check(self, handler: Callable[..., Any], what: str) -> None:
        """Raises TypeError where a handler could not be called with the function's arguments and an error: better at
        once than in the middle of an incident. Nothing is said of functions that take any number of arguments."""
        if any(each.kind in OPEN for each in self._all) or _parameters(handler) is None:
            return
        names = [each.name for each in self._all if each.kind in POSITIONAL]
        keywords = [each.name for each in self._all if each.kind is Parameter.KEYWORD_ONLY]
        try:
            inspect.signature(handler).bind(*names, None, **dict.fromkeys(keywords))
        except TypeError as error:
            wanted = ", ".join([*names, "error", *(f"{name}=…" for name in keywords)])
            raise TypeError(
                f"{what} cannot be called: {error}; it gets ({wanted}), so write these parameters"
            ) from None


def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...] | None:
    """None for what does not tell: some builtins, and annotations that cannot be evaluated."""
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, NameError):
        return None
