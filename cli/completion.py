"""`sentinelctl completion`."""

from __future__ import annotations

import click

from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.lazy import COMPLETING
from sentinel_core.cli.shells import SHELLS


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    echo 'eval "$(sentinelctl completion bash)"' >> ~/.bashrc
    echo 'eval "$(sentinelctl completion zsh)"' >> ~/.zshrc
    sentinelctl completion fish > ~/.config/fish/completions/sentinelctl.fish

    It completes commands, options, and whatever has a name: resources, revisions, contexts, locks, events. A server is
    waited for a second at most.
    """
    from sentinel_core.cli.main import PROGRAM, cli

    app.out.write_bytes(SHELLS[shell](cli, {}, PROGRAM, COMPLETING).source().encode())
