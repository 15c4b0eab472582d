"""`sentinelctl serve`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import click

from sentinel_core.cli.app import App, env_option, output_options, pass_app
from sentinel_core.cli.exits import BadSettings, Exit, UsageProblem
from sentinel_core.cli.sync import keeping, news, policy_options, tell
from sentinel_core.cli.threads import run_until

END_S = 5.0
"""How long an end waits for what is being written; what is not written then is by the next run."""
Told = queue.SimpleQueue[Callable[[], None]]
"""What threads want said; the main one says it."""


@click.command()
@click.option("--sync", "git", metavar="GIT", help="Repository whose branch is kept in the store.")
@policy_options
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve lag and age of events to Prometheus there, e.g. 127.0.0.1:9465."
)
@env_option
@output_options
@pass_app
def serve(
    app: App, git: str | None, store: str | None, interval: float, drift: Any, branch: str | None, metrics: str | None
) -> int:
    """The control plane in one process, until it is told to end.

    \b
    sentinelctl serve --sync "git+file:///srv/rules.git?ref=main&path=rules"
    sentinelctl serve --sync "git+file:///srv/rules.git?ref=main&path=rules" --drift heal --interval 10s

    With --sync it keeps a store at what is committed on a branch, as sentinelctl sync does. Where audit.kafka is set it
    takes events from Kafka into the audit store, as sentinelctl audit ingest does. SIGTERM ends it with 0, after what
    is being written.
    """
    kafka = app.settings.audit.kafka
    if git is None and kafka is None:
        raise BadSettings(
            "there is nothing to serve: no --sync, and audit.kafka is not set",
            next_step="add --sync GIT, or set audit.kafka",
        )
    if git is None and (store, drift, branch) != (None, "report", None):
        raise UsageProblem("--store, --drift and --branch are of --sync", next_step="add --sync GIT")
    if kafka is None and metrics is not None:
        raise UsageProblem("--metrics tells of events from Kafka", next_step="set audit.kafka")
    told: Told = queue.SimpleQueue()
    stop = threading.Event()
    with (
        _kept(app, git, store, interval, drift, branch, stop, told) as sync,
        _ingested(app, metrics, stop, told) as line,
    ):
        works = [work for work in (sync, line) if work is not None]
        try:
            run_until(stop, works, partial(_talk, app, stop, told), end_s=END_S)
        finally:
            _say(told, 0)
    return Exit.DONE


@contextmanager
def _kept(
    app: App,
    git: str | None,
    store: str | None,
    interval: float,
    drift: Any,
    branch: str | None,
    stop: threading.Event,
    told: Told,
) -> Iterator[Callable[[], None] | None]:
    if git is None:
        yield None
        return
    with keeping(app, git, store, drift, branch) as (look, uri):

        def work() -> None:
            for found in news(look, interval, stop):
                told.put(partial(tell, app, found, git, uri))

        yield work


@contextmanager
def _ingested(app: App, metrics: str | None, stop: threading.Event, told: Told) -> Iterator[Callable[[], None] | None]:
    kafka = app.settings.audit.kafka
    if kafka is None:
        yield None
        return
    from sentinel_core.audit.ingest import Ingest
    from sentinel_core.audit.store import open_store
    from sentinel_core.cli.audit.common import kafka_settings
    from sentinel_core.cli.audit.ingest import TELL_S, report, served, words_of

    target, topics = kafka_settings(app)
    with closing(open_store(app.settings.audit.store)) as store:
        line = Ingest(target, store, topics=topics, group=kafka.group)

        def say(words: str) -> None:
            told.put(partial(app.out.say, words))

        def work() -> None:
            threading.Thread(target=report, args=(line, stop, say, TELL_S), daemon=True).start()
            line.run(stop)

        with served(line, metrics):
            app.out.say(f"taking events from {target} into the audit store")
            yield work
        app.out.say(words_of(line))


def _talk(app: App, stop: threading.Event, told: Told) -> None:
    while not stop.is_set() and not app.out.closed:
        _say(told, 0.2)


def _say(told: Told, wait_s: float) -> None:
    try:
        while True:
            told.get(timeout=wait_s)()
            wait_s = 0
    except queue.Empty:
        pass
