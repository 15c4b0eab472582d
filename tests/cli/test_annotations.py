"""What is found in rules as the pages of pipelines take it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from sentinel_core.cli.annotations import FORMS, Annotation, forms
from tests.cli.conftest import Run, Shop, ok

BAD = "flowRules:\n  - {resource: pay, grade: qps, count: 2O}\n  - {resource: order, grade: 2, count: 2}\n"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
SARIF = {  # what the standard and GitHub's code scanning require of the parts that are used
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id", "shortDescription", "help"],
                                            "properties": {"shortDescription": TEXT, "help": TEXT},
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "level", "message", "locations"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": TEXT,
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {"uri": {"pattern": r"^[^\s/][^\s\\]*$"}},
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture
def bad(here: Path) -> Path:
    (here / "my rules.yaml").write_text(BAD, encoding="utf-8")
    return here


def xml(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 -- it is our own


def sarif(text: str) -> list[dict[str, Any]]:
    document = json.loads(text)
    jsonschema.validate(document, SARIF)
    (run,) = document["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(ids[each["ruleIndex"]] == each["ruleId"] for each in run["results"])
    return list(run["results"])


def test_github_gets_a_command_for_each_line(bad: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "validate", "my rules.yaml", "-o", "github")
    assert ended.code == 65
    first, second = ended.out.splitlines()
    assert first == (
        '::error file=my rules.yaml,line=2,col=40,title=SR102 pay::count is "2O"; a number is needed (did you mean 20?)'
    )
    assert second.startswith("::warning file=my rules.yaml,line=3,col=30,title=SR203 order::grade 2 is read as threads")


def test_junit_has_a_case_for_each_problem_and_one_that_passes_for_what_is_sound(bad: Path, sentinelctl: Run) -> None:
    (bad / "sound.yaml").write_text("flowRules: []\n")
    ended = sentinelctl("rules", "validate", "my rules.yaml", "sound.yaml", "-o", "junit")
    assert ended.code == 65
    root = xml(ended.out)
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "3", "1")
    cases = [(case.get("classname"), case.get("name"), [inner.tag for inner in case]) for case in root.iter("testcase")]
    assert cases == [
        ("my rules.yaml", "SR102 pay (my rules.yaml:2:40)", ["failure"]),
        ("my rules.yaml", "SR203 order (my rules.yaml:3:30)", ["system-out"]),
        ("sound.yaml", "valid", []),
    ]
    strict = sentinelctl("rules", "validate", "my rules.yaml", "--strict", "-o", "junit")
    assert xml(strict.out).get("failures") == "2"


def test_sarif_has_what_code_scanning_takes(bad: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "validate", bad / "my rules.yaml", "-o", "sarif")
    assert ended.code == 65
    first, second = sarif(ended.out)
    assert (first["ruleId"], first["level"], second["ruleId"], second["level"]) == (
        "SR102",
        "error",
        "SR203",
        "warning",
    )
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20rules.yaml"},
        "region": {"startLine": 2, "startColumn": 40},
    }
    assert first["message"]["text"] == 'pay: count is "2O"; a number is needed (did you mean 20?)'


@pytest.mark.parametrize("form", FORMS)
def test_the_exit_code_does_not_depend_on_the_form(here: Path, sentinelctl: Run, form: str) -> None:
    (here / "rules.yaml").write_text("flowRules: []\n")
    ended = sentinelctl("rules", "validate", "rules.yaml", "-o", form)
    assert ended.code == 0
    if form == "sarif":
        assert sarif(ended.out) == []


NASTY = Annotation(
    level="error",
    code="SR102",
    message='50 % of\r\n<b>"it"</b> \x1b[31m & \ud800 \ufffe ::error::x',
    file="a,b:c%/规则.yaml",
    line=1,
    column=1,
    subject="x,::error file=y::z\n::error::w",
    is_failure=True,
)


def test_no_text_breaks_out_of_its_place() -> None:
    made = forms([NASTY], [], {})
    (line,) = made["github"]().splitlines()
    properties, _, message = line.removeprefix("::error ").partition("::")
    assert "::" not in properties
    assert re.findall(r"(\w+)=", properties) == ["file", "line", "col", "title", "file"], "one of them within the title"
    assert properties.startswith("file=a%2Cb%3Ac%25/规则.yaml,line=1,col=1,title=SR102 x%2C%3A%3Aerror file=y%3A%3Az")
    assert message.startswith("50 %25 of")
    root = xml(made["junit"]())
    assert [case.get("file") for case in root.iter("testcase")] == [NASTY.file]
    made["junit"]().encode("ascii")
    (result,) = sarif(made["sarif"]())
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "a%2Cb%3Ac%25/%E8%A7%84%E5%88%99.yaml"
    )


# -- plans -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(here: Path, sentinelctl: Run) -> Shop:
    (here / "lists").mkdir()
    made = Shop(here, f"file://{here}/lists?format=json", sentinelctl)
    ok(made.run("rules", "publish", "--yes"))
    return made


def test_a_plan_is_a_comment_that_says_how_much_changes_where(shop: Shop) -> None:
    shop.commit(25, "Raise it")
    shown = ok(shop.run("rules", "plan", "--output", "markdown")).out
    assert shown.startswith("### Rules for `prod`: 0 to add, 1 to change, 0 to remove\n\n`rules.yaml` → `file://")
    assert "\n```diff\n# flow\n! payment_invoke  count  20 → 25\n```\n" in shown
    assert shown.endswith("\nGuards: ok.\n")
    ok(shop.run("rules", "publish", "--yes"))
    assert "no changes" in ok(shop.run("rules", "plan", "--output", "markdown")).out


def test_a_guard_stands_in_the_comment_with_what_overrules_it(shop: Shop) -> None:
    (shop.here / "rules.yaml").write_text("flowRules: []\n")
    refused = shop.run("rules", "plan", "--output", "markdown")
    assert refused.code == 3
    assert "refused by the guards `empty`, `last`" in refused.out
    assert "all 2 flow rules would disappear: coupon, payment\\_invoke" in refused.out
    assert '`--allow-empty --allow-last --reason "…"`' in refused.out


def test_a_long_difference_is_folded_and_an_endless_one_cut(shop: Shop) -> None:
    def plan(count: int) -> str:
        rules = "".join(f"  - {{resource: 'r{n} ```', grade: qps, count: 1}}\n" for n in range(count))
        (shop.here / "rules.yaml").write_text(f"flowRules:\n{rules}")
        return shop.run("rules", "plan", "--output", "markdown").out

    assert "<details>" not in plan(10)
    assert "<details>" in plan(40)
    assert "\n````diff\n" in plan(10), "a name does not end the block"
    endless = plan(5000)
    assert len(endless.encode()) < 65_000
    assert re.search(r"… and \d+ more lines\n````\n\n</details>", endless)


def test_a_plan_annotates_the_lines_that_change(shop: Shop) -> None:
    (shop.here / "rules.yaml").write_text("flowRules:\n  - resource: payment_invoke\n    grade: qps\n    count: 2000\n")
    refused = shop.run("rules", "plan", "--output", "github")
    assert refused.code == 3
    assert [line.partition("::")[2].partition("::")[0] for line in refused.out.splitlines()] == [
        "error file=rules.yaml,line=2,col=5,title=guard-jump",
        "error file=rules.yaml,title=guard-last",
        "notice file=rules.yaml,title=plan coupon",
        "notice file=rules.yaml,line=4,col=12,title=plan payment_invoke",
    ]
    junit = xml(shop.run("rules", "plan", "--output", "junit").out)
    assert [(suite.get("name"), suite.get("failures")) for suite in junit] == [("guards", "2"), ("plan", "0")]
    levels = [each["level"] for each in sarif(shop.run("rules", "plan", "--output", "sarif").out)]
    assert levels == ["error", "error", "note", "note"]


def test_a_plan_without_a_file_is_annotated_nowhere(shop: Shop) -> None:
    shop.commit(25, "Raise it")
    assert ok(shop.run("rules", "plan", "git:HEAD", "--output", "github")).out == (
        "::notice title=plan payment_invoke::~ payment_invoke  count  20 → 25\n"
    )
