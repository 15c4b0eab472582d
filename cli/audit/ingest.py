"""`sentinelctl audit ingest`."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, suppress

import click

from sentinel_core.audit.ingest import Ingest
from sentinel_core.audit.store import open_store
from sentinel_core.cli.app import App, pass_app
from sentinel_core.cli.audit.common import kafka_settings
from sentinel_core.cli.text import plural

TELL_S = 10.0


@click.command()
@click.option("--until-idle", is_flag=True, help="End when everything that is in Kafka now has been stored.")
@pass_app
def ingest(app: App, until_idle: bool) -> None:
    """Take events from Kafka into the audit store, until it is interrupted.

    \b
    Examples:
      sentinelctl audit ingest
      sentinelctl audit ingest --until-idle    (catch up, then end: for a timer)

    Several of them share the work. An event is stored once, however often it comes; what cannot be stored goes to the
    topic of dead letters, with the reason.
    """
    target, topics = kafka_settings(app)
    kafka = app.settings.audit.kafka
    stop = threading.Event()
    with closing(open_store(app.settings.audit.store)) as store:
        line = Ingest(target, store, topics=topics, group=kafka.group if kafka else "")
        teller = threading.Thread(target=_tell, args=(app, line, stop), daemon=True)
        before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
        app.out.say(f"taking events from {target} into the audit store; Ctrl-C ends it")
        teller.start()
        try:
            line.run(stop, until_idle=until_idle)
        finally:
            stop.set()
            signal.signal(signal.SIGTERM, before)
        teller.join(1.0)
        app.out.say(_words(line))


def _tell(app: App, line: Ingest, stop: threading.Event) -> None:
    said = ""
    while not stop.wait(TELL_S):
        with suppress(OSError):
            if (words := _words(line)) != said:
                said = words
                app.out.say(words)


def _words(line: Ingest) -> str:
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
