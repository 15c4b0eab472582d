"""Who wants to hear of decisions, and what happened inside the critical section, told after it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sentinel_core.bounds import told
from sentinel_core.entry import Blocked
from sentinel_core.gate import Core
from sentinel_core.plan import Beyond, Notice, Transition

logger = logging.getLogger("sentinel_core")

BreakerListener = Callable[[Transition], None]
"""Called after a breaker moved, on the thread of the call that moved it, outside all locks."""
BlockListener = Callable[[Blocked, int, str], None]
"""Called with a refusal, its requests and who called ("" where unknown), on the call's thread, outside all locks."""


class Listeners:
    """The listeners of an engine. None is trusted: what one raises is counted, and the decision stands."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._breaker: list[BreakerListener] = []
        self._block: list[BlockListener] = []

    def add_breaker(self, listener: BreakerListener) -> Callable[[], None]:
        """Returns what removes it again."""
        self._breaker = [*self._breaker, listener]

        def remove() -> None:
            self._breaker = [each for each in self._breaker if each is not listener]

        return remove

    def add_block(self, listener: BlockListener) -> Callable[[], None]:
        """Returns what removes it again; while there is none, refusals are not looked at."""
        self._set_block([*self._block, listener])
        return lambda: self._set_block([each for each in self._block if each is not listener])

    def _set_block(self, listeners: list[BlockListener]) -> None:
        self._block = listeners
        self._core.observer = self._blocked if listeners else None

    def _blocked(self, blocked: Blocked, count: int, origin: str) -> None:
        for listener in self._block:
            try:
                listener(blocked, count, origin)
            except Exception as error:  # noqa: BLE001 (see the class)
                self._core.failed(error)

    def tell(self) -> None:
        """Tells the news of the core."""
        core = self._core
        news = core.inside(self._take)
        for happened in news:
            if isinstance(happened, Exception):
                core.failed(happened)
            elif isinstance(happened, Beyond):
                logger.warning("%s", told(happened))
            elif isinstance(happened, Notice):
                logger.warning("%s", happened.text)
            else:
                self._moved(happened)

    def _take(self) -> list[Transition | Beyond | Notice | Exception]:
        core = self._core
        news, core.news = core.news, []
        return news

    def _moved(self, transition: Transition) -> None:
        for listener in self._breaker:
            try:
                listener(transition)
            except BaseException as error:  # noqa: BLE001 (see the class)
                self._core.failed(error)
