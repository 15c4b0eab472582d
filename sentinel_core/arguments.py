"""Arguments of a call as keys: what hot-parameter rules compare, without user code in the critical section.

A key carries its type, because 5, 5.0, True and "5" are different values in a rule. A collection becomes a list of
keys, which are checked one by one; a collection inside of it counts as a whole. Objects of other types are taken by
their text, as it is now: what becomes of them during the call changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

Key = tuple[str, Any]
MISSING: Final = "none"
MANY: Final = "many"
PLAIN_TYPES: Final[dict[type, str]] = {str: "str", int: "int", float: "float", bool: "bool", bytes: "bytes"}


def keys_of(args: Sequence[Any], failed: Callable[[BaseException], None]) -> tuple[Key, ...]:
    """One key an argument: (type, value), (MISSING, None), or (MANY, keys) for a collection.

    An argument that cannot be read (its `__str__` raises) is told to `failed` and counts as missing.
    """
    keys: list[Key] = []
    for arg in args:
        try:
            keys.append(key_of(arg))
        except Exception as error:  # noqa: BLE001 (code of the caller's classes)
            failed(error)
            keys.append((MISSING, None))
    return tuple(keys)


def key_of(value: Any) -> Key:
    if isinstance(value, (list, tuple, set, frozenset)):
        return (MANY, tuple([single(each) for each in value]))
    return single(value)


def single(value: Any) -> Key:
    """The key of one value; a subclass of str or int (an enumeration) is what it stands for."""
    if value is None:
        return (MISSING, None)
    kind = type(value)
    name = PLAIN_TYPES.get(kind)
    if name is not None:
        return (name, value if value == value else "nan")  # a NaN equals nothing, itself neither
    if isinstance(value, str):
        return ("str", str.__str__(value))
    if isinstance(value, int):
        return ("int", int.__int__(value))
    return (kind.__name__, str(value))
