"""What stands at a place of a document: the field of a kind, and what may be written there."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from sentinel_core.rules.registry import BY_DOCUMENT_KEY
from sentinel_core.rules.rule import Rule, Shape
from sentinel_core.rules.source import Path

Form = Literal["code", "text", "number", "truth"]


def form_at(path: Path) -> tuple[Form | None, str]:
    """(what a field takes, `write …` for a code); (None, "") where no kind has a field there."""
    section, *rest = path or ("",)
    model = BY_DOCUMENT_KEY.get(section) if isinstance(section, str) else None
    if model is None or len(rest) < 2 or not isinstance(name := rest[1], str):
        return None, ""
    if len(rest) == 2 and name in model.names:
        return "code", model.choices(name)
    shape: type[Shape] | None = model
    if len(rest) > 2:
        shape, name = model.nested.get(name), str(rest[-1])
    info = shape.fields_by_alias().get(name) if shape else None
    return (_form(info) if info else None), ""


def takes_list(model: type[Rule], name: str) -> bool:
    """Whether a nested field is a list of objects, not one object."""
    return isinstance(model.fields_by_alias()[name].default, tuple)


def _form(info: FieldInfo) -> Form | None:
    kinds = {info.annotation, *(getattr(each, "__origin__", each) for each in get_args(info.annotation))}
    if get_origin(info.annotation) is Literal or str in kinds:
        return "text"
    if bool in kinds:
        return "truth"
    return "number" if kinds & {int, float} else None
