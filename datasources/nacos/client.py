"""Calls to Nacos over HTTP: the next server when one fails, a login where one is wanted, and which API there is.

Nacos 3 has another API than the servers before it; which one a server speaks is found out by asking it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
    StopSignal,
)
from sentinel_core.datasources.nacos.target import PASSWORD_VARIABLE, Target, is_token
from sentinel_core.datasources.nacos.wire import ALIVE_S, Answer, Held, Request, Wire
from sentinel_core.datasources.quoting import quoted
from sentinel_core.locks import renew_lock_after_fork

_T = TypeVar("_T")
_LIVENESS = "/v3/admin/core/state/liveness"
_RENEW_AT = 0.8
"""Of its time to live a token is used; then another is fetched before it is missed."""
_LONGEST_LIFE_S = 10 * 365 * 86400
_REST_S = 0.5
"""After a failure the next one to ask is told the same, so that many items do not try one dead server each."""


_LEAST_S = 0.1
_Token = tuple[str, float]
"""With the time at which it is to be renewed."""


class _Turn:
    """For one at a time; in a forked child it is free again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    @property
    def lock(self) -> threading.Lock:
        return self._lock


class Client:
    """Thread-safe. A call is bounded by the target's time-out, over all servers, and raises DatasourceError alone."""

    def __init__(self, target: Target, monotonic: Callable[[], float]) -> None:
        self.target = target
        self._monotonic = monotonic
        self._wire = Wire(target)
        self._lock = threading.Lock()
        renew_lock_after_fork(self)
        self._turn = 0
        """Counts servers given up; the next one is tried."""
        self._generations: dict[str, int] = {}
        self._token: _Token | None = None
        self._logins = _Turn()
        self._rest: tuple[float, str] | None = None
        """Until when nobody is tried, and why."""

    def generation(self, timeout_s: float | None = None) -> int:
        """3, or 1 for the API of the servers before."""
        return self._attempt(self._generation_of, timeout_s or self.target.timeout_s, once=False)

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str | bytes] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        held: StopSignal | None = None,
    ) -> Answer:
        """`held`: the server may hold back its answer, until that is set. A refusal of this caller is raised; other
        answers are the caller's to judge."""
        request = Request(
            method,
            f"{path}?{urlencode(query)}" if query else path,
            encoded(form) if form is not None else None,
            {"Content-Type": "application/x-www-form-urlencoded;charset=UTF-8", **(headers or {})},
        )

        def send(server: str, timeout_s: float) -> Answer:
            return self._entered(server, request, timeout_s, held)

        return self._attempt(send, timeout_s or self.target.timeout_s, once=not request.may_repeat)

    def _attempt(self, send: Callable[[str, float], _T], timeout_s: float, *, once: bool) -> _T:
        rest = self._rest
        if rest is not None and self._monotonic() < rest[0]:
            raise SourceUnavailable(rest[1])
        servers = self.target.servers
        tries = 1 if once else len(servers)
        failures: list[DatasourceError] = []
        until = self._monotonic() + timeout_s
        while True:
            turn = self._turn
            server = servers[turn % len(servers)]
            share = max(0.05, until - self._monotonic()) / (tries - len(failures))
            try:
                answer = send(server, share)
            except SourceUnavailable as error:
                failures.append(error)
                self._give_up(server, turn)
                if len(failures) == tries:
                    joined = "; ".join(dict.fromkeys(map(str, failures)))
                    self._rest = (self._monotonic() + _REST_S, joined)
                    raise SourceUnavailable(joined) from error
            else:
                self._rest = None
                return answer

    def forget_generations(self) -> None:
        """After an answer that no server of that generation gives: what a gateway said for one that was away has
        perhaps been taken for its own words."""
        self._generations = {}

    def _give_up(self, server: str, turn: int) -> None:
        with self._lock:
            if self._turn == turn:
                self._turn += 1
            self._generations.pop(server, None)  # it may come back as another version
        self._wire.drop(server)

    def _generation_of(self, server: str, timeout_s: float) -> int:
        known = self._generations.get(server)
        if known is None:
            answer = self._sent(server, Request("GET", _LIVENESS), timeout_s)
            if answer.status not in (200, 404):
                raise not_nacos(server, answer)
            known = self._generations[server] = 3 if answer.status == 200 else 1
        return known

    def _sent(self, server: str, request: Request, timeout_s: float, held: Held | None = None) -> Answer:
        answer = self._wire.exchange(server, request, timeout_s, held)
        if answer.status in (502, 503, 504):
            raise SourceUnavailable(f"nacos {server} is not ready ({says(answer)})")
        return answer

    def _show_life(self, server: str) -> None:
        """Whatever it answers: no login is needed for it."""
        self._sent(server, Request("GET", _LIVENESS), ALIVE_S)

    # -- logins ------------------------------------------------------------------------------------------------------

    def token(self, *, renew: bool = False) -> str | None:
        """The access token to show over another transport; None where there is no login. `renew`: it was refused."""
        if self.target.user is None:
            return self.target.token()
        with self._lock:
            if renew:
                self._token = None
            known = self._token
        if known is not None and self._monotonic() < known[1]:
            return known[0]
        return self._attempt(self._token_for, self.target.timeout_s, once=False)

    def _entered(self, server: str, request: Request, timeout_s: float, stop: StopSignal | None) -> Answer:
        """Sent with a token, if there is one; once more with a new one, if that has expired."""
        held = Held(stop, lambda: self._show_life(server)) if stop else None
        token = self._token_for(server, timeout_s)
        answer = self._sent(server, _with(request, token), timeout_s, held)
        if answer.status in (401, 403) and self.target.user and "authorization failed" not in says(answer):
            with self._lock:
                if self._token is not None and self._token[0] == token:
                    self._token = None
            answer = self._sent(server, _with(request, self._token_for(server, timeout_s)), timeout_s, held)
        if answer.status in (401, 403):
            raise self._denied(server, answer)
        return answer

    def _token_for(self, server: str, timeout_s: float) -> str | None:
        if self.target.user is None:
            return self.target.token()
        with self._lock:
            known = self._token
        if known is None or self._monotonic() >= known[1]:
            known = self._logged_in(server, timeout_s, before=known)
        return known[0]

    def _logged_in(self, server: str, timeout_s: float, before: _Token | None) -> _Token:
        """One thread logs in and the others take its token: a login costs a server a tenth of a second of computing, so
        that all items of a fleet at once would keep it from ever answering one of them in time."""
        began = self._monotonic()
        turn = self._logins.lock
        if not turn.acquire(timeout=timeout_s):
            raise SourceUnavailable(f"nacos {server}: a login did not end in time ({timeout_s:g} s); is it overloaded?")
        try:
            with self._lock:
                known = self._token
            if known is None or known is before:
                known = self._log_in(server, max(_LEAST_S, timeout_s - (self._monotonic() - began)))
                with self._lock:
                    self._token = known
            return known
        finally:
            turn.release()

    def _log_in(self, server: str, timeout_s: float) -> _Token:
        path = "/v3/auth/user/login" if self._generation_of(server, timeout_s) == 3 else "/v1/auth/users/login"
        form = encoded({"username": self.target.user or "", "password": self.target.password()})
        headers = {"Content-Type": "application/x-www-form-urlencoded;charset=UTF-8"}
        answer = self._sent(server, Request("POST", path, form, headers), timeout_s)
        if answer.status != 200:  # for a wrong password versions answer 403, 500 or no HTTP at all
            where = f"in {self.target.password_file}" if self.target.password_file else f"in {PASSWORD_VARIABLE}"
            raise SourceDenied(
                f"nacos {server} refuses user {self.target.user} or the password; check the password {where}"
            )
        found = document(answer)
        token, lives_s = found.get("accessToken"), found.get("tokenTtl")
        if not isinstance(token, str) or not isinstance(lives_s, int) or not is_token(token):
            raise not_nacos(server, Answer(answer.status, b"no token and its tokenTtl in seconds"))  # it may hold one
        # One of no time to live is used until it is refused.
        lives_s = lives_s if 0 < lives_s < _LONGEST_LIFE_S else _LONGEST_LIFE_S
        return token, self._monotonic() + _RENEW_AT * lives_s

    def _denied(self, server: str, answer: Answer) -> SourceDenied:
        target = self.target
        if "authorization failed" in says(answer):
            who = f"the user {target.user}" if target.user else "who holds this token"
            return SourceDenied(
                f"nacos {server} denies {who} this: grant a role that may read (and, to publish, write) the group "
                f"{target.group} in the namespace {target.namespace}"
            )
        if target.token_file:
            return SourceDenied(f"nacos {server} refuses the token in {target.token_file} ({says(answer)}); renew it")
        return SourceDenied(
            f"nacos {server} asks for a login; write &user=NAME and the password into the variable "
            f"{PASSWORD_VARIABLE} (or &password_file=)"
        )

    def close(self) -> None:
        self._wire.close()


_SAFE = "{}[]:,\"'()<>@/!$*;?^`|~"
"""Left as it is in a form, whose decoder looks for % & + = alone: servers limit the length of the encoded form, and of
these a list of rules is full."""


def encoded(form: Mapping[str, str | bytes]) -> bytes:
    return "&".join(f"{name}={quote(value, safe=_SAFE)}" for name, value in form.items()).encode()


def _with(request: Request, token: str | None) -> Request:
    return replace(request, headers={**request.headers, "accessToken": token}) if token else request


def document(answer: Answer) -> dict[str, Any]:
    """What is no JSON object is an empty one."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def says(answer: Answer) -> str:
    """The server's words, in short; they name no secret."""
    found = document(answer)
    words = [str(found[name]) for name in ("message", "data") if isinstance(found.get(name), str)]
    text = ": ".join(words) if words else answer.body.decode("utf-8", "replace").strip()
    return f"HTTP {answer.status} {quoted(text, 200)}".strip()


def not_nacos(where: str, answer: Answer) -> SourceMisconfigured:
    return SourceMisconfigured(
        f"nacos {where} answers, but not as a Nacos server does ({says(answer)}); name the port of the server (8848), "
        "not that of its console, and say &tls=true if it speaks TLS"
    )
