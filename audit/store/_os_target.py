"""Where OpenSearch or Elasticsearch is, as whom, and under which names: what stands in `opensearch://…`."""

from __future__ import annotations

import base64
import difflib
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from sentinel_core.audit.errors import StoreDenied, StoreMisconfigured

PASSWORD_VARIABLE = "SENTINEL_OPENSEARCH_PASSWORD"  # noqa: S105 - the name of a variable
INDEX = "sentinel-audit"
FORM = "opensearch://host1:9200,host2:9200/?user=NAME&ca=ca.pem"
_PORT = 9200
_OPTIONS = ("tls", "ca", "cert", "key", "user", "password_file", "timeout", "index")
_INDEX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,100}")
_TIMEOUT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


@dataclass(frozen=True, slots=True)
class Target:
    """Immutable; holds no password: that is read anew for each connection, so that a changed one is taken."""

    hosts: tuple[str, ...]
    """`host:port`, in the order in which they are tried."""
    tls: bool = False
    ca: Path | None = None
    """Who signed the server's certificate; None: the system's authorities."""
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    """Else the password stands in SENTINEL_OPENSEARCH_PASSWORD."""
    timeout_s: float = 10.0
    """Longest wait for one answer, over all hosts."""
    index: str = INDEX
    """What the names of its indices begin with."""

    @classmethod
    def parse(cls, rest: str) -> Target:
        """What follows `opensearch://`. No I/O. Raises StoreMisconfigured, which repeats no secret."""
        parts = urlsplit(f"//{rest}")
        user, at, hosts = parts.netloc.rpartition("@")
        if ":" in user:
            raise StoreMisconfigured(
                f"opensearch: a password stands in the address; put it into the variable {PASSWORD_VARIABLE} or into a "
                "file named by ?password_file="
            )
        if parts.path not in ("", "/") or parts.fragment:
            raise StoreMisconfigured(f"opensearch://{hosts}: a path follows the hosts; write {FORM}")
        options = _options(hosts, parts.query)
        if at and "user" in options:
            raise StoreMisconfigured(f"opensearch://{hosts}: the user is named twice; leave one out")
        files = {name: Path(options[name]) for name in ("ca", "cert", "key", "password_file") if options.get(name)}
        made = cls(
            hosts=tuple(_host(each) for each in hosts.split(",")),
            tls=_tls(hosts, options),
            user=(unquote(user) if at else options.get("user")) or None,
            timeout_s=_timeout(hosts, options.get("timeout", "10s")),
            index=options.get("index", INDEX),
            **files,
        )
        if made.password_file is not None and made.user is None:
            raise StoreMisconfigured(f"{made}: password_file without a user; write ?user=NAME")
        if not _INDEX.fullmatch(made.index):
            raise StoreMisconfigured(
                f"{made}: index {made.index[:40]!r}; small letters, digits and - _ . alone make one"
            )
        return made

    def __str__(self) -> str:
        return f"opensearch {','.join(self.hosts)}"

    def login(self) -> dict[str, str]:
        """The header of a login; none without a user. Raises StoreDenied where there is no password."""
        if self.user is None:
            return {}
        pair = f"{self.user}:{self._password()}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def _password(self) -> str:
        if self.password_file is None:
            found = os.environ.get(PASSWORD_VARIABLE, "")
            wanted = f"set {PASSWORD_VARIABLE} in the environment, or name a file with ?password_file="
        else:
            found = self._read("password_file", self.password_file).decode("utf-8", "replace").rstrip("\r\n")
            wanted = f"write it into {self.password_file}"
        if not found or any("\ud800" <= each <= "\udfff" for each in found):
            raise StoreDenied(f"{self}: there is no password in UTF-8 for the user {self.user}; {wanted}")
        return found

    def context(self) -> ssl.SSLContext | None:
        """For TLS. Raises StoreMisconfigured, naming the file that is wrong."""
        if not self.tls:
            return None
        for name in ("ca", "cert", "key"):
            if (file := getattr(self, name)) is not None:
                self._read(name, file)
        context = ssl.create_default_context() if self.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
        except (ssl.SSLError, OSError) as error:
            raise StoreMisconfigured(f"{self}: ca {self.ca} holds no certificates in PEM form") from error
        try:
            if self.cert and self.key:
                context.load_cert_chain(self.cert, self.key, password="")  # an encrypted key must not ask on a terminal
        except (ssl.SSLError, OSError) as error:
            raise StoreMisconfigured(
                f"{self}: cert {self.cert} and key {self.key} cannot be used; they must belong together, in PEM form, "
                "the key without a password"
            ) from error
        return context

    def _read(self, name: str, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise StoreMisconfigured(
                f"{self}: {name} {file} cannot be read: {error.strerror}; name a file that this user may read"
            ) from error


def _options(hosts: str, query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_OPTIONS)}"
            raise StoreMisconfigured(f"opensearch://{hosts}: there is no option {name[:40]!r}; {hint}")
        if name in found:
            raise StoreMisconfigured(f"opensearch://{hosts}: {name} is given twice; leave one out")
        found[name] = value
    return found


def _host(text: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise StoreMisconfigured(f"opensearch://{text} is not host:port; write {FORM}")
    return f"[{host}]:{port or _PORT}" if ":" in host else f"{host}:{port or _PORT}"


def _tls(hosts: str, options: dict[str, str]) -> bool:
    wanted = options.get("tls")
    files = any(options.get(name) for name in ("ca", "cert", "key"))
    if wanted not in (None, "true", "false"):
        raise StoreMisconfigured(f"opensearch://{hosts}: tls is {wanted!r}; write true or false")
    if bool(options.get("cert")) != bool(options.get("key")):
        raise StoreMisconfigured(f"opensearch://{hosts}: cert and key belong together; give both or none")
    if wanted == "false" and files:
        raise StoreMisconfigured(f"opensearch://{hosts}: tls=false, but certificates are named; leave one out")
    return wanted == "true" or files


def _timeout(hosts: str, text: str) -> float:
    found = _TIMEOUT.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0.05 <= seconds <= 600:
        raise StoreMisconfigured(f"opensearch://{hosts}: timeout is {text[:40]!r}; write for example 10s")
    return seconds
