"""Bytes to plain data with positions; the one door through which rule text comes in."""

from __future__ import annotations

import codecs

from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.json_text import read_json
from sentinel_core.rules.revision import SourceText
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Source
from sentinel_core.rules.yaml_text import read_yaml

BLANK = "SR001"
"""The code of a text that says nothing: kept apart from bad text, and never taken as "clear all"."""
_BOM = "\ufeff"
_WIDE_MARKS = (  # the longer mark first: UTF-32-LE begins as UTF-16-LE does
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_text(text: SourceText, limits: Limits = DEFAULT_LIMITS) -> Source:
    """Raises RuleRejected for blank, undecodable, oversized or malformed text."""
    decoded = decode(text.content, text.name, limits)
    source = read_json(decoded, text.name, limits) if text.format == "json" else read_yaml(decoded, text.name, limits)
    if source.data is None or source.data == {}:
        raise blank(text.name, "null" if source.data is None else "{}")
    return source


def decode(content: bytes | str, name: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """Text without its byte order mark. Raises RuleRejected."""
    if len(content) > limits.max_bytes:
        raise _refused("SR003", f"the text has {len(content)} bytes; at most {limits.max_bytes} are read", name)
    text = content if isinstance(content, str) else _decode_bytes(content, name)
    text = text.removeprefix(_BOM)
    if not text.strip():
        raise blank(name, "empty")
    for character, what in ((_BOM, "a byte order mark (U+FEFF) in the middle"), ("\0", "a NUL character")):
        if (offset := text.find(character)) >= 0:
            advice = "were two files glued together? Remove it" if character == _BOM else "save the file as UTF-8"
            raise _refused("SR002", f"the text has {what}; {advice}", name, text[:offset])
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise _refused(
            "SR002", "half of a surrogate pair; write the character itself", name, text[: fault.start]
        ) from None
    return text


def blank(name: str, what: str) -> RuleRejected:
    """The rejection of a text that says nothing."""
    return _refused(BLANK, says_nothing(what), name)


def says_nothing(what: str) -> str:
    """The message of `BLANK`."""
    return f"the content is {what}, which says nothing; the last good rules stay (write [] to clear a kind)"


def _decode_bytes(content: bytes, name: str) -> str:
    for mark, encoding in _WIDE_MARKS:
        if content.startswith(mark):
            raise _refused("SR002", f"the text is {encoding}; save it as UTF-8", name)
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        before = content[: fault.start].decode(errors="replace")
        message = f"byte 0x{content[fault.start]:02x} is not UTF-8; save the file as UTF-8"
        raise _refused("SR002", message, name, before) from None


def _refused(code: str, message: str, name: str, before: str = "") -> RuleRejected:
    """Refuses a text because of the character that follows `before`."""
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return RuleRejected([Problem(code, "error", message, file=name, line=line, column=column)])
