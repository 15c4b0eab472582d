"""Which key holds which kind, and how a source is called."""

from __future__ import annotations

from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.datasources.keys import GROUP, NAMESPACE, PROVENANCE_SUFFIX, Keys

TEMPLATE = "/sentinel/{namespace}/{group}/{dataId}"


def keys_of(path: str, template: str | None, kind: str | None, shown: str, environment: str) -> Keys:
    """`path` is `/namespace/group` of the URI, both optional. Raises SourceMisconfigured."""
    parts = [part for part in path.split("/") if part]
    if len(parts) > 2:
        raise SourceMisconfigured(
            f"{shown}: the path is /namespace/group; for other keys write "
            "&template=/any/{namespace}/{group}/{dataId}"
        )
    namespace, group = (*parts, *(NAMESPACE, GROUP)[len(parts) :])
    places = {"namespace": namespace, "group": group}
    return Keys(template or TEMPLATE, places, kind, shown, f"/{environment}/etcd")


def pair(key: str) -> tuple[bytes, bytes]:
    """The key of a content and that of its provenance, as etcd takes them."""
    return key.encode(), f"{key}{PROVENANCE_SUFFIX}".encode()
