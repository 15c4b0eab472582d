"""`python -m sentinel_core.cli`: the same as the installed command."""

from sentinel_core.cli.entry import main

main()
