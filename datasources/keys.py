"""A key a kind, for stores that keep lists under keys: made from a template, and back to items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentinel_core.datasources.contract import Item, SourceMisconfigured
from sentinel_core.datasources.names import data_id
from sentinel_core.rules import Kind

NAMESPACE, GROUP = "public", "SENTINEL_GROUP"
PROVENANCE_SUFFIX = ".provenance"


@dataclass(frozen=True, slots=True)
class Keys:
    """Immutable."""

    template: str
    """With `{dataId}` or `{kind}`, and the names of `places`."""
    places: Mapping[str, str]
    kind: Kind | None
    """The only kind that is kept there; None: all."""
    shown: str
    """The source, for messages."""
    source: str
    """What stands before the key in the id of an item."""

    def __post_init__(self) -> None:
        if "{dataId}" not in self.template and "{kind}" not in self.template:
            raise SourceMisconfigured(
                f"{self.shown}: template has neither {{dataId}} nor {{kind}}: kinds would share a key"
            )
        left = self.key("flow")
        if "{" in left or "}" in left:
            known = ", ".join(f"{{{name}}}" for name in (*self.places, "dataId", "kind"))
            raise SourceMisconfigured(f"{self.shown}: template may hold {known} only")

    def key(self, kind: Kind) -> str:
        text = self.template
        for name, value in {**self.places, "dataId": data_id(kind), "kind": kind}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def items(self, kinds: Sequence[Kind]) -> tuple[Item, ...]:
        """One a kind. Raises SourceMisconfigured where the one kind that is kept is not asked for."""
        if self.kind is not None and self.kind not in kinds:
            raise SourceMisconfigured(
                f"{self.shown} holds {self.kind} rules, but {', '.join(kinds) or 'nothing'} is asked for"
            )
        return tuple(self._item(kind) for kind in ((self.kind,) if self.kind else kinds))

    def _item(self, kind: Kind) -> Item:
        key = self.key(kind)
        return Item(key, f"{self.source}/{key.lstrip('/')}", (kind,))
