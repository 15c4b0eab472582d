"""What a side of a comparison may be: `git:REV`, `live`, `history:N`, a store URI, a path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sentinel_core.cli import git
from sentinel_core.cli.app import App
from sentinel_core.cli.config.known import known_contexts
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem
from sentinel_core.cli.rules.inputs import read_revisions, shown
from sentinel_core.cli.rules.past import past
from sentinel_core.cli.stores import history_command, history_store, opened, present, store_uris
from sentinel_core.datasources.contract import Absent, HasHistory, Item, Readable, Reading, SourceMisconfigured
from sentinel_core.datasources.layers import in_force
from sentinel_core.datasources.names import has_blank
from sentinel_core.datasources.uri import SourceUri
from sentinel_core.rules import KINDS, Kind, Revision, Rule, RuleRejected, RuleSet, SourceText, parse_revision
from sentinel_core.rules.overlay import FOLDER as OVERLAYS
from sentinel_core.rules.overlay import overlays_among

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
MEND_FILES = "mend the rules; sentinelctl rules validate PATH shows the same problems"
MEND_STORE = (
    "put valid rules there: sentinelctl rules publish writes what was committed, sentinelctl rules rollback (--kind "
    "KIND in etcd and Nacos) what stood there before"
)
FORMS = "git:REV, live, history:N, a store URI, a path or - for stdin"


@dataclass(frozen=True, slots=True)
class Side:
    """The rules of one side, by managed kind, and how the side is called."""

    title: str
    sets: Mapping[Kind, RuleSet]
    revisions: tuple[Revision, ...] = ()
    """Where they came from, without content."""
    overlays: tuple[str, ...] = ()
    """The texts among them that are laid over the others."""
    stores: Mapping[str, str] = field(default_factory=dict)
    """Source of a revision → URI of the store, where there is more than one."""
    standing_by: tuple[tuple[str, Rule], ...] = ()
    """Rules that are not in force, because another store has the last word on their resource; with their store."""
    texts: tuple[SourceText, ...] = ()
    """What the rules were read from, where all of them stand in one document."""
    files: tuple[SourceText, ...] = ()
    """All that they were read from, where those are files."""

    def store_of(self, rule: Rule) -> str | None:
        """The URI of the store that a rule is from; None where there is only one."""
        revision = self.sets[rule.kind].owner(rule).revision
        return self.stores.get(revision.source) if revision else None


def resolve(
    app: App, text: str, kind: Kind | None = None, *, store: str | None = None, may_be_empty: bool = False
) -> Side:
    """Reads one side, and says which overlay it is read with. `store`: whose history is meant. Raises CommandError,
    also where nothing stands unless that `may_be_empty`; DatasourceError; invalid rules name the side and end with 65.
    """
    side = _resolve(app, text, kind, store, may_be_empty)
    for name in side.overlays:
        app.out.say(f"{side.title} is read with the overlay {name}")
    return side


def _resolve(app: App, text: str, kind: Kind | None, store: str | None, may_be_empty: bool) -> Side:
    word, _, rest = text.partition(":")
    if text == "live":
        return _store(app, store_uris(app), kind, app.settings.bootstrap, may_be_empty=may_be_empty)
    if word == "history":
        return _historic(app, rest, kind, store)
    if text == "git" or (word == "git" and not _is_path(rest)):
        return _committed(app, rest or "HEAD", kind)
    if "://" in text or word == "git":
        return _store(app, (text,), kind, may_be_empty=may_be_empty)
    return _path(app, text, kind)


def _is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~", "//")) or Path(text).is_dir()


def _store(
    app: App, uris: Iterable[str], kind: Kind | None, bootstrap: str | None = None, *, may_be_empty: bool = False
) -> Side:
    """What holds of what stands in these stores now, as a service that follows them has it."""
    read = [_stored(app, uri, kind) for uri in uris]
    under = _stored(app, bootstrap, kind) if bootstrap else None
    every = [*read, *([under] if under else [])]
    there = [each.side for each in every if each.side]
    if not there and may_be_empty:
        return Side(", ".join(each.uri for each in every), {})
    if not there:
        raise CommandError(
            "nothing stands in the store: " + "; ".join(reason for each in every for reason in each.absent),
            next_step="check where the store looks with: sentinelctl doctor",
        )
    if len(every) == 1:
        return there[0]
    sets = in_force([each.side.sets for each in read if each.side], under.side.sets if under and under.side else None)
    return Side(
        ", ".join(dict.fromkeys(side.title for side in there)),
        sets,
        tuple(revision for side in there for revision in side.revisions),
        tuple(overlay for side in there for overlay in side.overlays),
        {revision.source: each.uri for each in every if each.side for revision in each.side.revisions},
        tuple(
            (each.uri, rule)
            for each in every
            if each.side
            for kind, said in each.side.sets.items()
            for rule in said.rules
            if sets[kind].owner(rule) is not said
        ),
    )


class _Stored(NamedTuple):
    """One store as it was read: its rules, or why none stand there."""

    uri: str
    side: Side | None
    absent: tuple[str, ...]


def _stored(app: App, uri: str, kind: Kind | None) -> _Stored:
    with opened(app, uri) as source:
        with app.out.waiting(f"reading {source.uri}"):
            readings = [(item, source.read(item)) for item in source.items((kind,) if kind else KINDS)]
        absent, parts = [], []
        for item, each in readings:
            if isinstance(each, Absent):
                absent.append(f"{item.source}: {each.reason}")
            elif has_blank(each.texts):  # services pass over it, too
                absent.append(f"{item.source} is blank")
            else:
                parts.append((each, item.kinds))
        titles = dict.fromkeys(title_of(source, revision) for revision, _ in parts)
        side = _of_store(source, _side(", ".join(titles), parts, MEND_STORE)) if parts else None
        return _Stored(source.uri, side, tuple(absent))


def _historic(app: App, number: str, kind: Kind | None, store: str | None) -> Side:
    with history_store(app, store, kind) as (source, item):
        revisions = past(app, source, item, may_begin=True)
        revision = revisions.get(int(number)) if number.isdecimal() else None
        if revision is None:
            raise UsageProblem(
                f"history:{number}: there is no such revision; the newest is {max(revisions, default=0)}",
                next_step=f"{history_command(item)}    (lists them with their numbers)",
            )
        return _of_store(source, _side(title_of(source, revision), [(revision, item.kinds)]))


def _of_store(source: Readable, side: Side) -> Side:
    """Keys of etcd and Nacos are nobody's files."""
    return side if source.uri.startswith(("file:", "git")) else replace(side, files=())


def _committed(app: App, rev: str, kind: Kind | None) -> Side:
    """The rules as code at a commit: of the repository around `rules`, else of the first Git store."""
    with opened(app, repository_uri(app)) as source:
        parts = [(at_revision(source, item, rev), item.kinds) for item in source.items((kind,) if kind else KINDS)]
        found = [(reading, kinds) for reading, kinds in parts if not isinstance(reading, Absent)]
        if not found:
            present(parts[0][0], source)
        return _side(title_of(source, found[0][0]), found)


def at_revision(source: Readable, item: Item, rev: str) -> Reading:
    """The item at a revision that somebody typed. Raises UsageProblem where the store has none of that name."""
    uri = SourceUri.parse(source.uri)
    if not isinstance(source, HasHistory):
        raise BadSettings(f"{source.uri} has no commits", next_step=f"name a side as one of {FORMS}")
    try:
        return source.at(item, rev)
    except SourceMisconfigured as error:
        here = f"git -C {uri.path} log --oneline -- {uri.query.get('path', '.')}    (lists the commits)"
        there = f"sentinelctl rules history --store '{source.uri}'    (lists the revisions)"
        raise UsageProblem(str(error), next_step=here if uri.scheme == "git+file" else there) from error


def head_of(app: App, path: Path, kind: Kind | None) -> Side | None:
    """The same file or folder as it was committed last; None where Git does not know it."""
    uri = _tracked_uri(path)
    if uri is None:
        return None
    with opened(app, uri) as source:
        parts = [(source.read(item), item.kinds) for item in source.items((kind,) if kind else KINDS)]
        there = [(reading, kinds) for reading, kinds in parts if isinstance(reading, Revision)]
        return _side(title_of(source, there[0][0]), there) if there else None


def _tracked_uri(path: Path) -> str | None:
    top = git.top_of(path)
    if top is None or not git.is_tracked(top, path):
        return None
    return f"git+file://{quote(str(top))}?ref=HEAD&path={quote(path.resolve().relative_to(top).as_posix())}"


def repository_uri(app: App) -> str:
    """Where the rules are committed. Raises BadSettings where no repository is known."""
    rules = Path(app.settings.rules)
    if (tracked := _tracked_uri(rules)) is not None:
        return tracked
    stores = [uri for uri in app.settings.stores if uri.startswith(("git+", "git:"))]
    if stores:
        return stores[0]
    raise BadSettings(
        f"git: {shown(rules)} is not in a Git repository, and no store is one",
        next_step="write `rules: <path of the rules in your repository>` into sentinel.yaml, or name another side: "
        + FORMS,
    )


def _path(app: App, text: str, kind: Kind | None) -> Side:
    if text in known_contexts(app) and not Path(text).exists():
        raise UsageProblem(
            f"{text} is a context, and no file of that name is here; name its store",
            next_step=f"sentinelctl rules show --context {text}    (what stands there), or compare two of them with: "
            "sentinelctl rules promote FROM TO --dry-run",
        )
    side = _side(text, read_revisions(text, kind, app.environment))
    if not side.overlays and (Path(text) / OVERLAYS).is_dir():
        app.out.say(f"{text} has no overlay for the environment {app.environment}; the base alone is read")
    return side


def _side(title: str, parts: Iterable[tuple[Revision, tuple[Kind, ...]]], mend: str = MEND_FILES) -> Side:
    """`mend`: what to do where the rules are not valid."""
    sets: dict[Kind, RuleSet] = {}
    revisions: list[Revision] = []
    overlays: list[str] = []
    texts: tuple[SourceText, ...] = ()
    files: tuple[SourceText, ...] = ()
    for revision, kinds in parts:
        try:
            parsed = parse_revision(revision, kinds)
        except RuleRejected as rejection:
            raise CommandError(
                f"{title}: the rules are not valid\n{rejection}",
                next_step=mend,
                code=Exit.INVALID_RULES,
            ) from rejection
        texts = () if revisions else revision.texts
        files += revision.texts
        revisions.append(revision.without_content())
        overlays += sorted(overlays_among(each.name for each in revision.texts))
        for found_kind, ruleset in parsed.items():
            sets.setdefault(found_kind, ruleset)
    return Side(title, sets, tuple(revisions), tuple(overlays), texts=texts, files=files)


def title_of(source: Readable, revision: Revision) -> str:
    """`git main@9f1c2ab34d5e (rules)` for Git, else the store's URI and version."""
    uri = SourceUri.parse(source.uri)
    if uri.scheme.startswith("git"):
        return f"git {uri.query.get('ref', 'HEAD')}@{short_version(revision)} ({uri.query.get('path', '.')})"
    return f"{source.uri} @{short_version(revision)}"


def short_version(revision: Revision) -> str:
    """A commit in twelve characters; any other version as the store writes it."""
    return shortened(revision.version)


def shortened(version: str) -> str:
    """The same of a version alone."""
    return version[:12] if _HASH.fullmatch(version) else version
