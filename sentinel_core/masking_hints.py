"""Whether a text may hold a credential, found out in a microsecond, so that nearly every text is left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sentinel_core.expression import expression

_HIDDEN = r"[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]"
_ODD = expression(rf"{_HIDDEN}|[\uff05\uff0b\uff0d-\uff0f\uff10-\uff1a\uff1d\uff20-\uff3a\uff3f\uff41-\uff5a]")
_ODD_ESCAPED = expression(
    r"(?i)\\u(00ad|180e|200[b-f]|206[0-4]|feff|ff[0-5][0-9a-f]|5bc6|7801|94a5|53e3|4ee4|662f|4e3a|6539|6210|8bbe|6362)"
)
"""The last ones are the words for a password, and those that lead to it."""


def plainly(text: str) -> str:
    """The same as a reader sees it, in ASCII: full-width letters, digits and signs narrowed (`ｐａｓｓ＝`), and without
    characters that have no width; also where they are written as escapes of JSON."""
    if "\\u" in text:
        text = _ODD_ESCAPED.sub(lambda found: _narrow(chr(int(found[1], 16))), text)
    return text if text.isascii() else _ODD.sub(lambda found: _narrow(found[0]), text)


def _narrow(odd: str) -> str:
    code = ord(odd)
    if 0xFF01 <= code <= 0xFF5E:
        return chr(code - 0xFEE0)
    return odd if 0x3000 <= code < 0xF000 else ""


def _any_of(words: Iterable[str]) -> str:
    """One pattern for many words, that looks at each place of a text once: those that begin alike stand together."""
    behind: dict[str, list[str]] = {}
    for word in words:
        behind.setdefault(word[:1], []).append(word[1:])
    if "" in behind:
        return ""
    return "(?:" + "|".join(re.escape(first) + _any_of(rest) for first, rest in sorted(behind.items())) + ")"


_LITERALS = (
    r"pass pwd secret token key cred signature bearer basic auth sig= --user --proxy-user mysql mariadb mongo "
    r"redis-cli gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- glrt- gldt- glcbt- glptt- xox akia asia akid ltai aiza "
    r"ya29. sk- k_live_ k_test_ npm_ pypi- hf_ doo_v1_ dop_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_ hvs. hvb. atatt sg. "
    r"eyj hooks.slack. /hook/ /webhooks/ telegram jdbc:oracle 密码 密钥 口令"
)
HINT = expression(_any_of([*_LITERALS.split(), "-u ", "-u=", "-u'", '-u"', "-u\\"]))
"""Stands in every text, in lower case, that holds a secret, beside those with `://`."""
