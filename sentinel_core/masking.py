"""Texts without the credentials in them: user information in a URI, `password=…`, well-known shapes of tokens, private
keys (`credentials.py`). Whatever a person may see, or an event holds, goes through `mask_text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sentinel_core.expression import expression
from sentinel_core.masking_hints import HINT, plainly

MASK = "***"
_BEHIND_SCHEME = expression(r"://[^\s\"']*+")
_USER = expression(r"(?:[^/\s\"'?#:@]++:(?!\d++/)[^\s\"']*|[^/\s\"'?#]*)@")
"""A password with an unescaped `/` is no URI any more, but it is still a secret; digits and a `/` are a port."""
_BROKEN_USER = expression(
    r"(?<=://)[^\s/:@\"'<>?#]{1,64}:(?!\d{1,5}(?!\w))[^\s\"'<>@]{0,200}+[ \t](?:(?!://)[^\n\"'<>@]){0,64}+@(?=\w)"
)
"""With a blank in the password."""
_BLOCK_SIGN = expression(r"[|>][-+0-9]{0,2}[ \t]*+(?:#.*)?\n")
_SCHEME_ENDS = expression(r"(?i)[a-z][a-z0-9+.-]*\Z")
_SECRET_PARAMETER = expression(
    r"pass|pwd|secret|token|credential|api_?key|access_?key|private_?key|auth|signature|^sig$", re.IGNORECASE
)
_PARAMETER = expression(r"(?P<lead>[?&])(?P<name>[^\s=&#?'\"]+)=(?P<value>[^\s&#'\"]*)")


def mask_text(text: str) -> str:
    """The text with every credential in it replaced by `***`, and then also without odd characters that may hide one.
    Idempotent, and linear in the length of the text."""
    plain = plainly(text)
    if not _may_hold(plain):
        return text
    masked = _masked(plain)
    return text if masked == plain else masked


def _masked(text: str) -> str:
    from sentinel_core import credentials as written

    text = written.PRIVATE_KEY.sub(MASK, text)
    if _BLOCK_SIGN.search(text):
        text = _mask_blocks(text, written.BLOCK)
    if "\\" in text and ("|" in text or ">" in text):
        text = written.BLOCK_IN_JSON.sub(rf"\g<name>{MASK}", text)
    text = "".join(MASK if is_user else piece for piece, is_user in _users(text))
    text = _BROKEN_USER.sub(f"{MASK}@", text)
    for argument in written.ARGUMENTS:
        text = argument.sub(rf"\1{MASK}", text)
    text = written.NAMED.sub(_masked_value, text)
    text = written.BEARER.sub(rf"\1 {MASK}", text)
    return written.TOKEN.sub(MASK, text)


@lru_cache(maxsize=4096)
def mask_name(name: str) -> str:
    """The same for what is shown again and again."""
    return mask_text(name)


def _masked_value(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found['name']}{quote or found['opened'] or ''}{MASK}{quote}"


def _mask_blocks(text: str, begins: re.Pattern[str]) -> str:
    """What stands in YAML below `password: |`, in the place of the sign."""
    lines: list[str] = []
    depth: int | None = None
    for line in text.split("\n"):
        if depth is not None and (not line.strip() or len(line) - len(line.lstrip()) > depth):
            continue
        found = begins.fullmatch(line.rstrip()) if _BLOCK_SIGN.search(line + "\n") else None
        depth = len(found["indent"]) if found else None
        lines.append(f"{found['indent']}{found['head']}{MASK}" if found else line)
    return "\n".join(lines)


def may_hold_secret(text: str) -> bool:
    """A cheap no for nearly every text, and for many joined to one; a yes may be wrong."""
    return _may_hold(plainly(text))


def _may_hold(plain: str) -> bool:
    lower = plain.lower()
    if HINT.search(lower) is not None:
        return True
    if "://" not in lower or "@" not in lower:
        return False
    return any(is_user for _, is_user in _users(lower)) or _BROKEN_USER.search(lower) is not None


def mask_uri(text: str) -> str:
    """`text` (one URI, or any message that holds some) without passwords, tokens and secret-looking parameters."""
    pieces: list[str] = []
    for piece, is_user in _users(text):
        pieces.append(_shown_user(piece, pieces[-1]) if is_user else piece)
    return _PARAMETER.sub(_mask_parameter, "".join(pieces))


def _users(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is the user information of a URI; each of those follows another piece."""
    done = 0
    for found in _BEHIND_SCHEME.finditer(text):
        last = text.rfind("@", found.start(), found.end())
        begin = found.start()
        while 0 <= begin < last:
            user = _USER.match(text, begin + 3, last + 1)
            if user is not None and user.end() - user.start() > 1:
                yield text[done : user.start()], False
                yield user[0][:-1], True
                done = user.end() - 1
            begin = text.find("://", begin + 3 if user is None else user.end(), found.end())
    yield text[done:], False


def _shown_user(userinfo: str, before: str) -> str:
    user, colon, _ = userinfo.partition(":")
    if colon:
        return f"{user}:{MASK}"
    # Over HTTP a lone user name is nearly always a personal token; over SSH it is a name.
    scheme = _SCHEME_ENDS.search(before[-40:].removesuffix("://"))
    is_token = scheme is not None and scheme[0].lower().removeprefix("git+").startswith("http")
    return MASK if is_token else user


def _mask_parameter(match: re.Match[str]) -> str:
    # `password_file` tells where a secret stands, and is none.
    if not _SECRET_PARAMETER.search(match["name"]) or match["name"].lower().endswith("_file"):
        return match[0]
    return f"{match['lead']}{match['name']}={MASK}"
