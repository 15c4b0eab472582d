"""Plain data to a rule set, or to a rejection that names everything wrong with it. All or nothing."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from sentinel_core.rules.canonical import canonical_json, canonical_order, digest_of, list_adapter, rule_bytes
from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.messages import show, translate, unknown_field
from sentinel_core.rules.rule import Finding, Rule, Shape, error, warning
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.signature import CONSOLE_KEYS, looks_like
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Path, Source

_JAVA_ACCEPTS = frozenset({"SR113"})
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


@dataclass(frozen=True, slots=True)
class _Noted:
    """A finding and the rule it is about."""

    listing: Listing
    index: int | None
    finding: Finding
    at_key: bool = False

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
            at_key=self.at_key,
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
            rules = self._without_duplicates(rules, listings)
        problems = self.problems()
        if self._failed():
            raise RuleRejected(problems, total=self.total)
        canonical = canonical_json(self.model, rules)
        return RuleSet(self.model.kind, tuple(rules), canonical, digest_of(canonical), tuple(problems))

    def problems(self) -> list[Problem]:
        """In the order of the text; located only now, because that costs a second look at the text."""
        most = self.options.limits.max_problems
        kept = [noted for noted in self.noted if noted.finding.severity == "error"][:most]
        kept += [noted for noted in self.noted if noted.finding.severity == "warning"][:most]
        problems = [noted.problem(self.model.kind) for noted in kept]
        problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
        if (left := len(self.noted) - len(kept)) > 0:
            name = problems[0].file if problems else None
            problems.append(Problem("SR000", "warning", f"and {left} more problems", name, kind=self.model.kind))
        return problems

    def _failed(self) -> bool:
        return any(noted.finding.severity == "error" for noted in self.noted)

    def _note(self, listing: Listing, index: int | None, finding: Finding, *, at_key: bool = False) -> None:
        if self.options.compat and finding.code in _JAVA_ACCEPTS:
            finding = warning(finding.code, finding.field, finding.message)
        self.noted.append(_Noted(listing, index, finding, at_key))

    def _read(self, listing: Listing) -> list[Rule]:
        items = listing.items
        if not isinstance(items, list):
            self._note(
                listing,
                None,
                error("SR010", None, f"a list of {self.model.kind} rules is needed, this is {show(items)}"),
            )
            return []
        self.total += len(items)
        if self.total > self.options.limits.max_rules:
            message = f"{self.total} rules; at most {self.options.limits.max_rules} of a kind are read"
            self._note(listing, None, error("SR003", None, message))
            return []
        if not all(type(item) is dict for item in items):
            for index, item in enumerate(items):
                if type(item) is not dict:
                    self._note(listing, index, translate(self.model, _not_a_rule(item), item, listing.source.dialect))
            return []
        if not self._keys_known(listing):
            return []
        return self._validate(listing, self._prepare(listing))

    def _keys_known(self, listing: Listing) -> bool:
        """False when the list is of another kind, in which case nothing else about it matters."""
        keys = set().union(*listing.items)
        known = self.model.fields_by_alias().keys()
        unknown = keys - known
        written_by_hand = listing.source.dialect == "yaml"
        if not written_by_hand:
            unknown -= CONSOLE_KEYS
        if unknown and (real := looks_like(self.model, {str(key) for key in keys})):
            message = f"this is no {self.model.kind} list: it looks like {real}; nothing of it is taken"
            self._note(listing, None, error("SR109", None, message))
            return False
        self._report_unknown(listing, unknown, known)
        for name, shape in self.model.nested.items():
            if name in keys:
                self._nested_keys_known(listing, name, shape)
        return True

    def _report_unknown(self, listing: Listing, unknown: set[Any], known: Any) -> None:
        refuse = self.options.strict or listing.source.dialect == "yaml"
        for index, item in enumerate(listing.items) if unknown else ():
            for key in unknown & item.keys():
                make, code = (error, "SR110") if refuse else (warning, "SR201")
                finding = make(code, str(key), unknown_field(key, known, ignored=not refuse))
                self._note(listing, index, finding, at_key=True)
            if not refuse:  # once each is enough for what is only ignored
                unknown = unknown - item.keys()

    def _nested_keys_known(self, listing: Listing, name: str, shape: type[Shape]) -> None:
        known = shape.fields_by_alias().keys()
        refuse = self.options.strict or listing.source.dialect == "yaml"
        for index, item in enumerate(listing.items):
            value = item.get(name)
            for place, part in enumerate(value) if isinstance(value, list) else ((None, value),):
                for key in part.keys() - known if isinstance(part, dict) else ():
                    where = f"{name}.{key}" if place is None else f"{name}[{place}].{key}"
                    make, code = (error, "SR110") if refuse else (warning, "SR201")
                    finding = make(code, where, unknown_field(key, known, ignored=not refuse))
                    self._note(listing, index, finding, at_key=True)

    def _prepare(self, listing: Listing) -> list[dict[str, Any]]:
        """Without nulls, and by hand with numbers in the place of names. The listing itself stays as it was written."""
        by_hand = listing.source.dialect != "json"
        prepared = []
        for index, item in enumerate(listing.items):
            if by_hand:
                item = self._spelled_out(listing, index, item)
            prepared.append(
                _without_nulls(item) if None in item.values() or self.model.nested.keys() & item.keys() else item
            )
        return prepared

    def _spelled_out(self, listing: Listing, index: int, item: dict[str, Any]) -> dict[str, Any]:
        item = item.copy()
        for name, codes in self.model.names.items():
            value = item.get(name)
            if type(value) is str and value in codes:
                item[name] = codes[value]
        if listing.source.dialect == "yaml" and (finding := self.model.repair(item)):
            self._note(listing, index, finding)
        return item

    def _validate(self, listing: Listing, prepared: list[dict[str, Any]]) -> list[Rule]:
        rules: list[Rule]
        try:
            rules = list_adapter(self.model).validate_python(prepared)
        except ValidationError:
            rules = [rule for index, item in enumerate(prepared) if (rule := self._validate_one(listing, index, item))]
        else:
            for index, rule in enumerate(rules):
                for finding in rule.check():
                    self._note(listing, index, finding)
        for name in self.model.loud_defaults:
            self._check_absent(listing, prepared, name)
        return rules

    def _validate_one(self, listing: Listing, index: int, item: dict[str, Any]) -> Rule | None:
        try:
            rule = self._with_whole_numbers(item)
        except ValidationError as fault:
            said = set()
            for detail in fault.errors(include_url=False):
                finding = translate(self.model, detail, listing.items[index], listing.source.dialect)
                if finding.field not in said:
                    self._note(listing, index, finding)
                said.add(finding.field)
            return None
        for finding in rule.check():
            self._note(listing, index, finding)
        return rule

    def _with_whole_numbers(self, item: dict[str, Any]) -> Rule:
        """Takes `1.0` where an integer is needed: JSON has one kind of number. Raises ValidationError."""
        try:
            return self.model.model_validate(item)
        except ValidationError as fault:
            if not any(_is_whole(detail) for detail in fault.errors()):
                raise
            for detail in fault.errors():
                if _is_whole(detail):
                    item = _replaced(item, detail["loc"], int(detail["input"]))
            return self.model.model_validate(item)

    def _check_absent(self, listing: Listing, prepared: list[dict[str, Any]], name: str) -> None:
        if sum(name in item for item in prepared) == len(prepared):
            return
        by_hand = listing.source.dialect == "yaml"
        for index, item in enumerate(prepared):
            if name in item:
                continue
            if by_hand:
                finding = error(
                    "SR101", name, f"{name} is missing; write it (Sentinel would read 0, which blocks every call)"
                )
            else:
                finding = warning(
                    "SR202", name, f"{name} is missing and is read as 0, as Java does: THIS BLOCKS EVERY CALL"
                )
            self._note(listing, index, finding)

    def _without_duplicates(self, rules: list[Rule], listings: Sequence[Listing]) -> list[Rule]:
        """Equal rules once: an error where people write them, a warning where programs do."""
        keys = [(rule.resource, rule.scope) for rule in rules]
        if len(set(keys)) == len(keys):
            return rules
        origins = [(listing, index) for listing in listings for index in range(len(listing.items))]
        order = canonical_order(rules)
        dropped = set()
        for earlier, later in itertools.pairwise(order):
            if keys[earlier] == keys[later] and rule_bytes(rules[earlier]) == rule_bytes(rules[later]):
                first, second = sorted((earlier, later))
                self._note_duplicate(origins[first], origins[second])
                dropped.add(second)
        return rules if self.options.compat else [rule for index, rule in enumerate(rules) if index not in dropped]

    def _note_duplicate(self, first: tuple[Listing, int], second: tuple[Listing, int]) -> None:
        listing, index = first
        where = listing.source.problem("SR111", "error", "", (*listing.prefix, index)).location
        if second[0].source.dialect == "yaml":
            finding = error("SR111", None, f"the same rule stands at {where}; remove one")
        else:
            finding = warning("SR204", None, f"the same rule stands at {where}; it counts once")
        self._note(*second, finding)


def _not_a_rule(item: Any) -> dict[str, Any]:
    return {"type": "model_type", "loc": (), "input": item, "msg": ""}


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


def _without_nulls(data: Any) -> Any:
    """An absent key and a null are one thing."""
    if isinstance(data, dict):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    return [_without_nulls(value) for value in data] if isinstance(data, list) else data
