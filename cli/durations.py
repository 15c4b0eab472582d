"""Durations on the command line."""

from __future__ import annotations

import click

from sentinel_core.settings import parse_duration


def seconds(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Of an option: `30s`, `2m`, `1h` as seconds."""
    if value is None:
        return None
    try:
        found = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
    if not isinstance(found, float) or found <= 0:
        raise click.BadParameter("write a duration above 0, such as 30s, 2m or 1h", param=parameter)
    return found
