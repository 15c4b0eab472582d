"""Owners: which team a resource and a file belong to, and who changes what is another's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel_core.rules import KINDS, Revision, SourceText, parse_revision, parse_rules
from sentinel_core.rules.guard import unowned
from sentinel_core.rules.ownership import owner_of, owner_of_path, relative
from sentinel_core.settings import Owner

PAY = Owner(team="payments", resources=("payment_*", "refund"), paths=("payments.yaml",))
SEARCH = Owner(team="search", resources=("search_*",), paths=("search-*.yaml", "environments/search.yaml"))
REST = Owner(team="platform", resources=("*",), paths=("*",))
BOTH = [PAY, SEARCH]


def text(name: str, *resources: str, count: int = 5) -> SourceText:
    rules = "".join(f"  - {{resource: {each}, grade: qps, count: {count}}}\n" for each in resources)
    return SourceText(name, f"# limits\nflowRules:\n{rules}".encode())


def told(
    new: list[SourceText], old: list[SourceText] | None = None, owners: Any = None, author: str | None = None
) -> list[str]:
    before = parse_revision(Revision(tuple(old), "", ""), KINDS) if old else {}
    after = parse_revision(Revision(tuple(new), "", ""), KINDS)
    return [each.text for each in unowned(before, after, BOTH if owners is None else owners, new, author)]


def test_the_first_owner_whose_globs_match_has_a_resource() -> None:
    assert [each and each.team for each in (owner_of(name, [*BOTH, REST]) for name in ("payment_x", "other"))] == [
        "payments",
        "platform",
    ]
    assert owner_of("Payment_x", BOTH) is None, "upper and lower case are told apart"
    assert owner_of("payment_x", [REST, PAY]) is REST


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("/srv/rules/payments.yaml", "payments.yaml"),
        ("rules/environments/prod.yaml", "environments/prod.yaml"),
        ("payments.yaml", "payments.yaml"),
    ],
)
def test_paths_are_seen_from_the_folder_of_the_rules(name: str, seen: str) -> None:
    assert relative(name) == seen


def test_a_file_has_the_first_owner_too() -> None:
    assert owner_of_path("/a/environments/search.yaml", BOTH) is SEARCH
    assert owner_of_path("/a/other.yaml", BOTH) is None


def test_a_rule_for_another_teams_resource_is_told_with_file_line_and_both_teams() -> None:
    assert told([text("rules/payments.yaml", "payment_a", "search_b")]) == [
        "search_b (flow) belongs to search, and rules/payments.yaml:4 is a file of payments"
    ]


def test_what_is_nobodys_may_be_changed_by_everybody_and_nobodys_file_may_hold_any() -> None:
    assert told([text("payments.yaml", "free")]) == []
    assert told([text("common.yaml", "payment_a", "search_b")]) == []
    assert told([text("payments.yaml", "search_b")], owners=[]) == []


def test_a_rule_that_does_not_change_is_not_told() -> None:
    old = [text("payments.yaml", "search_b")]
    assert told(old, old) == []
    assert len(told([text("payments.yaml", "search_b", count=6)], old)) == 1


def test_a_removal_is_told_where_every_file_is_of_other_teams() -> None:
    old = [text("payments.yaml", "payment_a"), text("search-a.yaml", "search_b", "search_c")]
    assert told([text("payments.yaml", "payment_a")], old) == [
        f"{name} (flow) belongs to search, and a rule of it is removed by files of payments alone"
        for name in ("search_b", "search_c")
    ]
    assert told([text("payments.yaml", "payment_a"), text("search-a.yaml", "search_b")], old) == []
    assert told([text("payments.yaml", "payment_a"), text("common.yaml", "free")], old) == []


def test_actors_are_who_may_change_a_teams_resources_whatever_the_file() -> None:
    owners = [Owner(team="payments", resources=("payment_*",), actors=("*@pay.example.com>", "deployer*"))]
    new = [text("rules.yaml", "payment_a")]
    assert told(new, owners=owners, author="Ada <ada@pay.example.com>") == []
    assert told(new, owners=owners, author="deployer (GitLab job 42)") == []
    assert told(new, owners=owners, author="Li <li@example.com>") == [
        "payment_a (flow) belongs to payments, and Li <li@example.com> is not among its actors"
    ]
    assert told(new, owners=owners) == [
        "payment_a (flow) belongs to payments, and nobody known is not among its actors"
    ]


def test_a_bare_list_is_looked_into_as_well() -> None:
    content = json.dumps([{"resource": "search_b", "grade": 1, "count": 5}]).encode()
    new = {"flow": parse_rules("flow", content)}
    owner = Owner(team="payments", paths=("*-flow-rules.json",))
    (found,) = unowned({}, new, [owner, SEARCH], [SourceText("/a/sentinel-flow-rules.json", content, "json")], None)
    assert found.text.endswith("/a/sentinel-flow-rules.json:1 is a file of payments")


def test_system_rules_are_one_resource() -> None:
    owner = Owner(team="platform", resources=("[*]",))
    assert owner_of("*", [owner]) is owner
    (found,) = told([SourceText("payments.yaml", b"systemRules: [{qps: 9}]\n")], owners=[owner, PAY])
    assert found == "* (system) belongs to platform, and payments.yaml:1 is a file of payments"


def test_an_id_does_not_carry_a_rule_from_its_owner_to_another() -> None:
    def rules(name: str, *texts: str) -> SourceText:
        return SourceText(name, ("flowRules:\n" + "".join(f"  - {{{each}}}\n" for each in texts)).encode())

    kept = "resource: payment_a, grade: qps, count: 5, limitApp: vip"
    old = [rules("payments.yaml", "id: 7, resource: payment_a, grade: qps, count: 5", kept)]
    new = [rules("payments.yaml", kept), rules("search-a.yaml", "id: 7, resource: search_b, grade: qps, count: 5")]
    owners = [Owner(team="payments", resources=("payment_*",), actors=("ada",)), SEARCH]
    assert told(new, old, owners, "li") == ["payment_a (flow) belongs to payments, and li is not among its actors"]
