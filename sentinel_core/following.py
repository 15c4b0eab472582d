"""The subscriptions of one engine: which stores feed which kinds, together or alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from sentinel_core.activation import Activation
from sentinel_core.datasources import (
    Applied,
    LastGood,
    Readable,
    SourceMisconfigured,
    Subscription,
    SubscriptionOptions,
)
from sentinel_core.datasources.layers import Layer, Layers
from sentinel_core.errors import KindTaken
from sentinel_core.rules import KINDS, Kind, Revision

BOOTSTRAP_S = 1.0
"""Longest wait for the bootstrap, while no rules of the last run are there."""

SETTLE_S = 1.0
"""Longest wait of a fork for stores that were never asked before."""


class Store(NamedTuple):
    """A source, and the kinds that it carries."""

    source: Readable
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, source: Readable, kinds: Iterable[Kind] = KINDS) -> Store:
        """With those of `kinds` that the source has an item for. No I/O."""
        carried = (kind for item in source.items(tuple(kinds)) for kind in item.kinds)
        return cls(source, tuple(dict.fromkeys(carried)))


class Following:
    """Holds the subscriptions. All methods may be called from any thread."""

    def __init__(self, activation: Activation, last_good: LastGood | None, check_open: Callable[[], None]) -> None:
        self._activation = activation
        self._last_good = last_good
        self._check_open = check_open
        self._lock = threading.RLock()
        self._held: list[Subscription] = []

    @property
    def subscriptions(self) -> Sequence[Subscription]:
        """Those that are held, in the order in which they were made."""
        return tuple(self._held)

    def feeder(self, kinds: Collection[Kind]) -> tuple[Subscription, list[Kind]] | None:
        """The open subscription that feeds some of these kinds, with those."""
        for held in self._held:
            if not held.closed and (taken := sorted(set(held.kinds) & set(kinds))):
                return held, taken
        return None

    def follow(
        self, stores: Sequence[Store], options: SubscriptionOptions | None, bootstrap: Store | None = None
    ) -> tuple[Subscription, ...]:
        """A subscription for each store, then that of the bootstrap; see `Engine.follow`."""
        every = (*stores, *((bootstrap,) if bootstrap else ()))
        check_distinct(every)
        layers = Layers(len(stores), bootstrap=bootstrap is not None)
        made = tuple(
            self._made(store, layers.layer(index), options, "bootstrap" if store is bootstrap else "store")
            for index, store in enumerate(every)
        )
        self._take(made)
        try:
            # All that the last run had is there before anything new is told: an event says from what to what.
            for subscription in made:
                subscription.restore()
                self._tell_of_bad_copies(subscription)
            if bootstrap is not None:
                made[-1].start()
                if not set(bootstrap.kinds) <= {kind for said in layers.said[:-1] for kind in said}:
                    made[-1].refresh(BOOTSTRAP_S)
            for subscription in made:
                subscription.start()
        except BaseException:
            for subscription in made:
                subscription.close(0)  # their kinds are free again
            raise
        return made

    def _made(self, store: Store, layer: Layer, options: SubscriptionOptions | None, role: str) -> Subscription:
        carried = {item.source: item.kinds for item in store.source.items(store.kinds)}

        def apply(revision: Revision, restored: bool) -> Applied:
            self._check_open()
            return self._activation.apply(carried[revision.source], revision, layer, restored=restored)

        return Subscription(
            store.source,
            store.kinds,
            apply,
            role=role,
            last_good=self._last_good,
            recorded=lambda: not self._activation.late,
            options=options,
            now=self._activation.wall,
        )

    def _tell_of_bad_copies(self, subscription: Subscription) -> None:
        for item in subscription.status():
            if item.last_good_problem is not None:
                self._activation.refuse_copy(item.kinds, item.source, item.last_good_problem)

    def _take(self, made: Sequence[Subscription]) -> None:
        with self._lock:
            self._check_open()  # whoever closes meanwhile finds what is held, or is seen here
            self._held = [held for held in self._held if not held.closed]
            for each in made:
                if found := self.feeder(each.kinds):
                    held, taken = found
                    raise KindTaken(
                        f"{', '.join(taken)} rules come from {held.source.uri} already; close that subscription first, "
                        "subscribe the other kinds only, or follow both stores together (Engine.follow)"
                    )
            self._held += made

    def settle_for_fork(self) -> None:
        """Waits a moment for sources that are being asked for the first time: they import libraries and make their
        first connection, and a child that is forked in the middle of that may not survive it (gRPC)."""
        deadline = time.monotonic() + SETTLE_S
        for subscription in self._held:
            subscription.await_first_round(max(0.0, deadline - time.monotonic()))

    def renew_after_fork(self) -> None:
        """For a forked child: a lock of its own. Starts nothing."""
        self._lock = threading.RLock()

    def revive(self) -> None:
        """In the child: reads the sources anew, with threads of its own."""
        for subscription in self._held:
            subscription.renew_after_fork()

    def close(self, timeout_s: float) -> None:
        """Ends all subscriptions, all together within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            held, self._held = self._held, []
        for subscription in held:
            subscription.close(max(0.0, deadline - time.monotonic()))


def check_distinct(stores: Sequence[Store]) -> None:
    """Two that read the same would share a last good copy. Raises SourceMisconfigured."""
    seen: dict[str, str] = {}
    for source, kinds in stores:
        for item in source.items(kinds):
            if item.source in seen:
                raise SourceMisconfigured(f"{seen[item.source]} and {source.uri} both read {item.key}; name it once")
        seen |= {item.source: source.uri for item in source.items(kinds)}
