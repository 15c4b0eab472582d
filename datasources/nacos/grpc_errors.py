"""What gRPC, the library and the server say, as errors of the contract that say what to mend. Needs none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
)
from sentinel_core.datasources.nacos.target import PASSWORD_VARIABLE, Target
from sentinel_core.datasources.quoting import quoted

_OK, _NOT_FOUND, _BAD_REQUEST, _NO_RIGHT, _FAILED = 200, 300, 400, 403, 500
_CAS, _NOT_GRANTED, _BEING_MODIFIED = "cas publish fail", "authorization failed", "file is being modified"


class LinkLost(SourceUnavailable):
    """The connection is of no use any more."""


def explain(error: BaseException, server: str, target: Target, timeout_s: float) -> DatasourceError:
    """The error to raise for what came up on a connection to `server`, after `timeout_s` at most; LinkLost where the
    connection has to be made anew."""
    if isinstance(error, DatasourceError):
        return error
    at = f"nacos {server} (gRPC)"
    rpc = next((each for each in _chain(error) if hasattr(each, "code") and hasattr(each, "details")), None)
    if rpc is not None:
        return _of_rpc(rpc.code().name, quoted(rpc.details() or "no reason given"), at, target, timeout_s)
    if isinstance(error, ValueError) and "closed channel" in str(error):  # what gRPC says of what another thread closed
        return LinkLost(f"{at}: the connection was given up meanwhile")
    if isinstance(error, TimeoutError):
        return LinkLost(f"{at} did not answer in time ({timeout_s:.2g} s); is it overloaded?")
    return LinkLost(f"{at}: {_words(error)}")


def refusal(answer: Any, server: str, target: Target) -> DatasourceError | None:
    """The error to raise for an answer that says no; None for any other, and for those that are asked for below."""
    if answer.resultCode == _OK or is_missing(answer) or is_busy(answer) or is_conflict(answer):
        return None
    code, says = answer.errorCode or answer.resultCode, quoted(answer.message or "no reason given")
    at = f"nacos {server} (gRPC)"
    if code == _NO_RIGHT:
        return SourceDenied(f"{at} {_denial(says, target)}")
    if code == _BAD_REQUEST:
        return SourceMisconfigured(f"{at} refuses the request: {says}")
    if _NOT_FOUND < code < _BAD_REQUEST:  # the connection is not known there, or the server has only begun
        return LinkLost(f"{at} is not ready: {says}")
    return SourceUnavailable(f"{at} failed: {says}")


def is_missing(answer: Any) -> bool:
    """Whether a query found nothing."""
    return bool(answer.errorCode == _NOT_FOUND)


def is_busy(answer: Any) -> bool:
    """Whether a query came while the value was being written."""
    return answer.errorCode == _BAD_REQUEST and _BEING_MODIFIED in (answer.message or "")


def is_conflict(answer: Any) -> bool:
    """Whether a publish was refused because something else stands there than was expected."""
    return answer.resultCode == _FAILED and _CAS in (answer.message or "").lower()


def wants_login(answer: Any) -> bool:
    """Whether the token is missing, unknown or of another time."""
    return answer.errorCode == _NO_RIGHT and _NOT_GRANTED not in (answer.message or "").lower()


def _denial(says: str, target: Target) -> str:
    if _NOT_GRANTED in says.lower():
        who = f"the user {target.user}" if target.user else "who holds this token"
        return (
            f"denies {who} this: grant a role that may read (and, to publish, write) the group {target.group} in the "
            f"namespace {target.namespace}"
        )
    if target.token_file:
        return f"refuses the token in {target.token_file} ({says}); write a valid one into it"
    if target.user:
        return f"refuses the login of {target.user} ({says})"
    return f"asks for a login ({says}); write &user=NAME and the password into the variable {PASSWORD_VARIABLE}"


def _of_rpc(code: str, says: str, at: str, target: Target, timeout_s: float) -> DatasourceError:
    if code == "RESOURCE_EXHAUSTED" and ("maximum size" in says or "larger than max" in says):
        return SourceMisconfigured(
            f"{at} takes 10 MiB in one message and this is more ({says}); split the rules over kinds and apps, or "
            "start the server with a larger nacos.remote.server.grpc.sdk.max-inbound-message-size"
        )
    if code == "DEADLINE_EXCEEDED":
        return LinkLost(f"{at} did not answer in time ({timeout_s:.2g} s); is it overloaded?")
    if code == "CANCELLED":
        return LinkLost(f"{at}: the connection was given up meanwhile")
    if "CERTIFICATE_VERIFY_FAILED" in says:
        ca = target.ca or "the authorities of this system"
        return SourceDenied(f"{at}: the server's certificate is not vouched for by {ca}; name its CA with &ca=FILE")
    if "Hostname Verification Check" in says or "is not in peer certificate" in says:
        return SourceDenied(f"{at}: the server's certificate is for another name; use a host name that stands in it")
    if target.tls and ("WRONG_VERSION_NUMBER" in says or "Handshake" in says or "alert" in says):
        return SourceDenied(
            f"{at}: the TLS handshake failed ({_last(says)}); check that the server speaks TLS on its gRPC port, and "
            "&cert=FILE&key=FILE if it asks for a client's certificate"
        )
    return LinkLost(
        f"{at} cannot be reached: {_last(says)}; check the address, that it runs and that its gRPC port (HTTP port + "
        "1000) is open, or write &transport=http"
    )


def _last(says: str) -> str:
    return says.rpartition("last error: ")[2]


def _chain(error: BaseException | None) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    """The innermost message: the library wraps them without adding anything."""
    *_, innermost = _chain(error)
    return quoted(str(innermost)) or type(innermost).__name__
