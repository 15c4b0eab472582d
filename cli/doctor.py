"""`sentinelctl doctor`: every part reached once, each with its state and the next step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled, plural

Health = Literal["ok", "warn", "fail"]
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    health: Health
    what: str
    next_step: str | None = None
    code: Exit = Exit.DONE
    """The exit code that a failure stands for."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """The same for programs, where there is more to it."""

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "check": self.name,
            "health": self.health,
            "what": self.what,
            "next": self.next_step,
        }
        return {**document, "facts": dict(self.facts)} if self.facts else document


@click.command()
@click.option("--timeout", metavar="TIME", help="Longest wait for one store, e.g. 5s (default: the setting).")
@output_options
@pass_app
def doctor(app: App, timeout: str | None) -> int:
    """Check settings, stores, rules, outbox and audit store; nothing is changed.

    \b
    sentinelctl doctor
    sentinelctl doctor --timeout 2s -o json

    Each line is ok, warn or fail and says what to do next. Exit code 0: nothing failed; else the code of the first
    failure (78 settings, 69 store not reachable, 4 permission, 65 rules not valid, 2 anything else).
    """
    from sentinel_core.cli.checks import all_checks

    with app.out.waiting("reaching every part"):
        checks = list(all_checks(app, timeout))
    app.out.show(_view(checks))
    failed = [check for check in checks if check.health == "fail"]
    warned = [check for check in checks if check.health == "warn"]
    app.out.say(f"{plural(len(checks), 'check')}: {len(failed)} failed, {plural(len(warned), 'warning')}.")
    return failed[0].code if failed else Exit.DONE


def _view(checks: Sequence[Check]) -> View:
    items = [check.to_json() for check in checks]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        width = max(len(check.name) for check in checks)
        for check in checks:
            yield (Styled(f"{check.health:<4}", _COLOURS[check.health]), f"  {check.name:<{width}}  {check.what}")
            if check.next_step:
                yield (f"      {'':<{width}}  next: {check.next_step}",)

    return View(
        document={"healthy": not any(check.health == "fail" for check in checks), "checks": items},
        items=items,
        names=[check.name for check in checks if check.health == "fail"],
        lines=lines,
    )
