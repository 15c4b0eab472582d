"""`sentinelctl rules import`."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, env_option, output_options, pass_app
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.asking import confirm
from sentinel_core.cli.rules.committing import committed, say_push
from sentinel_core.cli.rules.inputs import STDIN, Part, given_or_default, read_revisions, read_variants
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.cli.rules.proposing import one_store
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.text import Span, Styled
from sentinel_core.datasources import mask_uri
from sentinel_core.datasources.atomic import replace_file
from sentinel_core.datasources.contract import Written
from sentinel_core.masking import mask_text
from sentinel_core.publishing.adopt import author_of, commit_facts
from sentinel_core.publishing.standing import changes_between
from sentinel_core.rules import Kind, Revision, RuleRejected, RuleSet, SourceText, parse_revision
from sentinel_core.rules.draft import Unchangeable
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.rules.rewrite import rewrite

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Taken:
    """What an import would write."""

    store: str
    """URI without credentials."""
    old: tuple[SourceText, ...]
    new: tuple[SourceText, ...]
    changes: Sequence[Mapping[str, Any]]
    revisions: tuple[Revision, ...]
    """Of the store, of the kinds that differ."""

    @property
    def files(self) -> list[tuple[SourceText, SourceText]]:
        return [(before, after) for before, after in zip(self.old, self.new, strict=True) if before != after]


@click.command("import")
@click.argument("path", required=False, metavar="[PATH]")
@click.option("--store", metavar="URI", help="Store to read (default: the only one of the settings).")
@kind_option("Take over this kind only.")
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@click.option("--commit", is_flag=True, help="Commit it to the branch that is checked out.")
@click.option("--branch", type=WORDS, metavar="NAME", help="Commit it to a new branch; no file is touched.")
@click.option("--reason", type=WORDS, metavar="TEXT", help="Why; goes into the message of the commit.")
@env_option
@output_options
@pass_app
def import_(
    app: App,
    path: str | None,
    store: str | None,
    kind: Kind | None,
    dry_run: bool,
    commit: bool,
    branch: str | None,
    reason: str | None,
) -> int:
    """Write what a store holds back into the YAML of the repository.

    PATH is a file or folder (default: `rules` of the settings). Only what differs is touched: comments, order, quotes
    and layout stay. A rule stays in its file; of a folder, a field is changed in the environment's overlay where that
    writes it, else in the base. A kind that the store does not hold stays as it is.

    \b
    sentinelctl rules import --dry-run              what an edit in the console means in Git
    sentinelctl rules import --commit               the same as a commit, by whom the store names
    sentinelctl rules import --branch from-console  on a new branch, to be reviewed
    """
    (where,) = given_or_default(app, (path,) if path else ())
    if where == STDIN or "://" in where:
        raise UsageProblem("rules are imported into files", next_step="name a file or folder of the repository")
    uri = one_store(app, store)
    standing = resolve(app, uri, kind)
    parts = read_revisions(where, kind, app.environment)
    base = committed(app, where, parts) if commit or branch is not None else None
    if base is not None and branch is not None:
        base.check_new(branch)
    taken = taken_over(app, mask_uri(uri), standing, parts if base is None else [(base.revision, parts[0][1])])
    if not taken.files:
        app.out.show(_view(taken, None, None))
        app.out.say(f"Nothing to do: {where} says what stands in the store.")
        return Exit.DONE
    _say_reach(app, where, kind, taken)
    if dry_run:
        app.out.show(_view(taken, None, branch, is_dry=True))
        app.out.say("Dry run: nothing was written. The same without --dry-run does it.")
        return Exit.DONE
    for line in _diff(taken):
        app.out.say(*line)
    confirm(app, _question(taken, branch, is_commit=base is not None), "")
    written = None
    if base is not None:
        facts = commit_facts(taken.store, taken.changes, taken.revisions, reason)
        written = base.commit(taken.new, facts, author_of(taken.revisions), branch)
    else:
        _check_unchanged(app, where, kind, taken)
        for _, text in taken.files:
            _replace(Path(text.name), text.content)
    app.out.show(_view(taken, written, branch))
    if written is not None and branch is not None:
        say_push(app, where, branch)
    return Exit.DONE


def taken_over(app: App, store: str, standing: Side, parts: Sequence[Part]) -> Taken:
    """The texts with the rules of a store. Raises CommandError where that cannot be written."""
    old: list[SourceText] = []
    new: list[SourceText] = []
    before: dict[Kind, RuleSet] = {}
    for revision, kinds in parts:
        sets = {kind: standing.sets[kind] for kind in kinds if kind in standing.sets}
        try:
            stands = parse_revision(revision, kinds)
            after = rewrite(revision.texts, sets, kinds)
        except RuleRejected as rejection:
            raise CommandError(
                f"the rules of {revision.source} are not valid; nothing was changed\n{rejection}",
                next_step="mend them first: sentinelctl rules validate",
                code=Exit.INVALID_RULES,
            ) from rejection
        except Unchangeable as error:
            raise CommandError(
                f"{error}; nothing was changed", next_step="make this change by hand, then import again"
            ) from error
        before |= stands
        old += revision.texts
        new += after
    for kind in (kind for kind, rules in before.items() if kind not in standing.sets and rules.rules):
        app.out.say(f"note: no {kind} rules stand in the store; those of the files stay")
    known = {kind for _, kinds in parts for kind in kinds}
    for kind in standing.sets.keys() - known:
        app.out.say(f"note: {kind} rules stand in the store and have no file here; left out")
    sets = {kind: rules for kind, rules in standing.sets.items() if kind in known}
    differ = [rules for kind, rules in sets.items() if kind not in before or before[kind].digest != rules.digest]
    revisions = tuple(dict.fromkeys(rules.revision for rules in differ if rules.revision is not None))
    return Taken(store, tuple(old), tuple(new), changes_between(before, sets), revisions)


def _say_reach(app: App, path: str, kind: Kind | None, taken: Taken) -> None:
    """Where the changes land, and whom else they concern: the base is common to all environments."""
    overlays = overlays_among(text.name for text in taken.old)
    if not (Path(path) / "environments").is_dir():
        return
    for before, _ in taken.files:
        whose = "the overlay" if before.name in overlays else "the base, common to all environments"
        app.out.say(f"{before.name}: {whose}")
    changed = {Path(after.name).name: after for before, after in taken.files if before.name not in overlays}
    for revision, kinds in read_variants(path, kind):
        laid_over = overlays_among(text.name for text in revision.texts)
        if not laid_over or {Path(name).name for name in laid_over} & {Path(name).name for name in overlays}:
            continue
        texts = tuple(
            SourceText(text.name, changed[Path(text.name).name].content, text.format)
            if text.name not in laid_over and Path(text.name).name in changed
            else text
            for text in revision.texts
        )
        _say_other(app, revision, texts, kinds, "".join(laid_over))


def _say_other(app: App, revision: Revision, texts: tuple[SourceText, ...], kinds: Sequence[Kind], name: str) -> None:
    environment = Path(name).stem
    try:
        before = parse_revision(revision, kinds)
    except RuleRejected:
        return  # it was not valid before
    try:
        after = parse_revision(Revision(texts, revision.source, ""), kinds)
    except RuleRejected as rejection:
        raise CommandError(
            f"in the environment {environment} the rules would not be valid any more; nothing was changed\n{rejection}",
            next_step=f"change {name} first, or make this change by hand",
            code=Exit.INVALID_RULES,
        ) from rejection
    rules = dict.fromkeys(str(change["rule"]) for change in changes_between(before, after))
    if rules:
        app.out.say(f"note: this changes the environment {environment}, too: {', '.join(rules)}")


def _question(taken: Taken, branch: str | None, *, is_commit: bool) -> str:
    if branch is not None:
        return f"Commit this to the new branch {branch}?"
    names = ", ".join(after.name for _, after in taken.files)
    return f"Commit this to {names}?" if is_commit else f"Write this into {names}?"


def _check_unchanged(app: App, path: str, kind: Kind | None, taken: Taken) -> None:
    """Somebody may have edited the files while the question stood."""
    now = {text.name: text.content for part, _ in read_revisions(path, kind, app.environment) for text in part.texts}
    read = {text.name: text.content for text in taken.old}
    if changed := sorted(name for name in now.keys() | read.keys() if now.get(name) != read.get(name)):
        raise CommandError(
            f"{changed[0]} was changed meanwhile; nothing was written",
            next_step="import again, on top of that change",
            code=Exit.CONFLICT,
        )


def _replace(path: Path, content: bytes) -> None:
    target = path.resolve()
    try:
        replace_file(target, content, mode=stat.S_IMODE(target.stat().st_mode))
    except OSError as error:
        raise CommandError(
            f"{path}: cannot be written: {error.strerror}", next_step="check its permissions, then import again"
        ) from error


def _diff(taken: Taken) -> Iterator[Sequence[Span]]:
    """As Git shows it, without credentials."""
    for before, after in taken.files:
        old, new = (text.content.decode().splitlines() for text in (before, after))
        for line in difflib.unified_diff(old, new, before.name, after.name, lineterm=""):
            colour, text = _COLOURS.get(line[:1]), mask_text(line)
            yield (Styled(text, colour) if colour else text,)


def _view(taken: Taken, written: Written | None, branch: str | None, *, is_dry: bool = False) -> View:
    names = [after.name for _, after in taken.files]
    document = {
        "store": taken.store,
        "files": names,
        "changes": taken.changes,
        "commit": written.version if written else None,
        "branch": branch,
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if is_dry:
            yield from _diff(taken)
        elif written is not None:
            yield (f"Committed as {written.version[:12]}{f' on the new branch {branch}' if branch else ''}.",)
        else:
            yield from ((f"written {name}",) for name in names)

    return View(document=document, items=taken.changes, names=names, lines=lines)
