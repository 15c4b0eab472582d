"""Which servers are asked, and as whom: the part of a URI that is about the connection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentinel_core.datasources import access

PASSWORD_VARIABLE = "SENTINEL_ETCD_PASSWORD"  # noqa: S105 - the name of a variable
_PORT = "2379"
_FORM = "etcd://host1:2379,host2:2379/namespace/group"


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
        endpoints = access.endpoints(address, _PORT, _FORM, PASSWORD_VARIABLE)
        speaks_tls = access.check_certificate_options(address, tls, ca, cert, key)
        access.check_login_options(address, user, password_file)
        return cls(endpoints, speaks_tls, ca, cert, key, user, password_file, timeout)

    def password(self) -> str:
        """Raises SourceDenied where there is none."""
        return access.password("etcd", PASSWORD_VARIABLE, self.user, self.password_file)

    def certificates(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The contents of ca, key and cert. Raises SourceDenied, naming the one that is wrong."""
        return access.certificates(self.ca, self.cert, self.key)
