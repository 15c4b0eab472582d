"""A real etcd for tests: nodes on free loopback ports, stopped by their process id."""

from __future__ import annotations

import atexit
import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.services.server import CACHE, cannot, free_port

HOST = "127.0.0.1"
ROOT_PASSWORD = "root-pw"
_READY_S = 20.0
_BIN = {"PATH": f"{os.environ['PATH']}:/usr/bin:/usr/sbin"}
PACKAGED = "etcd"
"""The server on PATH, an older one: 3.4 on Debian."""
NEWEST = str(next(CACHE.glob("etcd-v*/etcd"), CACHE / "etcd-v3" / "etcd"))
"""The server that script/test builds."""

ETCD3 = os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION") == "python"
"""This process is the one in which the library `etcd3` is tried: test_etcd3.py starts it."""


def missing(program: str = PACKAGED) -> str | None:
    """Why there can be none on this machine; None where there can."""
    lacking = [name for name in (PACKAGED, "etcdctl", "openssl") if shutil.which(name) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)} (apt-get install etcd-server etcd-client openssl)"
    return None if shutil.which(program) else "no newer etcd is in .cache (script/test builds it where Go is installed)"


def needed(program: str = PACKAGED) -> None:
    """Skips the test where there can be none; on CI that is a failure."""
    if why := missing(program):
        cannot(why)


class EtcdServer:
    """One node. Environment variables of the caller are kept from it: it takes any `ETCD_…` for a flag."""

    def __init__(
        self,
        folder: Path,
        *,
        program: str = PACKAGED,
        tls: bool = False,
        client_certs: bool = False,
        flags: tuple[str, ...] = (),
        name: str = "n1",
        peers: Mapping[str, int] | None = None,
    ) -> None:
        """`peers`: of each member of a cluster, the port at which the others reach it; None for a server alone."""
        self.folder = folder
        self.name = name
        self.program = program
        self.tls = tls
        self.pki = folder / "pki"
        self.port, self.peer_port = free_port(), free_port()
        self._peers = peers
        self._flags = flags
        self._user: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        if tls:
            _make_pki(self.pki)
            self._flags += (f"--cert-file={self.pki / 'server.crt'}", f"--key-file={self.pki / 'server.key'}")
        if client_certs:
            self._flags += ("--client-cert-auth", f"--trusted-ca-file={self.pki / 'ca.crt'}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def uri(self, path: str = "/public/SENTINEL_GROUP", **query: str) -> str:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return f"etcd://{self.address}{path}{'?' if asked else ''}{asked}"

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> EtcdServer:
        """On the same ports and data as before; returns when it answers."""
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        client = f"{'https' if self.tls else 'http'}://{self.address}"
        peers = self._peers or {self.name: self.peer_port}
        urls = {name: f"http://{HOST}:{port}" for name, port in peers.items()}
        with (self.folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self.program, f"--name={self.name}", f"--data-dir={self.folder / 'data'}"),
                    *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
                    f"--listen-peer-urls=http://{HOST}:{self.peer_port}",
                    f"--initial-advertise-peer-urls={urls[self.name]}",
                    f"--initial-cluster={','.join(f'{name}={url}' for name, url in urls.items())}",
                    *("--logger=zap", "--log-level=error", "--unsafe-no-fsync", *self._flags),
                ],
                env=_BIN,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _READY_S
        while self._try_ctl("get", "-", "--keys-only").returncode:
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def log(self) -> str:
        return (self.folder / "etcd.log").read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Loses all data; only while it is stopped."""
        assert self._process is None
        shutil.rmtree(self.folder / "data")

    # -- what people do --------------------------------------------------------------------------------------------

    def ctl(self, *arguments: str, stdin: bytes = b"") -> str:
        done = self._try_ctl(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def _try_ctl(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        flags = [f"--endpoints={'https' if self.tls else 'http'}://{self.address}", "--command-timeout=10s"]
        if self.tls:
            client = [f"--cert={self.pki / 'client.crt'}", f"--key={self.pki / 'client.key'}"]
            flags += [f"--cacert={self.pki / 'ca.crt'}", *client]
        if self._user:
            flags.append(f"--user={self._user}")
        return subprocess.run(
            ["etcdctl", *flags, *arguments],
            env={**_BIN, "ETCDCTL_API": "3"},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=30,
        )

    def put(self, key: str, content: bytes) -> None:
        if content:
            self.ctl("put", key, stdin=content)
        else:
            self.ctl("put", key, "")

    def put_large(self, key: str, content: bytes) -> None:
        """Over HTTP: etcdctl sends 2 MiB at most."""
        pair = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(content).decode()}
        request = urllib.request.Request(f"http://{self.address}/v3/kv/put", json.dumps(pair).encode())
        without_proxies = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with without_proxies.open(request, timeout=10) as answer:
            answer.read()

    def delete(self, key: str) -> None:
        self.ctl("del", key)

    def revision(self) -> int:
        return int(self.ctl("get", "-", "-w", "fields").split('"Revision" : ')[1].split()[0])

    def compact(self) -> None:
        self.ctl("compact", str(self.revision()))

    def require_login(self, user: str, password: str, prefix: str) -> None:
        """Switches authentication on; `user` may read and write below `prefix`."""
        self.ctl("user", "add", f"root:{ROOT_PASSWORD}")
        self.ctl("role", "add", "root")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("user", "add", f"{user}:{password}")
        self.ctl("role", "add", "rules")
        self.ctl("role", "grant-permission", "rules", "--prefix=true", "readwrite", prefix)
        self.ctl("user", "grant-role", user, "rules")
        self.ctl("auth", "enable")
        self._user = f"root:{ROOT_PASSWORD}"


@cache
def shared(program: str = PACKAGED) -> EtcdServer:
    """One for all tests of this process that only write and read; ended with it. It takes 10 MiB in one request."""
    folder = Path(tempfile.mkdtemp(prefix="etcd-"))
    server = EtcdServer(folder, program=program, flags=("--max-request-bytes=10485760",)).start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    return server


def _make_pki(folder: Path) -> None:
    """A CA, a server's certificate for 127.0.0.1, a client's; and a CA that nobody knows."""
    folder.mkdir(parents=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for ca in ("ca", "other-ca"):
        where = ("-keyout", f"{ca}.key", "-out", f"{ca}.crt")
        _openssl(folder, "req", "-x509", *curve, "-days", "2", "-subj", f"/CN={ca}", *where)
    for name in ("server", "client"):
        _openssl(folder, "req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "names").write_text(f"subjectAltName=IP:{HOST}")
        signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.crt")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
