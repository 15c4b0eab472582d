"""Where the installed command begins: before anything is imported that takes time, so that Ctrl-C is quiet."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130
_SOON_S = 0.01
_YOUNG = 100_000
"""Objects made between two collections: imports make many, and all of them stay."""


def main() -> NoReturn:
    """The entry point. While imports run, and at the end, an interrupt ends the process at once; in between it is an
    exception, which `run` turns into words and the same code, but for one at its very edge. A shell that told us to
    ignore it is obeyed."""
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, _leave)
    gc.set_threshold(_YOUNG)
    from sentinel_core.cli.main import run

    # A plugin of pydantic has nothing to do here, and looking for one reads every installed distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        if heeds:
            sys.unraisablehook = _unraisable
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
        if heeds:
            signal.signal(signal.SIGINT, _leave)
    except KeyboardInterrupt:
        _leave()
    gc.freeze()  # the interpreter's last collections find nothing to look through
    sys.exit(code)


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    """An interrupt that met a finalizer, as each import has one, would be shown and forgotten: it comes again."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
        return
    import threading

    again = threading.Timer(_SOON_S, signal.raise_signal, [signal.SIGINT])
    again.daemon = True
    again.start()


def _leave(*_: object) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
