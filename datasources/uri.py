"""Datasource URIs: taken apart, and masked wherever a person may see them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import parse_qsl, unquote, urlsplit

from sentinel_core.masking import MASK, mask_uri

__all__ = ["MASK", "SourceUri", "mask_uri", "without_dots"]


@dataclass(frozen=True, slots=True)
class SourceUri:
    """A URI in parts. `address` is everything before the query, as written, without the scheme's `git+` or `git:`."""

    scheme: str
    address: str
    path: str
    """Decoded path; the authority (host) is not part of it."""
    query: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> SourceUri:
        """A bare path is `file`; `git:` before a path is `git`. Raises ValueError for text that is no URI."""
        prefix, colon, rest = text.partition(":")
        if not colon or "/" in prefix or len(prefix) < 2:
            return cls("file", text, text, {})
        if not rest.startswith("//"):
            address, _, query = rest.partition("?")
            return cls(prefix.lower(), address, unquote(address), _query(query))
        parts = urlsplit(text)
        address = text.split("#", 1)[0].split("?", 1)[0]
        return cls(parts.scheme.lower(), address, unquote(parts.path), _query(parts.query))


def without_dots(path: str) -> Path:
    """A path of this machine without `..`, so that one file is one store however it is spelled. It leads where the
    kernel goes with it: behind a symbolic link `..` is not what the text says."""
    parts = PurePath(path).parts
    if ".." not in parts or "\0" in path:  # which no file has, as whoever reads it says
        return Path(path)
    end = len(parts) - parts[::-1].index("..")
    above, below = os.path.join(*parts[:end]), parts[end:]  # noqa: PTH118 -- what follows is about texts
    plain, real = os.path.normpath(os.path.abspath(above)), os.path.realpath(above)  # noqa: PTH100 -- keeps links
    return Path(plain if os.path.realpath(plain) == real else real, *below)


def _query(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True)
    twice = sorted({name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1})
    if twice:
        raise ValueError(f"parameter {twice[0]} is given twice")
    return dict(pairs)
