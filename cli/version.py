"""`sentinelctl version`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib import metadata

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span

DISTRIBUTION = "sentinel-control-plane"


@click.command()
@output_options
@pass_app
def version(app: App) -> None:
    """Print the version of this program and what it runs on.

    \b
    sentinelctl version
    sentinelctl version -o json
    """
    facts: dict[str, str | None] = {
        "version": product_version(),
        "engine": engine_build(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "context": app.context.shown or None,
    }

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield (f"sentinelctl {facts['version']}",)
        yield (f"engine {facts['engine']}, {facts['implementation']} {facts['python']}, {facts['platform']}",)
        if facts["context"]:
            yield (f"context {facts['context']}, from {app.context.origin}",)

    app.out.show(View(document=facts, items=[facts], names=[product_version()], lines=lines))


def product_version() -> str:
    """The installed distribution's version; `unknown` in a bare source tree."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def engine_build() -> str:
    """`compiled` when the hot modules are binaries, `pure` when Python runs their source."""
    from importlib import util

    spec = util.find_spec("sentinel_core.window")
    return "pure" if spec is None or spec.origin is None or spec.origin.endswith(".py") else "compiled"
