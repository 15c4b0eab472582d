"""What somebody changed in a store as a commit: which rules, by whom, and what the message says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sentinel_core.datasources import GitSource
from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    HasHistory,
    Item,
    Readable,
    Reading,
    SourceMisconfigured,
)
from sentinel_core.datasources.git.commit import Author
from sentinel_core.datasources.git.objects import CHANNELS
from sentinel_core.masking import mask_text
from sentinel_core.publishing.quarantine import quarantined
from sentinel_core.publishing.standing import changes_between, digests_of, sets_of
from sentinel_core.rules import (
    KINDS,
    Kind,
    Provenance,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    parse_revision,
)
from sentinel_core.rules.draft import Unchangeable
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.rules.rewrite import rewrite
from sentinel_core.rules.three_way import Collision, merge_changes

_LINES = 20
"""Changes that a message tells one by one."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An item of a store that holds something else than was published from Git."""

    item: Item
    reading: Reading
    text: str
    """For people: what was done, by whom."""


class NotAdopted(Exception):
    """An edit that Git cannot take over; the message says why and what decides it."""


def adoptable(
    git: GitSource,
    sets: Mapping[Kind, RuleSet],
    store: Readable,
    found: Sequence[Edit],
    notes: Mapping[str, Mapping[str, Any]],
) -> dict[Kind, RuleSet]:
    """What Git is to hold so that the edits are in it, and everything that was committed since. `sets`: what it holds;
    `notes`: by source of the item, what was synchronised from Git last. Raises NotAdopted, DatasourceError."""
    wanted: dict[Kind, RuleSet] = {}
    for edit in found:
        standing = sets_of(edit.reading, edit.item.kinds)
        if isinstance(edit.reading, Absent) or standing is None:
            what = "what was deleted" if standing is not None else "what is not valid"
            raise NotAdopted(f"{what} is never committed; publish what is committed, or sync with --drift heal")
        _check_quarantine(store, edit.item, standing)
        base = _committed(git, *_published(store, edit.item, notes[edit.item.source]))
        for kind, rules in standing.items():
            if kind not in sets or sets[kind].digest == rules.digest:
                continue
            if kind not in base:
                raise NotAdopted(
                    f"the {kind} rules that both sides come from are not known; decide once, by sentinelctl rules "
                    "publish or sentinelctl rules import --commit"
                )
            try:
                wanted[kind] = merge_changes(base[kind], rules, sets[kind])
            except (Collision, RuleRejected) as error:
                raise NotAdopted(f"{error}; decide by sentinelctl rules publish or rules import --commit") from error
    return wanted


def _check_quarantine(store: Readable, item: Item, standing: Mapping[Kind, RuleSet]) -> None:
    for each in quarantined(store, item):
        if each.kind in standing and standing[each.kind].digest == each.digest:
            raise NotAdopted(
                f"the {each.kind} rules {each.digest[:12]} are under quarantine; roll back, or release them"
            )


def is_from_git(revision: Revision) -> bool:
    """Whether somebody published it from a commit. The commits of a store in Git are its own revisions."""
    provenance = revision.provenance
    return provenance.channel == "git" and provenance.commit_hash not in {None, revision.version}


def _published(store: Readable, item: Item, note: Mapping[str, Any]) -> tuple[object, object]:
    """Commit and digests of what was published from Git last: what the note tells, unless somebody has published since,
    as the history of the store has it."""
    noted = note.get("commit"), note.get("digests")
    for revision in _history(store, item):
        digests = digests_of(sets_of(revision, item.kinds))
        if digests == noted[1]:
            break
        if is_from_git(revision):
            return revision.provenance.commit_hash, digests
    return noted


def _history(store: Readable, item: Item) -> Sequence[Revision]:
    """Empty where there is none, or it cannot be read: then the note alone counts."""
    try:
        return store.history(item) if isinstance(store, HasHistory) else ()
    except DatasourceError:
        return ()


def _committed(git: GitSource, commit: object, digests: object) -> dict[Kind, RuleSet]:
    """The kinds that were published last, as they were committed."""
    if not isinstance(commit, str) or not isinstance(digests, dict):
        return {}
    sets: dict[Kind, RuleSet] = {}
    for item in git.items(KINDS):
        try:
            sets |= sets_of(git.at(item, commit), item.kinds) or {}
        except SourceMisconfigured:  # the commit is gone
            return {}
    return {kind: rules for kind, rules in sets.items() if digests.get(kind) == rules.digest}


def commit_edits(
    git: GitSource, wanted: Mapping[Kind, RuleSet], store: str, found: Sequence[Edit], branch: str | None
) -> str | None:
    """Commits what Git is to hold, to the branch that it follows or to another; None where it holds that already.
    Raises NotAdopted, SourceConflict where somebody else committed meanwhile, DatasourceError."""
    target, is_new = (git, False) if branch is None else _branch(git, branch)
    commit = None
    for item in target.items(KINDS):
        sets = {kind: rules for kind, rules in wanted.items() if kind in item.kinds}
        reading = target.read(item)
        if not sets or isinstance(reading, Absent):
            continue
        try:
            before = parse_revision(reading, item.kinds)
            texts = rewrite(reading.texts, sets, item.kinds)
        except (RuleRejected, Unchangeable) as error:
            raise NotAdopted(f"{error}; make the change by hand") from error
        if texts == reading.texts:
            continue
        _check_reach(target, item, reading.texts, texts)
        revisions = [edit.reading for edit in found if isinstance(edit.reading, Revision)]
        commit = target.commit(
            item,
            texts,
            expected=reading.version,
            provenance=commit_facts(store, changes_between(before, sets), revisions, None),
            author=author_of(revisions),
            branch=branch if is_new else None,
        ).version
        if is_new and branch is not None:
            target, is_new = git.on(branch), False
    return commit


def _check_reach(git: GitSource, item: Item, old: Sequence[SourceText], new: Sequence[SourceText]) -> None:
    """What is common to several environments is not changed for an edit in one. Raises NotAdopted."""
    overlays = overlays_among(text.name for text in old)
    common = [after.name for before, after in zip(old, new, strict=True) if before != after]
    common = [name for name in common if name not in overlays]
    if common and (others := git.others(item)):
        raise NotAdopted(
            f"it would change {', '.join(common)}, which {', '.join(others)} would have, too; sentinelctl rules import "
            "shows what that means and asks"
        )


def _branch(git: GitSource, name: str) -> tuple[GitSource, bool]:
    """The branch as it is, or, where there is none of that name, the one from which it is made. Raises
    SourceMisconfigured where it is the one that is followed: what is committed there waits for no review."""
    if git.follows(name):
        raise SourceMisconfigured(f"{git.uri} is {name} itself; name another branch, or none to commit to it")
    found = git.on(name)
    return (found, False) if found.exists() else (git, True)


def author_of(revisions: Iterable[Revision]) -> Author | None:
    """Who made all of these revisions, as their store says; None where it does not, or where several did."""
    found = [_author(revision.provenance) for revision in revisions]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or len({each.name for each in known}) != 1:
        return None
    return max(known, key=lambda each: each.at.timestamp() if each.at else 0.0)


def _author(provenance: Provenance) -> Author | None:
    """`unknown` is what Nacos calls who did not log in."""
    text = provenance.author or provenance.published_by
    author = Author.of(text and mask_text(text), provenance.committed_at or provenance.published_at)
    return None if author is None or author.name == "unknown" else author


def commit_facts(
    title: str, changes: Sequence[Mapping[str, Any]], revisions: Sequence[Revision], reason: str | None
) -> Provenance:
    """What the commit says. `title`: of the store, without credentials."""
    kinds = dict.fromkeys(str(change["rule"]).partition("/")[0] for change in changes)
    lines = [f"Take {', '.join(kinds) or 'no'} rules over from the store", "", f"Store: {title}"]
    lines += dict.fromkeys(_said(revision) for revision in revisions)
    lines += ["", *map(_line, changes[:_LINES])]
    if len(changes) > _LINES:
        lines.append(f"and {len(changes) - _LINES} more")
    channels = {revision.provenance.channel for revision in revisions}
    channel = channels.pop() if len(channels) == 1 and channels <= set(CHANNELS) else "cli"
    return Provenance(channel=channel, message=mask_text("\n".join(lines)), reason=reason and mask_text(reason))


def said_by(provenance: Provenance) -> str:
    """Who, and by what, as a store says: words of whoever wrote there, so on one line."""
    who = provenance.author or provenance.published_by or "somebody"
    return one_line(f"{who} ({provenance.channel})")


def _said(revision: Revision) -> str:
    provenance = revision.provenance
    when = provenance.committed_at or provenance.published_at
    at = f" on {when:%Y-%m-%d at %H:%M} UTC" if when else ""
    why = f": {one_line(provenance.reason)}" if provenance.reason else ""
    return f"There by {said_by(provenance)}{at}, as the store says{why}"


def _line(change: Mapping[str, Any]) -> str:
    if change["action"] != "change":
        return one_line(f"{'+' if change['action'] == 'add' else '-'} {change['rule']}")
    return one_line(f"~ {change['rule']} {change['field']}: {_value(change['old'])} -> {_value(change['new'])}")


def _value(value: Any) -> str:
    return "none" if value is None else str(value)


def one_line(text: str) -> str:
    """Text of a store in a line of ours: it begins no line, and moves no cursor."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
