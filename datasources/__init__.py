"""Where rules come from and go to: the datasource contract, the one subscription loop, and the stores."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sentinel_core.datasources.contract import (
    Absent,
    Condition,
    DatasourceError,
    HasHistory,
    Inspectable,
    Item,
    Ordered,
    Prompt,
    Readable,
    Reading,
    SourceConflict,
    SourceDenied,
    SourceMisconfigured,
    SourceRewound,
    SourceUnavailable,
    StopSignal,
    Wake,
    Writable,
    Written,
)
from sentinel_core.datasources.registry import Scheme, open, schemes  # noqa: A004 - datasources.open(…) is the public name
from sentinel_core.datasources.uri import mask_uri

if TYPE_CHECKING:
    from sentinel_core.datasources.etcd import EtcdSource
    from sentinel_core.datasources.file import FileSource
    from sentinel_core.datasources.git import GitSource
    from sentinel_core.datasources.last_good import LastGood
    from sentinel_core.datasources.loop import Applied, Outcome, State, SubscriptionOptions
    from sentinel_core.datasources.memory import MemorySource
    from sentinel_core.datasources.nacos import NacosSource
    from sentinel_core.datasources.rounds import Apply
    from sentinel_core.datasources.status import Counters, ItemStatus
    from sentinel_core.datasources.subscription import StateListener, Subscription

__all__ = [
    "Absent",
    "Applied",
    "Apply",
    "Condition",
    "Counters",
    "DatasourceError",
    "EtcdSource",
    "FileSource",
    "GitSource",
    "HasHistory",
    "Inspectable",
    "Item",
    "ItemStatus",
    "LastGood",
    "MemorySource",
    "NacosSource",
    "Ordered",
    "Outcome",
    "Prompt",
    "Readable",
    "Reading",
    "Scheme",
    "SourceConflict",
    "SourceDenied",
    "SourceMisconfigured",
    "SourceRewound",
    "SourceUnavailable",
    "State",
    "StateListener",
    "StopSignal",
    "Subscription",
    "SubscriptionOptions",
    "Wake",
    "Writable",
    "Written",
    "mask_uri",
    "open",
    "schemes",
]

_LATER = {
    "Applied": "loop",
    "Apply": "rounds",
    "Counters": "status",
    "EtcdSource": "etcd",
    "FileSource": "file",
    "GitSource": "git",
    "ItemStatus": "status",
    "LastGood": "last_good",
    "MemorySource": "memory",
    "NacosSource": "nacos",
    "Outcome": "loop",
    "State": "loop",
    "StateListener": "subscription",
    "Subscription": "subscription",
    "SubscriptionOptions": "loop",
}
"""Public names → the module that has them, loaded when one is asked for: who validates a file needs no store, and who
reads one store no other."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
