"""What can be wrong with rules, and how it is said.

    SentinelRulesError
    ├── RuleRejected          a revision that is not taken, with every problem found in it
    └── UnknownKind           a rule kind that nobody registered: the caller's slip, not the text's

Codes are stable: SR0xx text and syntax, SR1xx validity (errors), SR2xx lint (warnings).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sentinel_core.masking import mask_text, may_hold_secret

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong: where, which rule and field, the value, and what to write instead."""

    code: str
    severity: Severity
    message: str
    """A full clause that names the value and says what to write, e.g. `count is "2O"; a number is needed`."""
    file: str | None = None
    line: int | None = None
    """1-based; None where there is no text (rules given as objects)."""
    column: int | None = None
    """1-based, in characters."""
    path: str = "$"
    """JSON path, e.g. `$[0].count` or `$.flowRules[2].count`."""
    kind: str | None = None
    index: int | None = None
    """Position of the rule in its list, 0-based."""
    resource: str | None = None
    field: str | None = None

    def __post_init__(self) -> None:
        """A credential in a rule is in no message about it."""
        for name in ("message", "path", "resource", "field"):
            text = getattr(self, name)
            if text and may_hold_secret(text):
                object.__setattr__(self, name, mask_text(text))

    @property
    def location(self) -> str:
        """`file:line:column`, with the parts that are known; the path where there is no text."""
        if self.line is None:
            return f"{self.file}:{self.path}" if self.file else self.path
        return ":".join(str(part) for part in (self.file or "<input>", self.line, self.column) if part is not None)

    def __str__(self) -> str:
        subject = f" {self.resource}" if self.resource else ""
        return f"{self.location}: {self.severity} {self.code}{subject}: {self.message}"


class SentinelRulesError(Exception):
    """Root of what this package raises."""


class UnknownKind(SentinelRulesError, LookupError):  # reads as what happened
    """Asked for a kind that is not registered."""


class RuleRejected(SentinelRulesError):  # reads as what happened
    """The whole revision is refused; the rules that were active stay active."""

    def __init__(self, problems: Iterable[Problem], *, total: int = 0) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        """Errors and warnings, in the order of the text."""
        self.total = total
        """Number of rules seen in the revision."""
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def says_nothing(self) -> bool:
        """Nothing is wrong but that a text is blank, null or {}: emptiness, which is no wish and no fault."""
        return bool(self.errors) and all(problem.code == "SR001" for problem in self.errors)
