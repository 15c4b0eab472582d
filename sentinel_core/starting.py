"""The composition root: from settings to an engine that follows its stores and leaves evidence."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from sentinel_core.default import set_default_engine
from sentinel_core.service import ServiceEngine, open_stores

if TYPE_CHECKING:
    from sentinel_core.clock import Clock
    from sentinel_core.settings import Settings


def start(settings: Settings, *, clock: Clock | None = None) -> ServiceEngine:
    """An engine that runs the last known good rules when this returns, and follows the stores from then on.

    It becomes the default engine of the process. A store that is down, or an outbox that cannot be written, does not
    stop it: rules protect first, `status` tells. Raises SettingsError, SourceMisconfigured for what cannot work however
    long it is tried; the default engine is then what it was. Before or after a fork: see `sentinel_core.fork`.
    """
    with ExitStack() as undo:
        stores, bootstrap = open_stores(settings, undo)
        engine = ServiceEngine(settings, clock=clock)
        undo.pop_all()
    try:
        engine.begin(stores, bootstrap)
    except BaseException:
        engine.close()
        raise
    set_default_engine(engine)
    return engine
