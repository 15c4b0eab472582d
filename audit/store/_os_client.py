"""Calls to OpenSearch and Elasticsearch, which answer the same here: the next host when one fails, another try while
they are busy, and what they refuse, in words."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sentinel_core.audit.encode import compact
from sentinel_core.audit.errors import StoreDenied, StoreMisconfigured, StoreUnavailable
from sentinel_core.audit.store._os_target import PASSWORD_VARIABLE, Target
from sentinel_core.audit.store._os_wire import Answer, Request, Sent, Wire
from sentinel_core.rules.source import printable

BUSY = (429, 502, 503, 504)
_OLDEST = (7, 10)
"""Of Elasticsearch; every OpenSearch is newer."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_ACTIONS_PAUSE_S = 0.05
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def encode(value: Any) -> str:
    """As JSON; half a surrogate pair stays one."""
    try:
        return compact(value).decode()
    except ValueError:
        return _ENCODE(value)


def to_bytes(text: str) -> bytes:
    """Half a surrogate pair as the JSON escape that it is."""
    return text.encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Begun:
    """Actions that were sent to the host of a turn, or could not be: `sent` is None."""

    request: Request
    turn: int
    sent: Sent | None

    def drop(self) -> None:
        """For whoever does not wait: they may be carried out or not."""
        if self.sent is not None:
            self.sent.drop()


class Client:
    """Thread-safe. A call takes no longer than the target's time-out, over all hosts and tries, and raises
    StoreUnavailable (with StoreDenied, StoreMisconfigured) alone."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._wire = Wire(target)
        self._turn = 0
        """Counts hosts given up; the next one is tried."""
        self._checked = False
        self._lock = threading.Lock()
        self._process = os.getpid()

    def call(
        self, method: str, path: str, document: Any = None, *, allowed: Collection[int] = ()
    ) -> tuple[int, dict[str, Any]]:
        """Status and document of an answer of 2xx, or of one in `allowed`."""
        body = None if document is None else to_bytes(encode(document))
        return self._asked(Request(method, path, body), allowed)

    def lines(self, path: str, lines: Iterable[str]) -> dict[str, Any]:
        """Sends lines of JSON, as `_bulk` and `_msearch` take them."""
        return self._asked(_of_lines(path, lines), ())[1]

    def begin(self, lines: Iterable[str]) -> Begun:
        """Sends actions without waiting for what comes of them."""
        request = _of_lines("/_bulk?filter_path=errors", lines)  # results would be half of the answer's size
        self._notice_fork()
        turn, sent = self._turn, None
        if self._checked:
            with suppress(StoreUnavailable):  # whoever waits asks again, and is told
                sent = self._wire.send(self._host(turn), request, self.target.timeout_s / len(self.target.hosts))
        return Begun(request, turn, sent)

    def made(self, begun: Begun) -> bool:
        """Waits: whether all of the actions went well. Once for each."""
        return self._asked(begun.request, (), begun)[1].get("errors") is False

    def bulk(self, lines: Sequence[str]) -> list[dict[str, Any]]:
        """The results of actions, in their order, which may be refusals."""
        if not lines:
            return []
        fields = "filter_path=items.*.status,items.*._seq_no,items.*._primary_term,items.*.error"
        told = self.lines(f"/_bulk?{fields}", lines)
        return [result for item in told.get("items", ()) for result in item.values()]

    def carry_out(self, lines: Sequence[str], fine: Collection[int], *, each: int = 2) -> None:
        """Actions of `each` lines, in their order, and again those that the server was too busy for. `fine`: the status
        of an action that is done."""
        until, pause = time.monotonic() + self.target.timeout_s, _ACTIONS_PAUSE_S
        while lines:
            results = self.bulk(lines)
            bad = [place for place, result in enumerate(results) if result["status"] not in fine]
            if not bad:
                return
            worst = next((results[place] for place in bad if results[place]["status"] not in BUSY), results[bad[0]])
            if worst["status"] not in BUSY or time.monotonic() + pause > until:
                raise refused(self.target, worst["status"], worst.get("error"))
            lines = [line for place in bad for line in lines[each * place : each * (place + 1)]]
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Idempotent; the next call connects again."""
        self._wire.close()

    # -- ways ----------------------------------------------------------------------------------------------------------

    def _asked(
        self, request: Request, allowed: Collection[int], begun: Begun | None = None
    ) -> tuple[int, dict[str, Any]]:
        self._notice_fork()
        until = time.monotonic() + self.target.timeout_s
        if not self._checked:
            self._check(until)
        answer = self._answered(request, until, begun)
        if 200 <= answer.status < 300 or answer.status in allowed:
            return answer.status, document_of(self.target, answer)
        raise refusal(self.target, answer)

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._wire.close()

    def _host(self, turn: int) -> str:
        return self.target.hosts[turn % len(self.target.hosts)]

    def _answered(self, request: Request, until: float, begun: Begun | None = None) -> Answer:
        """What a host says that is there and not busy, or busy to the end."""
        hosts, pause = self.target.hosts, _PAUSE_S
        failures: list[StoreUnavailable] = []
        while True:
            turn, sent = (self._turn, None) if begun is None else (begun.turn, begun.sent)
            begun = None
            share = max(0.05, until - time.monotonic()) / max(1, len(hosts) - len(failures))
            try:
                if sent is not None:
                    answer = self._wire.answer(sent, share)
                else:
                    answer = self._wire.exchange(self._host(turn), request, share)
            except StoreUnavailable as error:
                failures.append(error)
                self._give_up(turn)
                if len(failures) >= len(hosts):
                    raise _joined(failures) from error
                continue
            if answer.status not in BUSY or time.monotonic() + pause > until:
                return answer
            if answer.status != 429:
                self._give_up(turn)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _give_up(self, turn: int) -> None:
        with self._lock:
            if self._turn == turn:
                self._turn += 1

    def _check(self, until: float) -> None:
        """Once: that it is one of the two, and new enough. Who may not ask that is believed."""
        answer = self._answered(Request("GET", "/"), until)
        if answer.status == 403:
            self._checked = True
            return
        if answer.status != 200:
            raise refusal(self.target, answer)
        about = document_of(self.target, answer)
        version = about.get("version")
        number = str(version.get("number", "")) if isinstance(version, dict) else ""
        parts = tuple(int(part) for part in number.split(".")[:2] if part.isdigit())
        is_opensearch = isinstance(version, dict) and version.get("distribution") == "opensearch"
        if len(parts) < 2 or not (is_opensearch or about.get("tagline") == "You Know, for Search"):
            raise not_one(self.target, answer)
        if not is_opensearch and parts < _OLDEST:
            raise StoreMisconfigured(f"{self.target} is Elasticsearch {number}; 7.10 or newer is needed")
        self._checked = True


def _of_lines(path: str, lines: Iterable[str]) -> Request:
    return Request("POST", path, to_bytes("".join(f"{line}\n" for line in lines)), "application/x-ndjson")


def _joined(failures: Sequence[StoreUnavailable]) -> StoreUnavailable:
    """One that a person must mend counts for more than one that may pass, unless only some hosts are so."""
    kinds = {type(failure) for failure in failures}
    kind = kinds.pop() if len(kinds) == 1 else StoreUnavailable
    return kind("; ".join(dict.fromkeys(map(str, failures))))


def document_of(target: Target, answer: Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body) if answer.body else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise not_one(target, answer)
    return found


def not_one(target: Target, answer: Answer) -> StoreMisconfigured:
    text = printable(answer.body[:80].decode("utf-8", "replace"))
    return StoreMisconfigured(
        f"{target} answers, but not as OpenSearch or Elasticsearch does (HTTP {answer.status} {text}); name its "
        "HTTP port (9200), and write ?tls=true if it speaks TLS"
    )


def reason_of(error: Any) -> str:
    """The words of a refusal, in short."""
    if not isinstance(error, Mapping):
        return printable(str(error)[:300])
    cause = error.get("root_cause")
    if isinstance(cause, list) and cause and isinstance(cause[0], Mapping):
        error = cause[0]
    return printable(f"{error.get('type')}: {error.get('reason')}"[:300])


def refusal(target: Target, answer: Answer) -> StoreUnavailable:
    """What to raise for an answer that is none of those that were wanted."""
    if answer.status == 401:
        where = f"in {target.password_file}" if target.password_file else f"in {PASSWORD_VARIABLE}"
        if target.user is None:
            return StoreDenied(f"{target} asks for a login; write opensearch://NAME@host and the password {where}")
        return StoreDenied(f"{target} refuses user {target.user} or the password; check the password {where}")
    try:
        error = json.loads(answer.body).get("error", {})
    except (ValueError, RecursionError, AttributeError):
        if answer.status in BUSY:
            return StoreUnavailable(f"{target} is not ready (HTTP {answer.status}); it is tried again")
        return not_one(target, answer)
    return refused(target, answer.status, error)


def refused(target: Target, status: int, error: Any) -> StoreUnavailable:
    """The same for the answer to one action."""
    words = reason_of(error)
    if "cluster_block_exception" in words or "TOO_MANY_REQUESTS/12" in words:
        step = "remove the block (index.blocks.*), and where a disk was full give it space first"
        return StoreUnavailable(f"{target} takes no writes ({words}); {step}")
    if "Text fields are not optimised" in words or "Fielddata is disabled" in words:
        step = "reindex it, or remove it; the template is made again when a writer starts"
        return StoreMisconfigured(f"{target}: an index was made without its template ({words[:80]}…); {step}")
    if status == 403:
        who = f"user {target.user}" if target.user else "a client without a login"
        return StoreDenied(
            f"{target} denies this to {who} ({words}); grant rights on {target.index}-*, see docs/audit.md"
        )
    if status in BUSY:
        return StoreUnavailable(f"{target} is busy or not ready ({words}); it is tried again")
    return StoreUnavailable(f"{target} answers HTTP {status} ({words})")
