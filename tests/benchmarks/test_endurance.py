"""Fifty changes and three strikes on each store, as `script/bench endurance` does a thousand and sixty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loading import benchmark
from tests.services import etcd

endurance = benchmark("endurance")


@pytest.mark.parametrize("name", endurance.GROUNDS)
def test_no_change_is_lost_repeated_or_emptied_by_kills_at_random_points(name: str, tmp_path: Path) -> None:
    if name == "etcd":
        etcd.needed()
    tally: Any = endurance.endure(endurance.GROUNDS[name], tmp_path, changes=50, kills=3, seed=1)
    assert tally.told == tally.made, "one event a change, in their order"
    assert (tally.lost, tally.repeated, tally.empty) == (0, 0, 0)
    assert tally.strikes.total() == 3
    assert tally.good


def test_what_is_lost_repeated_or_empty_is_counted() -> None:
    tally = endurance.Tally(2)
    tally.told = [tally.made[0], tally.made[0], tally.made[2]]
    assert (tally.lost, tally.repeated, tally.good) == (1, 1, False)
    tally.told = tally.made
    assert tally.good
    tally.empty = 1
    assert not tally.good
