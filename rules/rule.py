"""The base of every rule kind: how a rule is spelled, compared, checked and named.

A kind is one file in `rules/kinds/` with one subclass of `Rule`. The class says everything there is to say about it:
fields and ranges (pydantic), names of its codes, validity that spans fields and lints (`check`), one human line
(`describe`). Attributes are snake_case, JSON and YAML names camelCase, codes plain ints, absent optionals None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from sentinel_core.rules.errors import Severity
from sentinel_core.rules.patterns import looks_like_pattern, pattern_fault, runs_away
from sentinel_core.rules.revision import Kind

DEFAULT_APP = "default"
_EXACT_INTEGERS = 2.0**53


def _shortest(value: float) -> Any:
    """`20.0` is written `20`: one spelling a number, so that `1.0` and `1` are the same rule."""
    return int(value) if value.is_integer() and abs(value) < _EXACT_INTEGERS else value


Number = Annotated[float, PlainSerializer(_shortest)]
"""A finite number; the smallest that a Java `double` field takes."""
Amount = Annotated[Number, Field(ge=0)]
Natural = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
PositiveLong = Annotated[int, Field(ge=1, le=2**63 - 1)]
_VISIBLE = r"[^\x00-\x1f\x7f-\x9f]"
Name = Annotated[str, Field(pattern=rf"^{_VISIBLE}*[^\s\x00-\x1f\x7f-\x9f]{_VISIBLE}*$")]
"""Not blank, and without control characters, which no log shows."""
LimitApp = Annotated[
    str, Field(pattern=f"^{_VISIBLE}*$"), AfterValidator(lambda text: text if text.strip() else DEFAULT_APP)
]


def unless(usual: str) -> AfterValidator:
    """The usual value of a field that Java does not know is the same as its absence, so that it is never published."""
    return AfterValidator(lambda value: None if value == usual else value)


Mode = Annotated[Literal["enforce", "shadow"] | None, unless("enforce")]
BreakerMode = Annotated[Literal["enforce", "shadow", "open", "closed"] | None, unless("enforce")]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a rule says about itself; the builder adds file, line and column."""

    code: str
    field: str | None
    """The JSON name, or None for the rule as a whole."""
    message: str
    severity: Severity
    at_key: bool = False
    """It is the key that is wrong, not the value."""


def error(code: str, field: str | None, message: str, *, at_key: bool = False) -> Finding:
    return Finding(code, field, message, "error", at_key)


def warning(code: str, field: str | None, message: str, *, at_key: bool = False) -> Finding:
    return Finding(code, field, message, "warning", at_key)


class Shape(BaseModel):
    """What rules and their nested objects share: strict types, frozen, camelCase outside, keys sorted when written."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",  # the builder reports unknown keys, with a hint and a position, before a model sees them
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
        defer_build=True,  # a kind costs time where it is used, not wherever rules are imported
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Orders the fields by JSON name: dumping in field order is then the canonical form, at the speed of C."""
        schema = handler(source)
        inner: Any = schema
        while inner["type"] != "model-fields":
            if "schema" not in inner:
                return schema
            inner = inner["schema"]
        inner["fields"] = dict(sorted(inner["fields"].items(), key=lambda item: to_camel(item[0])))
        return schema

    def to_json(self) -> dict[str, Any]:
        """What is published: Sentinel's own spelling, defaults filled, codes numeric, nulls and `id` left out."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    @cache
    def fields_by_alias(cls) -> Mapping[str, FieldInfo]:
        """The fields by JSON name."""
        return {info.alias or to_camel(name): info for name, info in cls.model_fields.items()}


class Rule(Shape):
    """One immutable rule. Equality and hash cover every field but `id`, whatever fields a kind has."""

    kind: ClassVar[Kind] = ""
    document_key: ClassVar[str] = ""
    """The key of this kind in a YAML document, e.g. `flowRules`."""
    rank: ClassVar[int] = 100
    """Kinds are listed by this."""
    names: ClassVar[Mapping[str, Mapping[str, int]]] = {}
    """JSON field → symbolic name → Sentinel's number."""
    loud_defaults: ClassVar[tuple[str, ...]] = ()
    """Fields (of one word, so spelled alike everywhere) that Java reads as 0 when absent, which blocks everything."""
    thresholds: ClassVar[tuple[str, ...]] = ()
    """JSON names of the fields that say how much is too much."""
    blocks_at_zero: ClassVar[bool] = False
    """Whether a `count` of 0 refuses every call."""
    nested: ClassVar[Mapping[str, type[Shape]]] = {}
    """JSON field → the shape of the object (or of each object of the list) that stands in it."""

    id: int | str | None = Field(default=None, exclude=True)
    """Identity for diffs between texts that carry it; the dashboard's row number otherwise."""
    resource: Name

    @property
    def place(self) -> str:
        """What has its rules of this kind from one store: the resource."""
        return self.resource

    @property
    def scope(self) -> str:
        """The origin this rule is limited to, `default` for all."""
        return DEFAULT_APP

    @property
    def path(self) -> str:
        """`kind/resource/origin`, e.g. `flow/payment_invoke/default`. Several rules of a resource may share it."""
        return f"{self.kind}/{self.resource}/{self.scope}"

    def check(self) -> Iterator[Finding]:
        """Errors and warnings that one field alone does not show. Never raises."""
        yield from ()

    @classmethod
    def check_together(cls, rules: Sequence[Self]) -> Iterator[tuple[int, Finding]]:
        """(index, what is odd about that rule beside the others of its list). Never raises."""
        del rules
        yield from ()

    def check_serving(self, serving: Any) -> Iterator[Finding]:
        """What is odd about the rule in a service of which more is known (a `queueing.Serving`). Never raises."""
        del serving
        yield from ()

    def check_mode(self) -> Iterator[Finding]:
        """For kinds with the field `mode`: a rule that is not enforced here is enforced by Java, which ignores it."""
        mode = getattr(self, "mode", None)
        yield warning("SR218", "mode", f"mode is {mode}, which Java Sentinel ignores: it enforces the rule")

    def describe(self) -> str:
        """One human line without the resource, e.g. `qps ≤ 50`."""
        return ", ".join(f"{key} {value}" for key, value in self.to_json().items() if key != "resource")

    @classmethod
    def repair(cls, item: dict[str, Any]) -> Finding | None:
        """Called for rules written by hand (YAML): mends a known slip in place and says so."""
        del item
        return None

    def _content(self) -> dict[str, Any]:
        return {**self.__dict__, "id": None}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Rule):
            return NotImplemented
        return self.__dict__ == other.__dict__ or self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), *self._content().values()))

    @classmethod
    def code_name(cls, field: str, number: int) -> str:
        """The symbolic name of a code, the number itself where it has none."""
        return next((name for name, code in cls.names.get(field, {}).items() if code == number), str(number))

    @classmethod
    def unknown_code(cls, field: str, number: int, effect: str) -> Finding | None:
        """A code that Sentinel keeps although it knows it not: legal, useless, so it is said aloud."""
        if number in cls.names[field].values():
            return None
        return warning(
            "SR213", field, f"{field} is {number}, which Sentinel does not know: {effect}; {cls.choices(field)}"
        )

    @classmethod
    def choices(cls, field: str) -> str:
        return "write " + " or ".join(f"{name} ({code})" for name, code in cls.names[field].items())


class OriginRule(Rule):
    """A rule that may be limited to one caller and may match resources by pattern, as Sentinel's `AbstractRule`."""

    limit_app: LimitApp = DEFAULT_APP
    """`default` (all callers), `other` (callers without a rule of their own) or one origin."""
    regex: bool = False
    """True: `resource` is a pattern that must match the whole name."""

    @property
    def scope(self) -> str:
        return self.limit_app

    def check(self) -> Iterator[Finding]:
        if self.regex:
            yield from self._check_pattern()
        elif looks_like_pattern(self.resource):
            yield warning(
                "SR220",
                "resource",
                f"resource {self.resource!r} is compared as it is written; write regex: true if it is a pattern",
            )
        if self.resource != self.resource.strip():
            yield warning(
                "SR210", "resource", f"resource {self.resource!r} begins or ends with blanks: it matches only so"
            )

    def _check_pattern(self) -> Iterator[Finding]:
        if reason := pattern_fault(self.resource):
            yield error("SR108", "resource", f"resource {self.resource!r} is not a regular expression: {reason}")
        elif runs_away(self.resource):
            yield error(
                "SR117",
                "resource",
                f"resource {self.resource!r} has a loop in a loop, or too many, and may take for ever on a name that "
                "it does not match; write it with fewer of * and +",
            )
