"""A04: neither credentials nor a person's values reach an event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.redact import Masker
from sentinel_core.masking import mask_text
from sentinel_core.rules import Problem

SECRETS = {
    "http://ops:hunter2@nacos.example:8848/x": "http://***@nacos.example:8848/x",
    "https://ops:hun/ter2@git.example/r.git": "https://***@git.example/r.git",
    "mysql://root:p@ss@db.example/app": "mysql://***@db.example/app",
    "https://tok3n@git.example/rules.git": "https://***@git.example/rules.git",
    "fetch /v1?access_token=abcdef&x=1": "fetch /v1?access_token=***&x=1",
    "password: hunter2, then": "password: ***, then",
    "Authorization: Bearer abcdefghijk": "Authorization: Bearer ***",
    "use ghp_0123456789abcdefghij please": "use *** please",
    "key AKIAABCDEFGHIJKLMNOP": "key ***",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": "***",
}


@pytest.mark.parametrize(("text", "masked"), SECRETS.items())
def test_credentials_are_masked_by_the_way_they_are_written(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    ["payment_invoke", "GET:https://api.example/orders/{id}", "chen <chen@example.com>", "git@example.com:x/y", "/a/b"],
)
def test_what_holds_no_credential_stays(text: str) -> None:
    assert mask_text(text) == text


@given(st.sampled_from(list(SECRETS)), st.text(alphabet="abc :/@=?&", max_size=12))
def test_masking_twice_is_masking_once(secret: str, around: str) -> None:
    once = mask_text(f"{around} {secret} {around}")
    assert mask_text(once) == once


def hot_items(*values: str, count: int = 5) -> list[dict[str, Any]]:
    items = [{"object": value, "count": count, "classType": "String"} for value in values]
    return [{"resource": "coupon_use", "paramIdx": 0, "count": 10, "paramFlowItemList": items}]


def test_a_phone_number_among_hot_items_is_in_neither_side(history: Any) -> None:
    history.commit("param_flow", hot_items("13800000001"))
    event = history.commit("param_flow", hot_items("13900000002"))
    assert b"13800000001" not in event.to_json()
    assert b"13900000002" not in event.to_json()
    assert event.payload["masked"] is True


def test_a_changed_hot_value_is_still_seen_to_change(history: Any) -> None:
    history.commit("param_flow", hot_items("13800000001", "13800000003"))
    event = history.commit("param_flow", hot_items("13800000001", "13900000002"))
    (change,) = event.payload["changes"]
    old, new = ([item["object"] for item in change[side]] for side in ("old", "new"))
    assert old[0] == new[0]
    assert old[1] != new[1]


def test_a_password_in_a_resource_is_masked_on_both_sides(history: Any, flow: Any) -> None:
    history.commit("flow", [flow("http://u:0ldpass@host/x", 1)])
    event = history.commit("flow", [flow("http://u:newpass@host/x", 2)])
    assert b"0ldpass" not in event.to_json()
    assert b"newpass" not in event.to_json()


def test_a_token_in_a_commit_message_is_masked(history: Any, flow: Any) -> None:
    event = history.commit("flow", [flow()], message="rotate glpat-abcdefghij0123456789")
    assert event.payload["message"] == "rotate ***"


def test_a_rejection_tells_neither_value_nor_line_of_a_hot_item(history: Any) -> None:
    text = '      - {object: 13800000001, count: 1, classType: int}\n        token: "s3cr3tvalue"\n'
    problem = Problem(
        "SR107", "error", 'object is "13800000001", which is no int', "sentinel-rules.yaml", 1, 18,
        "$.paramFlowRules[0].paramFlowItemList[0].object", "param_flow", 0, "coupon_use", "object",
    )  # fmt: skip
    assert b"13800000001" not in history.reject(problem, text=text).to_json()
    second = Problem(
        "SR110", "error", "unknown field token", "sentinel-rules.yaml", 2, 9, "$", "param_flow", 0, None, "token"
    )
    assert b"s3cr3tvalue" not in history.reject(second, text=text).to_json()


def test_rules_without_anything_to_mask_are_left_as_they_are(history: Any, flow: Any) -> None:
    event = history.commit("flow", [flow()])
    assert event.payload["masked"] is False


def test_one_value_has_one_label_within_an_event() -> None:
    masker = Masker()
    rules = [{"paramFlowItemList": [{"object": value, "count": 1}]} for value in ("a", "b", "a")]
    labels = [rule["paramFlowItemList"][0]["object"] for rule in masker.value(rules)]
    assert labels == ["***#1", "***#2", "***#1"]


def test_names_of_members_are_masked_like_texts() -> None:
    masker = Masker()
    assert masker.value({"pay?password=hunter2": {"count": 1}}) == {"pay?password=***": {"count": 1}}
    assert masker.masked


def test_what_a_trailer_of_a_commit_holds_is_masked_like_its_message(history: Any, flow: Any) -> None:
    secret = "ghp_0123456789abcdefghij"
    history.commit("flow", [flow(count=1)])
    event = history.commit(
        "flow", [flow(count=2)], message=secret, reason=f"token={secret}", plan_id=secret, rollback_of=secret
    )
    assert secret.encode() not in event.to_json()
    told = {name: event.payload[name] for name in ("message", "reason", "planId", "rollbackOf")}
    assert told == {"message": "***", "reason": "token=***", "planId": "***", "rollbackOf": "***"}
