"""Writes the schemas of this folder anew from the models: `python -m sentinel_core.rules.schemas`."""

from sentinel_core.rules.schema import publish

publish()
