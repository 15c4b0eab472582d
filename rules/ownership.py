"""Which team a resource and a file of rules belong to, and whether a change stays with its owner.

The owners stand in an order: the first whose globs match has the resource, or the file. Globs know upper and lower
case. What matches none belongs to nobody: everybody may change such a resource, and such a file may hold any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from sentinel_core.rules.diff import Change
from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.overlay import FOLDER
from sentinel_core.rules.registry import BY_DOCUMENT_KEY
from sentinel_core.rules.revision import Kind, SourceText
from sentinel_core.rules.source import Path, Source
from sentinel_core.rules.text import read_text


class Owner(Protocol):
    """One of `owners` of the settings."""

    @property
    def team(self) -> str: ...
    @property
    def resources(self) -> Sequence[str]: ...
    @property
    def paths(self) -> Sequence[str]: ...
    @property
    def actors(self) -> Sequence[str]: ...


Somebody = TypeVar("Somebody", bound=Owner)


@dataclass(frozen=True, slots=True)
class Trespass:
    """A change of what belongs to another team."""

    kind: Kind
    resource: str
    text: str
    """Who did what where, and whose it is."""
    file: str | None = None
    line: int | None = None


def owner_of(resource: str, owners: Iterable[Somebody]) -> Somebody | None:
    """Whose it is; None where it is nobody's."""
    return next((each for each in owners if _matches(resource, each.resources)), None)


def owner_of_path(name: str, owners: Iterable[Somebody]) -> Somebody | None:
    """The same of a file, called as texts are: the globs see it relative to the folder of the rules."""
    return next((each for each in owners if _matches(relative(name), each.paths)), None)


def relative(name: str) -> str:
    """`/srv/rules/payments.yaml` → `payments.yaml`, `rules/environments/prod.yaml` → `environments/prod.yaml`: a folder
    of rules has no other folders."""
    path = PurePosixPath(name)
    return f"{FOLDER}/{path.name}" if path.parent.name == FOLDER else path.name


def trespasses(
    changes: Iterable[Change], owners: Sequence[Owner], texts: Sequence[SourceText], author: str | None
) -> Iterator[Trespass]:
    """What changes that belongs to another team than the file it stands in, or than its author: a resource is told once
    a file. `texts` are those that the new rules were read from; `author` is whoever made the change, if known."""
    if not owners:
        return
    touched: dict[tuple[Kind, str], set[str]] = {}
    for change in changes:
        touched.setdefault((change.kind, change.resource), set()).add(change.action)
    writers = {text.name: owner_of_path(text.name, owners) for text in texts}
    theirs = {name: writer.team for name, writer in writers.items() if writer is not None}
    places = _places([text for text in texts if text.name in theirs], {resource for _, resource in touched})
    for (kind, resource), actions in touched.items():
        owner = owner_of(resource, owners)
        if owner is None:
            continue
        whose = f"{resource} ({kind}) belongs to {owner.team}"
        for name, line in places.get((kind, resource), ()):
            if theirs[name] != owner.team:
                where = f"{name}:{line}" if line else name
                yield Trespass(kind, resource, f"{whose}, and {where} is a file of {theirs[name]}", name, line)
        if "remove" in actions and theirs.keys() == writers.keys() != set() and owner.team not in theirs.values():
            teams = ", ".join(sorted(set(theirs.values())))
            yield Trespass(kind, resource, f"{whose}, and a rule of it is removed by files of {teams} alone")
        if owner.actors and not _matches(author or "", owner.actors):
            yield Trespass(kind, resource, f"{whose}, and {author or 'nobody known'} is not among its actors")


def _places(texts: Iterable[SourceText], wanted: set[str]) -> dict[tuple[Kind, str], list[tuple[str, int | None]]]:
    """Where rules of these resources stand: by kind and resource the file and the line, one a file."""
    found: dict[tuple[Kind, str], dict[str, int | None]] = {}
    for text in texts:
        try:
            source = read_text(text)
        except RuleRejected:  # an overlay of comments alone
            continue
        for kind, resource, path in _rules(source):
            if resource in wanted and text.name not in found.setdefault((kind, resource), {}):
                place = source.locate(path)
                found[kind, resource][text.name] = place[0] if place else None
    return {key: list(files.items()) for key, files in found.items()}


def _rules(source: Source) -> Iterator[tuple[Kind, str, Path]]:
    """Of a document; a bare list does not say its kind, so each of them is possible."""
    for key, model in BY_DOCUMENT_KEY.items():
        items, above = (source.data.get(key), (key,)) if isinstance(source.data, dict) else (source.data, ())
        resource = model.model_fields["resource"]
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                name = item.get("resource") if resource.is_required() else resource.default
                yield model.kind, str(name), (*above, index)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
