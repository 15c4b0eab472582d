"""`sentinelctl completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.exits import CommandError

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_SENTINELCTL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  echo 'eval "$(sentinelctl completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(sentinelctl completion zsh)"' >> ~/.zshrc
    fish:  sentinelctl completion fish > ~/.config/fish/completions/sentinelctl.fish
    """
    from sentinel_core.cli.main import PROGRAM, cli

    writer = get_completion_class(shell)
    if writer is None:
        raise CommandError(
            f"this version of click knows no completion for {shell}", next_step="python -m pip install -U click"
        )
    complete = writer(cli, {}, PROGRAM, _VARIABLE)
    app.out.write_bytes((complete.source_template % complete.source_vars()).encode())
