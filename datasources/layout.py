"""How rules lie in a file tree, on disk or in Git: one YAML document, a folder of them with an overlay for each
environment in `environments/`, or one JSON list per kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.datasources.names import YAML_SUFFIXES, data_id, format_of, is_rule_file, kind_of
from sentinel_core.rules import Kind
from sentinel_core.rules.overlay import FOLDER as OVERLAYS
from sentinel_core.rules.overlay import overlays_among

MAX_BYTES = 64 * 1024 * 1024
"""More than this in one item is refused unread: no rule set is that large, and a wrong path often is."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`kind` says what a JSON list holds when its file name does not."""

    path: PurePath
    kind: Kind | None
    is_json: bool
    overlays: tuple[str, ...]
    """Where, below a folder of documents, this environment's overlay may stand."""

    @classmethod
    def of(
        cls,
        path: PurePath,
        kind: Kind | None,
        format: str | None,  # noqa: A002 - the option's name
        environment: str,
    ) -> Layout:
        """`format="json"` reads a folder of `sentinel-<kind>-rules.json`; a `.json` file needs nothing said."""
        is_json = format == "json" or kind is not None or format_of(path.name) == "json"
        return cls(path, kind, is_json, () if is_json else overlay_names(environment))

    @property
    def format(self) -> str:
        return "json" if self.is_json else "yaml"

    def keys(self, kinds: Sequence[Kind], shown: str) -> Sequence[tuple[str, tuple[Kind, ...]]]:
        """What is read as a whole, with the kinds it may carry. Raises SourceMisconfigured, naming `shown`."""
        if not self.is_json:
            return ((str(self.path), tuple(kinds)),)
        if self.kind is None and format_of(self.path.name) != "json":
            return tuple((str(self.path / f"{data_id(kind)}.json"), (kind,)) for kind in kinds)
        kind = self.kind or kind_of(self.path.name)
        if kind is None:
            raise SourceMisconfigured(
                f"{shown}: the name does not say which kind the JSON list holds; add ?kind=flow (or another kind) "
                f"or call the file {data_id('flow')}.json"
            )
        if kind not in kinds:
            raise SourceMisconfigured(f"{shown} holds {kind} rules, but {', '.join(kinds) or 'nothing'} is asked for")
        return ((str(self.path), (kind,)),)

    def places(self, names: Iterable[str], shown: str) -> dict[str, str]:
        """Where texts of these names are written, below the folder. Raises SourceMisconfigured, naming `shown`."""
        known = tuple(names)
        laid_over = overlays_among(known)
        places = {
            name: f"{OVERLAYS}/{PurePath(name).name}" if name in laid_over else PurePath(name).name for name in known
        }
        for name in laid_over:
            if places[name] not in self.overlays:
                raise SourceMisconfigured(f"{shown}: {name} is the overlay of another environment; open that one")
        return places


def overlay_names(environment: str) -> tuple[str, ...]:
    """`environments/prod.yaml` and `.yml`; none for an environment that cannot be a file's name."""
    if PurePath(environment).name != environment or not environment.isprintable():
        return ()
    return tuple(f"{OVERLAYS}/{environment}{suffix}" for suffix in YAML_SUFFIXES)


def one_overlay(found: Sequence[str], folder: str) -> None:
    """Raises SourceMisconfigured where an environment has two."""
    if len(found) > 1:
        raise SourceMisconfigured(f"{folder}: {' and '.join(found)} are of the same environment; keep one")


def documents(names: Iterable[str], folder: str) -> list[str]:
    """The files of a folder that make up its document, sorted. JSON among them is refused, not passed over."""
    found = sorted(name for name in names if is_rule_file(name))
    for name in found:
        if not _is_text(name):
            raise SourceMisconfigured(f"{folder}: the name of {os.fsencode(name)!r} is not UTF-8; rename the file")
    lists = [name for name in found if format_of(name) == "json"]
    if lists:
        raise SourceMisconfigured(
            f"{folder}: {lists[0]} is JSON in a folder of YAML documents; open the folder with ?format=json, "
            "or take the file away"
        )
    return found


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_size(size: int, shown: str) -> None:
    if size > MAX_BYTES:
        raise SourceMisconfigured(f"{shown} holds more than {MAX_BYTES // 2**20} MiB; is it the right path?")


def parse_format(text: str) -> str:
    """The query parameter `format`."""
    if text not in {"yaml", "json"}:
        raise ValueError(f"{text!r} is neither yaml nor json")
    return text
