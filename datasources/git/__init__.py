"""Rules kept in Git, local or remote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.datasources.git.source import GitSource
from sentinel_core.datasources.layout import parse_format
from sentinel_core.datasources.registry import Scheme, flag, milliseconds, seconds
from sentinel_core.datasources.uri import SourceUri, without_dots

__all__ = ["SCHEME", "GitSource"]


def _open(uri: SourceUri, *, interval: float = 5.0, poll_ms: float | None = None, **options: Any) -> GitSource:
    location: Path | str = uri.address.removeprefix("git+")
    if uri.scheme in {"git", "git+file"}:
        location = without_dots(uri.path)
        if not uri.path or uri.address.startswith("git://"):
            raise SourceMisconfigured(
                "a repository is named as git:path, git+file:///path, git+ssh://host/path or git+https://host/path; "
                "the unauthenticated git:// protocol is not used"
            )
    return GitSource(location, interval_s=interval, poll_s=poll_ms, **options)


SCHEME = Scheme(
    names=("git", "git+file", "git+ssh", "git+https"),
    open=_open,
    options={
        "ref": str,
        "path": str,
        "kind": str,
        "format": parse_format,
        "clone": flag,
        "cache": Path,
        "interval": seconds,
        "poll_ms": milliseconds,
        "allow_rewind": flag,
        "environment": str,
    },
    form="git+file:///repo?ref=main&path=rules",
)
