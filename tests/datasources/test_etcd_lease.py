"""Keys that stand as long as their holder lives, whatever befalls the server meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel_core.datasources import SourceUnavailable
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.lease import Lease, under
from sentinel_core.datasources.etcd.target import Target
from tests.services import etcd
from tests.services.etcd import EtcdServer
from tests.services.server import wait_until

TTL_S = 2
"""The least that etcd grants."""
HOLDER = """
import sys, time
from sentinel_core.datasources.etcd.client import Client
from sentinel_core.datasources.etcd.lease import Lease
from sentinel_core.datasources.etcd.target import Target
lease = Lease(Client(Target((sys.argv[1],)), time.monotonic), ttl_s=2)
lease.put("/instances/orders/7", b"here")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    etcd.needed()
    server = EtcdServer(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
def client(server: EtcdServer) -> Iterator[Client]:
    client = Client(Target((server.address,)), time.monotonic)
    yield client
    client.close()


@pytest.fixture
def lease(client: Client) -> Iterator[Lease]:
    lease = Lease(client, TTL_S)
    yield lease
    lease.close()


def instances(client: Client) -> dict[str, bytes]:
    return under(client, "/instances/")


def test_keys_stand_are_listed_by_prefix_and_go_with_close(server: EtcdServer, client: Client, lease: Lease) -> None:
    server.put("/instancesX", b"another prefix")
    lease.put("/instances/a", b"1")
    lease.put("/instances/\u4e2d", b"2")
    assert instances(client) == {"/instances/a": b"1", "/instances/\u4e2d": b"2"}
    lease.remove("/instances/a")
    assert instances(client) == {"/instances/\u4e2d": b"2"}
    lease.close()
    assert instances(client) == {}
    lease.close()


def test_they_outlive_the_time_to_live_while_the_holder_lives_and_not_the_holder(
    server: EtcdServer, client: Client
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, server.address], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        assert not wait_until(lambda: not instances(client), TTL_S + 1.5)
        holder.send_signal(signal.SIGKILL)
        assert wait_until(lambda: not instances(client), TTL_S + 2)
    finally:
        holder.kill()
        holder.wait(10)
        holder.stdout.close()


def test_a_restart_of_the_server_costs_no_key(server: EtcdServer, client: Client, lease: Lease) -> None:
    lease.put("/instances/a", b"1")
    server.kill()
    assert wait_until(lambda: lease.trouble is not None)
    server.start()
    assert wait_until(lambda: lease.trouble is None)
    assert not wait_until(lambda: instances(client) != {"/instances/a": b"1"}, TTL_S + 1.5)


def test_a_lease_that_was_lost_is_granted_anew_with_its_keys(server: EtcdServer, client: Client, lease: Lease) -> None:
    lease.put("/instances/a", b"1")
    lease.put("/instances/b", b"2")
    revoked = server.ctl("lease", "list").split()[-1]
    server.ctl("lease", "revoke", revoked)
    assert instances(client) == {}
    assert wait_until(lambda: len(instances(client)) == 2, TTL_S)
    server.kill()
    server.wipe()
    server.start()
    assert wait_until(lambda: instances(client) == {"/instances/a": b"1", "/instances/b": b"2"})


def test_a_put_under_a_lease_that_was_lost_stands_at_once(server: EtcdServer, client: Client, lease: Lease) -> None:
    lease.put("/instances/a", b"1")
    server.ctl("lease", "revoke", server.ctl("lease", "list").split()[-1])
    lease.put("/instances/b", b"2")
    assert instances(client) == {"/instances/a": b"1", "/instances/b": b"2"}


def test_what_could_not_be_put_stands_when_the_server_is_back(server: EtcdServer, client: Client, lease: Lease) -> None:
    server.kill()
    with pytest.raises(SourceUnavailable, match="check the address"):
        lease.put("/instances/a", b"1")
    server.start()
    time.sleep(1)  # the client rests after a failure
    assert wait_until(lambda: instances(client) == {"/instances/a": b"1"})


def test_what_could_not_be_removed_goes_within_the_time_to_live(
    server: EtcdServer, client: Client, lease: Lease
) -> None:
    lease.put("/instances/a", b"1")
    lease.put("/instances/b", b"2")
    server.kill()
    with pytest.raises(SourceUnavailable):
        lease.remove("/instances/a")
    server.start()
    assert wait_until(lambda: instances(client) == {"/instances/b": b"2"}, TTL_S + 3)


def test_a_forked_child_does_not_end_its_parents_lease(client: Client, lease: Lease) -> None:
    lease.put("/instances/a", b"1")
    child = os.fork()
    if child == 0:
        lease.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert instances(client) == {"/instances/a": b"1"}
