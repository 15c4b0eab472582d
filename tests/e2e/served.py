"""A WSGI service for `test_servers.py`: `SERVED` names its settings; with `PATCH`, gevent replaces threads first."""

import os

if os.environ.get("PATCH"):
    from gevent import monkey

    monkey.patch_all()

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sentinel_core import BlockException, start
from sentinel_core.settings import load_settings

engine = start(load_settings(Path(os.environ["SERVED"])))


def app(environ: dict[str, Any], respond: Callable[[str, list[tuple[str, str]]], object]) -> Iterable[bytes]:
    """`/`: what runs in this worker. `/queue`: a call that waits its turn."""
    began = time.monotonic()
    passed = True
    if environ["PATH_INFO"] == "/queue":
        try:
            engine.entry("queue").exit()
        except BlockException:
            passed = False
    rules = {rule.resource: rule.count for rule in engine.rules("flow").rules}
    facts = {
        "pid": os.getpid(),
        "rules": rules,
        "passed": passed,
        "states": [each["state"] for each in engine.status()["subscriptions"]],
        "tookMs": (time.monotonic() - began) * 1000,
    }
    respond("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(facts).encode()]
