"""A real Nacos 3 or 2 on free loopback ports, without its console, from the jars that script/test fetches."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from tests.services.server import CACHE, Server, accepts, cannot

HOST = "127.0.0.1"
ADMIN, ADMIN_PASSWORD = "nacos", {3: "nacos-test", 2: "nacos"}
GROUP = "SENTINEL_GROUP"
MAJORS = (3, 2)
_OFFSETS = (0, 1000, 1001, -1000)
"""HTTP, gRPC of clients, gRPC between servers, raft."""
_FAILED = (b"APPLICATION FAILED TO START", b"Nacos failed to start", b"Start destroying ThreadPool")
_MEMORY = ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_COMMON = {
    "nacos.core.auth.system.type": "nacos",
    "nacos.core.auth.caching.enabled": "false",
    "nacos.core.auth.server.identity.key": "tests",
    "nacos.core.auth.server.identity.value": "tests",
    "nacos.core.auth.plugin.nacos.token.secret.key": "bG9jYWwtdGVzdC1vbmx5LXNlY3JldC1rZXktMDEyMzQ1Njc4OQ==",
    "nacos.inetutils.ip-address": HOST,
    "server.address": HOST,
    "db.pool.config.connectionTimeout": "60000",  # on a busy machine its database is not there in the 3 s it is given
    "server.error.include-message": "ALWAYS",
    "server.tomcat.accesslog.enabled": "false",
    "server.tomcat.max-http-form-post-size": "64MB",
}
_OF_3 = {
    "nacos.deployment.type": "server",
    "management.elastic.metrics.export.enabled": "false",
    "management.influx.metrics.export.enabled": "false",
}
_OF_2 = {
    "server.servlet.contextPath": "/nacos",
    "spring.main.allow-circular-references": "true",
    "spring.mvc.pathmatch.matching-strategy": "ant_path_matcher",
    "spring.autoconfigure.exclude": "org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration,"
    "org.springframework.boot.autoconfigure.jdbc.DataSourceTransactionManagerAutoConfiguration",
    "management.metrics.export.elastic.enabled": "false",
    "management.metrics.export.influx.enabled": "false",
}


def missing(major: int = 3) -> str | None:
    """Why there can be none on this machine; None where there can."""
    if shutil.which("java") is None:
        return "java is not installed (17 or newer)"
    if not (CACHE / f"nacos-{major}" / "classes").exists():
        return f"the jars of Nacos {major} are not in .cache/nacos-{major} (script/test fetches them; it takes mvn)"
    return None


def needed(major: int = 3) -> None:
    """Skips the test where there can be none; on CI that is a failure."""
    if why := missing(major):
        cannot(why)


class NacosServer(Server):
    """One standalone server with its data in `folder`; takes 8 to 15 s to start. `auth`: whoever comes must log in.

    `properties` are more lines of its application.properties, such as those of TLS.
    """

    def __init__(
        self,
        folder: Path,
        major: int = 3,
        *,
        auth: bool = False,
        token_s: int = 18000,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.major = major
        self.auth = auth
        self.folder = folder
        self.port = _free_port()
        self._token: str | None = None
        self._log_from = 0
        self._tls = "server.ssl.enabled" in (properties or {})
        lines = _COMMON | (_OF_3 if major == 3 else _OF_2)
        lines["nacos.core.auth.plugin.nacos.token.expire.seconds"] = str(token_s)
        lines["nacos.core.auth.enabled"] = str(auth).lower()
        lines["nacos.logs.path"] = str(folder / "logs")
        lines["server.tomcat.basedir"] = str(folder)
        if major == 3:
            lines["nacos.server.main.port"] = str(self.port)
            lines["nacos.core.auth.admin.enabled"] = str(auth).lower()
        else:
            lines["server.port"] = str(self.port)
        (folder / "conf").mkdir(parents=True)
        written = (f"{name}={value}\n" for name, value in (lines | (properties or {})).items())
        (folder / "conf" / "application.properties").write_text("".join(written), encoding="utf-8")
        super().__init__(self._command(), folder, self._is_ready, within_s=90)

    def _command(self) -> list[str]:
        jars = CACHE / f"nacos-{self.major}"
        # Of the two hessian jars that it needs, this one must come first: with the other's classes raft does not start,
        # and without the other one no change is ever pushed to anybody, and nothing says so.
        (hessian,) = (jars / "lib").glob("hessian-4.*.jar")
        return [
            shutil.which("java") or "java",
            *_MEMORY,
            "-Dnacos.standalone=true",
            "-Dnacos.deployment.type=server",
            "-Dnacos.member.list=",
            f"-Dnacos.home={self.folder}",
            f"-Duser.home={self.folder}",
            f"-Dspring.config.additional-location=file:{self.folder / 'conf'}/",
            "-Dderby.system.durability=test",  # a test's data need not outlive the machine
            f"-Dderby.stream.error.file={self.folder / 'derby.log'}",
            *("-cp", f"{jars / 'classes'}:{hessian}:{jars / 'lib'}/*", "NacosLauncher"),
        ]

    def _is_ready(self) -> bool:
        if not (accepts(self.port) and accepts(self.port + 1000)):
            return self._failed()  # there is nothing to wait for
        if self._tls:
            return True
        path = "/v3/admin/core/state/readiness" if self.major == 3 else "/v1/cs/configs?dataId=a&group=b"
        try:
            code, _ = self._ask("GET", path)
        except OSError:
            return False
        return code in (200, 403, 404)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> NacosServer:  # type: ignore[override]  # the same, and handy
        """On the same ports and data as before; returns when it answers, and with `auth` when it lets its admin in."""
        new = not (self.folder / "data").exists()
        for last in (False, True):
            self._log_from = self.log.stat().st_size if self.log.exists() else 0
            super().start()
            if not self._failed():
                break
            self.stop()
            # Its database gives up after ten seconds, which a busy machine does not keep.
            if last or not new:
                raise RuntimeError(f"Nacos did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
            shutil.rmtree(self.folder / "data")
        if self.auth:
            self._token = None
            if self.major == 3:  # refused where it was done at an earlier start
                self._ask("POST", "/v3/auth/user/admin", {"password": ADMIN_PASSWORD[3]})
            deadline = time.monotonic() + 30
            while not self._log_in():  # it reads its users on a timer
                assert time.monotonic() < deadline, self.log.read_text()[-2000:]
                time.sleep(0.2)
        return self

    def _failed(self) -> bool:
        """It then goes on running, and answers nobody."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            told = log.read()
        return any(words in told for words in _FAILED)

    def _log_in(self) -> bool:
        path = "/v3/auth/user/login" if self.major == 3 else "/v1/auth/users/login"
        code, body = self._ask("POST", path, {"username": ADMIN, "password": ADMIN_PASSWORD[self.major]})
        if code == 200:
            self._token = json.loads(body)["accessToken"]
        return code == 200

    def wipe(self) -> None:
        """Loses all data; only while it is stopped."""
        shutil.rmtree(self.folder / "data")

    # -- what people do ------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def uri(self, namespace: str = "", **query: str) -> str:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return f"nacos://{self.address}{'/' if namespace else ''}{namespace}{'?' if asked else ''}{asked}"

    def put(self, data_id: str, content: bytes, namespace: str = "", group: str = GROUP) -> None:
        """As the console does: whatever stands there is replaced."""
        form = self._where(data_id, namespace, group) | {"content": content, "type": "json"}
        self._checked("POST", "/v3/admin/cs/config" if self.major == 3 else "/v1/cs/configs", form)

    def put_as(self, user: str, password: str, data_id: str, content: bytes, group: str = GROUP) -> None:
        """The same by somebody who logs in, whom the history names then."""
        kept, self._token = self._token, None
        try:
            _, body = self._ask("POST", "/v3/auth/user/login", {"username": user, "password": password})
            self._token = json.loads(body)["accessToken"]
            self.put(data_id, content, group=group)
        finally:
            self._token = kept

    def delete(self, data_id: str, namespace: str = "", group: str = GROUP) -> None:
        asked = urllib.parse.urlencode(self._where(data_id, namespace, group))
        self._checked("DELETE", f"{'/v3/admin/cs/config' if self.major == 3 else '/v1/cs/configs'}?{asked}")

    def get(self, data_id: str, namespace: str = "", group: str = GROUP) -> bytes | None:
        """What its database holds: what a publish wrote is there at once."""
        asked = urllib.parse.urlencode(self._where(data_id, namespace, group))
        path = f"/v3/admin/cs/config?{asked}" if self.major == 3 else f"/v1/cs/configs?show=all&{asked}"
        _, body = self._entered("GET", path)
        found = json.loads(body) if body else None
        found = found["data"] if self.major == 3 and found else found
        return found["content"].encode() if isinstance(found, dict) else None

    def read(self, data_id: str, namespace: str = "", group: str = GROUP) -> bytes | None:
        """What it tells those who follow: what was written is there a moment later."""
        asked = urllib.parse.urlencode(self._where(data_id, namespace, group))
        path = "/v3/client/cs/config" if self.major == 3 else "/v1/cs/configs"
        code, body = self._entered("GET", f"{path}?{asked}")
        if self.major == 2:
            return body if code == 200 else None
        found = json.loads(body)["data"]
        return found["content"].encode() if found else None

    def make_namespace(self, name: str) -> None:
        """Nacos 3 alone: of Nacos 2 that part is in its console."""
        self._checked("POST", "/v3/admin/core/namespace", {"namespaceId": name, "namespaceName": name})

    def make_user(self, name: str, password: str, resource: str, action: str = "rw") -> None:
        """One who may read or write (`r`, `w`, `rw`) a `resource` such as `public:SENTINEL_GROUP:config/*`."""
        v3 = self.major == 3
        users, roles, rights = ("/v3/auth/user", "/v3/auth/role", "/v3/auth/permission") if v3 else (
            *("/v1/auth/users", "/v1/auth/roles", "/v1/auth/permissions"),
        )  # fmt: skip
        self._checked("POST", users, {"username": name, "password": password})
        self._checked("POST", roles, {"role": f"role-{name}", "username": name})
        self._checked("POST", rights, {"role": f"role-{name}", "resource": resource, "action": action})

    def _where(self, data_id: str, namespace: str, group: str) -> dict[str, Any]:
        if self.major == 3:
            return {"namespaceId": namespace or "public", "groupName": group, "dataId": data_id}
        return {"tenant": namespace, "group": group, "dataId": data_id}

    def _checked(self, method: str, path: str, form: dict[str, Any] | None = None) -> bytes:
        code, body = self._entered(method, path, form)
        assert code == 200, (code, body[:500])
        return body

    def _entered(self, method: str, path: str, form: dict[str, Any] | None = None) -> tuple[int, bytes]:
        code, body = self._ask(method, path, form)
        if code == 403 and self._log_in():  # its token has expired
            code, body = self._ask(method, path, form)
        return code, body

    def _ask(self, method: str, path: str, form: dict[str, Any] | None = None) -> tuple[int, bytes]:
        headers = {"accessToken": self._token} if self._token else {}
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        request = urllib.request.Request(f"http://{self.address}/nacos{path}", data, headers, method=method)
        without_proxies = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with without_proxies.open(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


def shared(major: int = 3) -> NacosServer:
    """One for all tests of this process that only write and read; ended with it. A test takes names of its own."""
    return _kept(major, auth=False)


def guarded(major: int = 3) -> NacosServer:
    """As `shared`, for tests of logins. Tokens live for 5 s, the shortest that Nacos gives."""
    return _kept(major, auth=True)


@cache  # which would take `shared()` and `shared(3)` for two
def _kept(major: int, *, auth: bool) -> NacosServer:
    folder = Path(tempfile.mkdtemp(prefix=f"nacos-{major}-"))
    server = NacosServer(folder, major, auth=auth, token_s=5 if auth else 18000)
    atexit.register(shutil.rmtree, server.folder, ignore_errors=True)
    atexit.register(_end, server)  # before the folder goes
    return server.start()


def _end(server: NacosServer) -> None:
    """At once: who runs tests in several processes does not wait long for the end of each."""
    if server._process is not None:
        server.kill()


def _free_port() -> int:
    """One whose neighbours are free, too: below those that systems give out for connections."""
    for _ in range(200):
        port = random.randrange(20000, 30000)
        if all(_is_free(port + offset) for offset in _OFFSETS):
            return port
    raise OSError("no four free ports for a Nacos")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def make_certificate(folder: Path) -> tuple[Path, Path, Path]:
    """A CA, and a server's certificate for 127.0.0.1 with its key, in PEM form."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    steps = [
        ("req", "-x509", *curve, "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt"),
        ("req", *curve, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr"),
        *[("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")],
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "names").write_text(f"subjectAltName=IP:{HOST}", encoding="utf-8")
    steps[2] = (*steps[2], "-extfile", "names", "-out", "server.crt")
    for step in steps:
        subprocess.run(["openssl", *step], cwd=folder, check=True, capture_output=True)
    return folder / "ca.crt", folder / "server.crt", folder / "server.key"
