"""`sentinelctl rules rollback --open-revert`: what a rollback undid in a store, undone in Git as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit
from sentinel_core.cli.rules.committing import say_review
from sentinel_core.cli.rules.history import SHORT
from sentinel_core.cli.rules.restoring import Undone
from sentinel_core.cli.rules.sides import repository_uri
from sentinel_core.cli.stores import opened
from sentinel_core.datasources import GitSource
from sentinel_core.datasources.contract import (
    DatasourceError,
    Readable,
    SourceConflict,
    SourceMisconfigured,
)
from sentinel_core.masking import mask_text
from sentinel_core.publishing.adopt import one_line
from sentinel_core.publishing.standing import changes_between, sets_of
from sentinel_core.rules import KINDS, Kind, Provenance, Revision, RuleRejected, RuleSet, parse_revision
from sentinel_core.rules.draft import Unchangeable
from sentinel_core.rules.rewrite import rewrite
from sentinel_core.rules.three_way import Collision, merge_changes


@dataclass(frozen=True, slots=True)
class Revert:
    """A commit that waits on a branch of its own."""

    branch: str
    commit: str


def open_revert(app: App, store: Readable, undone: Sequence[Undone], reason: str | None) -> Revert | None:
    """Undoes in Git what leads from what is good to what is bad, on a new branch; what was committed besides stays.
    None where Git holds none of it, which is said. Raises CommandError: what was rolled back in the store stays rolled
    back."""
    before: dict[Kind, RuleSet] = {}
    after: dict[Kind, RuleSet] = {}
    commit: str | None = None
    for each in undone:
        was, comes = sets_of(each.bad, each.item.kinds), sets_of(each.good, each.item.kinds)
        if not was or not comes or not isinstance(each.bad, Revision):
            raise _not_opened("what was undone is not valid, so it is not known what to revert", Exit.ERROR)
        before |= was
        after |= comes
        commit = commit or each.bad.provenance.commit_hash
    with opened(app, repository_uri(app)) as git:
        if not isinstance(git, GitSource):
            raise TypeError(f"{git.uri} is no Git repository")
        try:
            commit = _known(git, commit)
            made = _reverted(git, before, after, commit, store.uri, reason)
        except (Collision, Unchangeable, RuleRejected) as error:
            raise _not_opened(str(error), Exit.CONFLICT) from error
        except DatasourceError as error:
            code = Exit.CONFLICT if isinstance(error, SourceConflict) else Exit.ERROR
            raise _not_opened(str(error), code) from error
        if made is None:
            app.out.say(f"{git.uri} holds nothing of what was undone; there is nothing to revert.")
            return None
        app.out.say(f"Reverted on the new branch {made.branch} ({made.commit[:SHORT]}).")
        _say_push(app, git, made.branch)
        return made


def _known(git: GitSource, commit: str | None) -> str | None:
    """The commit, where it is one of this repository."""
    if commit is not None:
        try:
            git.at(git.items(KINDS)[0], commit)
        except SourceMisconfigured:
            return None
    return commit


def _reverted(
    git: GitSource,
    before: Mapping[Kind, RuleSet],
    after: Mapping[Kind, RuleSet],
    commit: str | None,
    store: str,
    reason: str | None,
) -> Revert | None:
    undone = _undone(before, after)
    if not undone:
        return None
    first, _ = next(iter(undone.values()))
    branch = f"revert-{(commit or first.digest)[:SHORT]}"
    for item in git.items(tuple(undone)):
        reading = git.read(item)
        if not isinstance(reading, Revision):
            continue
        stands = parse_revision(reading, item.kinds)
        wanted = {
            kind: merge_changes(bad, good, stands.get(kind, RuleSet.empty(kind)))
            for kind, (bad, good) in undone.items()
            if kind in item.kinds
        }
        wanted = {kind: rules for kind, rules in wanted.items() if kind in stands or rules.rules}
        texts = rewrite(reading.texts, wanted, item.kinds)
        if texts != reading.texts:
            facts = _facts(stands, wanted, commit, store, reason)
            made = git.commit(item, texts, expected=reading.version, provenance=facts, branch=branch)
            return Revert(branch, made.version)
    return None


def _undone(before: Mapping[Kind, RuleSet], after: Mapping[Kind, RuleSet]) -> dict[Kind, tuple[RuleSet, RuleSet]]:
    """By kind what was replaced, and by what; a document may have lost the whole section of a kind, or got it."""
    pairs = {
        kind: (before.get(kind, RuleSet.empty(kind)), after.get(kind, RuleSet.empty(kind)))
        for kind in KINDS
        if kind in before or kind in after
    }
    return {kind: (bad, good) for kind, (bad, good) in pairs.items() if bad.digest != good.digest}


def _facts(
    stands: Mapping[Kind, RuleSet], wanted: Mapping[Kind, RuleSet], commit: str | None, store: str, reason: str | None
) -> Provenance:
    changed: Sequence[str] = list(dict.fromkeys(str(change["rule"]) for change in changes_between(stands, wanted)))
    lines = [
        f"Revert rules{f' of {commit[:SHORT]}' if commit else ''}",
        "",
        f"They were rolled back in {store}.",
        *(f"~ {one_line(rule)}" for rule in changed),
    ]
    return Provenance(
        channel="cli", message=mask_text("\n".join(lines)), reason=reason and mask_text(reason), rollback_of=commit
    )


def _not_opened(why: str, code: Exit) -> CommandError:
    return CommandError(
        f"the rollback in the store stands, but no revert was opened: {why}",
        next_step="revert it in Git by hand, or: sentinelctl rules import --branch NAME",
        code=code,
    )


def _say_push(app: App, git: GitSource, branch: str) -> None:
    if git.folder is not None:
        say_review(app, git.folder, branch)
    else:
        app.out.say(f"It is pushed; open the request for {branch}.")
