"""One environment's differences from the base: `environments/<env>.yaml` laid over the documents beside it.

Every rule of an overlay names a rule of the base and changes the fields that it writes (null takes a field back to its
default), or removes the rule with `$delete: true`, or, where no such rule is, adds one. `[]` changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sentinel_core.rules.build import Listing
from sentinel_core.rules.errors import Problem, Severity
from sentinel_core.rules.registry import BY_DOCUMENT_KEY
from sentinel_core.rules.revision import Kind
from sentinel_core.rules.rule import DEFAULT_APP, Rule
from sentinel_core.rules.source import Path, Source

FOLDER = "environments"
DELETE = "$delete"
_TELLING = ("grade", "strategy", "refResource", "bizMetricType", "paramIdx")
"""Fields that tell the rules of one resource apart; an overlay needs to write them only where there are several."""

Item = dict[str, Any]


def overlays_among(names: Iterable[str]) -> frozenset[str]:
    """The texts that are laid over the others: those in a folder `environments` beside one of the others."""
    paths = {name: PurePosixPath(name) for name in names}
    folders = {path.parent for path in paths.values()}
    return frozenset(
        name for name, path in paths.items() if path.parent.name == FOLDER and path.parent.parent in folders
    )


@dataclass(frozen=True, slots=True)
class _Moved(Source):
    """A text of which some rules were changed elsewhere or left out: keeps saying where everything stands."""

    prefix: Path = ()
    places: tuple[int, ...] = ()
    """For each rule that is left: its index in the text."""
    patches: Mapping[int, tuple[Source, Path, Item]] = field(default_factory=dict)
    """Index in the text → (overlay, path of the patch there, patch)."""

    def problem(
        self, code: str, severity: Severity, message: str, path: Path = (), *, at_key: bool = False, **about: Any
    ) -> Problem:
        depth = len(self.prefix)
        if len(path) > depth and isinstance(index := path[depth], int):
            place, rest = self.places[index], path[depth + 1 :]
            overlay, at, patch = self.patches.get(place, (None, (), {}))
            if overlay is not None and rest and rest[0] in patch:
                return overlay.problem(code, severity, message, (*at, *rest), at_key=at_key, **about)
            path = (*self.prefix, place, *rest)
        return Source.problem(self, code, severity, message, path, at_key=at_key, **about)


def places_of(listing: Listing, index: int) -> list[tuple[str, Path]]:
    """Where a rule of a list is written, text and path in it: where it stands, then the overlay's patch of it."""
    source = listing.source
    if not isinstance(source, _Moved):
        return [(source.name, (*listing.prefix, index))]
    place = source.places[index]
    overlay, at, _ = source.patches.get(place, (None, (), {}))
    return [(source.name, (*source.prefix, place)), *([(overlay.name, at)] if overlay is not None else [])]


@dataclass(slots=True)
class _Base:
    """One list of the base while it is changed."""

    listing: Listing
    items: list[Any]
    gone: set[int] = field(default_factory=set)
    patches: dict[int, tuple[Source, Path, Item]] = field(default_factory=dict)

    def result(self) -> Listing:
        places = tuple(place for place in range(len(self.items)) if place not in self.gone)
        return _moved(self.listing, [self.items[place] for place in places], places, self.patches)


def _moved(
    listing: Listing, items: list[Any], places: tuple[int, ...], patches: Mapping[int, tuple[Source, Path, Item]]
) -> Listing:
    source = listing.source
    moved = _Moved(
        source.name, source.data, source.dialect, source.locate, prefix=listing.prefix, places=places, patches=patches
    )
    return Listing(moved, listing.prefix, items)


def lay_over(listings: dict[Kind, list[Listing]], overlay: Source) -> list[Problem]:
    """Changes `listings` by the overlay's document; returns what is wrong with it."""
    problems: list[Problem] = []
    for key, patches in overlay.data.items():
        model = BY_DOCUMENT_KEY.get(key)
        if model is None:
            continue  # reported with the sections of every document
        if not isinstance(patches, list) or not all(isinstance(patch, dict) for patch in patches):
            problems.append(overlay.problem("SR010", "error", f"{key} needs a list of rules", (key,), kind=model.kind))
            continue
        problems += _lay_over_kind(model, listings, Listing(overlay, (key,), patches))
    return problems


def _lay_over_kind(model: type[Rule], listings: dict[Kind, list[Listing]], overlay: Listing) -> list[Problem]:
    untouched = [listing for listing in listings.get(model.kind, []) if not isinstance(listing.items, list)]
    bases = [_Base(each, list(each.items)) for each in listings.get(model.kind, []) if isinstance(each.items, list)]
    added: list[int] = []
    problems = []
    for index, patch in enumerate(overlay.items):
        wrong = _apply(model, bases, overlay, index, added)
        if wrong:
            resource = patch.get("resource")
            problems.append(
                overlay.source.problem(
                    "SR115",
                    "error",
                    wrong,
                    (*overlay.prefix, index),
                    kind=model.kind,
                    index=index,
                    resource=resource if isinstance(resource, str) else None,
                )
            )
    listings[model.kind] = [*untouched, *(base.result() for base in bases)]
    if added:
        listings[model.kind].append(_moved(overlay, [overlay.items[index] for index in added], tuple(added), {}))
    listings[model.kind] = listings[model.kind] or [Listing(overlay.source, overlay.prefix, [])]
    return problems


def _apply(model: type[Rule], bases: list[_Base], overlay: Listing, index: int, added: list[int]) -> str | None:
    """Makes one patch; returns why it cannot be made."""
    patch = overlay.items[index]
    delete = patch.get(DELETE, False)
    if delete is not True and DELETE in patch:
        return f"{DELETE} can only be true"
    found = [
        (base, place)
        for base in bases
        for place, item in enumerate(base.items)
        if place not in base.gone and isinstance(item, dict) and names_rule(model, patch, item)
    ]
    if len(found) > 1:
        return f"the base has {len(found)} such rules; write {', '.join(_telling(model))} to tell which is meant"
    if not found:
        added += [] if delete else [index]
        return "the base has no such rule to delete" if delete else None
    base, place = found[0]
    if delete:
        base.gone.add(place)
    else:
        base.items[place] = merge_patch(base.items[place], patch)
        base.patches[place] = (overlay.source, (*overlay.prefix, index), patch)
    return None


def _telling(model: type[Rule]) -> list[str]:
    return [name for name in _TELLING if name in model.fields_by_alias()]


def names_rule(model: type[Rule], patch: Item, item: Item) -> bool:
    """Whether a patch speaks of this rule of the base."""
    if patch.get("id") is not None and item.get("id") is not None:
        return bool(patch["id"] == item["id"])
    if patch.get("resource") != item.get("resource"):
        return False
    if (patch.get("limitApp") or DEFAULT_APP) != (item.get("limitApp") or DEFAULT_APP) and model.kind != "authority":
        return False
    return all(_value(model, patch, name) == _value(model, item, name) for name in _telling(model) if name in patch)


def _value(model: type[Rule], item: Item, name: str) -> Any:
    """A field as a number, its default where it is not written."""
    value = item.get(name)
    if value is None:
        return model.fields_by_alias()[name].default
    return model.names.get(name, {}).get(value, value) if isinstance(value, str) else value


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
