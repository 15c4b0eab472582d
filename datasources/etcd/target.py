"""Which servers are asked, and as whom: the part of a URI that is about the connection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sentinel_core.datasources.contract import SourceDenied, SourceMisconfigured

PASSWORD_VARIABLE = "SENTINEL_ETCD_PASSWORD"  # noqa: S105 - the name of a variable
_PORT = "2379"
_FORM = "write etcd://host1:2379,host2:2379/namespace/group"


@dataclass(frozen=True, slots=True)
class Target:
    """Immutable; holds no password: that is read anew at each login, so that a changed one is taken."""

    endpoints: tuple[str, ...]
    """`host:port`, in the order in which they are tried."""
    tls: bool = False
    ca: Path | None = None
    """Who signed the server's certificate; None: the system's authorities."""
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    timeout_s: float = 5.0
    """Longest wait for one answer, over all endpoints."""

    @classmethod
    def of(
        cls,
        address: str,
        *,
        tls: bool | None = None,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        user: str | None = None,
        password_file: Path | None = None,
        timeout: float = 5.0,
    ) -> Target:
        """From `etcd://host:port,…/…` and the options. No I/O. Raises SourceMisconfigured, which repeats no secret."""
        authority = urlsplit(address).netloc
        if "@" in authority:
            raise SourceMisconfigured(
                "etcd: a user or password stands before the hosts; write ?user=NAME, and put the password into the "
                f"variable {PASSWORD_VARIABLE} or into a file named by ?password_file="
            )
        endpoints = tuple(_endpoint(each) for each in authority.split(","))
        if (cert is None) != (key is None):
            raise SourceMisconfigured(f"{address}: cert and key belong together; give both or none")
        if tls is False and (ca or cert):
            raise SourceMisconfigured(f"{address}: tls=false, but certificates are named; leave tls or them out")
        if password_file is not None and not user:
            raise SourceMisconfigured(f"{address}: password_file without a user; write &user=NAME")
        return cls(endpoints, bool(tls or ca or cert), ca, cert, key, user, password_file, timeout)

    def password(self) -> str:
        """Raises SourceDenied where there is none."""
        if self.password_file is None:
            if password := os.environ.get(PASSWORD_VARIABLE):
                return password
            raise SourceDenied(
                f"there is no password for the etcd user {self.user}; set {PASSWORD_VARIABLE} in the environment, or "
                "name a file with &password_file="
            )
        password = self._read("password_file", self.password_file).decode("utf-8", "replace").rstrip("\r\n")
        if not password:
            raise SourceDenied(f"password_file {self.password_file} is empty; write the password into it")
        return password

    def certificates(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The contents of ca, key and cert, checked. Raises SourceDenied, naming the one that is wrong."""
        ca = self.ca and self._read("ca", self.ca)
        cert = self.cert and self._read("cert", self.cert)
        key = self.key and self._read("key", self.key)
        self._check()
        return ca or None, key or None, cert or None

    def _read(self, name: str, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise SourceDenied(
                f"{name} {path} cannot be read: {error.strerror}; name a file this user may read"
            ) from error

    def _check(self) -> None:
        """gRPC says of a bad file only that the connection failed; Python's own TLS tells which and why."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
        except (ssl.SSLError, OSError) as error:
            raise SourceDenied(f"ca {self.ca} holds no certificates in PEM form; name the file of the CA") from error
        try:
            if self.cert and self.key:
                context.load_cert_chain(self.cert, self.key, password="")  # an encrypted key must not ask on a terminal
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or "unreadable"
            raise SourceDenied(
                f"cert {self.cert} and key {self.key} cannot be used ({why}); they must belong together, in PEM form, "
                "the key without a password"
            ) from error


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise SourceMisconfigured(f"etcd://{text} is not host:port; {_FORM}") from error
    if not parts.hostname:
        raise SourceMisconfigured(f"etcd:// needs a host; {_FORM}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port or _PORT}"
