"""Which key holds which kind, and how a source is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel_core.datasources.contract import Item, SourceMisconfigured
from sentinel_core.datasources.names import data_id
from sentinel_core.rules import Kind

NAMESPACE, GROUP = "public", "SENTINEL_GROUP"
TEMPLATE = "/sentinel/{namespace}/{group}/{dataId}"
PROVENANCE_SUFFIX = ".provenance"
_PLACES = ("namespace", "group", "dataId", "kind")


@dataclass(frozen=True, slots=True)
class Keys:
    """Immutable."""

    namespace: str
    group: str
    template: str
    kind: Kind | None
    """The only kind that is kept there; None: all."""
    shown: str
    environment: str

    @classmethod
    def of(cls, path: str, template: str | None, kind: str | None, shown: str, environment: str) -> Keys:
        """`path` is `/namespace/group` of the URI, both optional. Raises SourceMisconfigured."""
        parts = [part for part in path.split("/") if part]
        if len(parts) > 2:
            raise SourceMisconfigured(
                f"{shown}: the path is /namespace/group; for other keys write "
                "&template=/any/{namespace}/{group}/{dataId}"
            )
        namespace, group = (*parts, *(NAMESPACE, GROUP)[len(parts) :])
        keys = cls(namespace, group, template or TEMPLATE, kind, shown, environment)
        if "{dataId}" not in keys.template and "{kind}" not in keys.template:
            raise SourceMisconfigured(f"{shown}: template has neither {{dataId}} nor {{kind}}: kinds would share a key")
        left = keys.key("flow")
        if "{" in left or "}" in left:
            raise SourceMisconfigured(f"{shown}: template may hold {', '.join(f'{{{name}}}' for name in _PLACES)} only")
        return keys

    def key(self, kind: Kind) -> str:
        text = self.template
        for name, value in zip(_PLACES, (self.namespace, self.group, data_id(kind), kind), strict=True):
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
        return Item(key, f"/{self.environment}/etcd/{key.lstrip('/')}", (kind,))


def pair(key: str) -> tuple[bytes, bytes]:
    """The key of a content and that of its provenance, as etcd takes them."""
    return key.encode(), f"{key}{PROVENANCE_SUFFIX}".encode()
