"""`audit init`, `audit ingest` and `doctor` before a real Kafka: with and without a login, and without Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.audit.kafka import clients
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.publish.kafka import KafkaPublisher
from tests.audit.conftest import History, flow_rule
from tests.cli.conftest import Run, git
from tests.collectors.conftest import running
from tests.services.kafka import Kafka, authority
from tests.services.server import free_port, wait_until

pytestmark = pytest.mark.service("kafka")

PASSWORD = "hunter2-s3cr3t"
USERS = {"sentinel": PASSWORD, "stranger": PASSWORD}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    def make() -> Kafka:
        made = Kafka(tmp_path_factory.mktemp("kafka"), users=USERS)
        made.format()
        return made

    with running(make) as started:
        grant(started)
        yield started


def grant(server: Kafka) -> None:
    """`sentinel` may do everything with its topics and its group; `stranger` nothing."""
    library()
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
    from kafka.admin import ACLResourcePatternType as Pattern

    admin = clients.admin(Target((server.bootstrap,)))
    admin.create_acls(
        [
            ACL(
                "User:sentinel",
                "*",
                ACLOperation.ALL,
                ACLPermissionType.ALLOW,
                ResourcePattern(kind, "sentinel", Pattern.PREFIXED),
            )
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        ]
        + [
            ACL(
                "User:sentinel",
                "*",
                ACLOperation.IDEMPOTENT_WRITE,
                ACLPermissionType.ALLOW,
                ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", Pattern.LITERAL),
            )
        ]
    )
    admin.close()


Configure = Callable[..., None]


@pytest.fixture
def configure(here: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes settings with these values of `audit.kafka`, and topics for this test alone."""
    monkeypatch.setenv("SENTINEL_KAFKA_PASSWORD", PASSWORD)
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]

    def write(bootstrap: str, *, timeout: str = "5s", **more: Any) -> None:
        kafka = {"bootstrap": bootstrap, **names(name), "group": f"sentinel-{name}", **more}
        (here / "sentinel.yaml").write_text(json.dumps({"audit": {"kafka": kafka}, "timeout": timeout}))

    return write


def names(name: str) -> dict[str, str]:
    return {"changes": f"sentinel-{name}.changes", "status": f"sentinel-{name}.status"}


def publish(server: Kafka, here: Path, number: int) -> list[str]:
    """So many changes into the topics of the settings; their ids."""
    kafka = json.loads((here / "sentinel.yaml").read_text())["audit"]["kafka"]
    publisher = KafkaPublisher(Target((server.bootstrap,)), Topics(kafka["changes"], kafka["status"]))
    history = History()
    sent = publisher.publish([history.commit("flow", [flow_rule(count=count)]) for count in range(1, number + 1)])
    publisher.close()
    return [event.id for event in sent]


def secured(server: Kafka, **more: str) -> dict[str, str]:
    return {"bootstrap": server.secure, "ca": str(server.ca), "user": "sentinel", **more}


# -- a broker that lets everybody in -----------------------------------------------------------------------------------


def test_init_makes_the_topics_once_and_says_what_differs(
    server: Kafka, configure: Configure, sentinelctl: Run
) -> None:
    configure(server.bootstrap)
    first = sentinelctl("audit", "init", "-o", "json", "--partitions", "2")
    assert (first.code, first.err) == (0, "")
    assert [each["created"] for each in json.loads(first.out)["topics"]] == [True, True, True]
    again = sentinelctl("audit", "init", "-o", "ndjson")
    assert [json.loads(line)["differs"] for line in again.out.splitlines()] == [[], [], []]
    other = sentinelctl("audit", "init", "-o", "ndjson", "--partitions", "3")
    assert [json.loads(line)["differs"] for line in other.out.splitlines()] == [["it has 2 partitions, not 3"]] * 3
    changes = json.loads(first.out)["topics"][0]["topic"]
    admin = clients.admin(Target((server.bootstrap,)))
    admin.alter_configs([library().admin.ConfigResource("TOPIC", changes, configs={"retention.ms": "1000"})])
    admin.close()
    for form in ("table", "wide", "yaml"):
        ended = sentinelctl("audit", "init", "-o", form)
        assert "retention.ms is 1000, not -1" in ended.out, form
    assert sentinelctl("audit", "init", "-o", "name").out.splitlines()[0] == changes
    looked = sentinelctl("doctor")
    assert looked.code == 0
    assert "warn  kafka" in looked.out


def test_what_is_in_kafka_is_in_the_store_when_ingest_is_idle(
    server: Kafka, configure: Configure, sentinelctl: Run, here: Path
) -> None:
    configure(server.bootstrap)
    assert sentinelctl("audit", "init").code == 0
    sent = publish(server, here, 5)
    ended = sentinelctl("audit", "ingest", "--until-idle", "-o", "json")
    assert (ended.code, json.loads(ended.out)["stored"], json.loads(ended.out)["lag"]) == (0, 5, 0)
    assert "5 events stored, 0 known before, lag 0" in ended.err
    found = sentinelctl("audit", "query", "-o", "name")
    assert found.out.split() == sent[::-1]
    assert json.loads(sentinelctl("audit", "ingest", "--until-idle", "-o", "json").out)["stored"] == 0


def test_a_topic_that_is_missing_is_told_with_the_command_that_makes_it(
    server: Kafka, configure: Configure, sentinelctl: Run
) -> None:
    configure(server.bootstrap)
    looked = sentinelctl("doctor", "-o", "json")
    (kafka,) = [each for each in json.loads(looked.out)["checks"] if each["check"] == "kafka"]
    assert (looked.code, kafka["health"], kafka["next"]) == (69, "fail", "sentinelctl audit init")


# -- TLS and a login ---------------------------------------------------------------------------------------------------


def test_with_tls_and_a_login_all_goes_the_same_way(
    server: Kafka, configure: Configure, sentinelctl: Run, here: Path
) -> None:
    configure(**secured(server))
    assert sentinelctl("audit", "init").code == 0
    publish(server, here, 3)
    ended = sentinelctl("audit", "ingest", "--until-idle", "-o", "json")
    assert json.loads(ended.out)["stored"] == 3
    looked = sentinelctl("doctor")
    assert (looked.code, "ok    kafka" in looked.out) == (0, True)
    assert "3 topics; Kafka 4." in looked.out
    assert " or newer; may be written" in looked.out


WRONG = {
    "password": (4, "refuses the login of sentinel", {}),
    "ca": (78, "its certificate is not trusted", {}),
    "user": (4, "refuses the login of nobody", {"user": "nobody"}),
    "right": (4, "grant", {"user": "stranger"}),
    "no password": (78, "there is no password", {}),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("command", ["audit init", "audit ingest", "doctor"])
def test_what_is_wrong_is_one_clear_error_and_never_the_password(
    server: Kafka,
    configure: Configure,
    sentinelctl: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    wrong: str,
) -> None:
    code, said, change = WRONG[wrong]
    if wrong == "password":
        monkeypatch.setenv("SENTINEL_KAFKA_PASSWORD", f"{PASSWORD}-not")
    if wrong == "no password":
        monkeypatch.delenv("SENTINEL_KAFKA_PASSWORD")
    if wrong == "ca":
        change = {"ca": str(authority(tmp_path, "other")[0])}
    configure(**secured(server, **change), timeout="3s")
    if wrong == "right":
        configure(server.bootstrap)
        assert sentinelctl("audit", "init").code == 0
        configure(**secured(server, **change), timeout="3s")
    begun = time.monotonic()
    ended = sentinelctl(*command.split())
    assert time.monotonic() - begun < 8
    assert ended.code == code, ended
    text = ended.out if command == "doctor" else ended.err
    assert said in text or (wrong == "right" and "no topic" in text)
    assert ended.err.count("error: ") == (command != "doctor")
    assert PASSWORD not in ended.out + ended.err


# -- no broker, and the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "code"), [("audit init", 69), ("audit ingest --until-idle", 69), ("doctor", 69)])
def test_without_a_broker_a_command_ends_in_time(
    configure: Configure, sentinelctl: Run, command: str, code: int
) -> None:
    configure(f"127.0.0.1:{free_port()}", timeout="1s")
    begun = time.monotonic()
    ended = sentinelctl(*command.split())
    assert time.monotonic() - begun < 5
    assert ended.code == code
    assert "does not answer" in ended.out + ended.err
    assert "next: " in ended.out + ended.err


def test_without_settings_for_kafka_it_says_what_to_write(here: Path, sentinelctl: Run) -> None:
    for command in ("init", "ingest"):
        ended = sentinelctl("audit", command)
        assert ended.code == 78
        assert "audit.kafka: not set; write for example" in ended.err


def begin(here: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`audit ingest` as a process, once it said that it takes events."""
    program = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()", "audit", "ingest", *arguments]
    process = subprocess.Popen(program, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
    assert process.stderr is not None
    assert b"Ctrl-C ends it" in process.stderr.readline()
    return process


@pytest.mark.parametrize("up", [True, False], ids=["with a broker", "without one"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_it_within_two_seconds(
    server: Kafka, configure: Configure, here: Path, sentinelctl: Run, up: bool, number: signal.Signals, code: int
) -> None:
    configure(server.bootstrap if up else f"127.0.0.1:{free_port()}")
    if up:
        assert sentinelctl("audit", "init").code == 0
    process = begin(here)
    time.sleep(1)
    begun = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, b"Traceback" in said) == (code, False), said
    assert time.monotonic() - begun < 4, "two seconds, and as many for a busy machine"


def test_served_events_are_stored_while_a_store_is_kept(
    server: Kafka, configure: Configure, sentinelctl: Run, here: Path
) -> None:
    configure(server.bootstrap)
    assert sentinelctl("audit", "init").code == 0
    git(here, "init", "-qb", "main")
    (here / "rules.yaml").write_text("flowRules: [{resource: pay, count: 5}]\n")
    git(here, "add", "rules.yaml")
    git(here, "commit", "-qm", "Begin")
    sides = [f"git+file://{here}?ref=main&path=rules.yaml", "--store", f"file://{here}/live.yaml"]
    program = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()", "serve", "--sync", *sides]
    process = subprocess.Popen(program, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        sent = publish(server, here, 3)
        assert wait_until(lambda: sentinelctl("audit", "query", "-o", "name").out.split() == sent[::-1], 30)
        assert wait_until((here / "live.yaml").exists, 30)
    finally:
        process.send_signal(signal.SIGTERM)
        told, said = process.communicate(timeout=20)
    assert (process.returncode, b"published" in told, b"3 events stored" in said) == (0, True, True), said


def test_a_reader_that_goes_away_stops_nothing(
    server: Kafka, configure: Configure, sentinelctl: Run, here: Path, process: Run
) -> None:
    configure(server.bootstrap)
    assert process(script="$SENTINELCTL audit init | true; exit ${PIPESTATUS[0]}").code == 0
    publish(server, here, 2)
    ended = process(script="$SENTINELCTL audit ingest --until-idle 2>&1 | true; exit ${PIPESTATUS[0]}")
    assert ended.code == 0
    assert len(sentinelctl("audit", "query", "-o", "name").out.split()) == 2


def test_lag_and_age_can_be_scraped(server: Kafka, configure: Configure, sentinelctl: Run, here: Path) -> None:
    configure(server.bootstrap)
    assert sentinelctl("audit", "init").code == 0
    publish(server, here, 4)
    port = free_port()
    process = begin(here, "--metrics", f":{port}")
    seen: list[str] = []

    def stored() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            seen[:] = answer.read().decode().splitlines()
        return {"sentinel_audit_ingest_stored_total 4.0", "sentinel_audit_ingest_lag 0.0"} <= set(seen)

    assert wait_until(stored, 20), seen
    assert "sentinel_audit_ingest_behind_seconds 0.0" in seen
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


@pytest.mark.parametrize("address", ["9465", "host", ":0", ":70000", "256.0.0.1:9465"])
def test_an_address_for_metrics_that_is_none_is_refused(configure: Configure, sentinelctl: Run, address: str) -> None:
    configure("127.0.0.1:1")
    ended = sentinelctl("audit", "ingest", "--metrics", address)
    assert (ended.code, "--metrics" in ended.err) == (64, True)
