"""`sentinelctl instances list`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.instances.found import DEAD, Instance, coloured, found, say_whose, seconds
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, plural
from sentinel_core.datasources.uri import mask_uri
from sentinel_core.masking import mask_text
from sentinel_core.rules.ruleset import SHORT

_REF = re.compile(r"(?:git:)?(HEAD\b.*|.*[~^].*)")
"""What only Git understands."""


@click.command("list")
@click.option(
    "--not-at", "revision", type=WORDS, metavar="REV", help="Only those that run and have no rules of this revision."
)
@output_options
@pass_app
def list_(app: App, revision: str | None) -> int:
    """Every service of this machine that shares the folder `status` of the settings.

    \b
    sentinelctl instances list
    sentinelctl instances list --not-at 9f1c2ab34d5e      who does not run it yet

    STATE is the worst of its stores, or dead (the process has ended) or silent (it has not written for 6 s).
    LAG: for how long its rules may be behind a store. SEEN: how old its words are.

    REV is a version as a store writes it, a commit or a digest, or how those begin. With --not-at the exit code is 6
    where one is listed, 0 where all that run have it.
    """
    if revision is not None and not revision.strip():
        raise UsageProblem(
            "--not-at names no revision", next_step="for example: sentinelctl instances list --not-at 9f1c2ab"
        )
    if revision is not None and (ref := _REF.fullmatch(revision)):
        raise UsageProblem(
            f"{mask_text(revision)} is a name of Git, and services tell commits",
            next_step=f"sentinelctl instances list --not-at $(git rev-parse {shlex.quote(ref[1])})",
        )
    folder, instances = found(app)
    shown = instances if revision is None else [each for each in instances if _lacks(each, revision)]
    app.out.show(_view(shown))
    say_whose(app, folder, len(instances))
    if revision is None:
        return Exit.DONE
    running = plural(sum(each.state != DEAD for each in instances), "running instance")
    verb, what = "is" if len(shown) == 1 else "are", mask_text(mask_uri(revision))
    app.out.say(f"{len(shown)} of {running} {verb} not at {what}.")
    return Exit.NOT_CONVERGED if shown else Exit.DONE


def _lacks(instance: Instance, revision: str) -> bool:
    return instance.state != DEAD and not instance.runs(revision)


def _view(instances: Sequence[Instance]) -> View:
    facts = [each.to_json() for each in instances]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        headers = ["INSTANCE", "APP", "STATE", "LAG", "SEEN", "RULES"]
        headers += ["ENVIRONMENT", "HOST", "PID", "TRANSPORT"] if wide else []
        yield from table(headers, [_row(each, wide=wide) for each in instances])

    return View(
        document={"instances": facts},
        items=facts,
        names=[each.status.instance for each in instances],
        lines=lines,
    )


def _row(each: Instance, *, wide: bool) -> list[Span]:
    status = each.status
    row: list[Span] = [
        status.instance,
        status.app,
        coloured(each.state),
        seconds(each.lag_s),
        f"{seconds(each.age_s)} ago",
        rules_of(each),
    ]
    if wide:
        transports = dict.fromkeys(str(store.get("transport")) for store in status.subscriptions)
        row += [status.environment, str(status.document.get("host")), str(status.document.get("pid"))]
        row += [" ".join(transports) or "–"]
    return row


def rules_of(instance: Instance) -> str:
    """`flow:2bdc6b1bb23e@9d4ccda7cb10` for each kind that was delivered."""
    told = [
        f"{kind}:{str(each.get('digest'))[:SHORT]}@{str(each.get('version'))[:SHORT]}"
        for kind, each in instance.status.kinds.items()
        if each.get("version") is not None
    ]
    return " ".join(told) or "–"
