"""Processes in which gevent has replaced threads (`gevent.monkey.patch_all()`).

Our threads are greenlets there, and waiting lets the others go on; that needs nothing of us. gRPC waits in C, where
gevent cannot see it: the first watch would hold up the whole process for ever. It has to be told, once a process.
"""

from __future__ import annotations

import sys
from typing import Any

from sentinel_core.datasources.contract import SourceMisconfigured

OVER_GRPC = ("etcd",)
"""Schemes whose stores are reached over gRPC, waiting on threads of our own."""
_told = False


def threads_are_greenlets() -> bool:
    """Whether gevent has replaced them."""
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def let_cooperate(uri: str) -> None:
    """Before a source of this URI is used from a thread. Raises SourceMisconfigured where it would stop the process."""
    global _told  # noqa: PLW0603 - gRPC keeps it for the process, too
    if _told or not uri.startswith(OVER_GRPC) or not threads_are_greenlets():
        return
    try:
        from grpc.experimental import gevent
    except ImportError as error:
        if "grpc" in sys.modules:
            raise SourceMisconfigured(
                f"{uri}: this version of grpcio cannot work beside gevent ({error}); install grpcio 1.80 or newer, "
                "or serve with threads"
            ) from error
        return  # there is no gRPC here; the source says so when it is read
    gevent.init_gevent()
    _told = True
