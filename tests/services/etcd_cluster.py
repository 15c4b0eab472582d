"""Three members of one etcd, whose peers reach each other over links that can be cut."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

from tests.services.etcd import PACKAGED, EtcdServer
from tests.services.proxy import Proxy
from tests.services.server import free_port

_FLAGS = ("--heartbeat-interval=50", "--election-timeout=250")
_ELECTED_S = 10.0


class EtcdCluster:
    """Members n1, n2, n3."""

    def __init__(self, folder: Path, program: str = PACKAGED) -> None:
        peers = {name: free_port() for name in ("n1", "n2", "n3")}
        self.members: list[EtcdServer] = []
        for name in peers:
            (folder / name).mkdir()
            self.members.append(EtcdServer(folder / name, program=program, flags=_FLAGS, name=name, peers=peers))
        self._links = [Proxy(member.peer_port, peers[member.name]) for member in self.members]
        self._limits: dict[str, tuple[int, int]] = {}

    def start(self) -> EtcdCluster:
        for member in self.members:
            member.launch()
        for member in self.members:
            member.await_ready()
        return self

    def uri(self, first: EtcdServer, path: str) -> str:
        """All endpoints, `first` first."""
        members = [first, *(member for member in self.members if member is not first)]
        return f"etcd://{','.join(member.address for member in members)}{path}"

    def leader(self, among: list[EtcdServer] | None = None) -> EtcdServer:
        """Waits for one."""
        deadline = time.monotonic() + _ELECTED_S
        while True:
            for member in among or self.members:
                status = json.loads(member.ctl("endpoint", "status", "-w", "json"))[0]["Status"]
                if status.get("leader") == status["header"]["member_id"]:
                    return member
            assert time.monotonic() < deadline, "no leader was elected"
            time.sleep(0.05)

    def isolate(self, member: EtcdServer) -> None:
        """Parts a member from the others; whoever is connected to it stays so. It is given no new file, hence no new
        connection, and those between peers are cut."""
        _, most = resource.prlimit(member.pid, resource.RLIMIT_NOFILE)
        self._limits[member.name] = resource.prlimit(member.pid, resource.RLIMIT_NOFILE, (3, most))
        for link in self._links:
            link.cut()

    def rejoin(self, member: EtcdServer) -> None:
        resource.prlimit(member.pid, resource.RLIMIT_NOFILE, self._limits.pop(member.name))

    def kill(self) -> None:
        for member in self.members:
            member.kill()
        for link in self._links:
            link.close()
