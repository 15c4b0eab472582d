"""What a collector is, and how its values become numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

from sentinel_core.errors import SentinelError

Target = str | tuple[str, str]
"""A resource ("" for all resources), or a resource and a dimension."""
Values = Mapping[str, object] | Mapping[tuple[str, str], object] | Mapping[Target, object]

MAX_VALUES: Final = 1000
"""Values of one read; a source that gives more is refused, for each is a gauge."""
LONGEST_NUMBER: Final = 64


class Collector(Protocol):
    """Reads one business metric.

    Optional attributes: `every_s`, seconds between two reads (else 1); `source`, where it reads, without secrets;
    `close()`, called once when the engine reads it no more.
    """

    metric: str
    """The `bizMetricType` it serves."""

    def collect(self) -> Values:
        """Target → value now: a number, or text that is one. Runs on a thread of the collectors, one call at a time,
        not always on the same thread; may do I/O, must end in time: give your client time-outs.

        A target that is left out, or None, has no value now: its gauge keeps its number and grows stale. What is no
        finite number is counted as invalid and changes nothing. What this raises is counted and told, and the next
        read comes later and later until one succeeds.
        """


class CollectorError(SentinelError):
    """A source could not be read. Its message holds no secret."""


class SourceLost(CollectorError):
    """A source cannot be reached, or does not answer in time. Told once however the words of its client change."""


def parts_of(target: object) -> tuple[str, str]:
    """Resource and dimension, "" for what is not named. Raises CollectorError for what is no Target."""
    parts = target if isinstance(target, tuple) else (target, "")
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise CollectorError(f"{target!r:.80} is no target; write a resource, or (resource, dimension)")
    return parts


def number_of(value: object) -> float:
    """A finite number, or text that is one, as float; NaN for everything else."""
    if isinstance(value, (str, bytes, bytearray)) and (len(value) > LONGEST_NUMBER or _has_underscore(value)):
        return math.nan
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever a source gives
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _has_underscore(text: str | bytes | bytearray) -> bool:
    """Python reads 1_000 as a number; no other system writes it."""
    return "_" in text if isinstance(text, str) else b"_" in text
