"""What the tests of reading and of writing Git share."""

from __future__ import annotations

from collections.abc import Callable

from sentinel_core.datasources import GitSource, Item
from sentinel_core.rules import Revision

A, B, C = (b"flowRules: [{resource: %s}]\n" % name for name in (b"a", b"b", b"c"))
Run = Callable[..., str]


def item_of(source: GitSource) -> Item:
    (item,) = source.items(["flow"])
    return item


def read(source: GitSource) -> Revision:
    reading = source.read(item_of(source))
    assert isinstance(reading, Revision), reading
    return reading
