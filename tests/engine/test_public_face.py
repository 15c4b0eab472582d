"""What `import sentinel_core` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys
import types

import sentinel_core


def test_all_is_exactly_the_public_names() -> None:
    public = {
        name
        for name in dir(sentinel_core)
        if not name.startswith("_") and not isinstance(getattr(sentinel_core, name), types.ModuleType)
    } - {"TYPE_CHECKING", "Any"}
    assert sorted(sentinel_core.__all__) == sentinel_core.__all__
    assert set(sentinel_core.__all__) == public


def test_importing_the_engine_imports_no_extra() -> None:
    code = "import sentinel_core, sys; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"click", "nacos", "etcd3", "kafka", "redis", "opensearchpy", "starlette", "pytest"} & set(loaded)


def test_an_engine_makes_no_thread() -> None:
    code = (
        "import threading; from sentinel_core import Engine; e = Engine(); e.load_rules('flow', []);"
        "e.entry('a').exit();"
        "print(threading.active_count())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "1"
