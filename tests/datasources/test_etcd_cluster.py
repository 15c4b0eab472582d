"""Members of etcd that die, freeze, or are cut off from the others: reads and watches go on where there is a leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import SourceUnavailable, State
from tests.datasources.follower import A, B, Follower
from tests.services import etcd
from tests.services.etcd import EtcdServer
from tests.services.etcd_cluster import EtcdCluster

NO_LEADER_S = 3.0
"""etcd ends a watch after four election time-outs of 250 ms without a leader."""
Follow = Callable[[EtcdServer], Follower]


@pytest.fixture(scope="module", params=[etcd.PACKAGED, etcd.NEWEST], ids=["packaged", "newest"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    etcd.needed(request.param)
    made = EtcdCluster(tmp_path_factory.mktemp("cluster"), request.param).start()
    yield made
    made.kill()


@pytest.fixture
def follow(cluster: EtcdCluster, tmp_path: Path, recorder: Any, subscribe: Any) -> Iterator[Follow]:
    made: list[Follower] = []

    def start(member: EtcdServer) -> Follower:
        made.append(Follower(cluster.uri(member, f"/cluster/{tmp_path.name}"), member.put, recorder, subscribe))
        return made[-1]

    yield start
    for each in made:
        each.close()


def others(cluster: EtcdCluster, member: EtcdServer) -> list[EtcdServer]:
    return [each for each in cluster.members if each is not member]


@pytest.mark.parametrize(("end", "noticed_s"), [(EtcdServer.kill, 2), (EtcdServer.freeze, 10)])
def test_without_its_leader_a_watch_goes_on_at_the_next_one(
    cluster: EtcdCluster, follow: Follow, end: Callable[[EtcdServer], None], noticed_s: float
) -> None:
    lost = cluster.leader()
    follower = follow(lost)
    end(lost)
    try:
        began = time.monotonic()
        cluster.leader(others(cluster, lost)).put(follower.key, B)
        follower.wait_active_within(noticed_s + 2, B)
        assert time.monotonic() - began <= noticed_s + 2
        assert follower.recorder.contents == [A, B]
        follower.wait_state(State.READY)
    finally:
        lost.kill()
        lost.start()


def test_a_member_that_is_cut_off_from_the_others_is_left(cluster: EtcdCluster, follow: Follow) -> None:
    alone = cluster.leader()
    follower = follow(alone)
    cluster.isolate(alone)
    try:
        leader = cluster.leader(others(cluster, alone))
        leader.put(follower.key, B)
        follower.wait_active_within(NO_LEADER_S + 2, B)
        assert follower.recorder.contents == [A, B]
        leader.put(follower.key, A)
        follower.wait_active_within(1, A)
        assert follower.source._opened._client._session.endpoint != alone.address
    finally:
        cluster.rejoin(alone)


def test_where_no_member_has_a_leader_the_rules_stay_until_one_has(cluster: EtcdCluster, follow: Follow) -> None:
    member = cluster.members[0]
    follower = follow(member)
    member.put(follower.key, B)
    follower.wait_active_within(2, B)  # hence the watch stands
    for other in others(cluster, member):
        other.freeze()
    assert follower.wait_state(State.STALE) <= NO_LEADER_S
    began = time.monotonic()
    alone = datasources.open(member.uri())
    with pytest.raises(SourceUnavailable, match="has no leader"):
        alone.read(alone.items(["flow"])[0])
    alone.close()
    assert time.monotonic() - began < 1, "a read of a member without a leader is refused, not waited for"
    for other in others(cluster, member):
        other.thaw()
    cluster.leader()
    member.put(follower.key, A)
    follower.wait_active_within(2, A)
    assert follower.recorder.contents == [A, B, A]
