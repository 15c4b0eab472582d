"""How credentials are written: names with a value behind them, arguments of commands, shapes of tokens.

To compile them takes 15 ms, so the first text that may hold one loads them. Every pattern takes time linear in its
text, whatever that is: repetitions are possessive or bounded, and begin once in a run of what they repeat.
"""

from __future__ import annotations

import re

# -- names with a value behind them ----------------------------------------------------------------------------------

_SIGN = r"(?:[=-]?>|[=:：]|%3d)"
STRONG = (
    r"(?<!</)(?:(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?(?:id|secret))?|"
    r"(?:secret|private)[_-]?key|credential|signature|密码|密钥|口令)"
    rf"(?:\\*+[\"'])?+\s*+{_SIGN}\s*+|(?:密码|密钥|口令)(?:是|为|改为|改成|设为|设成|换成)\s*+(?=[!-~]))"
)
"""Names whose value is a secret, up to the value."""
_PLAIN_WORD = (
    r"(?:true|false|yes|no|on|off|none|null|nil|enabled|disabled|required|optional|oauth2?|basic|bearer|digest|sasl|"
    r"ldap|oidc|saml|jwt|m?tls|ssl|plain|scram[\w-]*+|kerberos|gssapi|iam|\d{1,3}%?)(?![\w%])"
)
_WEAK = (
    r"(?:(?<![a-z0-9])(?:pass|auth|authorization|creds?|credentials)|(?-i:(?<=[a-z0-9])Pass))"
    r"(?:\\*+[\"']\s*+[:=]\s*+|[ \t]*+=(?!=)[ \t]*+|[ \t]*+[:：](?=[ \t\"'])[ \t]*+|%3d)"
    rf"(?!\\*+[\"']?+(?:[{{\[|>]|{_PLAIN_WORD}))"
)
"""Names that stand in ordinary text, too: `pass: 3%`, `auth: oauth2`, and the resource `auth:login`."""
_QUOTED = r"(?P<quote>\\*+[\"'])(?!\*\*\*)(?:(?!(?P=quote))(?:\\.|[^\\\n]|\\(?![^\n])))++(?:(?P=quote))?+"
"""Up to the closing quote, or the end of the line where the text was cut before it."""
_FIRST = "acpst密口"
"""What a name begins with: nowhere else one is looked for."""
_BARE = (
    r"(?P<opened>\\*+[\"'])?(?:(?:bearer|basic|token|negotiate|apikey|aws4[\w-]*+)\s++)?(?!\*\*\*)"
    rf"(?:[^\s\"'&,;}}\])<\\{_FIRST}]|(?!{STRONG}|{_WEAK})[{_FIRST}]|<(?!/)|\\(?![\"']))++"
)
"""Up to what ends a value in JSON, YAML, XML, a URI or a call, or to the next name: a path may join two."""
_FLAG = r"(?<![\w-])--(?=[\w-])[\w-]*?(?:password|passphrase|secret|token)\s++"
_PARAMETER = r"[?&](?:sig=|key=(?=[\w-]{20})(?=[^\s&\"'\d]{0,64}+\d))"
"""Of a URI that is signed, or of a webhook; the key of a value, as `?key=stock:tea1` of Redis, is short or of words."""
NAMED = re.compile(rf"(?i)(?=[-?&{_FIRST}])(?P<name>{STRONG}|{_WEAK}|{_FLAG}|{_PARAMETER})(?:{_QUOTED}|{_BARE})")

BLOCK = re.compile(
    rf"(?i)(?P<indent>[ \t]*+(?:-[ \t]++)*+)(?P<head>[^\n]*?"
    rf"(?:{STRONG}|(?<![a-z0-9])(?:pass|auth|creds?|credentials):\s*+))"
    r"[|>][-+0-9]{0,2}[ \t]*+(?:\#.*)?"
)
"""The line of YAML under which a secret stands, deeper than `indent` is long."""
BLOCK_IN_JSON = re.compile(
    rf"(?i)(?P<name>{STRONG}|(?<![a-z0-9])(?:pass|auth|creds?|credentials):\s*+)"
    r"[|>][-+0-9]{0,2}[ \t]*+(?:\#[^\\\n\"']*+)?"
    r"(?:\\{1,8}(?:n|x0a)(?:[ \t]++(?:[^\\\n\"']|\\(?!\\{0,7}(?:n|x0a)))*+)?)++"
)
"""The same in one line, as JSON and our own messages escape the ends of lines; all that is deeper than 0 is in it."""

# -- arguments of commands, and addresses that are secrets -----------------------------------------------------------

ARGUMENTS = tuple(
    re.compile(rf"(?i)({lead})[^\s\"']++")
    for lead in (
        # A user and a group by their numbers, as of a container, are no secret; nor is an address.
        r"(?<![\w-])(?:-u(?:[ =]|(?=[\"']))|--(?:proxy-)?user[ =])[\"']?+(?!\d++:\d++(?!\S))[^\s:\"'/]{1,128}+:(?!//)",
        r"\b(?:mysql|mariadb)[^\n;&|]{0,120}?\s-p[\"']?+(?=[^\s\"'])",
        r"\b(?:sshpass|mongo)[^\n;&|]{0,120}?\s-p[ =]?[\"']?+(?=[^\s\"'])",
        r"\bredis-cli[^\n;&|]{0,120}?\s-a[ =]?[\"']?+(?=[^\s\"'])",
    )
) + tuple(
    re.compile(rf"(?i)({lead}){value}")
    for lead, value in (
        (r"\bhooks\.slack\.com/(?:services|workflows|triggers)/", r"[^\s\"'/]++(?:/[^\s\"'/]++){0,2}+"),
        (r"/bot/v2/hook/|/api/webhooks/(?=\d)|\bapi\.telegram\.org/bot", r"[^\s\"'/]++(?:/[^\s\"'/]++)?+"),
        (r"\bjdbc:oracle:\w{1,16}:[^\s/:@\"']{1,128}+/", r"[^\s\"'@]++"),
    )
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")

# -- shapes ----------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"\b(?:gh[oprsu]_[A-Za-z0-9]{16,}+|github_pat_\w{16,}+|gl(?:pat|rt|dt|cbt|ptt)-[\w-]{16,}+|xox[abeoprs]-[\w-]{10,}+|"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}|AKID[A-Za-z0-9]{13,}+|LTAI[A-Za-z0-9]{12,}+|AIza[\w-]{30,}+|ya29\.[\w-]{20,}+|"
    r"sk-[A-Za-z0-9_-]{16,}+|[srp]k_(?:live|test)_\w{16,}+|npm_[A-Za-z0-9]{20,}+|pypi-[\w-]{30,}+|hf_[A-Za-z0-9]{20,}+|"
    r"do[opr]_v1_[0-9a-f]{32,}+|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}+|hv[sb]\.[\w-]{20,}+|ATATT[\w=-]{20,}+|"
    r"SG\.[\w-]{16,64}+\.[\w-]{16,}+|(?:(?<![\w-])eyJ[\w-]{8,}+|eyJ[\w-]{8,500}+)\.[\w-]{8,}+\.[\w-]*+)"
)
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
