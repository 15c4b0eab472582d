"""One Kafka broker (KRaft, broker and controller in one process), from the jars that script/test fetches."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path

from tests.services.server import CACHE, Server, Unavailable, accepts, free_port

JARS = CACHE / "kafka"
STARTED = "Kafka Server started"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
"""


class Kafka(Server):
    """Empty; topics are made on first use."""

    def __init__(self, folder: Path) -> None:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("java is not installed (17 or newer)")
        if not (JARS / ".complete").exists():
            raise Unavailable(f"the jars of Kafka are not in {JARS.parent.name}/{JARS.name} (script/test fetches them)")
        self.port = free_port()
        controller = free_port()
        self._java = [java, f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", f"{JARS / 'lib'}/*"]
        self._properties = folder / "server.properties"
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        properties = PROPERTIES | {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(folder / "data"),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        (folder / "log4j2.properties").write_text(LOGGING)
        memory = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
        super().__init__(
            [*self._java[:1], *memory, *self._java[1:], "kafka.Kafka", str(self._properties)],
            folder,
            lambda: STARTED in self.log.read_text(errors="replace") and accepts(self.port),
            within_s=60,
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def format(self) -> None:
        """Prepares the folder; once, before the first start."""
        cluster = base64.b64encode(b"\x01" + os.urandom(15), b"AB").decode().rstrip("=")
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise RuntimeError(f"Kafka's folder could not be formatted:\n{done.stdout}{done.stderr}"[-2000:])
