"""`sentinelctl rules schema`."""

from __future__ import annotations

import json

import click

from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.rules import Kind, json_schema


@click.command()
@kind_option("Schema of the JSON list of this kind as it stands in a store; default: the YAML document.")
@pass_app
def schema(app: App, kind: Kind | None) -> None:
    """Print the JSON Schema (draft-07) of the rules.

    \b
    sentinelctl rules schema > sentinel.schema.json
    sentinelctl rules schema --kind flow

    Editors use it: save it and write `# yaml-language-server: $schema=FILE` on the first line of the rules.
    """
    app.out.write_bytes((json.dumps(json_schema(kind), indent=2) + "\n").encode())
