"""Compact JSON of what was read from JSON: by orjson where it is installed (the extra `fast`), else by the standard
library. Both write the same bytes; where orjson does not write a value, the standard library does, or says why not.
"""

from __future__ import annotations

import json
from typing import Any

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]  # told by its absence

_AS_IT_COMES = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_SORTED = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False, check_circular=False
)
"""What was read from a text has no circles; looking for them costs as much as writing."""


def compact(value: Any) -> bytes:
    """Keys in the order in which they come. Raises ValueError (half a surrogate pair among it), TypeError."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except TypeError:
            pass
    return _AS_IT_COMES.encode(value).encode()


def compact_sorted(value: Any) -> bytes:
    """Keys in the order of their code points. The same errors."""
    if orjson is not None:
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            pass
    return _SORTED.encode(value).encode()
