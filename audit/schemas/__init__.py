"""The published JSON Schema of each event type. Changes are additive within a version."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def event_schema(event_type: str) -> dict[str, Any]:
    """Draft-07 schema of the whole CloudEvents document of a type. Raises FileNotFoundError for an unknown one."""
    text = resources.files(__name__).joinpath(f"{event_type}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
