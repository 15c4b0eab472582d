"""How bodies lie in the file: 10,000 rules twice are 6 MB of very similar text."""

from __future__ import annotations

import zlib

_PACK_FROM = 4096


def pack(data: bytes) -> bytes:
    """Small ones as they are; a packed body cannot be mistaken, as JSON of an event begins with `{`."""
    return zlib.compress(data, 1) if len(data) >= _PACK_FROM else data


def unpack(data: bytes) -> bytes:
    """The inverse. Raises zlib.error for what is neither."""
    if type(data) is not bytes:  # whoever writes to the file may put anything there
        raise zlib.error("no bytes")
    return data if data.startswith(b"{") or not data else zlib.decompress(data)
