"""How items are called in stores: `sentinel-<kind>-rules`, and which format a file name stands for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from sentinel_core.rules import Kind, SourceText

DOCUMENT_NAME = "sentinel-rules.yaml"
YAML_SUFFIXES = (".yaml", ".yml")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def data_id(kind: Kind) -> str:
    """`param_flow` → `sentinel-param-flow-rules`."""
    return f"sentinel-{kind.replace('_', '-')}-rules"


def kind_of(name: str) -> Kind | None:
    """The kind a file or dataId is named after; None when the name does not say."""
    stem = PurePath(name).stem
    if not (stem.startswith("sentinel-") and stem.endswith("-rules")):
        return None
    kind = stem.removeprefix("sentinel-").removesuffix("rules").rstrip("-").replace("-", "_")
    return kind or None


def is_rule_file(name: str) -> bool:
    """Whether a file of a folder counts: YAML or JSON, neither hidden nor an editor's temporary file."""
    return not name.startswith((".", "#", "~")) and PurePath(name).suffix.lower() in {*YAML_SUFFIXES, ".json"}


def format_of(name: str) -> str:
    """`json` or `yaml`, by suffix; a name without a telling suffix is YAML."""
    return "json" if PurePath(name).suffix.lower() == ".json" else "yaml"


def is_blank(content: bytes) -> bool:
    """Zero bytes, white space, or a byte order mark alone."""
    return not content.removeprefix(_BYTE_ORDER_MARK).strip()


def has_blank(texts: Iterable[SourceText]) -> bool:
    """Whether one of them is blank: what they are part of says nothing, and is passed over."""
    return any(is_blank(text.content) for text in texts)
