"""Declared classes: what they take and say is what pydantic takes and says, without importing it."""

from __future__ import annotations

import math
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic import Field as PydanticField

from sentinel_core.declared import Declared, Field, Invalid


class Inner(Declared):
    word: str = Field(min_length=1, repr=False)
    number: int = Field(default=1, ge=1)


class Outer(Declared):
    name: str = Field(default="", alias="from")
    inner: Inner = Field(default_factory=lambda: Inner(word="w"))
    perhaps: Inner | None = Field(default=None)
    several: tuple[Inner, ...] = Field(default=())

    def check(self) -> None:
        if self.name == "bad":
            raise ValueError("write good")


def faults(model: type[Declared], **values: Any) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        model(**values)
    return [(".".join(where), words) for where, words in caught.value.problems]


def test_defaults_stand_where_nothing_is_given() -> None:
    made = Outer()
    assert (made.name, made.inner.number, made.perhaps, made.several) == ("", 1, None, ())


def test_objects_become_declared_ones() -> None:
    written: dict[str, Any] = {"perhaps": {"word": "a"}, "several": [{"word": "b", "number": "2"}], "from": "x"}
    made = Outer(**written)
    assert made.perhaps == Inner(word="a")
    assert made.several == (Inner(word="b", number=2),)
    assert made.name == "x"


def test_every_fault_is_told_with_its_place() -> None:
    assert faults(Outer, inner={"number": 0}, perhaps=5, several=[{"word": ""}, {}], other=1) == [
        ("inner.word", "is needed here"),
        ("inner.number", "input should be greater than or equal to 1"),
        ("perhaps", "write `name: value` lines below it"),
        ("several.0.word", "string should have at least 1 character"),
        ("several.1.word", "is needed here"),
        ("other", "there is no such name here"),
    ]


def test_what_one_field_alone_does_not_show_is_checked_last() -> None:
    assert faults(Outer, **{"from": "bad"}) == [("", "write good")]
    assert faults(Outer, **{"from": "bad", "perhaps": 1}) == [("perhaps", "write `name: value` lines below it")]


def test_no_value_is_repeated() -> None:
    with pytest.raises(Invalid) as caught:
        Inner(word="hunter2", number="hunter2")  # type: ignore[arg-type]  # as a variable of the environment is
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Inner(word="hunter2"))


def test_they_are_shown_without_what_is_secret() -> None:
    made = Outer(inner=Inner(word="hunter2"))
    assert repr(made) == "Outer(name='', inner=Inner(number=1), perhaps=None, several=())"
    assert str(made.inner) == "number=1"


def test_they_are_values() -> None:
    made = Inner(word="a")
    assert made == Inner(word="a") != Inner(word="b")
    assert len({made, Inner(word="a")}) == 1
    assert made.replace(number=3) == Inner(word="a", number=3)
    with pytest.raises(AttributeError, match="Inner is frozen: word cannot be set"):
        made.word = "b"  # type: ignore[misc]  # that is what is refused


def doubled(value: object) -> object:
    if value == "x":
        raise ValueError("write y")
    return value * 2 if isinstance(value, int) else value


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (str, {}),
    "some text": (str, {"min_length": 1}),
    "more text": (str, {"min_length": 2}),
    "text or nothing": (str | None, {"min_length": 1}),
    "number": (int, {}),
    "positive number": (int, {"gt": 0}),
    "number or nothing": (int | None, {"ge": -1, "lt": 10}),
    "many": (int, {"ge": 2**20, "le": 2**40}),
    "ratio": (float, {"ge": 0, "le": 100}),
    "finite": (float, {"gt": 1, "allow_inf_nan": False}),
    "any float": (float, {}),
    "truth": (bool, {}),
    "choice": (Literal["a", "b", "1"], {}),
    "one": (Literal["a"], {}),
    "list": (tuple[str, ...], {}),
}
WRITTEN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(),
    st.text(st.sampled_from("01.+-eE _xyatfnofUE\u00e9１"), max_size=6),
    st.sampled_from(["on", "YES", "True", " true", "inf", "nan", "9" * 5000, "a", "b", b"1", b"\xff", date.max]),
    st.lists(st.one_of(st.text(max_size=2), st.integers()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip


def of_pydantic(kind: Any, limits: dict[str, Any], written: object) -> tuple[bool, Any]:
    """Whether it is taken; what it becomes, or what is said."""
    try:
        found = TypeAdapter(Annotated[kind, PydanticField(**limits)]).validate_python(written)
    except ValidationError as error:
        return False, [(".".join(map(str, each["loc"])), each["type"], each["msg"]) for each in error.errors()]
    return True, found


OUR_WORDS = {
    "tuple_type": "write a list, for example [first, second]",
    "string_type": "write text, in quotes if it looks like something else",
}


@pytest.mark.parametrize("form", FORMS)
@given(written=WRITTEN)
@example(written="\udcff")
def test_it_takes_and_says_what_pydantic_does(form: str, written: object) -> None:
    kind, limits = FORMS[form]
    made = type("Made", (Declared,), {"__annotations__": {"x": kind}, "x": Field(**limits)})
    taken, found = of_pydantic(kind, limits, written)
    try:
        ours = made(x=written).x
    except Invalid as error:
        if written == "\udcff" and form not in ("some text", "more text", "text or nothing"):
            return  # what is no Unicode is refused in other words where no text is wanted
        said = [(where, words) for where, words in error.problems]
        assert not taken
        expected = [
            (f"x.{where}".rstrip("."), OUR_WORDS.get(sort, text[:1].lower() + text[1:])) for where, sort, text in found
        ]
        assert [(".".join(where), words) for where, words in said] == expected
    else:
        assert taken
        assert type(ours) is type(found)
        assert ours == found or (math.isnan(ours) and math.isnan(found))


@pytest.mark.parametrize("written", [1, 2, "x", "7", None])
def test_a_function_in_front_sees_what_was_written(written: object) -> None:
    class Theirs(BaseModel):
        model_config = ConfigDict(frozen=True)
        x: Annotated[int, BeforeValidator(doubled), PydanticField(gt=2)]

    class Ours(Declared):
        x: Annotated[int, doubled, Field(gt=2)] = Field()

    try:
        expected = Theirs(x=written).x  # type: ignore[arg-type]  # anything may be written
    except ValidationError as error:
        (fault,) = error.errors()
        words = fault["msg"].removeprefix("Value error, ")
        assert faults(Ours, x=written) == [("x", words[:1].lower() + words[1:])]
    else:
        assert Ours(x=written).x == expected  # type: ignore[arg-type]  # the same
