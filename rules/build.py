"""Plain data to a rule set, or to a rejection that names everything wrong with it. All or nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from sentinel_core.rules.canonical import arrange, digest_of, list_adapter, rule_bytes, write
from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.keys import check_keys, cleaned
from sentinel_core.rules.messages import show, translate
from sentinel_core.rules.queueing import Serving
from sentinel_core.rules.rule import Finding, Rule, error, warning
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Path, Source

MORE = "SR000"
"""The code of the last problem when there are more than are listed."""
_JAVA_ACCEPTS = frozenset({"SR113", "SR117"})
"""Refused by us although Java takes them; under `compat` they are warnings."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The rules of one kind in one text: `items` stand at `prefix` of `source`."""

    source: Source
    prefix: Path
    items: Any


@dataclass(frozen=True, slots=True)
class Options:
    """How strictly to read."""

    strict: bool = False
    """Unknown keys in JSON are errors, as they always are in YAML."""
    compat: bool = False
    """As Java where we are stricter: a threshold that blocks everything is a warning, equal rules stay twice."""
    limits: Limits = DEFAULT_LIMITS
    serving: Serving | None = None
    """What is known of the service that runs the rules: for more remarks."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """A finding and the rule it is about."""

    listing: Listing
    index: int | None
    finding: Finding

    def problem(self, kind: str) -> Problem:
        path, item = self.listing.prefix, None
        if self.index is not None:
            path = (*path, self.index)
            item = self.listing.items[self.index]
        resource = item.get("resource") if isinstance(item, dict) else None
        return self.listing.source.problem(
            self.finding.code,
            self.finding.severity,
            self.finding.message,
            (*path, *_steps(self.finding.field)),
            at_key=self.finding.at_key,
            kind=kind,
            index=self.index,
            resource=resource if isinstance(resource, str) else None,
            field=self.finding.field,
        )


def _steps(name: str | None) -> Path:
    """`paramFlowItemList[0].count` → `("paramFlowItemList", 0, "count")`."""
    if not name:
        return ()
    parts = name.replace("[", ".[").split(".")
    return tuple(int(part[1:-1]) if part.startswith("[") and part[1:-1].isdigit() else part for part in parts)


@contextmanager
def paused_gc() -> Iterator[None]:
    """No collections while thousands of objects are made that stay. Nests, over threads too: the first one resumes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def build(model: type[Rule], listings: Sequence[Listing], options: Options) -> RuleSet:
    """The rules of all listings as one set. Raises RuleRejected with every problem found."""
    return RuleBuilder(model, options).build(listings)


@dataclass(slots=True)
class RuleBuilder:
    """One use: reads the listings of one kind and keeps what is wrong with them."""

    model: type[Rule]
    options: Options
    noted: list[_Noted] = field(default_factory=list)
    total: int = 0

    def build(self, listings: Sequence[Listing]) -> RuleSet:
        rules: list[Rule] = []
        for listing in listings:
            rules += self._read(listing)
        if not self._failed():
            try:
                return self._assemble(rules, listings)
            except PydanticSerializationError:
                self._note_unwritable(rules, listings)
        raise RuleRejected(self.problems(), total=self.total)

    def _assemble(self, rules: list[Rule], listings: Sequence[Listing]) -> RuleSet:
        self._check_together(rules, listings)
        order, duplicates = arrange(rules)
        if duplicates:
            rules, order = self._without_duplicates(rules, order, duplicates, listings)
        if self._failed():
            raise RuleRejected(self.problems(), total=self.total)
        canonical = write(self.model, rules, order)
        return RuleSet(self.model.kind, tuple(rules), canonical, digest_of(canonical), tuple(self.problems()))

    def _note_unwritable(self, rules: list[Rule], listings: Sequence[Listing]) -> None:
        """Texts given as objects may hold what no file can."""
        for rule, (listing, index) in zip(rules, _origins(listings), strict=True):
            try:
                rule_bytes(rule)
            except PydanticSerializationError:
                message = "a text holds half of a surrogate pair; write the character itself"
                self._note(listing, index, error("SR002", None, message))

    def problems(self) -> list[Problem]:
        """In the order of the text; located only now, because that costs a second look at the text."""
        most = self.options.limits.max_problems
        kept = [noted for noted in self.noted if noted.finding.severity == "error"][:most]
        kept += [noted for noted in self.noted if noted.finding.severity == "warning"][:most]
        problems = [noted.problem(self.model.kind) for noted in kept]
        problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
        if (left := len(self.noted) - len(kept)) > 0:
            name = problems[0].file if problems else None
            problems.append(Problem(MORE, "warning", f"and {left} more problems", name, kind=self.model.kind))
        return problems

    def _failed(self) -> bool:
        return any(noted.finding.severity == "error" for noted in self.noted)

    def _note(self, listing: Listing, index: int | None, finding: Finding) -> None:
        if self.options.compat and finding.code in _JAVA_ACCEPTS:
            finding = warning(finding.code, finding.field, finding.message)
        self.noted.append(_Noted(listing, index, finding))

    def _read(self, listing: Listing) -> list[Rule]:
        items = listing.items
        if not isinstance(items, list):
            message = f"a list of {self.model.kind} rules is needed, this is {show(items)}"
            if isinstance(items, dict) and listing.source.dialect == "yaml":
                message += "; begin each rule with a dash and a blank"
            self._note(listing, None, error("SR010", None, message))
            return []
        self.total += len(items)
        if self.total > self.options.limits.max_rules:
            message = f"{self.total} rules; at most {self.options.limits.max_rules} of a kind are read"
            self._note(listing, None, error("SR003", None, message))
            return []
        strangers = [index for index, item in enumerate(items) if type(item) is not dict]
        for index in strangers:
            message = f"a rule is {show(items[index])}; a mapping such as {{resource: ...}} is needed"
            self._note(listing, index, error("SR102", None, message))
        if strangers or not self._keys_fit(listing):
            return []
        return self._validate(listing, cleaned(self.model, self._spelled_out(listing)))

    def _keys_fit(self, listing: Listing) -> bool:
        by_hand = listing.source.dialect == "yaml"
        keys = check_keys(self.model, listing.items, refuse=by_hand or self.options.strict, console=not by_hand)
        for index, finding in keys.found:
            self._note(listing, index, finding)
        return not keys.other_kind

    def _spelled_out(self, listing: Listing) -> list[dict[str, Any]]:
        """With numbers in the place of the names that people may write. The listing itself stays as it was written."""
        if listing.source.dialect == "json":
            return listing.items  # type: ignore[no-any-return]  # checked by `_read`
        items: list[dict[str, Any]] = [item.copy() for item in listing.items]
        for name, codes in self.model.names.items():
            for item in items:
                if type(value := item.get(name)) is str and value in codes:
                    item[name] = codes[value]
        if listing.source.dialect == "yaml":
            for index, item in enumerate(items):
                if finding := self.model.repair(item):
                    self._note(listing, index, finding)
        return items

    def _validate(self, listing: Listing, items: list[dict[str, Any]]) -> list[Rule]:
        rules: list[Rule | None]
        try:
            rules = list_adapter(self.model).validate_python(items, by_alias=True, by_name=False)
        except ValidationError:
            rules = [self._validate_one(listing, index, item) for index, item in enumerate(items)]
        loud = self.model.loud_defaults
        for index, (rule, item) in enumerate(zip(rules, items, strict=True)):
            for name in loud:
                if name not in item:
                    self._note(listing, index, _absent(name, by_hand=listing.source.dialect == "yaml"))
            for finding in rule.check() if rule is not None else ():
                if finding.field not in loud or finding.field in item:
                    self._note(listing, index, finding)
        return [rule for rule in rules if rule is not None]

    def _validate_one(self, listing: Listing, index: int, item: dict[str, Any]) -> Rule | None:
        try:
            return _with_whole_numbers(self.model, item)
        except ValidationError as fault:
            said = set()
            for detail in fault.errors(include_url=False):
                if detail["type"] == "default_factory_not_called":  # a default that depends on a field that is wrong
                    continue
                finding = translate(self.model, detail, listing.items[index], listing.source.dialect)
                if finding.field not in said:
                    self._note(listing, index, finding)
                said.add(finding.field)
            return None

    def _check_together(self, rules: list[Rule], listings: Sequence[Listing]) -> None:
        odd = list(self.model.check_together(rules))
        if (serving := self.options.serving) is not None:
            self.noted = [noted for noted in self.noted if noted.finding.code not in serving.settles]
            odd += [(index, finding) for index, rule in enumerate(rules) for finding in rule.check_serving(serving)]
        origins = _origins(listings) if odd else []
        for index, finding in odd:
            self._note(*origins[index], finding)

    def _without_duplicates(
        self, rules: list[Rule], order: list[int], duplicates: list[tuple[int, int]], listings: Sequence[Listing]
    ) -> tuple[list[Rule], list[int]]:
        """Equal rules once: an error where people write them, a warning where programs do."""
        origins = _origins(listings)
        for first, later in duplicates:
            self._note_duplicate(origins[first], origins[later])
        if self.options.compat:
            return rules, order
        dropped = {later for _, later in duplicates}
        rules = [rule for index, rule in enumerate(rules) if index not in dropped]
        return rules, arrange(rules)[0]

    def _note_duplicate(self, first: tuple[Listing, int], later: tuple[Listing, int]) -> None:
        listing, index = first
        where = listing.source.problem("SR111", "error", "", (*listing.prefix, index)).location
        if later[0].source.dialect == "yaml":
            finding = error("SR111", None, f"the same rule stands at {where}; remove one")
        else:
            finding = warning("SR204", None, f"the same rule stands at {where}; it counts once")
        self._note(*later, finding)


def _origins(listings: Sequence[Listing]) -> list[tuple[Listing, int]]:
    """Where each rule of the whole stands, when all of them could be read."""
    return [(listing, index) for listing in listings for index in range(len(listing.items))]


def _absent(name: str, *, by_hand: bool) -> Finding:
    if by_hand:
        return error("SR101", name, f"{name} is missing; write it (Sentinel would read 0, which blocks every call)")
    return warning("SR202", name, f"{name} is missing and is read as 0, as Java does: THIS BLOCKS EVERY CALL")


def _with_whole_numbers(model: type[Rule], item: dict[str, Any]) -> Rule:
    """Takes `1.0` where an integer is needed: JSON has one kind of number. Raises ValidationError."""
    try:
        return model.model_validate(item, by_alias=True, by_name=False)
    except ValidationError as fault:
        whole = [detail for detail in fault.errors() if _is_whole(detail)]
        if not whole:
            raise
        for detail in whole:
            item = _replaced(item, detail["loc"], int(detail["input"]))
        return model.model_validate(item, by_alias=True, by_name=False)


def _is_whole(detail: Any) -> bool:
    value = detail["input"]
    return detail["type"] == "int_type" and isinstance(value, float) and value.is_integer()


def _replaced(data: Any, loc: Sequence[str | int], value: Any) -> Any:
    """A copy of `data` with `value` at `loc`."""
    if not loc:
        return value
    copy: Any = list(data) if isinstance(data, list) else dict(data)
    copy[loc[0]] = _replaced(data[loc[0]], loc[1:], value)
    return copy
