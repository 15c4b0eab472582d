"""Writing rules back into texts that people wrote: what need not change stays, byte for byte."""

from __future__ import annotations

import difflib
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sentinel_core.rules import KINDS, Kind, Revision, RuleSet, SourceText, parse_revision, parse_rules
from sentinel_core.rules.draft import Unchangeable
from sentinel_core.rules.registry import model_of
from sentinel_core.rules.rewrite import rewrite
from sentinel_core.rules.strategies import items_of
from sentinel_core.rules.write import document, fields_of, scalar

DOCUMENT = """\
# Rules of the shop. Ask the payment team before you change anything.

flowRules:
  # reviewed in March
  - resource: payment_invoke   # the bank takes 30
    grade: qps
    count: 20

  - {resource: coupon, grade: 1, count: 5}   # short

  # batch jobs
  - resource: 'report'
    count: 2    # threads
    grade: thread
    limitApp: "batch"
degradeRules:
- resource: gateway
  grade: error_ratio
  count: 0.5
  timeWindow: 5
"""
Rules = Mapping[Kind, Sequence[Mapping[str, Any]]]


def text(content: str, name: str = "rules.yaml") -> SourceText:
    return SourceText(name, content.encode())


def sets_of(texts: Sequence[SourceText]) -> dict[Kind, RuleSet]:
    return parse_revision(Revision(tuple(texts), "test", ""), KINDS)


def wanted(rules: Rules) -> dict[Kind, RuleSet]:
    """As a store holds them."""
    return {kind: parse_rules(kind, items) for kind, items in rules.items()}


def held(content: str) -> dict[Kind, list[dict[str, Any]]]:
    return {kind: [rule.to_json() for rule in rules] for kind, rules in sets_of([text(content)]).items()}


def changed(content: str, rules: Rules) -> list[str]:
    """The lines that go and come when these rules are written into the text."""
    (new,) = rewrite([text(content)], wanted(rules))
    assert {kind: each.digest for kind, each in sets_of([new]).items() if kind in rules} == {
        kind: each.digest for kind, each in wanted(rules).items()
    }
    lines = difflib.ndiff(content.splitlines(), new.content.decode().splitlines())
    return [line for line in lines if line[0] in "+-"]


def edited(content: str, kind: Kind, index: int, **fields: Any) -> Rules:
    rules = held(content)
    rules[kind][index] = {name: value for name, value in (rules[kind][index] | fields).items() if value is not None}
    return rules


def test_what_stands_there_already_changes_no_byte() -> None:
    messy = DOCUMENT.replace("\n", "\r\n") + "\r\n\r\n# the end"
    for content in (DOCUMENT, messy, "\ufeff" + DOCUMENT):
        assert rewrite([text(content)], sets_of([text(content)])) == (text(content),)


@pytest.mark.parametrize(
    ("kind", "index", "fields", "lines"),
    [
        ("flow", 0, {"count": 25}, ["-     count: 20", "+     count: 25"]),
        ("flow", 0, {"grade": 0}, ["-     grade: qps", "+     grade: thread"]),
        (
            "flow",
            1,
            {"count": 7.5},
            [
                "-   - {resource: coupon, grade: 1, count: 5}   # short",
                "+   - {resource: coupon, grade: 1, count: 7.5}   # short",
            ],
        ),
        (
            "flow",
            1,
            {"grade": 0},
            [
                "-   - {resource: coupon, grade: 1, count: 5}   # short",
                "+   - {resource: coupon, grade: 0, count: 5}   # short",
            ],
        ),
        ("flow", 2, {"limitApp": "night batch"}, ['-     limitApp: "batch"', '+     limitApp: "night batch"']),
        ("flow", 2, {"count": 3}, ["-     count: 2    # threads", "+     count: 3    # threads"]),
        ("flow", 0, {"maxQueueingTimeMs": 100}, ["+     maxQueueingTimeMs: 100"]),
        ("degrade", 0, {"minRequestAmount": 20}, ["+   minRequestAmount: 20"]),
        (
            "flow",
            1,
            {"limitApp": "app: x"},
            [
                "-   - {resource: coupon, grade: 1, count: 5}   # short",
                '+   - {resource: coupon, grade: 1, count: 5, limitApp: "app: x"}   # short',
            ],
        ),
    ],
)
def test_a_field_is_changed_where_it_stands(kind: Kind, index: int, fields: dict[str, Any], lines: list[str]) -> None:
    assert changed(DOCUMENT, edited(DOCUMENT, kind, index, **fields)) == lines


def test_a_field_that_went_leaves_no_trace() -> None:
    content = DOCUMENT.replace("    count: 20", "    count: 20\n    mode: shadow   # trial")
    assert changed(content, edited(content, "flow", 0, mode=None)) == ["-     mode: shadow   # trial"]
    content = DOCUMENT.replace("count: 5}", "mode: shadow, count: 5}")
    assert changed(content, edited(content, "flow", 1, mode=None)) == [
        "-   - {resource: coupon, grade: 1, mode: shadow, count: 5}   # short",
        "+   - {resource: coupon, grade: 1, count: 5}   # short",
    ]


def test_a_rule_that_went_takes_its_own_comment_along_and_no_other() -> None:
    rules = held(DOCUMENT)
    del rules["flow"][2]
    assert changed(DOCUMENT, rules) == [
        "-   # batch jobs",
        "-   - resource: 'report'",
        "-     count: 2    # threads",
        "-     grade: thread",
        '-     limitApp: "batch"',
    ]
    rules = held(DOCUMENT)
    del rules["flow"][1]
    assert changed(DOCUMENT, rules) == ["-   - {resource: coupon, grade: 1, count: 5}   # short"]


def test_a_heading_over_several_rules_outlives_the_first_of_them() -> None:
    content = (
        "flowRules:\n  - {resource: a, grade: qps, count: 1}\n"
        "  # payment\n  - {resource: b, grade: qps, count: 1}\n  - {resource: c, grade: qps, count: 1}\n"
    )
    rules = held(content)
    del rules["flow"][1]
    assert changed(content, rules) == ["-   - {resource: b, grade: qps, count: 1}"]


def test_a_kind_that_lost_its_rules_says_so() -> None:
    assert changed(DOCUMENT, {"degrade": []})[0] == "- degradeRules:"
    (new,) = rewrite([text(DOCUMENT)], wanted({"degrade": []}))
    assert new.content.decode().endswith('limitApp: "batch"\ndegradeRules: []\n')


def test_a_new_rule_is_written_as_its_neighbours_are() -> None:
    rules = held(DOCUMENT)
    rules["flow"].append({"resource": "coupon", "limitApp": "app", "grade": 1, "count": 1})
    rules["degrade"].append({"resource": "bank", "grade": 0, "count": 300, "timeWindow": 9})
    assert changed(DOCUMENT, rules) == [
        "+   - {resource: coupon, count: 1, limitApp: app}",
        "+ - resource: bank",
        "+   count: 300",
        "+   timeWindow: 9",
    ]


def test_a_kind_that_is_new_gets_a_section() -> None:
    rules: Rules = {"system": [{"qps": 900}], "authority": []}
    assert changed("flowRules: []", rules) == ["+ systemRules:", "+   - qps: 900", "+ authorityRules: []"]


def test_rules_come_into_an_empty_list() -> None:
    rules: Rules = {"flow": [{"resource": "a", "grade": 1, "count": 1}, {"resource": "b", "grade": 1, "count": 1}]}
    (new,) = rewrite([text("flowRules: []  # none yet\n")], wanted(rules))
    assert sets_of([new])["flow"].digest == wanted(rules)["flow"].digest
    assert "# none yet" in new.content.decode()


def test_what_an_anchor_shares_is_written_out_where_it_is_no_longer_shared() -> None:
    content = (
        "x-usual: &usual {grade: qps, count: 5}\n"
        "flowRules:\n"
        "  - {resource: a, <<: *usual}\n"
        "  - resource: b\n"
        "    <<: *usual\n"
        "  - {resource: c, grade: qps, count: &nine 9}\n"
        "  - {resource: d, grade: qps, count: *nine}\n"
    )
    assert changed(content, edited(content, "flow", 0, count=6)) == [
        "-   - {resource: a, <<: *usual}",
        "+   - {resource: a, <<: *usual, count: 6}",
    ]
    assert changed(content, edited(content, "flow", 1, count=6)) == ["+     count: 6"]
    assert changed(content, edited(content, "flow", 3, count=6)) == [
        "-   - {resource: d, grade: qps, count: *nine}",
        "+   - {resource: d, grade: qps, count: 6}",
    ]
    assert changed(content, edited(content, "flow", 2, count=6)) == [
        "-   - {resource: c, grade: qps, count: &nine 9}",
        "+   - {resource: c, grade: qps, count: &nine 6}",
        "-   - {resource: d, grade: qps, count: *nine}",
        "+   - {resource: d, grade: qps, count: 9}",
    ]


def test_nested_objects_are_changed_inside() -> None:
    content = (
        "flowRules:\n  - resource: a\n    grade: qps\n    count: 1\n    clusterMode: true\n    clusterConfig:\n"
        "      flowId: 7   # of the cluster\n      thresholdType: 1\n"
    )
    rules = held(content)
    rules["flow"][0]["clusterConfig"] |= {"flowId": 8, "sampleCount": 20}
    assert changed(content, rules) == [
        "-       flowId: 7   # of the cluster",
        "+       flowId: 8   # of the cluster",
        "+       sampleCount: 20",
    ]


def test_a_json_list_is_changed_in_place_too() -> None:
    content = '[\n  {"resource": "a", "grade": 1, "count": 1},\n  {"resource": "b", "grade": 1, "count": 1}\n]\n'
    list_ = SourceText("sentinel-flow-rules.json", content.encode(), "json")
    rules = [{"resource": "a", "grade": 1, "count": 2}, {"resource": "c", "grade": 1, "count": 1}]
    (new,) = rewrite([list_], wanted({"flow": rules}), ["flow"])
    assert new.content.decode() == (
        '[\n  {"resource": "a", "grade": 1, "count": 2},\n  {"resource": "c", "count": 1}\n]\n'
    )


def test_json_that_a_reader_of_yaml_does_not_take_is_refused() -> None:
    list_ = SourceText("sentinel-flow-rules.json", b'[{"resource": "\\ud83d\\ude80", "count": 1}]', "json")
    with pytest.raises(Unchangeable, match=r"sentinel-flow-rules\.json: write the characters themselves"):
        rewrite([list_], wanted({"flow": []}), ["flow"])


# -- several texts -----------------------------------------------------------------------------------------------------

BASE = "flowRules:\n  - {resource: pay, grade: qps, count: 20}   # base\n  - {resource: order, grade: qps, count: 5}\n"
TEAM = "# of the team\nflowRules:\n  - {resource: team, grade: qps, count: 1}\n"
PROD = "flowRules:\n  - {resource: pay, count: 200}   # twice the bank's\n"


def folder(**files: str) -> list[SourceText]:
    return [text(content, f"rules/{name.replace('__', '/')}.yaml") for name, content in files.items()]


def after(texts: Sequence[SourceText], rules: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The texts that changed."""
    new = rewrite(texts, wanted({"flow": rules}))
    assert sets_of(new)["flow"].digest == wanted({"flow": rules})["flow"].digest
    return {each.name: each.content.decode() for each, old in zip(new, texts, strict=True) if each != old}


def flow(resource: str, count: float, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "grade": 1, "count": count, **more}


def test_a_rule_stays_in_its_file_and_a_new_one_joins_its_resource() -> None:
    texts = folder(base=BASE, team=TEAM)
    rules = [flow("pay", 20), flow("order", 5), flow("team", 2), flow("pay", 1, limitApp="app")]
    assert after(texts, rules) == {
        "rules/base.yaml": BASE.replace("# base\n", "# base\n  - {resource: pay, count: 1, limitApp: app}\n"),
        "rules/team.yaml": TEAM.replace("count: 1", "count: 2"),
    }


def test_a_field_is_changed_in_the_overlay_that_writes_it_and_else_in_the_base() -> None:
    texts = folder(base=BASE, environments__prod=PROD)
    assert after(texts, [flow("pay", 250), flow("order", 5)]) == {
        "rules/environments/prod.yaml": PROD.replace("200", "250")
    }
    assert after(texts, [flow("pay", 200), flow("order", 6)]) == {"rules/base.yaml": BASE.replace("5", "6")}


def test_a_rule_that_the_overlay_patches_is_deleted_there() -> None:
    texts = folder(base=BASE, environments__prod=PROD)
    assert after(texts, [flow("order", 5)]) == {
        "rules/environments/prod.yaml": "flowRules:\n  - {resource: pay, $delete: true}   # twice the bank's\n"
    }


def test_a_rule_that_the_overlay_deletes_comes_back() -> None:
    texts = folder(base=BASE, environments__prod="flowRules:\n  - {resource: pay, $delete: true}\n")
    assert after(texts, [flow("pay", 20), flow("order", 5)]) == {"rules/environments/prod.yaml": "flowRules: []\n"}


# -- whatever is written -----------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "pay:refund", "it's", "yes", "a #b", "支付", "x}"])
RULES = st.lists(
    st.builds(
        lambda resource, count, app, queue: flow(resource, count, limitApp=app, maxQueueingTimeMs=queue),
        NAMES,
        st.sampled_from([0, 1, 2.5, 1000]),
        st.sampled_from(["default", "other", "app"]),
        st.sampled_from([500, 20]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(before=RULES, then=RULES, seed=st.integers(0, 99))
def test_any_rules_become_any_others_and_comments_of_those_that_stay_survive(
    before: list[dict[str, Any]], then: list[dict[str, Any]], seed: int
) -> None:
    content = layout(parse_rules("flow", before), random.Random(seed))
    texts = [text(content)]
    assert rewrite(texts, sets_of(texts)) == tuple(texts)
    (new,) = rewrite(texts, wanted({"flow": then}))
    assert sets_of([new])["flow"].digest == wanted({"flow": then})["flow"].digest
    stay = set(parse_rules("flow", before)) & set(parse_rules("flow", then))
    for index, rule in enumerate(parse_rules("flow", before)):
        assert rule not in stay or f"# rule {index}." in new.content.decode()


LISTS = st.sets(st.sampled_from(KINDS), min_size=1).flatmap(
    lambda kinds: st.fixed_dictionaries({kind: st.lists(items_of(kind), max_size=3) for kind in kinds})
)


@settings(deadline=None, max_examples=50)
@given(before=LISTS, then=LISTS, flow_style=st.booleans())
def test_rules_of_any_kinds_become_any_others_and_the_kinds_that_are_not_meant_stay(
    before: Rules, then: Rules, flow_style: bool
) -> None:
    content = document(wanted(before), "rules.yaml").decode()
    if flow_style:
        lists = {
            model_of(kind).document_key: [rule.to_json() for rule in each] for kind, each in wanted(before).items()
        }
        content = json.dumps(lists, ensure_ascii=False)
        assume(not re.search(r"\de[-+]\d", content))  # in YAML a text to some tools, and refused
    texts = [text(content)]
    (new,) = rewrite(texts, wanted(then))
    digests = {kind: each.digest for kind, each in sets_of([new]).items()}
    assert digests == {kind: each.digest for kind, each in (sets_of(texts) | wanted(then)).items()}


def test_what_two_changes_add_at_the_end_stays_apart() -> None:
    content = "authorityRules:\n  - {resource: a, limitApp: x, strategy: white}\n"
    rules = held(content)
    rules["authority"].append({"resource": "b", "limitApp": "x", "strategy": 0})
    rules["flow"] = [flow("a", 1)]
    assert changed(content, rules) == [
        "+   - {resource: b, limitApp: x}",
        "+ flowRules:",
        "+   - resource: a",
        "+     count: 1",
    ]


def test_two_rules_that_an_overlay_cannot_tell_apart_are_refused() -> None:
    texts = folder(base=BASE, environments__prod=PROD)
    with pytest.raises(Unchangeable, match="SR115 pay: the base has 2 such rules"):
        rewrite(texts, wanted({"flow": [flow("pay", 200), flow("pay", 10), flow("order", 5)]}))


def layout(rules: RuleSet, by: random.Random) -> str:
    """The rules in one of the many ways in which people write them, a comment at each."""
    margin = by.choice(["", "  ", "    "])
    lines = ["# head", "flowRules:" if rules.rules else "flowRules: []"]
    for index, rule in enumerate(rules):
        fields = [f"{name}: {scalar(value)}" for name, value in fields_of(rule)]
        if by.random() < 0.5:
            within = [f"{name}: {json.dumps(value)}" for name, value in fields_of(rule)]
            lines.append(f"{margin}- {{{', '.join(within)}}}  # rule {index}.")
        else:
            lines += [f"{margin}- {fields[0]}  # rule {index}.", *(f"{margin}  {field}" for field in fields[1:])]
        lines += [""] * by.randrange(2)
    return by.choice(["\n", "\r\n"]).join([*lines, "# foot", "degradeRules: []"]) + by.choice(["", "\n"])


@pytest.mark.parametrize(
    "use", ["{<<: *a, resource: b}", "{resource: b, count: 1, clusterMode: true, clusterConfig: *c}"]
)
def test_a_rule_that_carries_what_others_use_is_named_where_it_would_go(use: str) -> None:
    head = "flowRules:\n  - {resource: x, count: 1}\n"
    content = (
        head + "  - &a {resource: a, count: 1, clusterMode: true, clusterConfig: &c {flowId: 1}}\n" + f"  - {use}\n"
    )
    rules = held(content)
    del rules["flow"][1]
    anchor = "&a" if "*a" in use else "&c"
    said = f"rules.yaml:3: flow/a/default carries the anchor {anchor}, which other rules use; write those out first"
    with pytest.raises(Unchangeable) as told:
        rewrite([text("degradeRules: []\n", "a.yaml"), text(content)], wanted(rules))
    assert said in str(told.value).splitlines()


def test_what_cannot_be_changed_in_place_is_refused_with_the_place() -> None:
    content = "x-all: &all\n  - {resource: a, grade: qps, count: 1}\nflowRules: *all\n"
    with pytest.raises(Unchangeable, match=r"rules.yaml:3:12: \$.flowRules: it is an alias"):
        rewrite([text(content)], wanted({"flow": [flow("a", 1), flow("b", 1)]}))


SHARED = {
    "a merge": ("- &a {resource: r1, count: 20}", "- {<<: *a, grade: error_count, timeWindow: 5}"),
    "a number": ("- {resource: r1, count: &n 20}", "- {resource: r1, count: *n, grade: error_count, timeWindow: 5}"),
    "a merge in a block": ("- &a\n    resource: r1\n    count: 20", "- <<: *a\n    timeWindow: 5\n    grade: 2"),
}


@pytest.mark.parametrize("kinds", [KINDS, ("flow",)])
@pytest.mark.parametrize("shared", SHARED)
def test_rules_of_another_kind_stay_what_they_are_where_they_share_parts(shared: str, kinds: Sequence[Kind]) -> None:
    one, other = SHARED[shared]
    given = text(f"flowRules:\n  {one}\ndegradeRules:\n  {other}\n")
    (new,) = rewrite([given], wanted({"flow": [{"resource": "r1", "grade": 1, "count": 30}]}), kinds)
    before, after = sets_of([given]), sets_of([new])
    assert [rule.to_json()["count"] for rule in after["flow"]] == [30]
    assert after["degrade"].digest == before["degrade"].digest
    (back,) = rewrite([new], {"flow": before["flow"]}, kinds)
    assert {kind: each.digest for kind, each in sets_of([back]).items()} == {
        kind: each.digest for kind, each in before.items()
    }
