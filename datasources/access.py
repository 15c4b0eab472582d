"""How stores on a network are addressed and entered: endpoints, certificates and passwords, checked in one place.

Passwords and certificates are read anew at each use, so that changed ones are taken; no message repeats a secret.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from sentinel_core.datasources.contract import SourceDenied, SourceMisconfigured


def endpoints(address: str, port: str, form: str, variable: str) -> tuple[str, ...]:
    """`host:port` for each of the comma-separated hosts of `store://hosts/…`; `port` where none is written.

    `form` is what to write, `variable` where the password belongs. Raises SourceMisconfigured.
    """
    store = urlsplit(address).scheme
    authority = urlsplit(address).netloc
    if "@" in authority:
        raise SourceMisconfigured(
            f"{store}: a user or password stands before the hosts; write ?user=NAME, and put the password into the "
            f"variable {variable} or into a file named by ?password_file="
        )
    return tuple(_endpoint(store, each, port, form) for each in authority.split(","))


def _endpoint(store: str, text: str, default_port: str, form: str) -> str:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError as error:
        raise SourceMisconfigured(f"{store}://{text} is not host:port; write {form}") from error
    if not parts.hostname:
        raise SourceMisconfigured(f"{store}:// needs a host; write {form}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port or default_port}"


def check_certificate_options(
    shown: str, tls: bool | None, ca: Path | None, cert: Path | None, key: Path | None
) -> bool:
    """Whether TLS is spoken. Raises SourceMisconfigured for options that contradict each other."""
    if (cert is None) != (key is None):
        raise SourceMisconfigured(f"{shown}: cert and key belong together; give both or none")
    if tls is False and (ca or cert):
        raise SourceMisconfigured(f"{shown}: tls=false, but certificates are named; leave tls or them out")
    return bool(tls or ca or cert)


def check_login_options(shown: str, user: str | None, password_file: Path | None) -> None:
    """Raises SourceMisconfigured for a password of nobody."""
    if password_file is not None and not user:
        raise SourceMisconfigured(f"{shown}: password_file without a user; write &user=NAME")


def password(store: str, variable: str, user: str | None, file: Path | None) -> str:
    """Raises SourceDenied where there is none."""
    if file is None:
        if found := os.environ.get(variable):
            return _text(found, variable)
        raise SourceDenied(
            f"there is no password for the {store} user {user}; set {variable} in the environment, or "
            "name a file with &password_file="
        )
    return secret("password_file", file)


def _text(found: str, variable: str) -> str:
    """Checked here: what Python says of half a character shows all of it."""
    if any("\ud800" <= each <= "\udfff" for each in found):
        raise SourceDenied(f"the password in the variable {variable} is not UTF-8; write it so")
    return found


def secret(name: str, file: Path) -> str:
    """What stands in a file, without the end of its last line. Raises SourceDenied where that is nothing."""
    found = read(name, file).decode("utf-8", "replace").rstrip("\r\n")
    if not found:
        raise SourceDenied(f"{name} {file} is empty; write the {name.removesuffix('_file')} into it")
    return found


def read(name: str, file: Path) -> bytes:
    """Raises SourceDenied, naming the option."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise SourceDenied(f"{name} {file} cannot be read: {error.strerror}; name a file this user may read") from error


def certificates(
    ca: Path | None, cert: Path | None, key: Path | None
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """The contents of ca, key and cert, in gRPC's order. Checked: gRPC says of a bad file only that the connection
    failed, Python's own TLS tells which and why. Raises SourceDenied, naming the one that is wrong."""
    tls_context(ca, cert, key)
    ca_text, key_text, cert_text = (
        read(name, file) if file else None for name, file in (("ca", ca), ("key", key), ("cert", cert))
    )
    return ca_text, key_text, cert_text


def tls_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """For a client. `ca` None: the system's authorities. Raises SourceDenied, naming the file that is wrong."""
    for name, file in (("ca", ca), ("cert", cert), ("key", key)):
        if file is not None:
            read(name, file)
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca:
            context.load_verify_locations(ca)
    except (ssl.SSLError, OSError) as error:
        raise SourceDenied(f"ca {ca} holds no certificates in PEM form; name the file of the CA") from error
    try:
        if cert and key:
            context.load_cert_chain(cert, key, password="")  # an encrypted key must not ask on a terminal
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or "unreadable"
        raise SourceDenied(
            f"cert {cert} and key {key} cannot be used ({why}); they must belong together, in PEM form, "
            "the key without a password"
        ) from error
    return context
