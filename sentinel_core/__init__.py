"""Traffic rules for Python services: the engine that enforces them, and the control plane around it.

from sentinel_core import Engine
engine = Engine(app="order-service")
engine.load_rules("flow", [{"resource": "order:create", "grade": 1, "count": 200}])
with engine.entry("order:create"):
    ...
"""

import importlib
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if os.environ.get("SENTINEL_PURE"):
    from sentinel_core import interpreted

    interpreted.prefer_sources()  # before the first hot module is imported

if TYPE_CHECKING:
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
    from sentinel_core.engine import Engine
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


_HOMES = {
    "context": ("context",),
    "default": (
        *("aentry", "default_engine", "entry", "gauge", "guard", "register_block_handler", "report"),
        "set_default_engine",
    ),
    "engine": ("Engine",),
    "entry": ("Blocked", "Entry", "trace"),
    "errors": (
        *("AuthorityException", "BizMetricBlockException", "BlockException", "DegradeException", "EngineClosed"),
        *("EntryOrderError", "FlowException", "KindTaken", "ParamFlowException", "SentinelError"),
        "SystemBlockException",
    ),
    "options": ("Statistics",),
    "starting": ("start",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
"""Public name → module. A name is loaded when it is first asked for: the command line and an import of the errors do
without an engine, and an engine without all that a service needs."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


class _Package(types.ModuleType):
    """`context`, `entry` and `guard` are functions here and modules, too: the import of such a module, which writes it
    into its package, leaves the function what it is."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
