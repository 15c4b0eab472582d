"""A number from a function of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from sentinel_core.collectors.contract import Values
from sentinel_core.collectors.source import TIMEOUT_S, Source


class FunctionCollector(Source[None]):
    """Calls `function()`, which gives a number for `resource` ("" for all), or a mapping of targets to numbers.

    It may do I/O and must end in time by itself.
    """

    def __init__(
        self, metric: str, function: Callable[[], object], *, resource: str = "", every_s: float = 1.0
    ) -> None:
        name = getattr(function, "__qualname__", type(function).__name__)
        super().__init__(metric, name, every_s=every_s, timeout_s=TIMEOUT_S)
        self._function = function
        self._resource = resource

    def read(self) -> Values:
        given = self._function()
        return cast("Values", given) if isinstance(given, Mapping) else {self._resource: given}
