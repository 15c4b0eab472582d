"""Doing something as a user whom file modes hold back, also where the tests run as root."""

from __future__ import annotations

import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def exit_code_as_nobody(call: Callable[[], int]) -> int:
    """Calls in a forked process that has given up root; what the call gives is its exit code. Modules that the call
    needs must be loaded: this user may not be able to read them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads beside a fork: none of them is needed there
        process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    code = 255
    try:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        code = call()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


@contextmanager
def folder_for_all() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder
