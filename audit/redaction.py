"""Which fields of rules no event shows, and what stands there instead.

With a key, a value becomes `hmac:<key id>:<32 hexadecimal digits>`, the first half of HMAC-SHA256(key, value): whoever
holds the key can tell whether a value is the one (`sentinelctl audit hash`), nobody can guess it back, and it is the
same in every event. Without a key, a value becomes `***#1`, `***#2`, … in order of first appearance within one event.
"""

from __future__ import annotations

import difflib
import hmac
import json
import re
from collections.abc import Sequence
from functools import cache

from sentinel_core.audit.canonical import read_canonical
from sentinel_core.audit.errors import KeyUnusable

PERSONAL = "paramFlowItemList.object"
"""Hidden always: the value of a hot-parameter item is a user's number as often as a shop's."""
SHORTEST_KEY = 16
OPEN = {"default", "other"}
"""What Sentinel itself calls an origin."""
_FOUND_BY = "resource"


class Redaction:
    """Immutable; used from any thread."""

    def __init__(self, fields: Sequence[str] = (), key: str | None = None) -> None:
        """`fields` by their JSON names, `limitApp` or `paramFlowItemList.object`, whatever the kind of the rule.
        Raises ValueError for names that no rule has, KeyUnusable where a key is needed or too short."""
        for field in fields:
            _check(field)
        if fields and key is None:
            raise KeyUnusable(
                "audit.redact needs a key: openssl rand -hex 32 > redact.key, then set audit.redactKeyFile"
            )
        if key is not None and len(key) < SHORTEST_KEY:
            raise KeyUnusable(f"audit.redactKey has {len(key)} characters; write: openssl rand -hex 32 > redact.key")
        self._key = None if key is None else key.encode()
        self.key_id = None if self._key is None else hmac.digest(self._key, b"key id", "sha256").hex()[:8]
        """Tells keys apart and nothing else; None without a key."""
        self.chosen = frozenset(fields)
        """Fields that are hidden beside PERSONAL."""
        self.fields = self.chosen | {PERSONAL}
        names = "|".join(sorted(re.escape(field.rpartition(".")[2]) for field in self.fields))
        self._written = re.compile(
            rf"""((?<![\w.])["']?(?:{names})["']?\s*:\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}}\]]+)"""
        )
        self._names = frozenset(field.rpartition(".")[2] for field in self.fields)

    def hides(self, path: str | None) -> bool:
        """Whether a JSON path or the name of a field ends in a hidden one."""
        return (path or "").rpartition(".")[2] in self._names

    def is_named_in(self, message: str) -> bool:
        """Whether a message speaks of a chosen field, and may quote a value of it."""
        return any(field.rpartition(".")[2] in message for field in self.chosen)

    def keyed(self, value: object) -> str | None:
        """What stands in events for a value; None without a key. A number and its text are the same."""
        if self._key is None:
            return None
        text = value if isinstance(value, str) else read_canonical(json.dumps(value).encode())[1].decode()
        digest = hmac.digest(self._key, text.encode("utf-8", errors="surrogateescape"), "sha256")
        return f"hmac:{self.key_id}:{digest.hex()[:32]}"

    def excerpt(self, line: str) -> str:
        """A line of rule text with hidden values blanked; length and columns stay."""
        return self._written.sub(lambda found: found[1] + "*" * len(found[2]), line)

    def path(self, path: str | None, kind: str | None, resource: str | None) -> str | None:
        """A rule's path, `kind/resource/origin`, with its origin hidden where `limitApp` is."""
        lead = f"{kind}/{resource}/"
        origin = (path or "").removeprefix(lead)
        if "limitApp" not in self.chosen or path is None or not path.startswith(lead) or origin in OPEN:
            return path
        if not _has_origin(kind):
            return path  # the path of a business metric's rule ends in the metric
        return f"{lead}{self.keyed(origin)}"


NONE = Redaction()


def _check(field: str) -> None:
    if field == _FOUND_BY:
        raise ValueError("resource cannot be redacted: it is what events are found by")
    known = _known()
    if field not in known:
        near = difflib.get_close_matches(field, known, n=1)
        raise ValueError(f"no rule has the field {field}" + (f"; did you mean {near[0]}?" if near else ""))


@cache
def _has_origin(kind: str | None) -> bool:
    from sentinel_core.rules.registry import MODELS

    return kind not in MODELS or "limitApp" in MODELS[kind].fields_by_alias()


@cache
def _known() -> tuple[str, ...]:
    from sentinel_core.rules.registry import MODELS

    names: set[str] = set()
    for rule in MODELS.values():
        names.update(rule.fields_by_alias())
        for name, shape in rule.nested.items():
            names.update(f"{name}.{inner}" for inner in shape.fields_by_alias())
    return tuple(sorted(names))
