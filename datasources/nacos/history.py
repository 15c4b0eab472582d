"""What Nacos remembers of a dataId (30 days, unless its keepers say otherwise): who wrote what, when and from where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import NamedTuple

from sentinel_core.datasources.contract import DatasourceError, Item, SourceMisconfigured
from sentinel_core.datasources.nacos.api import Api, Entry, md5
from sentinel_core.datasources.nacos.keys import provenance_of
from sentinel_core.datasources.nacos.transport import Value
from sentinel_core.datasources.provenance import decode, rules_digest
from sentinel_core.rules import Provenance, Revision, SourceText

_PAGE = 100
_EDITOR_S, _NEWEST = 1.0, 10
_SLACK_MS = 5000
"""By so much a history's time and that of a content differ at most; and by so much provenance stands before it."""
_JITTER_MS = 100
"""By so much servers before 3 tell the time of a content too early."""
_MD5_SHOWN, _SHORTEST = 12, 4


class _Told(NamedTuple):
    """A provenance that stood beside the rules at some time."""

    time_ms: int
    provenance: Provenance
    digest: str | None


def version_of(content_md5: str, time_ms: int) -> str:
    """The md5 that the console shows, shortened, and when it was written: that tells A→B today from A→B tomorrow."""
    return f"{content_md5[:_MD5_SHOWN]}-{time_ms}"


def history(api: Api, item: Item, told_now: Value | None) -> Iterator[Revision]:
    """Newest first; `told_now` is what a read says that stands there. Raises DatasourceError, also while it goes on."""
    told = _Provenances(api, item.key)
    newest = True
    for entry, content in _contents(api, item.key):
        if content:
            revision = _revision(item, entry, content, told)
            yield replace(revision, version=_now(told_now, entry) or revision.version) if newest else revision
        newest = False


def _now(told_now: Value | None, entry: Entry) -> str | None:
    """What a read calls what the newest entry wrote. One with an older time has not seen that yet."""
    if told_now is None or told_now.modified_ms < entry.time_ms - _JITTER_MS:
        return None
    return version_of(told_now.md5, told_now.modified_ms)


def at(api: Api, item: Item, told_now: Value | None, version: str) -> Revision:
    """The revision of that name, or the newest whose md5 begins with it. Raises SourceMisconfigured."""
    digest, _, time_text = version.partition("-")
    for revision in history(api, item, told_now) if len(digest) >= _SHORTEST else ():
        its_digest, _, its_time = revision.version.partition("-")
        if its_digest.startswith(digest) and (not time_text or _near(time_text, its_time)):
            return revision
    raise SourceMisconfigured(
        f"{item.source}: {version} is not a revision that Nacos remembers; `sentinelctl rules history` lists them"
    )


def editor(api: Api, data_id: str, written_ms: int) -> Provenance:
    """Who wrote what stood there at that time, where that was no publish of ours: others may have written since.
    Nobody, where the history cannot be read soon: the rules wait for it."""
    try:
        entries = api.entries(data_id, 1, _NEWEST, _EDITOR_S)
    except DatasourceError:
        entries = []
    if entries and written_ms % 1000 == 0 and api.generation() == 1:  # told to the second: the last one to write in it
        within = (each.time_ms for each in entries if 0 <= each.time_ms - written_ms < 1000)
        written_ms = max(within, default=written_ms)
    near = [each for each in entries if abs(each.time_ms - written_ms) <= _SLACK_MS]
    entry = min(near, key=lambda each: abs(each.time_ms - written_ms), default=None)
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


def _contents(api: Api, data_id: str) -> Iterator[tuple[Entry, bytes | None]]:
    """Each entry, newest first, with what stood there after it; None after a deletion, and where it is not known.

    An entry of a creation holds what came; the others hold what went, so what came stands in the entry after.
    """
    current = api.stored(data_id)
    after = current.content if current else None
    for entry in _entries(api, data_id):
        if entry.operation == "I":
            yield entry, api.recorded(data_id, entry.number)
            after = None
        else:
            yield entry, after if entry.operation == "U" else None
            after = api.recorded(data_id, entry.number)


class _Provenances:
    """What stood beside a dataId, fetched as far back as it is asked for."""

    def __init__(self, api: Api, data_id: str) -> None:
        self._more = _contents(api, provenance_of(data_id))
        self._known: list[_Told] = []
        self._given: set[str] = set()

    def _newest_first(self) -> Iterator[_Told]:
        yield from self._known
        for entry, content in self._more:
            if content and (found := decode(content)) is not None:
                self._known.append(_Told(entry.time_ms, *found))
                yield self._known[-1]

    def of(self, digest: str, time_ms: int) -> Provenance | None:
        """What stood beside rules of this digest, written at that time: of several, the nearest, as the same rules may
        come back within seconds."""
        near = takewhile(lambda each: each.time_ms >= time_ms - _SLACK_MS, self._newest_first())
        theirs = (each for each in near if each.time_ms <= time_ms + _SLACK_MS and each.digest == digest)
        found = min(theirs, key=lambda each: abs(each.time_ms - time_ms), default=None)
        return found.provenance if found else None

    def name_of(self, version: str, time_ms: int) -> str:
        """The version as a rollback that undid it later called it: a history's times are a little off. A name is given
        once."""
        for each in self._known:
            named = each.provenance.rollback_of or ""
            if each.time_ms >= time_ms and named not in self._given and same_version(named, version):
                self._given.add(named)
                return named
        return version


def _revision(item: Item, entry: Entry, content: bytes, told: _Provenances) -> Revision:
    texts = (SourceText(item.key, content, "json"),)
    digest = rules_digest(texts, item.kinds[0])
    own = told.of(digest, entry.time_ms) if digest is not None else None
    version = told.name_of(version_of(md5(content), entry.time_ms), entry.time_ms)
    return Revision(texts, item.source, version, own or _edit(entry))


def same_version(one: str, other: str) -> bool:
    """Whether two versions name one write: times in a history are a little off."""
    (one_md5, _, one_time), (other_md5, _, other_time) = one.partition("-"), other.partition("-")
    return one_md5 == other_md5 and _near(one_time, other_time)


def _near(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and abs(int(one) - int(other)) <= _SLACK_MS
