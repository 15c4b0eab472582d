"""Importing what stands in a folder that is no package of an installation."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def benchmark(name: str) -> Any:
    """A file of the folder, which is no package of an installation."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
