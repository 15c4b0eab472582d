"""The rules of one kind as one immutable value with a digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sentinel_core.rules.canonical import EMPTY, digest_of
from sentinel_core.rules.errors import Problem
from sentinel_core.rules.registry import model_of
from sentinel_core.rules.revision import Kind, Revision

SHORT = 12


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What a source's text means. Sets of one kind with one digest hold the same rules, maybe in another order."""

    kind: Kind
    rules: tuple[Any, ...]
    """The kind's rule objects in the order of evaluation, which is the order of the text."""
    canonical: bytes = field(repr=False)
    """The canonical JSON list, UTF-8."""
    digest: str
    """SHA-256 (hex) of `canonical`."""
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    revision: Revision | None = field(default=None, compare=False)
    """Where the rules came from, without the bytes."""
    owners: Mapping[str, RuleSet] = field(default_factory=dict, repr=False, compare=False)
    """Where several stores give rules: `place` of a rule → the set of the store that it is from; else empty."""

    @classmethod
    def empty(cls, kind: Kind) -> RuleSet:
        """No rules; what an engine runs before anything was read. Raises UnknownKind."""
        return cls(kind=model_of(kind).kind, rules=(), canonical=EMPTY, digest=digest_of(EMPTY))

    @property
    def short(self) -> str:
        """The digest as people see it."""
        return self.digest[:SHORT]

    def with_revision(self, revision: Revision | None) -> RuleSet:
        """The same rules from that revision, whose bytes are dropped."""
        return replace(self, revision=revision.without_content() if revision else None)

    def owner(self, rule: Any) -> RuleSet:
        """The set in which a rule of this one (None: all together) was delivered, with its digest and revision."""
        return self.owners.get(rule.place, self) if self.owners and rule is not None else self

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rules)
