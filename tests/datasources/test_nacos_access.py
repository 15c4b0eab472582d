"""TLS, users, tokens, several servers over HTTP; and for each thing that may be wrong an error that says what to do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import (
    Absent,
    Item,
    Readable,
    Reading,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    State,
    Writable,
)
from sentinel_core.rules import Provenance, Revision, SourceText
from tests.services import nacos
from tests.services.nacos import NacosServer
from tests.services.server import wait_until

PASSWORD = "hunter2-secret"
RULES = b'[{"resource": "a", "count": 1}]'
HTTP = "transport=http"


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
    says = refusal(f"nacos://127.0.0.1:1,127.0.0.1:2?{HTTP}", SourceUnavailable)
    assert "127.0.0.1:1 cannot be reached" in says
    assert "127.0.0.1:2 cannot be reached" in says
    assert "Connection refused; check the address" in says


def test_a_name_that_is_none_is_said() -> None:
    assert "nohost.invalid:8848 cannot be reached" in refusal(f"nacos://nohost.invalid?{HTTP}", SourceUnavailable)


def test_the_next_server_answers_for_one_that_is_dead(tmp_path: Path) -> None:
    nacos.needed()
    source = datasources.open(f"nacos://127.0.0.1:1,{nacos.shared().address}?{HTTP}&group={tmp_path.name}")
    (item,) = source.items(["flow"])
    assert isinstance(source.read(item), Absent)
    assert isinstance(source, Writable)
    written = source.write(item, (SourceText("r", RULES, "json"),), expected=None, provenance=Provenance())
    assert written.texts[0].content == RULES
    source.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of one that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_does_not_answer_is_given_up_in_time(silent: str) -> None:
    assert "did not answer in time (0.3 s)" in refusal(f"nacos://{silent}?{HTTP}&timeout=300ms", SourceUnavailable)


@pytest.fixture
def web(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a web server that is no Nacos and answers with the parameter."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(request.param)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("web", "error", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", SourceMisconfigured, "not as a Nacos server does"),
        (b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", SourceMisconfigured, "name the port of the server (8848)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhey!", SourceMisconfigured, "refuses the request"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", SourceUnavailable, "is not ready (HTTP 503)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{", SourceUnavailable, "cannot be reached"),
        (b"", SourceUnavailable, "cannot be reached"),
        (b"SSH-2.0-OpenSSH\r\n", SourceMisconfigured, "not as a Nacos server does"),
    ],
    indirect=["web"],
)
def test_who_is_no_nacos_is_told_from_one(web: str, error: type[Exception], words: str) -> None:
    assert words in refusal(f"nacos://{web}?{HTTP}", error)


@pytest.fixture
def console_of_2() -> Iterator[str]:
    """The address of one that lists namespaces as the console of Nacos 2 does, and the tests' Nacos 2 cannot."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listed = {"code": 200, "data": [{"namespace": ""}, {"namespace": "shop"}]}
            known = self.path.startswith("/nacos/v1/console/namespaces")
            body = json.dumps(listed).encode() if known else b"config data not exist"
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Not to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("namespace", "words"), [("nowhere", "there is no namespace nowhere"), ("shop", "is missing")])
def test_the_console_of_nacos_2_tells_which_namespaces_there_are(console_of_2: str, namespace: str, words: str) -> None:
    found = read(f"nacos://{console_of_2}/{namespace}?{HTTP}")
    assert isinstance(found, Absent)
    assert words in found.reason


# -- TLS ---------------------------------------------------------------------------------------------------------------


class Encrypted(NacosServer):
    """Nacos 3 that speaks TLS."""

    def __init__(self, folder: Path) -> None:
        self.ca, certificate, key = nacos.make_certificate(folder / "pki")
        properties = {
            "server.ssl.enabled": "true",
            "server.ssl.certificate": f"file:{certificate}",
            "server.ssl.certificate-private-key": f"file:{key}",
            "nacos.remote.server.rpc.tls.enableTls": "true",
            "nacos.remote.server.rpc.tls.certChainFile": f"file:{certificate}",
            "nacos.remote.server.rpc.tls.certPrivateKey": f"file:{key}",
            "server.tomcat.max-http-form-post-size": "2MB",  # as it is where nobody has set it
        }
        super().__init__(folder, properties=properties)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    nacos.needed()
    server = Encrypted(tmp_path_factory.mktemp("encrypted"))
    server.start()
    yield server
    server.stop()


def answers(source: Readable, item: Item) -> bool:
    try:
        source.read(item)
    except SourceUnavailable:
        return False
    return True


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_tls_reads_and_writes(encrypted: Encrypted, transport: str) -> None:
    source = datasources.open(encrypted.uri(ca=str(encrypted.ca), transport=transport, group=transport))
    (item,) = source.items(["flow"])
    assert isinstance(source, Writable)
    assert wait_until(lambda: answers(source, item), 30), "its first handshake can take it seconds"
    source.write(item, (SourceText("r", RULES, "json"),), expected=None, provenance=Provenance())
    found = source.read(item)
    assert isinstance(found, Revision)
    assert found.texts[0].content == RULES
    source.close()


def test_a_content_that_the_web_server_cuts_off_says_what_to_do(encrypted: Encrypted) -> None:
    source = datasources.open(encrypted.uri(ca=str(encrypted.ca), transport="http", group="large"))
    (item,) = source.items(["flow"])
    text = SourceText("r", b'[{"resource": "' + b"x" * 3_000_000 + b'"}]', "json")
    assert isinstance(source, Writable)
    with pytest.raises(SourceMisconfigured, match=r"takes no 2\.9 MiB over HTTP.*max-http-form-post-size"):
        source.write(item, (text,), expected=None, provenance=Provenance())
    assert isinstance(source.read(item), Absent)
    beside = source._transport().get(f"{item.key}.provenance")  # type: ignore[attr-defined]
    assert beside is None, "put back, since nothing was written"
    source.close()


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("", SourceMisconfigured, "say &tls=true if it speaks TLS"),
        ("&tls=true", SourceDenied, "is not vouched for by the authorities of this system; name its CA with &ca=FILE"),
        ("&ca=/nowhere/ca.pem", SourceDenied, "ca /nowhere/ca.pem cannot be read"),
        ("&ca={here}/names", SourceDenied, "holds no certificates in PEM form"),
        ("&ca={here}/ca.crt&cert={here}/server.crt&key={here}/ca.key", SourceDenied, "must belong together"),
    ],
)
def test_what_is_wrong_with_tls_is_said(encrypted: Encrypted, query: str, error: type[Exception], words: str) -> None:
    query = query.format(here=encrypted.folder / "pki")
    assert words in refusal(f"nacos://{encrypted.address}?{HTTP}{query}", error)


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_a_certificate_for_another_name_is_said(encrypted: Encrypted, transport: str) -> None:
    says = refusal(f"nacos://localhost:{encrypted.port}?transport={transport}&ca={encrypted.ca}", SourceDenied)
    assert "the server's certificate is for another name" in says


def test_who_signed_no_certificate_of_grpc_is_said(encrypted: Encrypted) -> None:
    says = refusal(f"nacos://{encrypted.address}?transport=grpc&tls=true", SourceDenied)
    assert "is not vouched for by the authorities of this system; name its CA with &ca=FILE" in says


def test_tls_to_one_who_does_not_speak_it_is_said() -> None:
    nacos.needed()
    says = refusal(f"nacos://{nacos.shared().address}?{HTTP}&tls=true", SourceUnavailable)
    assert "if it does not speak TLS, leave tls and ca out" in says


# -- users -------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=nacos.MAJORS)
def guarded(request: pytest.FixtureRequest) -> NacosServer:
    nacos.needed(request.param)
    server = nacos.guarded(request.param)
    if not getattr(server, "has_users", False):
        for name, action in (("ops", "rw"), ("reader", "r")):
            server.make_user(name, PASSWORD, ("public" if server.major == 3 else "") + ":ops:*", action)
        server.has_users = True  # type: ignore[attr-defined]
    return server


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", PASSWORD)
    return PASSWORD


def uri(server: NacosServer, **query: str) -> str:
    return server.uri(**{"group": "ops", "transport": "http", "interval": "50ms", **query})


@pytest.mark.usefixtures("password")
def test_a_user_reads_and_writes_and_the_history_names_him(guarded: NacosServer) -> None:
    source = datasources.open(uri(guarded, user="ops", template="written-{kind}"))
    (item,) = source.items(["flow"])
    assert isinstance(source, Writable)
    source.write(item, (SourceText("r", b"[]", "json"),), expected=None, provenance=Provenance(author="Ada"))
    guarded.put(item.key, RULES, group="ops")  # as the admin
    edited = source.read(item)
    while not (isinstance(edited, Revision) and edited.texts[0].content == RULES):
        edited = source.read(item)
    assert (edited.provenance.channel, edited.provenance.author) == ("console", "nacos <127.0.0.1>")
    source.close()


@pytest.mark.usefixtures("password")
def test_an_expired_token_is_renewed_under_a_subscription(
    guarded: NacosServer, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentinel_core.datasources.nacos.client._RENEW_AT", 1000)  # it learns it from the server
    source = datasources.open(uri(guarded, user="ops", template="expiring-{kind}"))
    (item,) = source.items(["flow"])
    guarded.put(item.key, RULES, group="ops")
    subscription = subscribe(source, recorder)
    recorder.wait_active(RULES)
    assert not recorder.wait(lambda _: False, 6), "tokens live for 5 s"
    guarded.put(item.key, b"[]", group="ops")
    recorder.wait_active(b"[]")
    assert subscription.wait_ready(5)
    assert subscription.status()[0].counters.channel_losses == 0
    source.close()


@pytest.mark.usefixtures("password")
@pytest.mark.parametrize("user", ["reader", "ops"])
def test_a_right_to_one_group_is_enough_to_follow_it_over_grpc(
    guarded: NacosServer, recorder: Any, subscribe: Any, user: str
) -> None:
    source = datasources.open(uri(guarded, user=user, transport="grpc", template=f"followed-by-{user}-{{kind}}"))
    (item,) = source.items(["flow"])
    guarded.put(item.key, RULES, group="ops")
    source.read(item)  # imports the library, which a busy machine takes its time for
    subscription = subscribe(source, recorder)
    recorder.wait_active(RULES)
    guarded.put(item.key, b"[]", group="ops")
    recorder.wait_active(b"[]")
    assert subscription.wait_ready(5)
    assert subscription.status()[0].counters.channel_losses == 0
    source.close()


def test_a_wrong_password_is_an_error_at_once_and_the_right_one_is_taken(
    guarded: NacosServer, recorder: Any, subscribe: Any, monkeypatch: pytest.MonkeyPatch, wait_reason: Any
) -> None:
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", "wrong-hunter2")
    source = datasources.open(uri(guarded, user="ops", template="wrong-{kind}"))
    (item,) = source.items(["flow"])
    guarded.put(item.key, RULES, group="ops")
    subscription = subscribe(source, recorder)
    wait_reason(subscription, "refuses user ops or the password")
    assert subscription.state is State.ERROR
    assert "hunter2" not in str(subscription.status())
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", PASSWORD)
    recorder.wait_active(RULES)
    source.close()


@pytest.mark.parametrize(
    ("query", "given", "words"),
    [
        ({}, None, "asks for a login; write &user=NAME"),
        ({"user": "ops"}, None, "set SENTINEL_NACOS_PASSWORD in the environment"),
        ({"user": "ops"}, "wrong-hunter2", "refuses user ops or the password; check the password in SENTINEL_NACOS"),
        ({"user": "nobody"}, PASSWORD, "refuses user nobody"),
        ({"user": "ops", "group": "others"}, PASSWORD, "denies the user ops this: grant a role that may read"),
        ({"user": "ops", "password_file": "/nowhere/pw"}, None, "/nowhere/pw cannot be read"),
        ({"token_file": "{here}/token"}, None, "refuses the token in"),
        ({"token_file": "{here}/empty"}, None, "is empty; write the token into it"),
    ],
)
def test_what_is_wrong_with_a_login_is_said(
    guarded: NacosServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    given: str | None,
    words: str,
) -> None:
    monkeypatch.delenv("SENTINEL_NACOS_PASSWORD", raising=False)
    if given:
        monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", given)
    (tmp_path / "token").write_text("hunter2-token\n", encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    asked = {name: value.format(here=tmp_path) for name, value in query.items()}
    assert words in refusal(uri(guarded, **asked), SourceDenied)


@pytest.mark.usefixtures("password")
def test_who_may_only_read_is_told_so_at_a_write(guarded: NacosServer) -> None:
    source = datasources.open(uri(guarded, user="reader", template="read-{kind}"))
    (item,) = source.items(["flow"])
    assert isinstance(source.read(item), Absent)
    assert isinstance(source, Writable)
    with pytest.raises(SourceDenied, match="denies the user reader this: grant a role"):
        source.write(item, (SourceText("r", RULES, "json"),), expected=None, provenance=Provenance())
    source.close()


def test_a_token_stands_for_a_login(guarded: NacosServer, tmp_path: Path) -> None:
    guarded._log_in()
    (tmp_path / "token").write_text(guarded._token or "", encoding="utf-8")
    assert isinstance(read(uri(guarded, token_file=f"{tmp_path}/token", template="token-{kind}")), Absent)


@pytest.mark.usefixtures("password")
def test_no_secret_stands_in_what_people_see_of_a_source(guarded: NacosServer) -> None:
    source: Readable = datasources.open(uri(guarded, user="ops"))
    source.read(source.items(["flow"])[0])
    client = source._api.client  # type: ignore[attr-defined]
    token = client._token[0]
    seen = f"{source!r} {source.uri} {source.items(['flow'])} {vars(source)} {client!r}"
    assert token not in seen
    assert PASSWORD not in seen
    source.close()


def test_a_password_is_taken_from_no_uri() -> None:
    with pytest.raises(
        SourceMisconfigured, match="put the password into the variable SENTINEL_NACOS_PASSWORD"
    ) as caught:
        datasources.open(f"nacos://ops:{PASSWORD}@127.0.0.1:1")
    assert PASSWORD not in str(caught.value)
