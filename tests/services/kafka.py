"""One Kafka broker (KRaft, broker and controller in one process), from the jars that script/test fetches."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping
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


SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "listener.name.secure.ssl.keystore.type": "PEM",
    "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Kafka(Server):
    """Empty; topics are made on first use.

    With `users` (name to password) there is a second listener, TLS and SCRAM-SHA-512, at `secure`; its certificate is
    signed by `ca`. These users may do nothing until they are granted something, by whom comes without a login.
    """

    def __init__(self, folder: Path, users: Mapping[str, str] | None = None) -> None:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("java is not installed (17 or newer)")
        if not (JARS / ".complete").exists():
            raise Unavailable(f"the jars of Kafka are not in {JARS.parent.name}/{JARS.name} (script/test fetches them)")
        self.port = free_port()
        controller = free_port()
        self._java = [java, f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", f"{JARS / 'lib'}/*"]
        self._properties = folder / "server.properties"
        self.ca = folder / "ca.pem"
        self._users = dict(users or {})
        self._secure_port = free_port()
        advertised = f"PLAINTEXT://127.0.0.1:{self.port}"
        secured: dict[str, str] = {}
        if users:
            advertised += f",SECURE://127.0.0.1:{self._secure_port}"
            secured = SECURED | {"listener.name.secure.ssl.keystore.location": str(_certificate(folder))}
        listeners = f"{advertised},CONTROLLER://127.0.0.1:{controller}"
        properties = (
            PROPERTIES
            | secured
            | {
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": listeners,
                "advertised.listeners": advertised,
                "log.dirs": str(folder / "data"),
            }
        )
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

    @property
    def secure(self) -> str:
        return f"127.0.0.1:{self._secure_port}"

    def format(self) -> None:
        """Prepares the folder; once, before the first start."""
        cluster = base64.b64encode(b"\x01" + os.urandom(15), b"AB").decode().rstrip("=")
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        for name, password in self._users.items():
            command += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise RuntimeError(f"Kafka's folder could not be formatted:\n{done.stdout}{done.stderr}"[-2000:])


def authority(folder: Path, name: str) -> tuple[Path, Path]:
    """A new CA: certificate and key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    return certificate, key


def _certificate(folder: Path) -> Path:
    """Key and certificate for 127.0.0.1 in one PEM file, signed by a CA that is made for it."""
    ca, ca_key = authority(folder, "ca")
    key, request, signed = folder / "broker.key", folder / "broker.csr", folder / "broker.crt"
    names = folder / "broker.ext"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-keyout", str(key), "-out", str(request))
    _openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key), "-CAcreateserial", "-days", "2"),
        *("-extfile", str(names), "-out", str(signed)),
    )
    both = folder / "broker.pem"
    both.write_text(key.read_text() + signed.read_text())
    return both


def _openssl(*arguments: str) -> None:
    if shutil.which("openssl") is None:
        raise Unavailable("openssl is not installed")
    subprocess.run(["openssl", *arguments], capture_output=True, check=True, timeout=60)
