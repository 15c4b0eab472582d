"""A commit of rules in the repository around files: on the branch that is checked out, or on a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sentinel_core import datasources
from sentinel_core.cli import git
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.rules.inputs import Part
from sentinel_core.datasources import GitSource
from sentinel_core.datasources.contract import Item, Written
from sentinel_core.datasources.git.commit import Author
from sentinel_core.rules import Provenance, Revision, SourceText


@dataclass(frozen=True, slots=True)
class Committed:
    """What the last commit holds of some files."""

    source: GitSource
    item: Item
    revision: Revision

    def check_new(self, branch: str) -> None:
        """Raises SourceMisconfigured for what is no name of a branch, SourceConflict where it exists."""
        self.source.check_new(branch)

    def commit(
        self, texts: Sequence[SourceText], facts: Provenance, author: Author | None, branch: str | None
    ) -> Written:
        """On top of it. Raises SourceConflict where somebody else has committed since, or the new branch exists."""
        return self.source.commit(
            self.item, texts, expected=self.revision.version, provenance=facts, author=author, branch=branch
        )


def committed(app: App, path: str, parts: Sequence[Part]) -> Committed:
    """Of a path, whose files are `parts`. Raises CommandError where they are not as they were committed."""
    if len(parts) > 1:
        raise UsageProblem(
            f"{path} is several JSON lists, and a commit is made of one file or document",
            next_step="leave --commit and --branch away, then: git commit",
        )
    (files, kinds) = parts[0]
    source = _repository(app, path)
    (item,) = source.items(kinds)
    reading = source.read(item)
    if not isinstance(reading, Revision):
        raise _not_committed(path)
    _check_clean(path, files.texts, reading.texts)
    return Committed(source, item, reading)


def _repository(app: App, path: str) -> GitSource:
    top = git.top_of(Path(path))
    if top is None or not git.is_tracked(top, Path(path)):
        raise _not_committed(path)
    name = quote(Path(path).resolve().relative_to(top).as_posix())
    source = datasources.open(f"git+file://{quote(str(top))}?ref=HEAD&path={name}", environment=app.environment)
    if not isinstance(source, GitSource):
        raise TypeError(f"{source.uri} is no Git repository")
    return source


def _not_committed(path: str) -> CommandError:
    return UsageProblem(
        f"{path} is not committed in a Git repository",
        next_step="commit it first, or leave --commit and --branch away",
    )


def _check_clean(path: str, files: Sequence[SourceText], there: Sequence[SourceText]) -> None:
    named = Path(path) if Path(path).is_dir() else Path(path).resolve()  # a link is committed as what it leads to
    here = {Path(text.name).name if named.is_dir() else named.name: _lines(text) for text in files}
    known = {Path(text.name).name: _lines(text) for text in there}
    if dirty := sorted(name for name in here.keys() | known.keys() if here.get(name) != known.get(name)):
        raise CommandError(
            f"{path}: {dirty[0]} has changes that are not committed; nothing was changed",
            next_step="commit or discard them, or leave --commit and --branch away",
            code=Exit.CONFLICT,
        )


def _lines(text: SourceText) -> bytes:
    """Git may be set to write other line ends into a work tree than into a commit."""
    return text.content.replace(b"\r\n", b"\n")


def say_push(app: App, path: str, branch: str) -> None:
    """What is left to do with a new branch."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    say_review(app, folder, branch)


def say_review(app: App, folder: Path, branch: str) -> None:
    """How others see a branch of a repository of this machine."""
    push = git.push_of(folder, branch)
    seen = f"git -C {folder} show {branch}    (the repository has no remote to push it to)"
    app.out.say(f"To have it reviewed: {push or seen}")
