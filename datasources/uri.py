"""Datasource URIs: taken apart, and masked wherever a person may see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "***"
_SECRET_NAME = re.compile(
    r"pass|secret|token|credential|api_?key|access_?key|private_?key|auth|signature", re.IGNORECASE
)
_USERINFO = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<userinfo>[^\s/?#'\":@]+:(?!\d+/)[^\s'\"]*|[^\s/?#'\"]*)@", re.IGNORECASE
)
"""A password with an unescaped `/` is no URI any more, but it is still a secret; digits and a `/` are a port."""
_PARAMETER = re.compile(r"(?P<lead>[?&])(?P<name>[^\s=&#?'\"]+)=(?P<value>[^\s&#'\"]*)")


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


def _query(text: str) -> dict[str, str]:
    pairs = parse_qsl(text, keep_blank_values=True)
    twice = sorted({name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1})
    if twice:
        raise ValueError(f"parameter {twice[0]} is given twice")
    return dict(pairs)


def mask_uri(text: str) -> str:
    """`text` (one URI, or any message that holds some) without passwords, tokens and secret-looking parameters."""
    return _PARAMETER.sub(_mask_parameter, _USERINFO.sub(_mask_userinfo, text))


def _mask_userinfo(match: re.Match[str]) -> str:
    user, colon, _ = match["userinfo"].partition(":")
    if colon:
        return f"{match['scheme']}{user}:{MASK}@"
    # Over HTTP a lone user name is nearly always a personal token; over SSH it is a name.
    is_token = match["scheme"].lower().removeprefix("git+").startswith("http")
    return f"{match['scheme']}{MASK if is_token else user}@"


def _mask_parameter(match: re.Match[str]) -> str:
    # `password_file` tells where a secret stands, and is none.
    if not _SECRET_NAME.search(match["name"]) or match["name"].lower().endswith("_file"):
        return match[0]
    return f"{match['lead']}{match['name']}={MASK}"
