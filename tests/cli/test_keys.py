"""Keys of the audit, from the settings to the events of a running engine, and as `doctor` sees them."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sentinel_core.audit.redaction import Redaction
from sentinel_core.audit.store.contract import Condition, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.settings import SettingsError, load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Project, Run

KEY = "0123456789abcdef" * 2
APP = "customer-4711"
RULES = f"flowRules:\n  - {{resource: payment_invoke, grade: 1, count: 20, limitApp: {APP}}}\n"


@pytest.fixture
def hiding(project: Project) -> Project:
    """A project whose settings hide `limitApp`."""
    with_settings(project, "  redact: [limitApp]\n  redactKeyFile: redact.key\n")
    (project.folder / "redact.key").write_text(KEY + "\n")
    return project


def with_settings(project: Project, audit: str) -> None:
    path = project.folder / "sentinel.yaml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(("audit", "  "))]
    path.write_text("\n".join(lines) + f"\naudit:\n  store: sqlite:///.sentinel/audit.db\n{audit}")


def test_what_the_settings_hide_is_in_no_event_of_the_engine(hiding: Project) -> None:
    hiding.commit(RULES, "For one customer")
    engine = start(load_settings())
    assert engine.wait_ready(10)
    engine.close()
    store = SqliteStore(hiding.folder / ".sentinel" / "audit.db")
    (row,) = store.query(Query((Condition("action", "is", ("seen",)),))).rows
    assert row.rule == f"flow/payment_invoke/{Redaction((), KEY).keyed(APP)}"
    store.close()
    for name in ("outbox.db", "outbox.db-wal", "audit.db", "audit.db-wal"):
        path = hiding.folder / ".sentinel" / name
        assert APP.encode() not in (path.read_bytes() if path.exists() else b""), name


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        ("  redact: [limitapp]\n  redactKeyFile: redact.key\n", "did you mean limitApp"),
        ("  redact: [limitApp]\n", "redactKeyFile"),
        ("  redact: [resource]\n  redactKeyFile: redact.key\n", "what events are found by"),
    ],
)
def test_a_service_does_not_start_without_what_it_must_hide(
    hiding: Project, sentinelctl: Run, audit: str, message: str
) -> None:
    with_settings(hiding, audit)
    with pytest.raises(SettingsError, match=message):
        start(load_settings())
    ended = sentinelctl("doctor")
    assert ended.code == 78
    assert message in ended.out + ended.err


def pem(key: Ed25519PrivateKey) -> tuple[bytes, bytes]:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), public


def test_doctor_says_whether_the_keys_fit(project: Project, sentinelctl: Run) -> None:
    private, public = pem(Ed25519PrivateKey.generate())
    (project.folder / "audit.key").write_bytes(private)
    (project.folder / "audit.pub").write_bytes(public)
    both = "  signingKeyFile: audit.key\n  verifyKeyFile: audit.pub\n"
    with_settings(project, both)
    assert "audit.checkpoints names no file" in sentinelctl("doctor").out
    with_settings(project, f"{both}  checkpoints: checkpoints.ndjson\n")
    assert "checkpoints.ndjson, key " in sentinelctl("doctor").out
    (project.folder / "audit.pub").write_bytes(pem(Ed25519PrivateKey.generate())[1])
    assert "but audit.verifyKey is of" in sentinelctl("doctor").out
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (project.folder / "audit.key").write_bytes(other)
    ended = sentinelctl("doctor")
    assert ended.code == 78
    assert "not of Ed25519" in ended.out
