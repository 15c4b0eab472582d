"""The table in docs/metrics.md is the list of metrics."""

from __future__ import annotations

import re
from pathlib import Path

from sentinel_core import Engine
from sentinel_core.metrics.families import families

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def test_every_metric_is_documented_with_type_and_labels(engine: Engine) -> None:
    rows = re.findall(r"^\| `(\w+|sentinel_<kind>_reject)` \| (\w+) \| ([\w, ]*?) ?\| ", PAGE.read_text(), re.MULTILINE)
    written = {name: (kind, labels) for name, kind, labels in rows}
    kind, labels = written.pop("sentinel_<kind>_reject")
    written |= {f"sentinel_{each}_reject": (kind, labels) for each in engine.slots()}
    assert written == {each.name: (each.type, ", ".join(each.labels)) for each in families(engine)}


def test_names_are_distinct_and_units_stand_last(engine: Engine) -> None:
    names = [each.name for each in families(engine)]
    assert len(names) == len(set(names))
    assert all(name.startswith("sentinel_") and not name.endswith(("_total", "_ms", "_count")) for name in names)
