"""TLS, mutual TLS, users, several endpoints; and for each thing that may be wrong one error that says what to mend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    Absent,
    Inspectable,
    Readable,
    Reading,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    State,
    Writable,
)
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.services import etcd
from tests.services.etcd import EtcdServer

PASSWORD = "hunter2-secret"
RULES = b'[{"resource": "a", "count": 1}]'
TOKEN_TTL_S = 1


def read(uri: str) -> Reading:
    source = datasources.open(uri)
    try:
        return source.read(source.items(["flow"])[0])
    finally:
        source.close()


def refusal(uri: str, error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        read(uri)
    assert "hunter2" not in repr(caught.value) + repr(caught.value.__cause__)
    return str(caught.value)


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_nobody_there_names_every_address_that_was_tried() -> None:
    etcd.needed()
    says = refusal("etcd://127.0.0.1:1,127.0.0.1:2", SourceUnavailable)
    assert "127.0.0.1:1 cannot be reached" in says
    assert "127.0.0.1:2 cannot be reached" in says
    assert "Connection refused; check the address" in says


def test_the_next_endpoint_answers_for_one_that_is_dead() -> None:
    etcd.needed()
    server = etcd.shared()
    source = datasources.open(f"etcd://127.0.0.1:1,{server.address}/failover")
    (item,) = source.items(["flow"])
    assert isinstance(source.read(item), Absent)
    assert isinstance(source, Writable)
    written = source.write(item, (SourceText("r", RULES, "json"),), expected=None, provenance=Provenance())
    assert written.texts[0].content == RULES
    source.write(item, (), expected=written.version, provenance=Provenance())
    source.close()


def test_a_server_that_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    etcd.needed()
    server = EtcdServer(tmp_path).start()
    try:
        server.freeze()
        says = refusal(server.uri(timeout="300ms"), SourceUnavailable)
    finally:
        server.kill()
    assert "did not answer in time (in all 0.3 s)" in says


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    etcd.needed()
    server = EtcdServer(tmp_path_factory.mktemp("mutual"), tls=True, client_certs=True).start()
    yield server
    server.kill()


def test_mutual_tls_reads_and_writes(mutual: EtcdServer) -> None:
    pki = mutual.pki
    uri = mutual.uri(ca=f"{pki}/ca.crt", cert=f"{pki}/client.crt", key=f"{pki}/client.key")
    mutual.put("/sentinel/public/SENTINEL_GROUP/sentinel-flow-rules", RULES)
    found = read(uri)
    assert isinstance(found, Revision)
    assert found.texts[0].content == RULES


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ({}, SourceUnavailable, "if it speaks TLS, write &tls=true or &ca=FILE"),
        ({"tls": "true"}, SourceDenied, "not vouched for by the authorities of this system; name its CA with &ca=FILE"),
        ({"ca": "other-ca.crt"}, SourceDenied, "other-ca.crt; name its CA"),
        ({"ca": "ca.crt"}, SourceDenied, "a client's certificate is wanted; &cert=FILE&key=FILE"),
        (
            {"ca": "ca.crt", "cert": "other-ca.crt", "key": "other-ca.key"},
            SourceDenied,
            "must be signed by the CA that it trusts",
        ),
        ({"ca": "ca.crt", "cert": "client.crt", "key": "server.key"}, SourceDenied, "they must belong together"),
        ({"ca": "gone.crt"}, SourceDenied, "gone.crt cannot be read: No such file"),
        ({"ca": "names"}, SourceDenied, "holds no certificates in PEM form"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(
    mutual: EtcdServer, query: dict[str, str], error: type[Exception], words: str
) -> None:
    paths = {name: value if name == "tls" else f"{mutual.pki}/{value}" for name, value in query.items()}
    assert words in refusal(mutual.uri(**paths), error)


def test_a_certificate_for_another_name_is_said(mutual: EtcdServer) -> None:
    pki = mutual.pki
    uri = f"etcd://localhost:{mutual.port}?ca={pki}/ca.crt&cert={pki}/client.crt&key={pki}/client.key"
    assert "the server's certificate is for another name" in refusal(uri, SourceDenied)


def test_tls_to_a_server_without_it_is_said() -> None:
    etcd.needed()
    assert "if it does not speak TLS, leave that out" in refusal(etcd.shared().uri(tls="true"), SourceUnavailable)


# -- users -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    etcd.needed()
    flags = ("--auth-token=simple", f"--auth-token-ttl={TOKEN_TTL_S}", "--bcrypt-cost=4")
    server = EtcdServer(tmp_path_factory.mktemp("guarded"), flags=flags).start()
    server.require_login("ops", PASSWORD, "/sentinel/")
    yield server
    server.kill()


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", PASSWORD)


def test_a_user_reads_with_a_password_from_the_environment_or_from_a_file(
    guarded: EtcdServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n", encoding="utf-8")
    assert isinstance(read(guarded.uri("/n/g", user="ops", password_file=str(tmp_path / "password"))), Absent)
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", PASSWORD)
    assert isinstance(read(guarded.uri("/n/g", user="ops")), Absent)


@pytest.mark.usefixtures("password")
def test_a_source_tells_server_and_rights_and_writes_nothing_to_find_out(guarded: EtcdServer) -> None:
    for template, rights in (({}, True), ({"template": "/elsewhere/{kind}"}, False)):
        source = datasources.open(guarded.uri("/n/rights", user="ops", **template))
        assert isinstance(source, Inspectable)
        before = guarded.revision()
        found = source.inspect(source.items(["flow"])[0])
        assert (found.server or "").startswith("etcd 3.")
        assert found.may_write is rights
        assert found.clock is not None
        assert guarded.revision() == before
        source.close()


@pytest.mark.usefixtures("password")
def test_a_user_is_no_hindrance_where_nobody_is_asked() -> None:
    etcd.needed()
    assert isinstance(read(etcd.shared().uri("/n/g", user="ops")), Absent)


@pytest.mark.usefixtures("password")
def test_an_expired_token_is_renewed_and_the_watch_goes_on(
    guarded: EtcdServer, recorder: Any, other_recorder: Any, subscribe: Any
) -> None:
    source = datasources.open(guarded.uri("/n/expiry", user="ops"))
    (item,) = source.items(["flow"])
    guarded.put(item.key, RULES)
    subscription = subscribe(source, recorder)
    assert subscription.wait_ready(5)
    token = source._opened._client._session.token  # type: ignore[attr-defined]
    assert token
    guarded.ctl("auth", "disable")
    guarded.ctl("auth", "enable")  # every token is void from now on
    assert isinstance(source.read(item), Revision)
    assert source._opened._client._session.token != token  # type: ignore[attr-defined]
    guarded.put(item.key, b"[]")
    recorder.wait_active(b"[]")
    assert subscription.state is State.READY
    later = subscribe(source, other_recorder)  # whose watch must not be refused with the void token of the stream
    assert later.wait_ready(5)
    guarded.put(item.key, RULES)
    other_recorder.wait_active(RULES)
    recorder.wait_active(RULES)
    guarded.put(item.key, b"[]")
    other_recorder.wait_active(b"[]")
    assert later.wait_ready(2)
    assert later.status()[0].counters.channel_losses <= 1
    source.close()


def test_a_wrong_password_is_an_error_at_once_and_the_right_one_is_taken(
    guarded: EtcdServer, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch, wait_reason: Any
) -> None:
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", "wrong-hunter2")
    source = datasources.open(guarded.uri("/n/wrong", user="ops"))
    (item,) = source.items(["flow"])
    guarded.put(item.key, RULES)
    subscription = subscribe(source, recorder)
    wait_reason(subscription, "refuses user ops or the password")
    assert subscription.state is State.ERROR
    assert "hunter2" not in str(subscription.status())
    monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", PASSWORD)
    recorder.wait_active(RULES)
    source.close()


@pytest.mark.parametrize(
    ("query", "given", "words"),
    [
        ("", None, "asks for a login"),
        ("?user=ops", None, "set SENTINEL_ETCD_PASSWORD in the environment"),
        ("?user=ops", "wrong-hunter2", "refuses user ops or the password; check the password in the variable"),
        ("?user=nobody", PASSWORD, "refuses user nobody"),
        ("?user=ops&template=/other/{kind}", PASSWORD, "denies the user ops this: grant a role"),
        ("?user=ops&password_file=/nowhere/pw", None, "/nowhere/pw cannot be read"),
    ],
)
def test_what_is_wrong_with_a_login_is_said(
    guarded: EtcdServer, monkeypatch: pytest.MonkeyPatch, query: str, given: str | None, words: str
) -> None:
    monkeypatch.delenv("SENTINEL_ETCD_PASSWORD", raising=False)
    if given:
        monkeypatch.setenv("SENTINEL_ETCD_PASSWORD", given)
    assert words in refusal(guarded.uri() + query, SourceDenied)


@pytest.mark.usefixtures("password")
def test_no_password_stands_in_what_people_see_of_a_source(guarded: EtcdServer) -> None:
    source: Readable = datasources.open(guarded.uri(user="ops"))
    source.read(source.items(["flow"])[0])
    assert "hunter2" not in f"{source!r} {source.uri} {source.items(['flow'])} {vars(source)}"
    source.close()


@pytest.mark.usefixtures("password")
def test_a_password_is_taken_from_no_uri() -> None:
    with pytest.raises(
        SourceMisconfigured, match="put the password into the variable SENTINEL_ETCD_PASSWORD"
    ) as caught:
        datasources.open(f"etcd://ops:{PASSWORD}@127.0.0.1:1")
    assert PASSWORD not in str(caught.value)
