"""Where Kafka is, as whom, and what kafka-python and people are told of that."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sentinel_core.audit.errors import PublisherMisconfigured

PASSWORD_VARIABLE = "SENTINEL_KAFKA_PASSWORD"  # noqa: S105 (the name of a variable, not a secret)


@dataclass(frozen=True, slots=True)
class Target:
    """`tls` is implied by any of the files; with a user, SASL is used."""

    bootstrap: tuple[str, ...]
    """`host:port` of brokers; any one that answers will do."""
    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    """Else the password stands in SENTINEL_KAFKA_PASSWORD."""
    mechanism: str = "SCRAM-SHA-512"
    timeout_s: float = 5.0
    """For one attempt to connect, and for one request."""

    def __str__(self) -> str:
        return f"kafka {','.join(self.bootstrap)}"

    @property
    def timeout_ms(self) -> int:
        return max(1, round(self.timeout_s * 1000))

    def options(self) -> dict[str, Any]:
        """For any client of kafka-python. Raises PublisherMisconfigured where a file or the password is missing."""
        limit = self.timeout_ms
        tls = self.tls or any((self.ca, self.cert, self.key))
        protocol = ("SASL_SSL" if tls else "SASL_PLAINTEXT") if self.user else ("SSL" if tls else "PLAINTEXT")
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap),
            "client_id": "sentinel-audit",
            "security_protocol": protocol,
            "bootstrap_timeout_ms": limit,
            "request_timeout_ms": limit,
            "reconnect_backoff_max_ms": 1000,
        }
        for name, path in (("ssl_cafile", self.ca), ("ssl_certfile", self.cert), ("ssl_keyfile", self.key)):
            if path is not None:
                options[name] = str(self._there(path))
        if self.user:
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": _Secret(self.password()),
            }
        return options

    def password(self) -> str:
        """Raises PublisherMisconfigured where there is none."""
        if self.password_file is None:
            found = os.environ.get(PASSWORD_VARIABLE, "")
            wanted = f"set {PASSWORD_VARIABLE}, or audit.kafka.passwordFile"
        else:
            found = self._there(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
            wanted = f"write it into {self.password_file}"
        if not found:
            raise PublisherMisconfigured(f"{self}: there is no password for the user {self.user}; {wanted}")
        return found

    def _there(self, path: Path) -> Path:
        if not os.access(path, os.R_OK):
            raise PublisherMisconfigured(f"{self}: {path} cannot be read; name a file that this user may read")
        return path

    def words(self, error: BaseException) -> str:
        """What went wrong, without the password, and what to look at."""
        name, said = type(error).__name__, str(error)
        if not said.startswith(name):  # some of its errors say their name themselves
            said = f"{name}: {said}" if said else name
        try:
            secret = self.password() if self.user else ""
        except (PublisherMisconfigured, OSError, UnicodeDecodeError):
            secret = ""
        return said.replace(secret, "***") if secret else said


class _Secret(str):
    """kafka-python writes what it is given into its log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def library() -> ModuleType:
    """kafka-python. Raises PublisherMisconfigured where it is not installed."""
    if "kafka" in sys.modules:
        return sys.modules["kafka"]
    try:
        with warnings.catch_warnings():
            # On Python 3.11 it reads its own files in a way that is out of date, which is nobody's fault here.
            warnings.simplefilter("ignore", DeprecationWarning)
            return import_module("kafka")
    except ImportError as error:
        raise PublisherMisconfigured(
            f"Kafka needs kafka-python ({error}); install it with: pip install 'sentinel-control-plane[kafka]'"
        ) from error
