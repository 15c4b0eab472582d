"""`sentinelctl rules diff`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from sentinel_core.audit.redact import Masker
from sentinel_core.cli.app import App, env_option, output_options, pass_app
from sentinel_core.cli.encode import to_json
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.cli.rules.sides import Side, resolve
from sentinel_core.cli.text import Span, Styled, display_width, pad, visible
from sentinel_core.rules import KINDS, Kind, RuleSet, describe_rule, diff_rules
from sentinel_core.rules.registry import model_of

Note = Callable[[Kind, Mapping[str, Any]], str]
SIGNS = {"add": Styled("+", "green"), "remove": Styled("-", "red"), "change": Styled("~", "yellow")}


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs, by kind; credentials and personal values masked on both sides, alike where they are equal."""

    changes: Mapping[Kind, Sequence[Mapping[str, Any]]]
    """Every compared kind; `Change.to_json` objects, one per field."""
    only_old: tuple[Kind, ...]
    """Kinds with rules that the other side does not manage: not compared."""
    only_new: tuple[Kind, ...]

    @property
    def count(self) -> int:
        return sum(map(len, self.changes.values()))


@click.command()
@click.argument("old", required=False, metavar="[A]")
@click.argument("new", required=False, metavar="[B]")
@kind_option("Compare only this kind.")
@env_option
@output_options
@pass_app
def diff(app: App, old: str | None, new: str | None, kind: Kind | None) -> int:
    """Compare any two sets of rules field by field.

    \b
    sentinelctl rules diff                       the last commit against what is live
    sentinelctl rules diff git:HEAD~1 git:HEAD
    sentinelctl rules diff history:1 live

    A and B: git:REV, live (the stores of the settings), history:N, a store URI, a path, or - for stdin; default: Git
    HEAD against live. Only the meaning counts: order, defaults written out, comments and line ends are no difference.

    Exit code 0 and no output: no difference; 1: differences.
    """
    before = resolve(app, "git:HEAD" if old is None else old, kind)
    after = resolve(app, "live" if new is None else new, kind)
    difference = compare(before.sets, after.sets)
    say_unmanaged(app, difference, before, after)
    app.out.show(_view(difference, before, after))
    if difference.count:
        app.out.say(f"{summary(difference)} Exit code {Exit.DIFFERENCES}.")
    return Exit.DIFFERENCES if difference.count else Exit.DONE


def compare(old: Mapping[Kind, RuleSet], new: Mapping[Kind, RuleSet]) -> Difference:
    """Kinds that both sides manage are compared; a kind that one side leaves alone is not a difference."""
    masker = Masker()
    both = [kind for kind in KINDS if kind in old and kind in new]
    return Difference(
        changes={
            kind: [masker.change(change.to_json()) for change in diff_rules(old[kind], new[kind])] for kind in both
        },
        only_old=_alone(old, new),
        only_new=_alone(new, old),
    )


def _alone(here: Mapping[Kind, RuleSet], there: Mapping[Kind, RuleSet]) -> tuple[Kind, ...]:
    return tuple(kind for kind in KINDS if kind in here and kind not in there and here[kind].rules)


def say_unmanaged(app: App, difference: Difference, before: Side, after: Side) -> None:
    """Which kinds were left out, and why."""
    for kinds, side in ((difference.only_old, after), (difference.only_new, before)):
        for kind in kinds:
            app.out.say(f"note: {kind} rules are not managed by {side.title}; not compared")


def _view(difference: Difference, before: Side, after: Side) -> View:
    changes = [change for each in difference.changes.values() for change in each]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if changes:
            yield (Styled(before.title, "bold"), "  →  ", Styled(after.title, "bold"))
            yield from change_lines(difference)

    return View(
        document={
            "old": before.title,
            "new": after.title,
            "different": bool(changes),
            "changes": changes,
            "notCompared": [*difference.only_old, *difference.only_new],
        },
        items=changes,
        names=list(dict.fromkeys(str(change["rule"]) for change in changes)),
        lines=lines,
    )


def change_lines(difference: Difference, note: Note | None = None) -> Iterator[Sequence[Span]]:
    """One line a field, under its kind, each with a note behind it where one is given."""
    for kind, changes in difference.changes.items():
        yield (kind,)
        if not changes:
            yield (Styled("  (no differences)", "dim"),)
        width = max((display_width(visible(_resource(change))) for change in changes), default=0)
        for change in changes:
            yield (
                "  ",
                SIGNS[change["action"]],
                " ",
                pad(visible(_resource(change)), width),
                "  ",
                _what(kind, change),
                *(("   ", Styled(note(kind, change), "dim")) if note else ()),
            )


def _what(kind: Kind, change: Mapping[str, Any]) -> str:
    if change["action"] == "change":
        return f"{change['field']}  {_value(change['old'])} → {_value(change['new'])}"
    rule = change["new"] if change["action"] == "add" else change["old"]
    try:
        return describe_rule(model_of(kind).model_validate(rule))
    except ValueError:  # a masked value does not fit its field
        return " ".join(f"{name}={_value(value)}" for name, value in rule.items() if name != "resource")


def _resource(change: Mapping[str, Any]) -> str:
    """The resource, with the caller it is limited to where that is not everybody."""
    resource, scope = str(change["resource"]), str(change["rule"]).rpartition("/")[2]
    return resource if scope == "default" else f"{resource} ({scope})"


def _value(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else to_json(value, ascii_only=False)


def summary(difference: Difference, *, now: str = "in A", then: str = "in B") -> str:
    """`1 changed, 0 only in B, 2 only in A.`, in rules."""
    changes = [change for each in difference.changes.values() for change in each]
    changed = len({change["rule"] for change in changes if change["action"] == "change"})
    added, removed = (sum(change["action"] == action for change in changes) for action in ("add", "remove"))
    return f"{changed} changed, {added} only {then}, {removed} only {now}."
