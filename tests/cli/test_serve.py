"""`sentinelctl serve`: a store is kept at what is committed until it is told to end."""

from __future__ import annotations

import json

import pytest

from sentinel_core.cli.exits import Exit
from tests.cli.conftest import Run, Shop


def test_a_store_is_kept_until_it_is_told_to_end(plain: Shop, process: Run) -> None:
    plain.write(20)
    script = (
        f'$SENTINELCTL serve --sync "git+file://{plain.here}?ref=main&path=rules.yaml" --interval 100ms -o ndjson '
        "> told & pid=$!; for i in $(seq 100); do [ -s told ] && break; sleep 0.1; done; "
        "sed -i s/20/30/ rules.yaml; git commit -qam 'Raise it'; "
        "for i in $(seq 100); do [ $(grep -c published told) -ge 2 ] && break; sleep 0.1; done; "
        "sed -i s/30/40/ lists/sentinel-flow-rules.json; "
        "for i in $(seq 100); do grep -q drifted told && break; sleep 0.1; done; "
        "kill -TERM $pid; wait $pid; echo ended $?"
    )
    ended = process(script=f"set -m; {script}")
    assert "ended 0" in ended.out
    assert "next: sentinelctl rules drift" in ended.err
    told = [json.loads(line)["state"] for line in (plain.here / "told").read_text().splitlines()]
    assert [state for state in told if state != "in sync"] == ["published", "published", "drifted"]


def test_ctrl_c_ends_it(plain: Shop, process: Run) -> None:
    script = (
        f'$SENTINELCTL serve --sync "git+file://{plain.here}?ref=main&path=rules.yaml" > told & pid=$!; '
        "for i in $(seq 100); do [ -s told ] && break; sleep 0.1; done; kill -INT $pid; wait $pid; echo ended $?"
    )
    ended = process(script=f"set -m; {script}")
    assert "ended 130" in ended.out
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ([], Exit.BAD_SETTINGS, "there is nothing to serve"),
        (["--drift", "heal"], Exit.BAD_SETTINGS, "there is nothing to serve"),
        (["--sync", "rules.yaml"], Exit.BAD_SETTINGS, "is no Git repository"),
        (["--sync", "git:.", "--branch", "x"], Exit.USAGE, "--branch is where edits are committed"),
        (["--sync", "git:.", "--metrics", ":9465"], Exit.USAGE, "--metrics tells of events from Kafka"),
    ],
)
def test_what_cannot_be_served_is_refused(plain: Shop, flags: list[str], code: Exit, words: str) -> None:
    ended = plain.run("serve", *flags)
    assert (ended.code, words in ended.err, "next: " in ended.err) == (code, True, True), ended
