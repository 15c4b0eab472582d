"""Points in time as they are written: aware UTC, whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def whole_ms(at: datetime) -> datetime:
    """UTC, anything finer than a millisecond cut off, so that writing and reading back gives the same value.

    Raises ValueError for a naive time: whose zone would it be?
    """
    if at.tzinfo is None:
        raise ValueError(_naive(at))
    utc = at.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def milliseconds(at: datetime) -> int:
    """Milliseconds since the epoch, exactly (no float on the way). Raises ValueError for a naive time."""
    if at.tzinfo is None:
        raise ValueError(_naive(at))
    return (at - _EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """The inverse of `milliseconds`."""
    return datetime.fromtimestamp(value // 1000, UTC).replace(microsecond=value % 1000 * 1000)


def rfc3339(at: datetime) -> str:
    """`2026-11-25T06:30:00.123Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _naive(at: datetime) -> str:
    return f"{at} has no time zone"
