"""The published JSON Schemas: draft-07, equal to the models, and neither wider nor narrower than the parser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

import sentinel_core.rules
from sentinel_core.rules import KINDS, json_schema, parse_rules
from sentinel_core.rules.schema import publish, published
from sentinel_core.rules.strategies import lists_of

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ".venv/bin/python -m sentinel_core.rules.schemas"
FOLDER = Path(sentinel_core.rules.__file__).parent / "schemas"


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_they_are_draft_07(kind: str | None) -> None:
    schema = json_schema(kind)
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert "$defs" not in json.dumps(schema)


def test_the_files_of_the_package_equal_the_models() -> None:
    carried = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert carried == published(), f"the models have changed; write the schemas anew: {COMMAND}"


def test_the_command_that_writes_them_is_told_to_contributors_and_writes_them(tmp_path: Path) -> None:
    assert COMMAND in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (tmp_path / "gone-rules.schema.json").write_text("{}")
    publish(tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == published()


@given(lists_of())
def test_what_is_published_passes(case: tuple[str, list[dict[str, Any]]]) -> None:
    kind, items = case
    jsonschema.validate([rule.to_json() for rule in parse_rules(kind, items).rules], json_schema(kind))


@pytest.mark.parametrize(
    "rule",
    [
        {"count": 1},
        {"resource": " ", "count": 1},
        {"resource": "a", "count": -1},
        {"resource": "a", "count": "1"},
        {"resource": "a", "count": 1, "grade": 3},
        {"resource": "a", "count": 1, "controlBehaviour": 0},
    ],
)
def test_what_the_parser_refuses_does_not_pass(rule: dict[str, Any]) -> None:
    validator = jsonschema.Draft7Validator(json_schema(None))
    assert not validator.is_valid({"flowRules": [rule]})
    assert validator.is_valid({"flowRules": [{"resource": "a", "count": 1}]})


@pytest.mark.parametrize("document", [{"flowRule": []}, {}, {"flowRules": {}}, {"flowRules": [{"resource": "a"}]}])
def test_documents_have_known_sections_and_lists(document: dict[str, Any]) -> None:
    assert not jsonschema.Draft7Validator(json_schema(None)).is_valid(document)


def test_documents_may_name_codes_and_stores_may_not() -> None:
    rule = {"resource": "a", "count": 1, "grade": "thread", "controlBehavior": "warm_up"}
    assert jsonschema.Draft7Validator(json_schema(None)).is_valid({"flowRules": [rule], "x-anchors": [1]})
    assert not jsonschema.Draft7Validator(json_schema("flow")).is_valid([rule])


def test_the_dashboard_s_keys_pass_in_lists() -> None:
    rule = {"id": 1, "app": "a", "gmtModified": None, "resource": "a", "count": 1}
    assert jsonschema.Draft7Validator(json_schema("flow")).is_valid([rule])


def test_fields_carry_their_documentation() -> None:
    fields = json_schema("degrade")["definitions"]["DegradeRule"]["properties"]
    assert fields["timeWindow"]["description"] == "Seconds that the breaker stays open."
