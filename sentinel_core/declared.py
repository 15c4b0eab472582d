"""How settings are declared and checked: frozen classes whose annotations say what may be written.

    class Owner(Declared):
        team: str = Field(min_length=1, description="Name of the team.")
        resources: tuple[str, ...] = Field(default=(), description="Globs of its resources.")

An annotation is str, bool, int, float, a Literal of texts, another declared class, `X | None`, `tuple[X, ...]`, or
`Annotated[X, function, Field(gt=0)]`, whose function turns what was written into what is meant, or raises ValueError.
A text is taken where a number or a truth is meant: a variable of the environment is always one.

What is taken, and what is said of the rest, is what pydantic takes and says; importing that would be half of the time
of most commands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, dataclass_transform, get_args, get_origin

Problem = tuple[tuple[str, ...], str]
"""Where, by names as they are written and places in lists, and what to write."""
Read = Callable[[object], Any]
"""What was written → what is meant. Raises ValueError in words, and Invalid for what is wrong further inside."""

_REQUIRED: Any = object()
_UNIONS = (UnionType, Union)
"""What `X | None` makes of a class, and of Annotated."""
_INTEGER = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.0+)?")
_DIGITS = 4300
"""More are not read: it would take long."""
_WIDE = 2**63
_TRUTHS = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
_NO_TEXT = "write text, in quotes if it looks like something else"
_NO_UNICODE = "input should be a valid string, unable to parse raw data as a unicode string"
_TOO_LONG = "unable to parse input string as an integer, exceeded maximum size"
_NO_LIST = "write a list, for example [first, second]"
_NO_PART = "write `name: value` lines below it"


class Invalid(ValueError):
    """Every problem of a declared class's values. No message holds a value: it may be a credential."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(": ".join(filter(None, (".".join(where), words))) for where, words in problems))


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """What is said of a field beside its annotation; limits also stand inside Annotated."""

    default: Any
    default_factory: Callable[[], Any] | None
    alias: str | None
    """The name as it is written, where that is no name in Python."""
    description: str
    repr: bool
    gt: float | None
    ge: float | None
    lt: float | None
    le: float | None
    min_length: int
    allow_inf_nan: bool

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED and self.default_factory is None

    def make_default(self) -> Any:
        return self.default if self.default_factory is None else self.default_factory()

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value of the right type."""
        if isinstance(value, str):
            if self.min_length and not _is_unicode(value):
                return _NO_UNICODE
            if len(value) >= self.min_length:
                return None
            return f"string should have at least {self.min_length} character{'s' if self.min_length > 1 else ''}"
        if not self.allow_inf_nan and not math.isfinite(value):
            return "input should be a finite number"
        limits = (
            (self.le, self.le is None or value <= self.le, "less than or equal to"),
            (self.lt, self.lt is None or value < self.lt, "less than"),
            (self.ge, self.ge is None or value >= self.ge, "greater than or equal to"),
            (self.gt, self.gt is None or value > self.gt, "greater than"),
        )
        return next((f"input should be {words} {limit}" for limit, kept, words in limits if not kept), None)


def Field(  # noqa: N802 -- as the libraries of this kind call it
    *,
    default: Any = _REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    alias: str | None = None,
    description: str = "",
    repr: bool = True,  # noqa: A002 -- the same
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    min_length: int = 0,
    allow_inf_nan: bool = True,
) -> Any:
    """A field of a declared class; Any, since it stands where the default's type is looked for."""
    return FieldInfo(default, default_factory, alias, description, repr, gt, ge, lt, le, min_length, allow_inf_nan)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Declared:
    """The base of declared classes. Made of keyword arguments, which are checked, or by `replace`."""

    fields: ClassVar[Mapping[str, FieldInfo]] = {}
    """By name, in the order of declaration."""
    types: ClassVar[Mapping[str, Any]] = {}
    """The annotation of each."""
    _readers: ClassVar[Mapping[str, Read]] = {}

    def __init_subclass__(cls) -> None:
        cls.types = get_annotations(cls, eval_str=True)
        cls.fields = {name: cls.__dict__[name] for name in cls.types}
        cls._readers = {name: _reader(kind, (cls.fields[name],)) for name, kind in cls.types.items()}
        for name in cls.fields:
            delattr(cls, name)

    def __init__(self, /, **values: Any) -> None:
        """Raises Invalid with everything that is wrong."""
        problems: list[Problem] = []
        for name, info in self.fields.items():
            written = info.alias or name
            if written in values:
                try:
                    self.__dict__[name] = self._readers[name](values.pop(written))
                except Invalid as error:
                    problems += [((written, *where), words) for where, words in error.problems]
                except ValueError as error:
                    problems.append(((written,), str(error)))
            elif info.is_required:
                problems.append(((written,), "is needed here"))
            else:
                self.__dict__[name] = info.make_default()
        problems += [((name,), "there is no such name here") for name in values]
        if problems:
            raise Invalid(problems)
        try:
            self.check()
        except ValueError as error:
            raise Invalid([((), str(error))]) from error

    def check(self) -> None:
        """What one field alone does not show. Raises ValueError that says what to write."""

    def replace(self, **changes: Any) -> Self:
        """The same with other values, by field name; they are not checked."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__ | changes)
        return other

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def __str__(self) -> str:
        """The fields alone, as `config view` shows them."""
        return " ".join(self._shown())

    def _shown(self) -> list[str]:
        return [f"{name}={getattr(self, name)!r}" for name, info in self.fields.items() if info.repr]


def part_of(model: type[Declared], name: str) -> type[Declared] | None:
    """The declared class that a field holds one of."""
    kind = model.types[name]
    kinds = get_args(kind) if get_origin(kind) in _UNIONS else (kind,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Declared)), None)


def _reader(annotation: Any, limits: Sequence[FieldInfo]) -> Read:
    origin = get_origin(annotation)
    if origin in _UNIONS:
        (kind,) = (each for each in get_args(annotation) if each is not NoneType)
        inner = _reader(kind, limits)
        return lambda value: None if value is None else inner(value)
    if origin is Annotated:
        kind, *notes = get_args(annotation)
        inner = _reader(kind, (*(note for note in notes if isinstance(note, FieldInfo)), *limits))
        functions: list[Read] = [note for note in notes if not isinstance(note, FieldInfo)]
        return lambda value: inner(functions[0](value)) if functions else inner(value)
    if origin is tuple:
        item = _reader(get_args(annotation)[0], ())
        return lambda value: _list(value, item)
    if origin is Literal:
        return lambda value: _choice(value, get_args(annotation))
    if issubclass(annotation, Declared):
        return lambda value: _part(value, annotation)
    return lambda value: _within(_SCALARS[annotation](value), limits)


def _within(value: Any, limits: Sequence[FieldInfo]) -> Any:
    for limit in limits:
        if (fault := limit.fault(value)) is not None:
            raise ValueError(fault)
    return value


def _list(value: object, item: Read) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise ValueError(_NO_LIST)  # noqa: TRY004 -- a user's mistake, as all that are raised here
    read: list[Any] = []
    problems: list[Problem] = []
    for place, each in enumerate(value):
        try:
            read.append(item(each))
        except Invalid as error:
            problems += [((str(place), *where), words) for where, words in error.problems]
        except ValueError as error:
            problems.append(((str(place),), str(error)))
    if problems:
        raise Invalid(problems)
    return tuple(read)


def _part(value: object, model: type[Declared]) -> Declared:
    if isinstance(value, model):
        return value
    if not isinstance(value, dict):
        raise ValueError(_NO_PART)  # noqa: TRY004
    return model(**{str(name): each for name, each in value.items()})


def _choice(value: object, texts: Sequence[str]) -> str:
    for text in texts:
        if value == text:
            return text
    *first, last = map(repr, texts)
    raise ValueError(f"input should be {', '.join(first)} or {last}" if first else f"input should be {last}")


def _str(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(_NO_UNICODE) from None
    if not isinstance(value, str):
        raise ValueError(_NO_TEXT)  # noqa: TRY004
    return value


def _is_unicode(text: str) -> bool:
    """Whether it is more than bytes that the environment could not decode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _int(value: object) -> int:
    value = _decoded(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("input should be a finite number")
        if not value.is_integer():
            raise ValueError("input should be a valid integer, got a number with a fractional part")
        if abs(value) >= _WIDE:
            raise ValueError(_TOO_LONG)
        return int(value)
    if not isinstance(value, str):
        raise ValueError("input should be a valid integer")  # noqa: TRY004
    text = value.strip()
    if len(text) > _DIGITS:
        raise ValueError(_TOO_LONG)
    if not _INTEGER.fullmatch(text):
        raise ValueError("input should be a valid integer, unable to parse string as an integer")
    return int(text.partition(".")[0])


def _float(value: object) -> float:
    value = _decoded(value)
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        raise ValueError("input should be a valid number")  # noqa: TRY004
    try:
        return float(value if value.strip().isascii() else "")
    except ValueError:
        raise ValueError("input should be a valid number, unable to parse string as a number") from None


def _bool(value: object) -> bool:
    value = _decoded(value)
    truth = _TRUTHS.get(value.lower()) if isinstance(value, str) else None
    if isinstance(value, (int, float)) and value in (0, 1):
        truth = bool(value)
    if truth is not None:
        return truth
    is_whole = isinstance(value, (int, float)) and abs(value) < _WIDE and value == int(value)
    unclear = ", unable to interpret input" if is_whole or isinstance(value, str) else ""
    raise ValueError(f"input should be a valid boolean{unclear}")


_SCALARS: Mapping[Any, Read] = {str: _str, int: _int, float: _float, bool: _bool}
