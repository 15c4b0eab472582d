"""Traffic rules for Python services: the engine that enforces them, and the control plane around it.

from sentinel_core import Engine
engine = Engine(app="order-service")
engine.load_rules("flow", [{"resource": "order:create", "grade": 1, "count": 200}])
with engine.entry("order:create"):
    ...
"""

import os
from typing import TYPE_CHECKING, Any

if os.environ.get("SENTINEL_PURE"):
    from sentinel_core import interpreted

    interpreted.prefer_sources()  # before the first hot module is imported

from sentinel_core.context import context
from sentinel_core.default import (
    aentry,
    default_engine,
    entry,
    gauge,
    guard,
    register_block_handler,
    report,
    set_default_engine,
)
from sentinel_core.entry import Blocked, Entry, trace
from sentinel_core.errors import (
    AuthorityException,
    BizMetricBlockException,
    BlockException,
    DegradeException,
    EngineClosed,
    EntryOrderError,
    FlowException,
    KindTaken,
    ParamFlowException,
    SentinelError,
    SystemBlockException,
)
from sentinel_core.options import Statistics

if TYPE_CHECKING:
    from sentinel_core.engine import Engine
    from sentinel_core.starting import start

__all__ = [
    "AuthorityException",
    "BizMetricBlockException",
    "BlockException",
    "Blocked",
    "DegradeException",
    "Engine",
    "EngineClosed",
    "Entry",
    "EntryOrderError",
    "FlowException",
    "KindTaken",
    "ParamFlowException",
    "SentinelError",
    "Statistics",
    "SystemBlockException",
    "aentry",
    "context",
    "default_engine",
    "entry",
    "gauge",
    "guard",
    "register_block_handler",
    "report",
    "set_default_engine",
    "start",
    "trace",
]


def __getattr__(name: str) -> Any:
    """The engine is loaded when it is first asked for: `sentinelctl --help` and an import of the errors do without. So
    is all that a service needs, when `start` is imported: starting itself is then quick."""
    if name == "Engine":
        from sentinel_core.engine import Engine

        return Engine
    if name == "start":
        from sentinel_core.starting import start

        return start
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "Engine", "start"})
