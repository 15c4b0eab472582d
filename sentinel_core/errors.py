"""What the engine raises.

    SentinelError
    ├── BlockException                a call was refused; carries resource, rule, kind, revision, retry_after
    │   ├── FlowException
    │   ├── DegradeException
    │   ├── BizMetricBlockException
    │   ├── SystemBlockException
    │   ├── AuthorityException
    │   └── ParamFlowException
    ├── EntryOrderError               compat only: an entry ended while an inner one was open
    ├── EngineClosed                  the engine was closed before it was asked to subscribe or load
    └── KindTaken                     a kind is fed by one subscription already

`RuleRejected` (bad rules) lives in `sentinel_core.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple


class SentinelError(Exception):
    """Root of what the engine raises."""


class RuleRevision(NamedTuple):
    """Which rules decided: the digest of their set (hex), and the Git commit where it is known."""

    digest: str | None
    commit: str | None

    def __str__(self) -> str:
        return " ".join(part[:12] for part in (self.commit, self.digest) if part)


class BlockException(SentinelError):
    """A call was refused by a rule. Never counted as a failure by breakers. Pickles and copies whole."""

    kind: str = ""
    hint: ClassVar[str] = "see `sentinelctl rules explain {resource}`"

    def __init__(
        self,
        resource: str,
        *,
        kind: str = "",
        rule: Any = None,
        digest: str | None = None,
        commit: str | None = None,
        retry_after: int | None = None,
        detail: str = "",
        origin: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.resource = resource
        self.kind = kind or type(self).kind
        self.rule = rule
        """The rule that decided; None for limits that come from several rules together (system)."""
        self.digest = digest
        """Digest of the rule set that decided (hex)."""
        self.commit = commit
        """Git commit of that rule set, None where unknown."""
        self.retry_after = retry_after
        """Milliseconds after which a new try may pass, None where that cannot be said."""
        self.detail = detail
        self.origin = origin
        self.facts: Mapping[str, Any] = facts or {}
        """What the kind has to say besides, plain JSON values."""
        super().__init__(resource)

    @property
    def revision(self) -> RuleRevision:
        """What leads from an incident to a change."""
        return RuleRevision(self.digest, self.commit)

    @property
    def limit_app(self) -> str:
        """What Sentinel calls limitApp of a block: the rule's, or what exactly was hit."""
        return self.detail or str(getattr(self.rule, "limit_app", "") or "")

    def says(self) -> str:
        """What exactly was hit, in words; "" where the rule says it all."""
        return self.detail

    def __str__(self) -> str:
        parts = [f"{self.resource} blocked by {self.kind}"]
        if self.rule is not None:
            parts.append(f"rule {getattr(self.rule, 'path', self.rule)}")
        if said := self.says():
            parts.append(said)
        if self.retry_after is not None:
            parts.append(f"retry after {self.retry_after} ms")
        if any(self.revision):
            parts.append(f"revision {self.revision}")
        return _masked(", ".join(parts) + "; " + self.hint.format(resource=self.resource))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_masked(self.resource)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.resource, self.__dict__.copy())


def _masked(text: str) -> str:
    """What is printed holds no credential, even if a resource or an origin is called by one."""
    from sentinel_core.masking import mask_text  # with it comes all that reads rules

    return mask_text(text)


def _rebuild(cls: type[BlockException], resource: str, state: dict[str, Any]) -> BlockException:
    exception = cls(resource)
    exception.__dict__.update(state)
    return exception


class FlowException(BlockException):
    """Too many requests or too many at once."""

    kind = "flow"


class DegradeException(BlockException):
    """A breaker is open: calls were slow or failed."""

    kind = "degrade"
    hint = "look at errors and response times of {resource}; see `sentinelctl rules explain {resource}`"


class BizMetricBlockException(BlockException):
    """A business metric is out of bounds."""

    kind = "biz_metric"
    hint = "look at the business metric before the service; see `sentinelctl rules explain {resource}`"

    @property
    def metric_type(self) -> str:
        """The `bizMetricType`."""
        return str(self.facts.get("metric", ""))

    @property
    def dimension(self) -> str:
        """The value of the rule's dimension, "" without one."""
        return str(self.facts.get("dimension", ""))

    @property
    def value(self) -> float | None:
        """What the metric stands at, in its own unit (percent for a rate); None where nobody knows."""
        value: float | None = self.facts.get("value")
        return value

    @property
    def threshold(self) -> float | None:
        threshold: float | None = self.facts.get("threshold")
        return threshold

    @property
    def state(self) -> str:
        """OPEN or HALF_OPEN; "" where a breaker is held open by hand."""
        return str(self.facts.get("state", ""))

    def says(self) -> str:
        if not self.facts:
            return self.detail
        value = "unknown" if self.value is None else f"{self.value:g}"
        return f"{self.detail} is {value}, threshold {self.threshold:g}, {self.state}"


class SystemBlockException(BlockException):
    """The whole process is overloaded."""

    kind = "system"
    hint = "look at load, CPU and the inbound total of this process"


class AuthorityException(BlockException):
    """This caller may not call."""

    kind = "authority"
    hint = "check which origin the caller sends; see `sentinelctl rules explain {resource}`"


class ParamFlowException(BlockException):
    """Too many requests with this argument."""

    kind = "param_flow"


class EntryOrderError(SentinelError):
    """Under compat, as Java's ErrorEntryFreeException: an outer entry ended first. Every open one has been ended."""


class EngineClosed(SentinelError):
    """The engine was closed."""


class KindTaken(SentinelError):
    """A kind may be fed by one subscription only."""


def exception_class(kind: str) -> type[BlockException]:
    """The exception of a kind: the subclass that carries it, of this package or of a slot's own."""
    found = _CLASSES.get(kind)
    if found is None:
        found = next((cls for cls in BlockException.__subclasses__() if cls.kind == kind), BlockException)
        _CLASSES[kind] = found
    return found


_CLASSES: dict[str, type[BlockException]] = {}
