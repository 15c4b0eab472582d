"""`sentinelctl audit ingest`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial

import click

from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.store import open_store
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import kafka_settings
from sentinel_core.cli.audit.taken import take_file
from sentinel_core.cli.exits import UsageProblem
from sentinel_core.cli.output import View
from sentinel_core.cli.text import plural
from sentinel_core.cli.threads import run_until

TELL_S = 10.0
FIRST_TELL_S = 1.0
END_S = 1.5
"""An end is not waited for any longer: what was not committed is taken again by the next run."""


@click.command()
@click.option("--until-idle", is_flag=True, help="End when everything that is in Kafka now has been stored.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve lag and age to Prometheus there, e.g. 127.0.0.1:9465.")
@click.option(
    "--file", type=WORDS, metavar="FILE", help="Take what audit export wrote as NDJSON, - from stdin, and end."
)
@output_options
@pass_app
def ingest(app: App, until_idle: bool, metrics: str | None, file: str | None) -> None:
    """Take events from Kafka into the audit store, until it is interrupted.

    \b
    Examples:
      sentinelctl audit ingest
      sentinelctl audit ingest --until-idle           (catch up, then end: for a timer)
      sentinelctl audit ingest --file all.ndjson      (what audit export wrote)

    Several of them share the work. An event is stored once, however often it comes; what cannot be stored goes to the
    topic of dead letters, with the reason. With --until-idle, Kafka or a store that stays down ends it with 69.
    """
    if file is not None:
        if until_idle or metrics is not None:
            raise UsageProblem("--file needs no Kafka", next_step="leave --until-idle and --metrics out")
        with closing(open_store(app.settings.audit.store)) as store:
            take_file(app, store, file)
        return
    target, topics = kafka_settings(app)
    kafka = app.settings.audit.kafka
    with closing(open_store(app.settings.audit.store)) as store:
        line = Ingest(target, store, topics=topics, group=kafka.group if kafka else "")
        with served(line, metrics):
            app.out.say(f"taking events from {target} into the audit store; Ctrl-C ends it")
            try:
                stop = threading.Event()
                take = partial(line.run, stop, until_idle=until_idle)
                run_until(stop, [take], partial(report, line, stop, app.out.say), end_s=END_S)
            finally:
                app.out.say(words_of(line))
    done = {name: value for name, value in asdict(line.status()).items() if name != "behind_s"}
    app.out.show(View(document=done, items=[done], names=[], lines=lambda _: iter(())))


def report(line: Ingest, stop: threading.Event, say: Callable[[str], None], first_s: float = FIRST_TELL_S) -> None:
    """Says how it goes when that has changed, until `stop` is set."""
    said, pause = "", first_s
    while not stop.wait(pause):
        if (words := words_of(line)) != said:
            said = words
            say(words)
        pause = TELL_S


@contextmanager
def served(line: Ingest, address: str | None) -> Iterator[None]:
    """Answers scrapes at `address`, where there is one, while the block runs."""
    if address is None:
        yield
        return
    from sentinel_core.cli.audit.metrics import serve

    end = serve(line, address)
    try:
        yield
    finally:
        end()


def words_of(line: Ingest) -> str:
    """How it goes, in one line."""
    status = line.status()
    lag = "?" if status.lag is None else f"{status.lag:,}"
    parts = [f"{plural(status.stored, 'event')} stored, {status.duplicates:,} known before, lag {lag}"]
    if status.behind_s >= 1:
        parts.append(f"{status.behind_s:.0f} s behind")
    if status.dead:
        parts.append(f"{status.dead:,} among the dead letters")
    if status.last_error:
        parts.append(status.last_error)
    return ", ".join(parts)
