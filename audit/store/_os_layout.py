"""How events lie in OpenSearch: the indices, their templates, and an event as a document and back.

A document holds each column of the chain under its name of the Elastic Common Schema where that has one, the rows as
JSON in one text, the data as one text, and lists drawn from the rows by which they are found. Nothing of the rows and
the data is indexed but those lists.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from operator import attrgetter
from typing import Any, NamedTuple

from sentinel_core.audit.chain import COLUMNS, ROW, START, Linked, link, link_new
from sentinel_core.audit.errors import EventRefused
from sentinel_core.audit.indexing import Columns, Indexed, row_texts
from sentinel_core.audit.instants import from_milliseconds, milliseconds, rfc3339
from sentinel_core.audit.store._os_client import encode
from sentinel_core.audit.store._reading import head_of as checked_head
from sentinel_core.audit.store._reading import row_of as checked_row
from sentinel_core.audit.store.contract import HEAD, EventHead, Row

LAYOUT = 1
LONGEST = 8191
"""Characters that are indexed of a text: 32 KB in UTF-8, the most that the server takes for one."""
MAX_DOCUMENT = 15 * 2**20
"""Characters of one event as a document, of which servers take 20 million or more in one text."""
PAGE_CHARACTERS = 4 * 2**20
"""Of packed rows and data, after which fewer events are asked for: one may have 10,000 rules twice."""
_PACK_FROM = 4096
_PACKED = "zlib:"

FIELDS = {
    "id": "event.id",
    "source": "event.provider",
    "type": "event.action",
    "subject": "sentinel.subject",
    "environment": "service.environment",
    "app": "service.name",
    "instance": "service.node.name",
    "channel": "sentinel.channel",
    "author": "user.name",
    "commit": "sentinel.commit",
    "reason": "event.reason",
    "message": "message",
    "plan": "sentinel.plan",
    "document": "sentinel.document",
    "revision": "sentinel.revision",
    "old_digest": "sentinel.digest.old",
    "new_digest": "sentinel.digest.new",
    "rollback_of": "sentinel.rollback_of",
    "time": "@timestamp",
    "initial": "sentinel.initial",
    "late": "sentinel.late",
    "observed": "sentinel.observed",
}
"""Columns of the chain."""
NUMBER, PREVIOUS, HASH = "event.sequence", "sentinel.previous", "event.hash"
ROWS, DATA = "sentinel.rows", "event.original"
GONE = {FIELDS["type"]: "sentinel.audit.removed"}
"""All that is left of the document of a purged event. It holds the id: a writer that slept since it claimed the event
would make it again otherwise."""
LISTS = {
    "resource": "sentinel.resource",
    "field": "sentinel.field",
    "action": "sentinel.action",
    "rule": "rule.name",
    "kind": "rule.category",
}
"""What an event is found by through its rows."""
NUMBERS = "sentinel.set"
LONG = "sentinel.long"
"""Which of these names hold a text that is too long to be found by."""
NUMERIC = frozenset(
    {
        "count", "threshold", "grade", "strategy", "controlBehavior", "warmUpPeriodSec", "maxQueueingTimeMs",
        "timeWindow", "minRequestAmount", "statIntervalMs", "slowRatioThreshold", "windowIntervalMs", "stateWindowMs",
        "paramIdx", "burstCount", "durationInSec", "highestSystemLoad", "highestCpuUsage", "qps", "avgRt", "maxThread",
    }
)  # fmt: skip
"""Fields of rules by whose numbers events are found at once; others are looked for in what else meets a question."""
PLACES = {name: ROW.index(name) for name in LISTS}
"""Of these columns in a row."""
_KEYWORD = {"type": "keyword", "ignore_above": LONGEST}
_FOUND = {**_KEYWORD, "doc_values": False}
_COUNTED = ("type", "source", "environment", "app", "instance", "channel", "author")
"""Of which dashboards make groups."""
_NOT_ASKED = {"subject", "late", "rollback_of", "old_digest", "time"}
"""Only kept: each field that is indexed costs time with every event."""
_SETTINGS = {
    "index.number_of_shards": "1",
    "index.auto_expand_replicas": "0-1",
}
_HEAD_FIELDS = tuple(FIELDS[name] for name in HEAD)
_FLAGS = ("initial", "late", "observed")
_TEXTS = COLUMNS[: COLUMNS.index("time")]
_TEXT_FIELDS = [FIELDS[name] for name in _TEXTS]
_texts = attrgetter(*_TEXTS)


class Names(NamedTuple):
    """Of indices, all with one beginning."""

    prefix: str

    @property
    def events(self) -> str:
        """Every month's."""
        return f"{self.prefix}-events-*"

    @property
    def state(self) -> str:
        """Records of chains; for each id that came, of which event it tells; sightings."""
        return f"{self.prefix}-state"

    def month(self, time: int) -> str:
        """Of a time in ms."""
        at = from_milliseconds(time)
        return f"{self.prefix}-events-{at.year:04}.{at.month:02}"


def key(*parts: str) -> str:
    """The id of a document: what the parts may be, no server takes for one."""
    digest = sha256(json.dumps(parts).encode()).digest()
    return base64.urlsafe_b64encode(digest[:24]).decode()


def templates(names: Names) -> dict[str, dict[str, Any]]:
    """By name, for `_index_template`."""
    counted = {FIELDS[name] for name in _COUNTED} | set(LISTS.values())
    events: dict[str, Any] = {FIELDS[name]: _FOUND for name in FIELDS.keys() - _NOT_ASKED}
    events |= dict.fromkeys(counted, _KEYWORD) | {LONG: _FOUND}
    events |= {FIELDS[name]: {"type": "boolean", "doc_values": False} for name in ("initial", "observed")}
    events |= {"@timestamp": {"type": "date"}, NUMBER: {"type": "long"}, HASH: {"type": "keyword", "index": False}}
    events |= {f"{NUMBERS}.{name}": {"type": "double", "doc_values": False} for name in NUMERIC}
    state: dict[str, Any] = {
        "chain": {"type": "keyword"},
        "sighted": {"type": "keyword"},
    }
    return {
        f"{names.prefix}-events": _template([names.events], events, "500ms"),
        f"{names.prefix}-state": _template([names.state], state, "30s"),  # who searches it refreshes it
    }


def _template(patterns: Sequence[str], properties: Mapping[str, Any], refresh: str) -> dict[str, Any]:
    mapping = {"dynamic": False, "date_detection": False, "properties": dict(sorted(properties.items()))}
    return {
        "index_patterns": list(patterns),
        "priority": 200,
        "version": LAYOUT,
        "template": {"settings": _SETTINGS | {"index.refresh_interval": refresh}, "mappings": mapping},
    }


def document(columns: Columns, rows: Sequence[Indexed], data: bytes, previous: bytes, number: int) -> tuple[str, bytes]:
    """An event as JSON, and its hash."""
    time = columns.time
    written = [[place, time, *row] for place, row in enumerate(row_texts(rows))]
    made = link_new(previous, number, data, tuple(columns), written)
    held = _held(columns, written, number, previous, len(data)) | {HASH: made.hex()}
    held |= {ROWS: packed(encode(written).encode("utf-8", "backslashreplace")), DATA: packed(data)}
    return encode(held), made


def check(columns: Columns, rows: Sequence[Indexed], data: bytes) -> None:
    """Raises EventRefused for an event that no document can hold."""
    for name in ("id", "source", "type", "subject"):
        if len(getattr(columns, name)) > LONGEST:
            raise EventRefused(columns.id, f"its {name} is longer than {LONGEST} characters, which no index holds")
    # The rows say again what the data says.
    if len(data) > MAX_DOCUMENT // 8 and len(document(columns, rows, data, START, 1)[0]) > MAX_DOCUMENT:
        raise EventRefused(columns.id, f"it is longer than {MAX_DOCUMENT >> 20} MiB when packed, which no server takes")


def _held(columns: Columns, rows: Sequence[Sequence[Any]], number: int, previous: bytes, size: int) -> dict[str, Any]:
    """All of a document that is searched, and its link."""
    texts = zip(_TEXT_FIELDS, columns[: len(_TEXT_FIELDS)], strict=True)
    held: dict[str, Any] = {name: value for name, value in texts if value is not None}
    held |= lists(columns.subject, rows)
    if size > LONGEST and (long := sorted(name for name, value in held.items() if _is_long(value))):
        held[LONG] = long  # all texts are in the data
    for name in _FLAGS:
        held[FIELDS[name]] = bool(getattr(columns, name))
    held["@timestamp"] = rfc3339(from_milliseconds(columns.time))
    held[NUMBER], held[PREVIOUS] = number, previous.hex()
    return held


def _is_long(value: Any) -> bool:
    return (isinstance(value, str) and len(value) > LONGEST) or (
        isinstance(value, list) and any(isinstance(each, str) and len(each) > LONGEST for each in value)
    )


def _columns(head: EventHead) -> Columns:
    flags = [int(getattr(head, name)) for name in _FLAGS]
    return Columns._make((*_texts(head), milliseconds(head.time), *flags))


def lists(subject: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What rows are found by: a function of them, so that whoever edits it is found out."""
    held: dict[str, Any] = {}
    columns = list(zip(*rows, strict=True)) or [()] * len(ROW)
    for name, place in PLACES.items():
        if found := set(columns[place]) - {None}:
            held[LISTS[name]] = sorted(found)
    if not rows or None in columns[PLACES["kind"]]:
        held[LISTS["kind"]] = sorted({subject, *held.get(LISTS["kind"], ())})
    for name, values in sorted(_numbers(rows).items()):
        held[f"{NUMBERS}.{name}"] = sorted(values)
    return held


def _numbers(rows: Sequence[Sequence[Any]]) -> dict[str, set[float]]:
    """That fields of NUMERIC were set to."""
    numbers: dict[str, set[float]] = {}
    for _, _, action, _, _, _, field, _, new in rows:
        if new is None:
            continue
        if field is not None:
            told = {field: _number(new)} if field in NUMERIC else {}
        elif action in {"add", "seen"} and isinstance(rule := json.loads(new), dict):
            told = {name: finite(rule[name]) for name in NUMERIC & rule.keys()}
        else:
            continue
        for name, number in told.items():
            if number is not None:
                numbers.setdefault(name, set()).add(number)
    return numbers


def _number(text: str) -> float | None:
    """Of a JSON text, as `finite`."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def finite(value: Any) -> float | None:
    """As a number that the server takes; None for anything else."""
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# -- and back ----------------------------------------------------------------------------------------------------------


def head_of(held: Mapping[str, Any]) -> EventHead:
    """Raises ValueError, TypeError or KeyError for a document of somebody else."""
    values: dict[str, Any] = {name: held.get(FIELDS[name]) for name in HEAD}
    return EventHead(**values | {"time": datetime.fromisoformat(held["@timestamp"])})


def shown_head(held: Mapping[str, Any]) -> EventHead:
    """The same whatever a document holds: for people, with what is damaged named."""
    try:
        time = datetime.fromisoformat(held["@timestamp"]).astimezone(UTC)
    except (ValueError, TypeError, KeyError, OverflowError):
        time = None
    return checked_head([held.get(FIELDS[name]) for name in HEAD], time)


def shown_rows(held: Mapping[str, Any]) -> list[list[Any]]:
    """Of what is no list of rows, none."""
    try:
        rows = rows_of(held)
    except (*_NO_EVENT, EOFError):
        return []
    texts = (each for row in rows for each in row[2:])
    is_well = all(each is None or isinstance(each, str) for each in texts) and all(type(row[0]) is int for row in rows)
    return rows if is_well else []


def rows_of(held: Mapping[str, Any]) -> list[list[Any]]:
    """As the chain has them. Raises as above."""
    found = json.loads(unpacked(held[ROWS]))
    if not isinstance(found, list) or not all(isinstance(row, list) and len(row) == len(ROW) for row in found):
        raise TypeError("rows are lists")
    return found


def row_of(head: EventHead, row: Sequence[Any] | None) -> Row:
    """None: the row of an event without changes."""
    if row is None:
        return Row(head, "", None, None, None, None, None, None)
    return checked_row(head, row[2:])


def computed(held: Mapping[str, Any]) -> bytes | None:
    """The hash that a document must have; None where it is not one that an event makes."""
    try:
        return link(*_covered(held))
    except _NO_EVENT:
        return None


def linked_of(held: Mapping[str, Any]) -> Linked:
    """An event with its link, without sightings. Nothing of one that is not as it was written: then its hash tells."""
    try:
        previous, number, data, columns, rows = _covered(held)
        made = bytes.fromhex(held[HASH])
        if made.hex() != held[HASH]:
            made = b""
    except _NO_EVENT:
        return Linked(held.get(NUMBER, 0), b"", b"", (held.get(FIELDS["id"]), held.get(FIELDS["source"])), (), b"", ())
    return Linked(number, previous, made, tuple(columns), tuple(map(tuple, rows)), data, ())


_NO_EVENT = (ValueError, TypeError, KeyError, AttributeError, zlib.error, OverflowError, RecursionError)


def _covered(held: Mapping[str, Any]) -> tuple[bytes, int, bytes, Columns, list[list[Any]]]:
    """What `link` takes. Raises one of _NO_EVENT for a document that no event makes."""
    columns, rows, number = _columns(head_of(held)), rows_of(held), held[NUMBER]
    told = {name: value for name, value in held.items() if name not in {ROWS, DATA, HASH}}
    previous = bytes.fromhex(held[PREVIOUS])
    data = unpacked(held[DATA])
    if told != _held(columns, rows, number, previous, len(data)):
        raise ValueError("it is found by other words than it holds")
    if not all(type(held[FIELDS[name]]) is bool for name in _FLAGS):
        raise TypeError("flags are booleans")
    return previous, number, data, columns, rows


def packed(data: bytes) -> str:
    """Small ones as they are; a packed one cannot be mistaken, as JSON begins with another character."""
    if len(data) < _PACK_FROM:
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return _PACKED + base64.b64encode(zlib.compress(data, 1)).decode()


def next_size(size: int, most: int, documents: Iterable[Mapping[str, Any]]) -> int:
    """How many events to ask for after these, which were asked for as `size`."""
    weight = sum(len(str(held.get(name, ""))) for held in documents for name in (ROWS, DATA))
    return min(most, 2 * size) if weight < PAGE_CHARACTERS else max(1, size // 2)


def unpacked(text: str) -> bytes:
    """The inverse. Raises ValueError, TypeError or zlib.error for what is neither."""
    if text.startswith(_PACKED):
        return zlib.decompress(base64.b64decode(text[len(_PACKED) :], validate=True))
    return text.encode()
