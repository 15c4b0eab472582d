"""Where a number stands in a JSON document: `$.data.items[0].depth`, as in JSONPath, one place at most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

Step = str | int
_STEP: Final = re.compile(r"\.?([^\s.\[\]'\"]+)|\[(-?\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")


def steps_of(path: str) -> tuple[Step, ...]:
    """The names and indexes of a path; a leading `$` may be left out. Raises ValueError that says what to write."""
    rest = path.strip().removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if match is None or match[1] in ("*", "@", "?"):
            raise ValueError(
                f"{path!r} cannot be read from {rest[at:]!r} on; write names and indexes, such as "
                "$.data.items[0].depth or $['a name with spaces']"
            )
        name, index = match[1], match[2]
        quoted = match[3] if match[3] is not None else match[4]
        steps.append(int(index) if index else name or re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
    return tuple(steps)


def find(document: object, steps: Sequence[Step]) -> object:
    """What stands at the end of the steps; None where nothing does."""
    for step in steps:
        if isinstance(document, dict) and isinstance(step, str):
            document = document.get(step)
        elif isinstance(document, list) and isinstance(step, int) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return None
    return document
