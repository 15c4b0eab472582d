"""Events go into a store, each judged by itself: whatever one of them does to the store, the others are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentinel_core.audit.errors import AuditError, StoreUnavailable
from sentinel_core.audit.event import Event
from sentinel_core.audit.store.contract import AuditStore, Ingested, Refused


def ingest_each(store: AuditStore, events: Sequence[Event]) -> Ingested:
    """`store.ingest`; where that fails in a way that it does not document, those that it fails with are refused.

    An event is to blame only where another of the batch goes well: if none does, it is the store, and StoreUnavailable
    is raised. Then nothing is lost, and what is sent again next to an event that is well is judged again.
    """
    try:
        return store.ingest(events)
    except AuditError:
        raise
    except Exception as error:
        if len(events) > 1:
            done = _halves(store, events)
            blamed = [each for each in done.refused if each.reason.startswith(_FAILS)]
            if len(blamed) < len(events):
                return done
        raise StoreUnavailable(_words(error)) from error


_FAILS = "the store fails with it: "


def _words(error: Exception) -> str:
    return f"{_FAILS}{type(error).__name__}: {error}"


def _halves(store: AuditStore, events: Sequence[Event]) -> Ingested:
    middle = len(events) // 2
    first, second = _judged(store, events[:middle]), _judged(store, events[middle:])
    moved = tuple(replace(each, place=each.place + middle) for each in second.refused)
    return Ingested(first.new + second.new, first.duplicate + second.duplicate, first.refused + moved)


def _judged(store: AuditStore, events: Sequence[Event]) -> Ingested:
    try:
        return store.ingest(events)
    except AuditError:
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, one event must not stop the others
        if len(events) > 1:
            return _halves(store, events)
        return Ingested(0, 0, (Refused(0, _words(error)),))
