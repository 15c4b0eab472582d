"""Authority rules: which callers may use a resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from sentinel_core.rules.rule import Finding, Mode, Name, Natural, OriginRule, warning

WHITE, BLACK = 0, 1


class AuthorityRule(OriginRule):
    """A white or black list of origins, separated by commas, compared exactly after trimming."""

    kind: ClassVar = "authority"
    document_key: ClassVar = "authorityRules"
    rank: ClassVar = 50
    names: ClassVar = {"strategy": {"white": WHITE, "black": BLACK}}

    limit_app: Name
    strategy: Natural = WHITE
    mode: Mode = None
    """`shadow`: counts what it would block and lets it pass."""

    @property
    def origins(self) -> tuple[str, ...]:
        """The listed callers, trimmed, blanks left out."""
        return tuple(origin.strip() for origin in self.limit_app.split(",") if origin.strip())

    def check(self) -> Iterator[Finding]:
        yield from super().check()
        if self.mode:
            yield from self.check_mode()
        if finding := self.unknown_code("strategy", self.strategy, "every caller passes"):
            yield finding
        if any(origin != origin.strip() for origin in self.limit_app.split(",")):
            yield warning(
                "SR211", "limitApp", f'limitApp "{self.limit_app}" has blanks in its list; Java does not trim them'
            )

    @classmethod
    def check_together(cls, rules: Sequence[Self]) -> Iterator[tuple[int, Finding]]:
        seen: set[str] = set()
        for index, rule in enumerate(rules):
            if rule.resource in seen:
                yield (
                    index,
                    warning("SR212", "resource", "the resource has an authority rule already; Java keeps one"),
                )
            seen.add(rule.resource)

    def describe(self) -> str:
        verb = {WHITE: "only", BLACK: "not"}.get(self.strategy, "any caller, whatever the list:")
        return f"{verb} {', '.join(self.origins)}"
