"""The simulation of a recovering dependency shows what the half-open window is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.loading import benchmark

if TYPE_CHECKING:
    from benchmarks.recovery import Counts


recovery = benchmark("recovery")


@pytest.fixture(scope="module")
def counts() -> dict[str, Counts]:
    found: dict[str, Counts] = recovery.simulate(noise=0.1, recoveries=15, seed=1)
    return found


def retrips(counts: Counts) -> float:
    return counts.per_recovery(counts.retrips)


def test_a_trial_that_is_judged_as_a_whole_fails_least(counts: dict[str, Counts]) -> None:
    assert retrips(counts["window"]) < retrips(counts["single"]) < retrips(counts["progressive"])


def test_it_costs_time_with_refusals(counts: dict[str, Counts]) -> None:
    assert counts["window"].refused > counts["single"].refused
    assert counts["window"].failed < counts["single"].failed


def test_every_recovery_ends_closed(counts: dict[str, Counts]) -> None:
    assert set(counts) == set(recovery.WAYS)
    for each in counts.values():
        assert each.recoveries >= 15
        assert max(each.closed_s) < 30


def test_the_same_seed_gives_the_same_figures() -> None:
    assert recovery.simulate(0.05, 1, 7) == recovery.simulate(0.05, 1, 7)
