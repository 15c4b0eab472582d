"""Arguments of a call as keys: what hot-parameter rules compare, without user code in the critical section.

A key carries its type, because 5, 5.0, True and "5" are different values in a rule. Collections become lists of keys,
which are checked one by one. Objects of other types are taken by their text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Key = tuple[str, Any]
MISSING: Final = "none"
MANY: Final = "many"
PLAIN_TYPES: Final = frozenset({"str", "int", "float", "bool", "bytes"})


def keys_of(args: Sequence[Any]) -> tuple[Key, ...]:
    """One key an argument: (type, value), (MISSING, None), or (MANY, keys) for a collection."""
    return tuple([key_of(arg) for arg in args])


def key_of(value: Any) -> Key:
    if value is None:
        return (MISSING, None)
    name: str = type(value).__name__
    if name in PLAIN_TYPES:
        return (name, value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return (MANY, tuple([key_of(each) for each in value]))
    return (name, str(value))
