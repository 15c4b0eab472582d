"""What is asked of Nacos, whatever carries it: one dataId at a time, in the namespace and group of the target."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sentinel_core.datasources.contract import StopSignal, Wake


class Value(NamedTuple):
    """What stands under a dataId."""

    content: bytes
    md5: str
    """Of the content, in hex, as the server gives it and as `publish` and `watch` take it."""
    modified_ms: int
    """When it was written last, by the server's clock; milliseconds since 1970. Tells A→B today from A→B tomorrow."""


class Transport(Protocol):
    """Thread-safe; every call raises DatasourceError alone and is bounded by the target's time-out, save `watch`.
    Survives a fork: a child makes connections of its own."""

    def get(self, data_id: str) -> Value | None:
        """What one read says. None for what is missing, and for an empty content: servers and libraries give it for
        things that are there, so the source reads again before it believes it."""

    def publish(self, data_id: str, content: bytes, cas_md5: str | None) -> bool:
        """Writes, if the md5 that stands there is `cas_md5` (None: whatever stands there). What the server claims to
        have done: the source reads back, since servers claim what is not so."""

    def remove(self, data_id: str) -> None:
        """Deletes; nothing happens where nothing stands."""

    def watch(self, data_id: str, seen_md5: str | None, wake: Wake, stop: StopSignal) -> None:
        """As `Readable.watch`; `seen_md5` is None where nothing was seen. Raises when the channel is found dead, which
        a check of its own finds within 5 s."""

    def close(self) -> None:
        """Ends running calls and watches. Idempotent, from any thread."""
