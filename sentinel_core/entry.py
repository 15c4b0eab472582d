"""What a call gets for asking: an Entry to leave by, a Blocked that is falsy, or a wait."""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Self

from sentinel_core.errors import BlockException, EntryOrderError, RuleRevision, exception_class
from sentinel_core.plan import Call, Checker, Pass, Plan, Snapshot

FAILED: Final = 1
CANCELLED: Final = 2
PROBING: Final = 4
DONE: Final = 8


class Entry(Pass):
    """A call that passed. Carries all that its exit needs, so it may end on another thread, task or context.

    Use it as a context manager (an exception of the block is recorded), or call `exit()` yourself, once.
    """

    __slots__ = ("state", "token")

    state: int
    """FAILED, CANCELLED and PROBING, added up; DONE after the end."""
    token: Token[Entry | None]

    def __bool__(self) -> bool:
        return True

    @property
    def resource(self) -> str:
        return self.plan.node.resource

    @property
    def probing(self) -> bool:
        """Whether a half-open breaker waits for the result of this call; False after its end."""
        return self.state & PROBING != 0

    def trace(self, error: BaseException) -> None:
        """Records that the call failed. A block is no failure, nor is a group of nothing but blocks (two refused tasks
        of a TaskGroup); neither is a cancellation or the end of a process."""
        if isinstance(error, BaseExceptionGroup):
            others = error.split(BlockException)[1]
            if others is None:
                return
            error = others
        if not isinstance(error, BlockException):
            self.state |= FAILED if isinstance(error, Exception) else CANCELLED

    def disregard(self) -> None:
        """Says that how this call ends tells nothing about health: no breaker counts it, a probe's permit comes back.
        Java counts it as a success, and so does `compat`."""
        self.state |= CANCELLED

    def exit(self, count: int | None = None) -> None:
        """Ends the call; `count` where it differs from the entry's. A second exit does nothing."""
        plan = self.plan
        while plan.successor is not None:
            plan = plan.successor
        runtime = plan.runtime
        if count is None:
            count = self.count
        else:
            check_count(count)
            if count < 0 and not runtime.compat:
                count = 0  # what has ended does not become less
        if runtime.compat:
            self.unwind()
        monotonic_ns = runtime.monotonic_ns  # calling what a slot holds is dearer
        now = monotonic_ns()
        try:
            before, runtime.busy = runtime.busy and runtime.give_way(), True
            try:
                state, self.state = self.state, DONE
                if state < DONE:
                    plan.complete(self, now, count, state)
            finally:
                runtime.busy = before
                if before:
                    runtime.give_back()
        except Exception as error:  # noqa: BLE001 (an internal error must not break the caller's call)
            runtime.failed(error)
        if runtime.news:
            runtime.news_ready()

    def unwind(self) -> None:
        """Java's order: the innermost entry of a context ends first. Otherwise all of them end, and this raises."""
        if getattr(self, "token", None) is None:
            return  # its block never began: it stands in no order
        current, outer = _current.get(), self.outer()
        if current is self:
            _current.set(outer)
        elif current is not outer and current is not None and self.state < DONE:
            _current.set(None)
            while current is not None:
                current.exit()
                current = current.outer()
            raise EntryOrderError(f"{self.resource} ended before entries inside of it; all of them have been ended")

    def outer(self) -> Entry | None:
        """The entry around this one when its block began."""
        token = getattr(self, "token", None)
        return token.old_value if token is not None and isinstance(token.old_value, Entry) else None

    def __enter__(self) -> Self:
        self.token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.trace(error)
        try:  # noqa: SIM105 (`suppress` would cost two calls on every entry)
            _current.reset(self.token)
        except ValueError:
            pass  # left in another context than entered (a generator closed by the collector): nothing to restore
        self.exit()


def entered(plan: Plan, call: Call, start: int, count: int, era: int, state: int = 0) -> Entry:
    """The entry of a call that passed; its fields as in Pass and Entry."""
    entry = Entry()
    entry.plan = plan
    entry.call = call
    entry.start = start
    entry.count = count
    entry.era = era
    entry.state = state
    return entry


def check_count(count: object) -> None:
    """Raises TypeError for what is no whole number, in interpreted code as compiled code does."""
    if not isinstance(count, int):
        raise TypeError(f"count is {count!r}; it says how many requests a call stands for: a whole number (int)")


_current: ContextVar[Entry | None] = ContextVar("sentinel_entry", default=None)


def innermost() -> Entry | None:
    """The entry whose `with` block this code runs in, None outside of any."""
    return _current.get()


def trace(error: BaseException) -> None:
    """Records an error that the code handles itself with the innermost `with entry(...)` around it."""
    entry = _current.get()
    if entry is not None:
        entry.trace(error)


class Blocked:
    """A refusal as a value: falsy, and it names the rule. `exception()` makes what `entry` would have raised."""

    __slots__ = ("call", "checker", "now", "resource", "snapshot")

    def __init__(self, resource: str, checker: Checker, snapshot: Snapshot, now: int, call: Call) -> None:
        self.resource = resource
        self.checker = checker
        self.snapshot = snapshot
        self.now = now
        self.call = call

    def __bool__(self) -> bool:
        return False

    @property
    def kind(self) -> str:
        return self.checker.kind

    @property
    def rule(self) -> Any:
        """The rule that decided; None for limits that come from several rules together (system)."""
        return self.checker.rule

    @property
    def retry_after(self) -> int | None:
        """Milliseconds after which a new try may pass, None where that cannot be said."""
        return self.checker.retry_after(self.now, self.call)

    @property
    def revision(self) -> RuleRevision:
        """Digest and commit of the rules that decided."""
        ruleset = self.snapshot.rulesets.get(self.checker.kind)
        if ruleset is None:
            return RuleRevision(None, None)
        owner = ruleset.owner(self.checker.rule)
        commit = None if owner.revision is None else owner.revision.provenance.commit_hash
        return RuleRevision(owner.digest, commit)

    def exception(self) -> BlockException:
        """The BlockException of this refusal."""
        checker = self.checker
        revision = self.revision
        return exception_class(checker.kind)(
            self.resource,
            kind=checker.kind,
            rule=checker.rule,
            digest=revision.digest,
            commit=revision.commit,
            retry_after=checker.retry_after(self.now, self.call),
            detail=checker.detail(self.call),
            origin=self.call.origin,
            facts=checker.facts(self.call),
        )

    def __repr__(self) -> str:
        return f"Blocked({self.exception()})"


class Waiting:
    """A call that may go on after `wait` nanoseconds: hand it back to `Gate.resume`, or to `Gate.abandon`."""

    __slots__ = ("begin", "call", "count", "held", "plan", "resource", "snapshot", "start", "wait")

    def __init__(
        self, resource: str, plan: Plan, snapshot: Snapshot, call: Call, start: int, count: int, begin: int, wait: int
    ) -> None:
        self.resource = resource
        self.plan = plan
        self.snapshot = snapshot
        self.call = call
        self.start = start
        self.count = count
        self.begin = begin
        self.wait = wait
        self.held = plan.held
        """The era of permits that the call holds, -1 without any."""
