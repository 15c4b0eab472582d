"""One place for the answers to refused calls, instead of a handler at every guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sentinel_core.errors import BlockException

BlockHandler = Callable[[Any], Any]
"""Gets the exception of a refused call; what it returns (or awaits to) is the answer, what it raises is raised."""


class Answers:
    """Handlers by the class of exception they answer for."""

    def __init__(self) -> None:
        self._handlers: dict[type[BlockException], BlockHandler] = {}

    def register(self, handlers: Mapping[type[BlockException], BlockHandler]) -> None:
        """See `Engine.register_block_handler`."""
        given: Any = handlers
        if not isinstance(given, Mapping):
            raise TypeError(f"{given!r} is no mapping; write {{FlowException: handler}}")
        for kind, handler in given.items():
            if not (isinstance(kind, type) and issubclass(kind, BlockException)):
                raise TypeError(f"{kind!r} is no BlockException; write a class such as FlowException")
            if not callable(handler):
                raise TypeError(f"the handler of {kind.__name__} is {handler!r}; write a function of the exception")
        self._handlers = {**self._handlers, **handlers}

    def find(self, block: BlockException) -> BlockHandler | None:
        """The handler of the nearest class among the exception's own and its ancestors."""
        handlers = self._handlers
        return next((handlers[each] for each in type(block).__mro__ if each in handlers), None)
