"""What Nacos remembers of a dataId (30 days, unless its keepers say otherwise): who wrote what, when and from where."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from sentinel_core.datasources.contract import DatasourceError, Item, SourceMisconfigured
from sentinel_core.datasources.nacos.api import Api, Entry, md5
from sentinel_core.datasources.nacos.keys import provenance_of
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.datasources.provenance import decode, rules_digest
from sentinel_core.rules import Provenance, Revision, SourceText

_PAGE = 100
_EDITOR_S = 1.0
_SLACK_MS = 5000
"""By so much a history's time and that of a content differ at most; and by so much provenance stands before it."""
_MD5_SHOWN = 12


class _Told(NamedTuple):
    """A provenance that stood beside the rules at some time."""

    time_ms: int
    provenance: Provenance
    digest: str | None


def version_of(content_md5: str, time_ms: int) -> str:
    """The md5 that the console shows, shortened, and when it was written: that tells A→B today from A→B tomorrow."""
    return f"{content_md5[:_MD5_SHOWN]}-{time_ms}"


def history(api: Api, item: Item, *, limit: int) -> list[Revision]:
    """Newest first. Raises DatasourceError."""
    current = api.stored(item.key)
    told = _provenances(api, item.key)
    found: list[Revision] = []
    for entry, content in _contents(api, item.key, current):
        if len(found) >= limit:
            break
        if content:
            found.append(_revision(item, entry, content, told))
    if current is not None and found and found[0].texts[0].content == current.content:
        # What stands there is called as a read calls it.
        version = version_of(current.md5, current.modified_ms)
        found[0] = Revision(found[0].texts, item.source, version, found[0].provenance)
    return found


def at(api: Api, item: Item, version: str) -> Revision:
    """The revision of that name, or the newest whose md5 begins with it. Raises SourceMisconfigured."""
    digest, _, time_text = version.partition("-")
    for revision in history(api, item, limit=1 << 30):
        its_digest, _, its_time = revision.version.partition("-")
        same_time = not time_text or _near(time_text, its_time)
        if len(digest) >= 4 and its_digest.startswith(digest) and same_time:
            return revision
    raise SourceMisconfigured(
        f"{item.source}: {version} is not a revision that Nacos remembers; `sentinelctl rules history` lists them"
    )


def editor(api: Api, data_id: str) -> Provenance:
    """Who wrote what stands there, where that was no publish of ours. Nobody, where the history cannot be read soon:
    the rules wait for it."""
    try:
        entry = next(iter(api.entries(data_id, 1, 1, _EDITOR_S)), None)
    except DatasourceError:
        entry = None
    return _edit(entry) if entry else Provenance(channel="console")


def _edit(entry: Entry) -> Provenance:
    return Provenance(
        channel="console",
        author=f"{entry.user or 'unknown'} <{entry.address}>" if entry.address else entry.user,
        published_at=_moment(entry.time_ms),
    )


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def _entries(api: Api, data_id: str) -> Iterator[Entry]:
    page = 1
    while True:
        found = api.entries(data_id, page, _PAGE)
        yield from found
        if len(found) < _PAGE:
            return
        page += 1


def _contents(api: Api, data_id: str, current: Value | None) -> Iterator[tuple[Entry, bytes | None]]:
    """Each entry, newest first, with what stood there after it; None after a deletion, and where it is not known.

    An entry of a creation holds what came; the others hold what went, so what came stands in the entry after.
    """
    after = current.content if current else None
    for entry in _entries(api, data_id):
        if entry.operation == "I":
            yield entry, api.recorded(data_id, entry.number)
            after = None
        else:
            yield entry, after if entry.operation == "U" else None
            after = api.recorded(data_id, entry.number)


def _provenances(api: Api, data_id: str) -> list[_Told]:
    beside = provenance_of(data_id)
    told = []
    for entry, content in _contents(api, beside, api.stored(beside)):
        if content and (found := decode(content)) is not None:
            told.append(_Told(entry.time_ms, *found))
    return told


def _revision(item: Item, entry: Entry, content: bytes, told: list[_Told]) -> Revision:
    texts = (SourceText(item.key, content, "json"),)
    digest = rules_digest(texts, item.kinds[0])
    before = (each for each in told if each.time_ms <= entry.time_ms + _SLACK_MS)
    own = next((each.provenance for each in before if digest is not None and each.digest == digest), None)
    digest_shown = md5(content)[:_MD5_SHOWN]
    version = version_of(digest_shown, entry.time_ms)
    for each in told:  # what a rollback undid is called as it was called then: a history's times are a little off
        undone = each.provenance.rollback_of or ""
        if undone.startswith(f"{digest_shown}-") and _near(undone.rpartition("-")[2], str(entry.time_ms)):
            version = undone
    return Revision(texts, item.source, version, own or _edit(entry))


def _near(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and abs(int(one) - int(other)) <= _SLACK_MS
