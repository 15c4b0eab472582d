"""What gRPC and etcd raise, as errors of the contract that say what to mend. Needs no gRPC itself."""

from __future__ import annotations

from typing import Any

from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
)
from sentinel_core.datasources.etcd.target import PASSWORD_VARIABLE, Target
from sentinel_core.datasources.layout import MAX_BYTES
from sentinel_core.datasources.quoting import quoted

_ANSWERS = frozenset(
    {"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION", "OUT_OF_RANGE", "NOT_FOUND"}
)
"""The server was there and said no: the connection is good."""
_CLOSED = ("Socket closed", "reset by peer", "end of TCP stream")
_TOO_LARGE = ("request is too large", "larger than max")


class TooLarge(SourceMisconfigured):
    """The server takes no request of this size; nothing was carried out."""


class LeaseGone(SourceUnavailable):
    """The lease has expired, was revoked, or was lost with the server's data."""


def closes_channel(error: Any) -> bool:
    return error.code().name not in _ANSWERS | {"RESOURCE_EXHAUSTED"}  # too large, too many, full


def wants_login(error: Any) -> bool:
    """The token is of another time, or the server has come to ask for one. Nothing was carried out."""
    code, says = error.code().name, error.details() or ""
    return code == "UNAUTHENTICATED" or (
        code == "INVALID_ARGUMENT" and ("user name is empty" in says or "auth store is old" in says)
    )


def is_compacted(error: Any) -> bool:
    return error.code().name == "OUT_OF_RANGE" and "compacted" in (error.details() or "")


def explain(error: Any, endpoint: str, target: Target) -> DatasourceError:
    """The error to raise for an RpcError. Its text holds the server's words, which name no secret."""
    code, says = error.code().name, quoted(error.details() or "no reason given").removeprefix("etcdserver: ")
    at = f"etcd {endpoint}"
    if code == "PERMISSION_DENIED":
        who = f"the user {target.user}" if target.user else "who comes without a user"
        return SourceDenied(
            f"{at} denies {who} this: grant a role that may read (and, to publish, write) the keys of the rules and "
            "the .provenance keys beside them"
        )
    if code == "UNAUTHENTICATED" or "user name is empty" in says:
        return SourceDenied(f"{at} asks for a login ({says}); write &user=NAME and {_where_passwords_stand(target)}")
    if "authentication failed" in says:
        return SourceDenied(f"{at} refuses user {target.user} or the password; check {_where_passwords_stand(target)}")
    if (of_the_store := _of_the_store(code, says, at)) is not None:
        return of_the_store
    if code == "DEADLINE_EXCEEDED":
        return SourceUnavailable(f"{at} did not answer in time (in all {target.timeout_s:g} s); is it overloaded?")
    if code in _ANSWERS:
        return SourceMisconfigured(f"{at} refuses the request: {says}")
    return _unreachable(at, says, target)


def _of_the_store(code: str, says: str, at: str) -> DatasourceError | None:
    """What has nothing to do with who asks and how."""
    if any(words in says for words in _TOO_LARGE):
        return _too_large(at, says)
    if says == "no leader":
        return SourceUnavailable(f"{at} has no leader: it is cut off from the other members, or too few of them run")
    if "database space exceeded" in says:
        return SourceMisconfigured(
            f"{at} is full and takes no write ({says}): compact and defragment it or raise --quota-backend-bytes, then "
            "etcdctl alarm disarm"
        )
    if code == "RESOURCE_EXHAUSTED":
        return SourceUnavailable(f"{at} has too much to do: {says}")
    if code == "NOT_FOUND" and "lease not found" in says:
        return LeaseGone(f"{at} knows the lease no more")
    return None


def _where_passwords_stand(target: Target) -> str:
    if target.password_file:
        return f"the password in {target.password_file}"
    return f"the password in the variable {PASSWORD_VARIABLE} (or &password_file=)"


def _too_large(at: str, says: str) -> DatasourceError:
    if "received message larger than max" in says.lower() and "grpc:" not in says:
        return SourceMisconfigured(f"{at} holds more than {MAX_BYTES // 2**20} MiB under a key; is it the right key?")
    return TooLarge(
        f"{at} takes no request of this size: 1.5 MiB, unless it was started with another --max-request-bytes ({says})"
    )


def _unreachable(at: str, says: str, target: Target) -> DatasourceError:
    reason = says.rpartition("last error: ")[2]
    if not target.tls:
        closed = "failed to connect" in says and any(words in says for words in _CLOSED)
        hint = "if it speaks TLS, write &tls=true or &ca=FILE" if closed else "check the address, and that it runs"
        return SourceUnavailable(f"{at} cannot be reached: {reason}; {hint}")
    if "CERTIFICATE_VERIFY_FAILED" in says:
        ca = target.ca or "the authorities of this system"
        return SourceDenied(f"{at}: the server's certificate is not vouched for by {ca}; name its CA with &ca=FILE")
    if "Hostname Verification Check" in says or "is not in peer certificate" in says:
        return SourceDenied(
            f"{at}: the server's certificate is for another name; use a host name that stands in it, or have it made "
            "anew with this one"
        )
    if "Unwrap failed" in says or "alert" in says:  # TLS 1.3 tells it after the handshake
        wanted = f"must be signed by the CA that it trusts, and {target.cert} is not" if target.cert else "is wanted"
        return SourceDenied(f"{at} ends the connection: probably a client's certificate {wanted}; &cert=FILE&key=FILE")
    if "WRONG_VERSION_NUMBER" in says or "Handshake read failed" in says:
        return SourceUnavailable(f"{at} cannot be reached by TLS: {reason}; if it does not speak TLS, leave that out")
    return unreachable(at.removeprefix("etcd "), reason)


def unreachable(endpoint: str, reason: str) -> SourceUnavailable:
    """Nobody answers there."""
    return SourceUnavailable(f"etcd {endpoint} cannot be reached: {reason}; check the address, and that it runs")
