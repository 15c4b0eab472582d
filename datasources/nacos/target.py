"""Which servers are asked, for which namespace and group, and as whom."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sentinel_core.datasources import access
from sentinel_core.datasources.contract import SourceDenied, SourceMisconfigured
from sentinel_core.datasources.keys import GROUP, NAMESPACE

PASSWORD_VARIABLE = "SENTINEL_NACOS_PASSWORD"  # noqa: S105 - the name of a variable
TRANSPORTS = ("http", "grpc")
_PORT = "8848"
_FORM = "nacos://host1:8848,host2:8848/namespace?group=SENTINEL_GROUP"
_NAME = re.compile(r"[\w.:-]+", re.ASCII)
"""What Nacos takes for a group, and more than it takes for a namespace."""


@dataclass(frozen=True, slots=True)
class Target:
    """Immutable; holds no secret: those are read anew at each login, so that a changed one is taken."""

    servers: tuple[str, ...]
    """`host:port` of HTTP, in the order in which they are tried; gRPC is 1000 above."""
    namespace: str = NAMESPACE
    """The namespace's id (not its name); `public` is the one that always exists."""
    group: str = GROUP
    tls: bool = False
    ca: Path | None = None
    """Who signed the server's certificate; None: the system's authorities."""
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    """Holds an access token that somebody else renews, in place of a login."""
    timeout_s: float = 5.0
    """Longest wait for one answer, over all servers."""
    interval_s: float = 1.0
    """How often Nacos 3 is asked over HTTP."""
    transport: str | None = None
    """One of `TRANSPORTS`; None: gRPC where the extra `nacos` is installed, else HTTP."""

    @classmethod
    def of(
        cls,
        address: str,
        path: str = "",
        *,
        namespace: str | None = None,
        group: str = GROUP,
        tls: bool | None = None,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        user: str | None = None,
        password_file: Path | None = None,
        token_file: Path | None = None,
        timeout: float = 5.0,
        interval: float = 1.0,
        transport: str | None = None,
    ) -> Target:
        """From `nacos://host:port,…/…`, `path` (`/namespace`) and the options. No I/O. Raises SourceMisconfigured."""
        servers = access.endpoints(address, _PORT, _FORM, PASSWORD_VARIABLE)
        speaks_tls = access.check_certificate_options(address, tls, ca, cert, key)
        access.check_login_options(address, user, password_file)
        if token_file is not None and user:
            raise SourceMisconfigured(f"{address}: token_file stands for a login; leave user or it out")
        where = _namespace(address, path, namespace)
        if not _NAME.fullmatch(group):
            raise SourceMisconfigured(f"{address}: group {group!r}: letters, digits and - _ . : alone make a group")
        return cls(
            servers,
            where,
            group,
            speaks_tls,
            ca,
            cert,
            key,
            user,
            password_file,
            token_file,
            timeout_s=timeout,
            interval_s=interval,
            transport=transport,
        )

    @property
    def tenant(self) -> str:
        """The namespace as servers before 3.0 and gRPC take it: they know `public` as nothing."""
        return "" if self.namespace == NAMESPACE else self.namespace

    def password(self) -> str:
        """Raises SourceDenied where there is none."""
        return access.password("Nacos", PASSWORD_VARIABLE, self.user, self.password_file)

    def token(self) -> str | None:
        """The access token of `token_file`; None where none is named. Raises SourceDenied."""
        if self.token_file is None:
            return None
        found = access.secret("token_file", self.token_file)
        if not is_token(found):
            raise SourceDenied(f"token_file {self.token_file} holds no token; write it into one line and nothing else")
        return found


def is_token(text: str) -> bool:
    """Whether it can be sent as one."""
    return text.isascii() and text.isprintable()


def transport_of(text: str) -> str:
    """The query parameter `transport`."""
    if text not in TRANSPORTS:
        raise ValueError(f"{text!r} is neither {' nor '.join(TRANSPORTS)}")
    return text


def _namespace(address: str, path: str, option: str | None) -> str:
    parts = [part for part in path.split("/") if part]
    if len(parts) > 1:
        raise SourceMisconfigured(f"{address}: the path is /namespace; the group is written ?group=NAME")
    if parts and option and parts[0] != option:
        raise SourceMisconfigured(f"{address}: the path and ?namespace= name two namespaces; leave one out")
    found = option or (parts[0] if parts else NAMESPACE)
    if not _NAME.fullmatch(found):
        raise SourceMisconfigured(
            f"{address}: {found!r} is no id of a namespace: letters, digits and - _ alone (the console lists the ids)"
        )
    return found
