"""`SENTINEL_PURE=1` in the environment: the hot modules run interpreted, compiled ones beside them or not."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


class SourceFirst:
    """Finds the source of a module of this package before the import system finds its compiled twin."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        del target
        package, _, module = name.rpartition(".")
        if not f"{package}.".startswith(f"{__package__}."):
            return None
        for folder in path or ():
            file = Path(folder) / f"{module}.py"
            if file.is_file():
                return spec_from_file_location(name, file)
        return None


def prefer_sources() -> None:
    """From now on; for modules that are not imported yet."""
    if SourceFirst not in sys.meta_path:
        sys.meta_path.insert(0, SourceFirst)
