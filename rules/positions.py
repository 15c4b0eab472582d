"""Where rules and their fields stand in their texts, for who points at them."""

from __future__ import annotations

from collections.abc import Sequence

from sentinel_core.rules.build import Listing
from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.parse import collect, parse_revision
from sentinel_core.rules.revision import Kind, Revision, SourceText
from sentinel_core.rules.source import DEFAULT_LIMITS


class Positions:
    """Of the rules of some texts; of texts that are not valid, none."""

    def __init__(self, texts: Sequence[SourceText], kinds: Sequence[Kind]) -> None:
        self.first_file = texts[0].name if texts else None
        self._rules: dict[str, tuple[Listing, int]] = {}
        self._resources: dict[tuple[Kind, str], tuple[Listing, int]] = {}
        try:
            sets = parse_revision(Revision(tuple(texts), "document", ""), kinds)
        except RuleRejected:
            return
        for kind, listings in collect(texts, kinds, DEFAULT_LIMITS)[0].items():
            origins = [(listing, index) for listing in listings for index in range(len(listing.items))]
            rules = sets[kind].rules if kind in sets else ()
            for rule, origin in zip(rules, origins if len(origins) == len(rules) else (), strict=False):
                self._rules.setdefault(rule.path, origin)
                self._resources.setdefault((kind, rule.resource), origin)

    def of_rule(self, path: str, field: str | None = None) -> Problem | None:
        """Of a rule named by its path, or of a field of it: in the overlay where that writes it, else in the base."""
        return _at(self._rules.get(path), field)

    def of_resource(self, kind: Kind, resource: str) -> Problem | None:
        """Of the first rule of a resource."""
        return _at(self._resources.get((kind, resource)), None)


def _at(origin: tuple[Listing, int] | None, field: str | None) -> Problem | None:
    """A problem that says nothing but where it stands."""
    if origin is None:
        return None
    listing, index = origin
    steps = field.split(".") if field else ()
    return listing.source.problem("", "warning", "", (*listing.prefix, index, *steps))
