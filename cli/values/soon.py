"""Asking stores, which may be slow, deaf or gone: a shell waits for `WAIT_S` and no longer, whoever is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from sentinel_core.cli.values.line import Items

WAIT_S = 1.0
"""For all of them together. What has to be imported is not in it: whoever asks does that first."""


def soon(*questions: Callable[[], Items]) -> Items:
    """What each has said in time, all of them asked at once; one that failed has said what it said until then."""
    deadline = time.monotonic() + WAIT_S
    found: list[list[CompletionItem[str]]] = [[] for _ in questions]
    threads = [threading.Thread(target=_ask, args=each, daemon=True) for each in zip(questions, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [item for each in found for item in list(each)]


def _ask(question: Callable[[], Items], found: list[CompletionItem[str]]) -> None:
    with suppress(Exception), click.Context(click.Command("complete")):  # what is opened ends with it
        for each in question():
            found.append(each)  # noqa: PERF402 -- what came before a failure is kept
