"""Formatting: one layout, every comment kept, the meaning untouched, and done after once."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sentinel_core.rules.edit
from sentinel_core.rules import KINDS, Revision, RuleRejected, SourceText, format_text, parse_revision

MESSY = """\ufeff# head\r
flowRules:   # flows
# list
- resource:   order_create   # first
  # about the count
  grade: 1
  count: 500\t
  clusterConfig:
       flowId: 3   # id
       # tail of it


# before the second
-   resource: payment_invoke
    grade: 2 # threads
    count: 20
    strategy: 1
    refResource: >-
       payment_gateway
       two
degradeRules: []
bizMetricRules:
      - {resource: "order:create", bizMetricType: PAY_FAIL_RATE,
         threshold:    5}   # last
      # commented: out
"""
NEAT = """# head
flowRules:   # flows
  # list
  - resource: order_create   # first
    # about the count
    grade: qps
    count: 500
    clusterConfig:
      flowId: 3   # id
      # tail of it

  # before the second
  - resource: payment_invoke
    grade: thread # threads
    count: 20
    strategy: relate
    refResource: >-
       payment_gateway
       two
degradeRules: []
bizMetricRules:
  - {resource: "order:create", bizMetricType: PAY_FAIL_RATE,
     threshold: 5}   # last
  # commented: out
"""


def formatted(text: str) -> str:
    return format_text(SourceText("x.yaml", text.encode())).decode()


def meaning(text: str) -> dict[str, str]:
    sets = parse_revision(Revision((SourceText("x.yaml", text.encode()),), source="s", version="1"), KINDS)
    return {kind: rules.digest for kind, rules in sets.items()}


def comments(text: str) -> list[str]:
    return [found.rstrip() for found in re.findall(r"#.*", text)]


def test_a_messy_text_becomes_neat() -> None:
    assert formatted(MESSY) == NEAT
    assert meaning(MESSY) == meaning(NEAT)


def test_a_neat_text_stays() -> None:
    assert formatted(NEAT) == NEAT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flowRules: []", "flowRules: []\n"),
        ("\n\nflowRules: []\n\n\n", "flowRules: []\n"),
        (
            "{flowRules: [{resource: a, count:    1, grade: 0}]}",
            "{flowRules: [{resource: a, count: 1, grade: thread}]}\n",
        ),
        ("x-a: &a {grade: 1}\nflowRules: [{<<: *a, resource: a, count: 1}]\n", None),
        (
            "flowRules:\n- resource: '#no comment'\n  count: 1\n",
            "flowRules:\n  - resource: '#no comment'\n    count: 1\n",
        ),
        ("flowRules:\n  -\n    resource: a\n    count: 1\n", None),
        (
            "flowRules:\n  - { resource:  a ,   grade: 1,count: 2 , clusterConfig: {flowId: 1 } }\n",
            "flowRules:\n  - {resource: a, grade: qps, count: 2, clusterConfig: {flowId: 1}}\n",
        ),
        ("x-a: [ 1 ,2,  [ 3 ],\n      4 ]\nflowRules: [ ]\n", "x-a: [1, 2, [3],\n      4]\nflowRules: [ ]\n"),
        ("x-a: {b: , c: 'd'  , e: \"f , g\" }\nflowRules: []\n", "x-a: {b: , c: 'd', e: \"f , g\"}\nflowRules: []\n"),
        ("flowRules:\n  - resource: |\n      a  \n       # no comment\n    count: 1\n", None),
        ("flowRules:\n  - {resource: a, count: wrong}\n", None),
    ],
)
def test_small_texts(text: str, expected: str | None) -> None:
    assert formatted(text) == formatted(formatted(text))
    if expected is not None:
        assert formatted(text) == expected


@pytest.mark.parametrize(("text", "looks"), [(NEAT, 1), (MESSY, 3)])
def test_a_text_is_read_as_often_as_safety_needs(text: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, once more where its lines were tidied, and once to see that the result says the same."""
    seen = []
    real = vars(sentinel_core.rules.edit)["read_nodes"]

    def counted(*given: object) -> object:
        seen.append(given)
        return real(*given)

    monkeypatch.setattr(sentinel_core.rules.edit, "read_nodes", counted)
    formatted(text)
    assert len(seen) == looks


@pytest.mark.parametrize(
    "text",
    ["flowRules: [{resource: a, count: 1, count: 2}]\n", "flowRules: [{resource: a, count: 010}]\n"],
)
def test_a_text_with_a_fault_is_not_formatted(text: str) -> None:
    with pytest.raises(RuleRejected):
        formatted(text)


def test_json_gets_two_spaces_a_level() -> None:
    text = SourceText("x.json", b'\xef\xbb\xbf[{"resource":"\xe4\xb8\xad","count":1}]', "json")
    assert format_text(text) == '[\n  {\n    "resource": "中",\n    "count": 1\n  }\n]\n'.encode()
    assert json.loads(format_text(text)) == json.loads(text.content.decode("utf-8-sig"))


def test_a_text_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(RuleRejected, match="not YAML"):
        formatted("flowRules: [\n")


_comment = st.sampled_from(["", "", "  # note", " # a: b", "   # 中文 - x"])
_line_comment = st.sampled_from(["", "", "# own line\n", "      # deep\n", "\n", "  # two\n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Documents with any indentation, comments anywhere, codes by number or by name."""
    lines = [draw(_line_comment)]
    for section in draw(st.permutations(["flowRules", "degradeRules"])):
        lines.append(f"{section}:{draw(_comment)}\n{draw(_line_comment)}")
        dash, gap = draw(st.integers(0, 6)), draw(st.integers(1, 4))
        for number in range(draw(st.integers(1, 3))):
            rng = random.Random(draw(st.integers(0, 9)))
            fields = [
                f"resource: {section}{number}",
                "count: 1",
                f"grade: {rng.choice((0, 1, 'qps' if section[0] == 'f' else 0))}",
            ]
            fields += ["timeWindow:   3"] if section == "degradeRules" else []
            rng.shuffle(fields)
            if draw(st.booleans()):
                comma, inner = draw(st.sampled_from([",", " ,", ",   "])), draw(st.sampled_from(["", " "]))
                fields = [f"{{{inner}{comma.join(fields) if comma != ',' else ', '.join(fields)}{inner}}}"]
            for place, field in enumerate(fields):
                start = " " * dash + "-" + " " * gap if place == 0 else " " * (dash + 1 + gap)
                lines.append(f"{start}{field}{draw(_comment)}\n{draw(_line_comment)}")
    return "".join(lines)


@given(texts())
def test_no_comment_is_lost_and_nothing_changes_its_meaning(text: str) -> None:
    neat = formatted(text)
    assert comments(neat) == comments(text)
    assert meaning(neat) == meaning(text)
    assert formatted(neat) == neat
    assert not any(line != line.rstrip() for line in neat.split("\n"))
