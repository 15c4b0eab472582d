"""The positional parameters of a guarded function: what rules see of a call, and what handlers are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

Args = tuple[Any, ...]
Keywords = dict[str, Any]

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Parameters:
    """Knows the order of a function's parameters; of one that does not tell its signature it knows nothing."""

    __slots__ = ("_all", "_positional", "number", "own")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._all = _parameters(function) or ()
        self._positional = tuple(each for each in self._all if each.kind in POSITIONAL)
        self.number = len(self._positional)
        first = self._positional[0].name if self._positional else ""
        self.own = first in ("self", "cls")
        """Whether the first is the object or class itself, and so no argument for rules."""

    def in_order(self, args: Args, keywords: Keywords) -> tuple[Args, Keywords]:
        """The call as if every positional parameter had been given by position, defaults too; ends at a missing one."""
        if len(args) >= self.number:
            return args, keywords
        rest, given = dict(keywords), list(args)
        for parameter in self._positional[len(args) :]:
            value = parameter.default
            if parameter.kind is not Parameter.POSITIONAL_ONLY:
                value = rest.pop(parameter.name, value)
            if value is Parameter.empty:
                break
            given.append(value)
        return tuple(given), rest

    def check(self, handler: Callable[..., Any], what: str) -> None:
        """Raises TypeError where a handler could not be called with the function's arguments and an error: better at
        once than in the middle of an incident. Nothing is said of functions that take any number of arguments."""
        if any(each.kind in OPEN for each in self._all) or _parameters(handler) is None:
            return
        names = [each.name for each in self._positional]
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
