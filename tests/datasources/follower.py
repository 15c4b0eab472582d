"""A subscriber with the timings that a service has, and the key it follows: for tests of outages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sentinel_core import datasources
from sentinel_core.datasources import State, Subscription, SubscriptionOptions

A = b'[{"resource": "a", "count": 1}]'
B = b'[{"resource": "b", "count": 2}]'
AS_IN_SERVICE = SubscriptionOptions()
BACK_S = 2.0
"""From the moment the server answers, or the link is back, to active rules."""


class Follower:
    """Follows A, which it has put there; READY when made."""

    def __init__(self, uri: str, put: Callable[[str, bytes], None], recorder: Any, subscribe: Any) -> None:
        self.source: Any = datasources.open(uri)
        (item,) = self.source.items(["flow"])
        self.key = item.key
        put(self.key, A)
        self.recorder = recorder
        self.states: list[State] = []
        """Each state that was come into, in order."""
        self.subscription: Subscription = subscribe(self.source, recorder, options=AS_IN_SERVICE)
        self.subscription.on_state(self._note)
        assert self.subscription.wait_ready(5)
        self._note(self.subscription.status()[0])

    def _note(self, status: Any) -> None:
        if self.states[-1:] != [status.state]:
            self.states.append(status.state)

    def wait_state(self, state: State, timeout_s: float = 12) -> float:
        """Until listeners were told of it; how long that took, in seconds."""
        began = time.monotonic()
        while self.subscription.state is not state or self.states[-1] is not state:
            assert time.monotonic() - began < timeout_s, self.subscription.status()
            time.sleep(0.005)
        return time.monotonic() - began

    def wait_active_within(self, seconds: float, content: bytes) -> None:
        began = time.monotonic()
        assert self.recorder.wait(lambda me: me.active == content, seconds), self.subscription.status()
        self.wait_state(State.READY, seconds - (time.monotonic() - began) + 0.5)

    def close(self) -> None:
        self.subscription.close()
        self.source.close()
