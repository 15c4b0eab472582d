"""JSON Schema (draft-07) of the rule lists in stores and of the YAML document, made from the models."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel

from sentinel_core.rules.registry import MODELS, model_of
from sentinel_core.rules.revision import Kind
from sentinel_core.rules.rule import Rule, Shape
from sentinel_core.rules.signature import CONSOLE_KEYS

FOLDER = Path(__file__).parent / "schemas"
DRAFT = "http://json-schema.org/draft-07/schema#"


def json_schema(kind: Kind | None = None) -> dict[str, Any]:
    """The list of one kind as a store holds it; None: the YAML document, where codes have names. Raises UnknownKind."""
    if kind is not None:
        return _list_schema(model_of(kind))
    definitions: dict[str, Any] = {}
    properties = {}
    for model in MODELS.values():
        rule, nested = _rule_schema(model, by_hand=True)
        definitions |= {**nested, model.__name__: rule}
        properties[model.document_key] = {
            "type": "array",
            "description": f"The {model.kind} rules. Without the key this file does not manage them; [] means none.",
            "items": {"$ref": f"#/definitions/{model.__name__}"},
        }
    return {
        "$schema": DRAFT,
        "title": "Sentinel rules as code",
        "type": "object",
        "properties": properties,
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "minProperties": 1,
        "definitions": dict(sorted(definitions.items())),
    }


def _list_schema(model: type[Rule]) -> dict[str, Any]:
    rule, nested = _rule_schema(model, by_hand=False)
    return {
        "$schema": DRAFT,
        "title": f"Sentinel {model.kind} rules as a store holds them",
        "type": "array",
        "items": {"$ref": f"#/definitions/{model.__name__}"},
        "definitions": dict(sorted({**nested, model.__name__: rule}.items())),
    }


def _rule_schema(model: type[Rule], *, by_hand: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """(schema of one rule, schemas of its nested objects)"""
    schema = _draft7(model.model_json_schema(mode="validation"))
    nested = {name: _closed(shape) for name, shape in schema.pop("definitions", {}).items()}
    properties = schema["properties"]
    _documented(model, properties)
    for shape in model.nested.values():
        _documented(shape, nested[shape.__name__]["properties"])
    for field, names in model.names.items():
        properties[field] = _code_schema(properties[field], names, by_hand=by_hand)
    if by_hand and model.kind == "flow":
        properties["grade"]["enum"].append(2)
        properties["grade"]["description"] = "2 is read as thread, with a warning"
    if by_hand:
        schema["required"] = sorted({*schema.get("required", ()), *model.loud_defaults})
    else:
        properties.update({key: {"description": "Written by the dashboard; ignored."} for key in sorted(CONSOLE_KEYS)})
    return _closed(schema), nested


def _documented(model: type[Shape], properties: dict[str, Any]) -> None:
    """Adds the docstrings below the fields, which pydantic reads too, but at every import."""
    for ancestor in reversed(model.__mro__[:-1]):
        if not issubclass(ancestor, Shape):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(ancestor))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, text in pairwise(statements):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                name = to_camel(field.target.id) if isinstance(field.target, ast.Name) else ""
                if name in properties:
                    properties[name] = {**properties[name], "description": str(text.value.value)}


def _code_schema(plain: dict[str, Any], names: Any, *, by_hand: bool) -> dict[str, Any]:
    meaning = ", ".join(f"{code} {name}" for name, code in names.items())
    choices: list[Any] = sorted(names.values())
    if by_hand:
        default = next((name for name, code in names.items() if code == plain.get("default")), None)
        known = {"enum": [*names, *choices], "description": meaning}
        return {**known, "default": default} if default else known
    return {**plain, "description": meaning}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False}


def _draft7(schema: Any) -> Any:
    """Pydantic writes 2020-12; what we use of it differs from draft-07 in the name of the definitions alone."""
    if isinstance(schema, list):
        return [_draft7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key == "$defs":
            result["definitions"] = _draft7(value)
        elif key == "$ref":
            result["$ref"] = re.sub(r"^#/\$defs/", "#/definitions/", value)
        elif key == "title" and isinstance(value, str):
            continue
        else:
            result[key] = _draft7(value)
    return result


def published() -> dict[str, str]:
    """File name → text of every schema that the package carries in `rules/schemas/`."""
    schemas = {
        "sentinel-rules": json_schema(None),
        **{f"{kind.replace('_', '-')}-rules": json_schema(kind) for kind in MODELS},
    }
    return {
        f"{name}.schema.json": json.dumps(schema, indent=2, sort_keys=True) + "\n" for name, schema in schemas.items()
    }


def publish(folder: Path = FOLDER) -> None:
    """Writes them, and removes those of kinds that are gone: `python -m sentinel_core.rules.schemas`."""
    schemas = published()
    for path in folder.glob("*.schema.json"):
        if path.name not in schemas:
            path.unlink()
    for name, text in schemas.items():
        (folder / name).write_text(text, encoding="utf-8")
