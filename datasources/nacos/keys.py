"""Which dataId holds which kind, and how a source is called."""

from __future__ import annotations

import re

from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.datasources.keys import PROVENANCE_SUFFIX, Keys
from sentinel_core.datasources.nacos.target import Target

TEMPLATE = "{dataId}"
_DATA_ID = re.compile(r"[\w.:-]+", re.ASCII)
"""What servers of all versions take."""


def keys_of(target: Target, template: str | None, kind: str | None, shown: str, environment: str) -> Keys:
    """Raises SourceMisconfigured."""
    places = {"namespace": target.namespace, "group": target.group}
    source = f"/{environment}/nacos/{target.namespace}/{target.group}"
    keys = Keys(template or TEMPLATE, places, kind, shown, source)
    if not _DATA_ID.fullmatch(keys.key("flow")):
        raise SourceMisconfigured(
            f"{shown}: template gives {keys.key('flow')}, but a dataId is made of letters, digits and - _ . : alone"
        )
    return keys


def provenance_of(data_id: str) -> str:
    """The dataId beside one that holds rules."""
    return f"{data_id}{PROVENANCE_SUFFIX}"
