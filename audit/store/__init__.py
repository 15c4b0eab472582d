"""Where evidence is kept and asked for. `open_store` picks the back end: one module of this package per scheme."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.store.contract import AuditStore

_URI = re.compile(r"([^/]*)://(.*)", re.DOTALL)


def open_store(uri: str | Path, *, read_only: bool = False) -> AuditStore:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or a path. Connects at first use.

    Raises StoreUnavailable for a scheme that has no module here.
    """
    found = _URI.fullmatch(str(uri))
    scheme, rest = found.groups() if found else ("sqlite", f"/{uri}")
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    known = sorted(name for name in modules if name != "contract" and not name.startswith("_"))
    if scheme not in known:
        schemes = ", ".join(f"{name}://" for name in known)
        raise StoreUnavailable(f"there is no audit store for {scheme}://; this version has {schemes}")
    store: AuditStore = importlib.import_module(f"{__name__}.{scheme}").from_uri(rest, read_only=read_only)
    return store
