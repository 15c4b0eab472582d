"""`audit checkpoint` and `audit verify` over a store on disk, with keys as openssl writes them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sentinel_core.audit.events import Event
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.audit.purging import gone
from tests.cli.conftest import Run

AT = datetime(2026, 11, 25, 6, 30, tzinfo=UTC)


@pytest.fixture
def place(here: Path) -> Path:
    """A folder with settings, a key, its public half, and a store of three events."""
    key = Ed25519PrivateKey.generate()
    (here / "audit.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (here / "audit.pub").write_bytes(public)
    (here / "sentinel.yaml").write_text(
        "audit: {store: 'sqlite:///audit.db', checkpoints: checkpoints.ndjson, signingKeyFile: audit.key}\n"
    )
    data = json.dumps({"environment": "prod", "author": "chen"}).encode()
    store = SqliteStore(here / "audit.db")
    store.ingest([Event(f"event-{number:04}", "/prod/x", "some.type", "flow", AT, data) for number in range(3)])
    store.close()
    return here


def execute(place: Path, statement: str) -> None:
    connection = sqlite3.connect(place / "audit.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_what_is_sound_ends_with_0(place: Path, sentinelctl: Run) -> None:
    made = sentinelctl("audit", "checkpoint")
    assert made.code == 0, made.err
    assert made.out.splitlines()[1].split()[:2] == ["/prod/x", "3"]
    ended = sentinelctl("audit", "verify")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "Sound: 3 events of 1 source, 1 checkpoint.\n"


def test_what_was_tampered_with_ends_with_2_and_names_kind_source_and_numbers(place: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    execute(place, "UPDATE events SET author = 'li' WHERE number = 2")
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    told = "! hash mismatch 2 of /prod/x  is not what was written: event event-0001, 2026-11-25T06:30:00.000Z\n"
    assert ended.out == told
    assert ended.err == (
        "Tampered with: 1 finding in 3 events of 1 source, 1 checkpoint.\n"
        "next: keep a copy of the store as evidence; sentinelctl audit show event-0001\n"
    )


@pytest.mark.parametrize("form", ["json", "yaml", "ndjson", "name", "wide"])
def test_the_exit_code_does_not_depend_on_the_output(place: Path, sentinelctl: Run, form: str) -> None:
    sentinelctl("audit", "checkpoint")
    assert sentinelctl("audit", "verify", "-o", form).code == 0
    for statement in gone("number = 2"):
        execute(place, statement)
    ended = sentinelctl("audit", "verify", "-o", form)
    assert ended.code == 2
    assert "/prod/x" in ended.out
    if form == "json":
        document = json.loads(ended.out)
        assert (document["sound"], document["events"]) == (False, 2)
        told = {"kind": "gap", "source": "/prod/x", "number": 2, "last": 2, "text": "is missing"}
        assert document["findings"] == [told | {"id": None, "time": None, "resource": None}]


def test_an_auditor_needs_the_public_half_alone(place: Path, sentinelctl: Run) -> None:
    sentinelctl("audit", "checkpoint")
    (place / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    arguments = ("audit", "verify", "--checkpoints", "checkpoints.ndjson")
    assert sentinelctl(*arguments, "--key", "audit.pub").err == "Sound: 3 events of 1 source, 1 checkpoint.\n"
    assert "are not verified" in sentinelctl(*arguments).err
    text = (place / "checkpoints.ndjson").read_text()
    (place / "checkpoints.ndjson").write_text(text.replace('"number": 3', '"number": 2'))
    ended = sentinelctl(*arguments, "--key", "audit.pub")
    assert ended.code == 2
    assert ended.out.startswith("! bad signature 2 of /prod/x  line 1 of checkpoints.ndjson")


def test_without_checkpoints_it_says_what_cannot_be_told(place: Path, sentinelctl: Run) -> None:
    (place / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    ended = sentinelctl("audit", "verify")
    assert ended.code == 0
    assert "there are no checkpoints" in ended.err
    refused = sentinelctl("audit", "checkpoint")
    assert refused.code == 78
    assert "openssl genpkey" in refused.err


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_file_of_checkpoints_that_the_settings_name_must_hold_one(
    place: Path, sentinelctl: Run, content: str | None
) -> None:
    sentinelctl("audit", "checkpoint")
    assert sentinelctl("audit", "verify").code == 0
    (place / "checkpoints.ndjson").unlink()
    if content is not None:
        (place / "checkpoints.ndjson").write_text(content)
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    assert "no checkpoint" in ended.out
    if content != "\n":
        assert "nobody has signed yet, or it was taken away" in ended.out
        assert "next: sentinelctl audit checkpoint" in ended.err


def test_a_store_without_events_needs_no_checkpoint(place: Path, sentinelctl: Run) -> None:
    for table in ("events", "bodies", "changes", "chains", "sightings"):
        execute(place, f"DELETE FROM {table}")  # noqa: S608  own names
    assert sentinelctl("audit", "verify").code == 0


def test_another_key_is_one_clear_error(place: Path, sentinelctl: Run) -> None:
    for _ in range(3):
        sentinelctl("audit", "checkpoint")
        add(place, f"another-{len((place / 'checkpoints.ndjson').read_text().splitlines())}")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "other.key"], cwd=place, check=True)
    ended = sentinelctl("audit", "verify", "--key", "other.key")
    assert (ended.code, ended.out) == (78, "")
    assert "none of the 3 checkpoints in " in ended.err
    assert "is signed with" in ended.err


CHANGED_LINES: dict[str, dict[str, object]] = {
    "a number without end": {"number": float("inf")},
    "a number that is a text": {"number": "3"},
    "a number that is none": {"number": True},
    "a source that is none": {"source": 7},
    "a time that is none": {"time": "x"},
    "a time without a zone": {"time": "2026-11-25T06:30:00"},
    "a hash that is too short": {"hash": "00"},
}


@pytest.mark.parametrize("how", CHANGED_LINES)
def test_a_line_that_is_no_checkpoint_is_a_finding_and_blinds_nobody(place: Path, sentinelctl: Run, how: str) -> None:
    sentinelctl("audit", "checkpoint")
    path = place / "checkpoints.ndjson"
    line = json.loads(path.read_text())
    path.write_text(path.read_text() + json.dumps(line | CHANGED_LINES[how]).replace("Infinity", "1e999") + "\n")
    ended = sentinelctl("audit", "verify")
    assert ended.code == 2
    assert "! bad signature  line 2 of checkpoints.ndjson is no checkpoint" in ended.out
    assert "unexpected" not in sentinelctl("audit", "who", "pay").err


def add(place: Path, name: str) -> None:
    data = json.dumps({"environment": "prod"}).encode()
    SqliteStore(place / "audit.db").ingest([Event(name, "/prod/x", "some.type", "flow", AT, data)])


@pytest.mark.parametrize("content", ["", "x", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"])
def test_a_key_that_is_none_is_told_without_what_it_holds(place: Path, sentinelctl: Run, content: str) -> None:
    (place / "audit.key").write_text(content)
    ended = sentinelctl("audit", "checkpoint")
    assert ended.code == 78
    assert "c2VjcmV0" not in ended.err + ended.out


def test_a_key_in_the_settings_file_itself_is_refused(place: Path, sentinelctl: Run) -> None:
    (place / "sentinel.yaml").write_text("audit: {signingKey: c2VjcmV0}\n")
    ended = sentinelctl("audit", "verify")
    assert ended.code == 78
    assert "signingKeyFile" in ended.err
    assert "c2VjcmV0" not in ended.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_checkpoints_are_made_until_it_is_interrupted(place: Path, number: int, code: int) -> None:
    program = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()"]
    running = subprocess.Popen(
        [*program, "audit", "checkpoint", "--every", "100ms", "-o", "name"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "/prod/x\n"
    data = json.dumps({"environment": "prod"}).encode()
    SqliteStore(place / "audit.db").ingest([Event("another", "/prod/y", "some.type", "flow", AT, data)])
    assert running.stdout.readline() == "/prod/y\n"
    running.send_signal(number)
    _, err = running.communicate(timeout=20)
    assert running.returncode == code
    assert "Traceback" not in err
    assert len((place / "checkpoints.ndjson").read_text().splitlines()) == 2


def test_a_form_with_an_end_is_refused_where_there_is_none(place: Path, sentinelctl: Run) -> None:
    assert sentinelctl("audit", "checkpoint", "--every", "1h", "-o", "json").code == 64
    assert sentinelctl("audit", "checkpoint", "--every", "soon").code == 64
