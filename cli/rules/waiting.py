"""`--wait`: after a write, until the instances that follow the store run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sentinel_core.cli import durations
from sentinel_core.cli.app import App
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.moments import utc_now
from sentinel_core.cli.text import plural

if TYPE_CHECKING:
    from sentinel_core.cli.output import View
    from sentinel_core.datasources.contract import Readable, Written
    from sentinel_core.publishing import Outcome
    from sentinel_core.publishing.convergence import Convergence, Fleet, Target
    from sentinel_core.status_file import Status

Command = TypeVar("Command", bound=Callable[..., Any])
TIMEOUT_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0
"""Between two looks: each pause is half as long again as the one before."""
_NAMED = 20
"""Laggards that are named on stderr; the document has all of them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What the command line asked for."""

    timeout_s: float
    number: int | None
    percent: float | None
    instances: int | None


def wait_options(command: Command) -> Command:
    """`--wait` and what belongs to it, as keywords `wait`, `timeout`, `min_converged` and `instances`."""
    for decorate in (
        click.option(
            "--instances",
            type=click.IntRange(1),
            metavar="N",
            help="With --wait: so many instances are meant, instead of those that are known to follow the store.",
        ),
        click.option(
            "--min-converged",
            callback=_share,
            metavar="N|PERCENT%",
            help="With --wait: how many of them are enough (default: 100%).",
        ),
        click.option(
            "--timeout", callback=durations.seconds, metavar="DURATION", help="With --wait: at most so long [60s]."
        ),
        click.option("--wait", is_flag=True, help="Wait until the instances run it; otherwise exit code 6."),
    ):
        command = decorate(command)
    return command


def _share(_: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int | None, float | None] | None:
    """`19` or `95%`."""
    if value is None:
        return None
    text = value.removesuffix("%")
    if text == value and text.isdecimal() and text.isascii() and int(text) > 0:
        return int(text), None
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if text == value or not 0 < percent <= 100:
        raise click.BadParameter("write how many instances, such as 19, or how many of them, 95%", param=parameter)
    return None, percent


def asked(options: dict[str, Any]) -> Wait | None:
    """Takes the options of `wait_options` out of the others. Raises UsageProblem for what needs --wait."""
    wait, timeout = options.pop("wait"), options.pop("timeout")
    share, instances = options.pop("min_converged"), options.pop("instances")
    if wait:
        number, percent = share or (None, None)
        return Wait(timeout or TIMEOUT_S, number, percent, instances)
    for flag, value in (("--timeout", timeout), ("--min-converged", share), ("--instances", instances)):
        if value is not None:
            raise UsageProblem(f"{flag} says how to wait, and nothing waits", next_step="add --wait")
    return None


class Waiting:
    """Made before a write, so that what would keep it from waiting is found while nothing is written."""

    def __init__(self, app: App, wait: Wait, fleet: Fleet) -> None:
        from sentinel_core.publishing.convergence import Share

        self._app = app
        self._wait = wait
        self._share = Share(wait.number, wait.percent)
        self._fleet = fleet
        self._began = utc_now()

    def for_steps(self, outcomes: Sequence[Outcome]) -> Convergence:
        """Until what a plan wrote runs; of a plan without steps, what stands."""
        if not outcomes:
            return self.until(list(self._fleet.standing))
        targets: list[Target] = []
        for outcome in outcomes:
            step, stood_already = outcome.step, outcome.state == "already there"
            targets += self._targets(step.source, step.texts, step.digests, outcome.version, every=stood_already)
        return self.until(targets)

    def for_revisions(self, written: Iterable[tuple[str, Written, Mapping[str, str]]]) -> Convergence:
        """Until the kinds of written revisions run that were others before: of each the source of its item and the
        digests."""
        return self.until(
            [
                target
                for source, made, digests in written
                for target in self._targets(source, made.texts, digests, made.version)
            ]
        )

    def _targets(
        self, source: str, texts: Any, digests: Mapping[str, str], version: str | None, *, every: bool = False
    ) -> list[Target]:
        """Of one item: the kinds that were others before, or `every` kind."""
        from sentinel_core.publishing.convergence import Target

        stood = {each.kind: each.digest for each in self._fleet.standing if each.item == source}
        return [
            Target(source, _event_source(texts, source, kind), kind, digest, version)
            for kind, digest in digests.items()
            if every or stood.get(kind) != digest
        ]

    def until(self, targets: Sequence[Target]) -> Convergence:
        """Looks again and again, and tells on stderr how it goes."""
        from sentinel_core.audit.errors import StoreUnavailable

        deadline, pause = time.monotonic() + self._wait.timeout_s, FIRST_PAUSE_S
        found, trouble = self._nobody(), ""
        with self._app.out.progress() as tell:
            while True:
                try:
                    found, trouble = self._look(targets), ""
                except StoreUnavailable as error:
                    trouble = f" (the audit store is away: {error})"
                tell(_progress(found) + trouble)
                left = deadline - time.monotonic()
                if found.done or found.hopeless or left <= 0:
                    return found
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, LONGEST_PAUSE_S)

    def _look(self, targets: Sequence[Target]) -> Convergence:
        return self._fleet.look(
            targets,
            self._began,
            self._share,
            instances=self._wait.instances,
            local=_local(self._app),
            stopped=_stopped(self._app),
        )

    def _nobody(self) -> Convergence:
        from sentinel_core.publishing.convergence import Convergence

        names = sorted(self._fleet.followers)
        return Convergence((), dict.fromkeys(names), (), self._share.of(self._wait.instances or len(names)))

    def end(self, found: Convergence) -> None:
        """Says who lags and who refused it. Raises CommandError (6) where too few run it."""
        if found.done:
            self._app.out.say(f"Converged: {_progress(found)}.")
            return
        lines = [f"  {name} refused it" for name in found.rejected]
        lines += [f"  {name} runs {(digest or 'something else')[:12]}" for name, digest in found.lagging.items()]
        shown = "\n".join(lines[:_NAMED] + ([f"  … and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []))
        reason = f"{plural(len(found.rejected), 'instance')} refused the rules" if found.rejected else (
            f"not converged within {self._wait.timeout_s:g} s"
        )  # fmt: skip
        refused = "sentinelctl audit query type:rejected    (tells why), then mend the rules or: rules rollback"
        lagging = "sentinelctl instances list    (on their machines), then wait again: the same command with --wait"
        raise CommandError(
            f"{reason}: {_progress(found)}; the rules stand in the store\n{shown}".rstrip(),
            next_step=refused if found.rejected else lagging,
            code=Exit.NOT_CONVERGED,
        )


def show_then_wait(
    app: App,
    view: Callable[[Convergence | None], View],
    waiting: Waiting | None,
    look: Callable[[Waiting], Convergence],
) -> Convergence | None:
    """Shows what was written and waits: people see it before the wait, programs get one document with how that ended;
    None where nothing waits."""
    if app.out.for_people:
        app.out.show(view(None))
        app.out.flush()
    found = look(waiting) if waiting else None
    if not app.out.for_people:
        app.out.show(view(found))
    return found


def _progress(found: Convergence) -> str:
    refused = f", {len(found.rejected)} refused it" if found.rejected else ""
    known = max(found.counted, found.needed)
    enough = f" ({found.needed} are enough)" if found.needed < known else ""
    return f"{len(found.arrived)} of {plural(known, 'instance')} {'runs' if known == 1 else 'run'} it{enough}{refused}"


@contextmanager
def prepared(app: App, source: Readable, wait: Wait | None) -> Iterator[Waiting | None]:
    """Asks who follows the store; None where nobody waits. Raises StoreUnavailable, DatasourceError, and UsageProblem
    where nobody is known to follow it: nothing is written yet then."""
    if wait is None:
        yield None
        return
    from sentinel_core.cli.audit.common import opened
    from sentinel_core.publishing.convergence import Fleet

    with opened(app) as store:
        with app.out.waiting("asking who follows the store"):
            fleet = Fleet(store, list(_standing(source)), _local(app), _stopped(app))
        if not fleet.followers and wait.instances is None:
            raise UsageProblem(
                f"no instance is known to run what stands in {source.uri}, so nobody would be waited for; "
                "nothing was written",
                next_step="say how many there are: --instances N, or leave --wait out",
            )
        yield Waiting(app, wait, fleet)


def _standing(source: Readable) -> Iterable[Target]:
    from sentinel_core.datasources.contract import Absent
    from sentinel_core.publishing.convergence import Target
    from sentinel_core.publishing.standing import digests_of, sets_of
    from sentinel_core.rules import KINDS

    for item in source.items(KINDS):
        reading = source.read(item)
        if isinstance(reading, Absent):
            continue
        for kind, digest in digests_of(sets_of(reading, item.kinds)).items():
            yield Target(item.source, _event_source(reading.texts, item.source, kind), kind, digest)


def _event_source(texts: Any, source: str, kind: str) -> str:
    from sentinel_core.audit.events import event_source
    from sentinel_core.rules import Revision

    return event_source(Revision(tuple(texts), source, ""), kind)


def _local(app: App) -> list[Status]:
    from sentinel_core.cli.instances.found import running

    return [each.status for each in running(app.settings)]


def _stopped(app: App) -> set[str]:
    from sentinel_core.status_file import stopped

    return stopped(Path(app.settings.status)) if app.settings.status else set()


def convergence_json(found: Convergence | None) -> dict[str, Any] | None:
    """As documents have it; null where nothing waited."""
    if found is None:
        return None
    return {
        "converged": found.done,
        "needed": found.needed,
        "arrived": list(found.arrived),
        "lagging": [{"instance": name, "digest": digest} for name, digest in found.lagging.items()],
        "rejected": list(found.rejected),
    }
