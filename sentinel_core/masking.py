"""Credentials in texts, found by how they are written: user information in a URI, `password=…`, well-known shapes of
tokens, private keys. Whatever a person may see, or an event holds, goes through `mask_text`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sentinel_core.expression import expression

MASK = "***"
_URI_USER = expression(r"(?<=://)(?:[^/\s\"'?#:@]+:(?!\d+/)[^\s\"']*|[^/\s\"'?#]+)@")
"""A password with an unescaped `/` is no URI any more, but it is still a secret; digits and a `/` are a port."""
_NAME = (
    r"(?<!</)(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?(?:id|secret))?|"
    r"(?:secret|private)[_-]?key|credential|signature|(?:密|\\u5bc6)(?:码|\\u7801|钥|\\u94a5)|(?:口|\\u53e3)(?:令|\\u4ee4))"
    r"(?:\\*[\"'])?\s*(?:[=:：>]|\\uff1a)\s*"
)
_QUOTED = r"(\\*[\"'])(?!\*\*\*)(?:(?!\2)(?:\\.|.)){1,4096}(?:\2|(?=\n)|\Z)"
"""Up to the closing quote, or the end of the line where the text was cut before it."""
_BARE = rf"(\\*[\"'])?(?:(?:bearer|basic)\s+)?(?!\*\*\*)(?:(?!{_NAME})(?:[^\s\"'&,;}}\])<\\]|<(?!/)|\\(?![\"'])))+"
"""Up to what ends a value in JSON, YAML, XML, a URI or a call, or to the next name: a path may join two."""
_NAMED_SECRET = expression(rf"(?i)({_NAME}|--[\w-]*(?:password|passphrase|secret|token)\s+)(?:{_QUOTED}|{_BARE})")
_BEARER = expression(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_TOKEN_SHAPE = expression(
    r"\b(?:gh[oprsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}|sk-[A-Za-z0-9_-]{16,}|LTAI[A-Za-z0-9]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_PRIVATE_KEY = expression(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_LITERALS = (
    *("passw", "passphrase", "pwd", "secret", "token", "key", "credential", "signature", "bearer", "basic"),
    *("密码", "口令", "密钥", "\\u5bc6", "\\u53e3"),
    *("ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "xox", "akia", "asia", "sk-", "ltai", "eyj"),
)
_SECRET_PARAMETER = expression(
    r"pass|secret|token|credential|api_?key|access_?key|private_?key|auth|signature", re.IGNORECASE
)
_USERINFO = expression(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<userinfo>[^\s/?#'\":@]+:(?!\d+/)[^\s'\"]*|[^\s/?#'\"]*)@", re.IGNORECASE
)
"""A password with an unescaped `/` is no URI any more, but it is still a secret; digits and a `/` are a port."""
_PARAMETER = expression(r"(?P<lead>[?&])(?P<name>[^\s=&#?'\"]+)=(?P<value>[^\s&#'\"]*)")


def mask_text(text: str) -> str:
    """The text with every credential in it replaced by `***`. Idempotent."""
    if not may_hold_secret(text):
        return text
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URI_USER.sub(f"{MASK}@", text)
    text = _NAMED_SECRET.sub(_masked_value, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _TOKEN_SHAPE.sub(MASK, text)


@lru_cache(maxsize=4096)
def mask_name(name: str) -> str:
    """The same for what is shown again and again."""
    return mask_text(name)


def _masked_value(found: re.Match[str]) -> str:
    name, quote, opened = found.groups(default="")
    return f"{name}{quote or opened}{MASK}{quote}"


def may_hold_secret(text: str) -> bool:
    """A cheap no for nearly every text, and for many joined to one; a yes may be wrong."""
    lower = text.lower()
    return any(literal in lower for literal in _LITERALS) or ("://" in lower and _URI_USER.search(lower) is not None)


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
    if not _SECRET_PARAMETER.search(match["name"]) or match["name"].lower().endswith("_file"):
        return match[0]
    return f"{match['lead']}{match['name']}={MASK}"
