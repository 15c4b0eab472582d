"""Forty changes, an outage of three seconds, four kills; `script/bench audit_kafka` does a thousand and a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loading import benchmark
from tests.services.server import Unavailable, cannot

audit_kafka = benchmark("audit_kafka")


@pytest.mark.service("kafka")
def test_each_change_is_stored_once_and_in_order_whatever_is_killed(tmp_path: Path) -> None:
    try:
        tally: Any = audit_kafka.endure(tmp_path, changes=40, outage_s=3, kills=4, seed=1)
    except Unavailable as missing:
        cannot(str(missing))
    assert tally.told == tally.made
    assert (tally.lost, tally.repeated, tally.findings) == (0, 0, 0)
    assert tally.kills.total() == 4
    assert len(tally.without_kafka_s) > 10, "changes were made while Kafka was away"
    assert max(tally.without_kafka_s) < 1.5, "a swap never waits for Kafka"


def test_what_is_lost_repeated_or_out_of_order_is_counted() -> None:
    tally = audit_kafka.Tally(3)
    made = tally.made
    assert {kind: len(digests) for kind, digests in made.items()} == {"flow": 3, "degrade": 2}
    tally.told = {"flow": [made["flow"][0], made["flow"][0], made["flow"][2]], "degrade": made["degrade"]}
    assert (tally.lost, tally.repeated, tally.good) == (1, 1, False)
    tally.told = {kind: digests[::-1] for kind, digests in made.items()}
    assert (tally.lost, tally.repeated, tally.good) == (0, 0, False)
    tally.told = made
    assert tally.good
    tally.findings = 1
    assert not tally.good
