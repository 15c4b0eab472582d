"""Values of chosen fields leave as keyed hashes: nobody can read them, whoever has the key can tell whether one is."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_core.audit.breaker import breaker_moved
from sentinel_core.audit.errors import KeyUnusable
from sentinel_core.audit.redaction import Redaction
from sentinel_core.rules import Problem
from tests.audit.conftest import START

KEY = "0123456789abcdef" * 2
APP = "customer-4711"


@pytest.fixture
def redaction() -> Redaction:
    return Redaction(("limitApp",), KEY)


@pytest.fixture
def hidden(history: Any, redaction: Redaction) -> Any:
    history.redaction = redaction
    return history


def hot(value: str | int) -> list[dict[str, Any]]:
    item = {"object": value, "count": 1, "classType": "String"}
    return [{"resource": "coupon_use", "paramIdx": 0, "count": 10, "paramFlowItemList": [item]}]


def test_a_chosen_field_is_hidden_in_lists_changes_and_paths(hidden: Any, flow: Any, redaction: Redaction) -> None:
    hidden.commit("flow", [flow(limitApp=APP), flow("other")])
    event = hidden.commit("flow", [flow(limitApp=APP, count=25), flow("other")])
    assert APP.encode() not in event.to_json()
    token = redaction.keyed(APP)
    payload = event.payload
    assert [rule["limitApp"] for rule in payload["newRules"]] == ["default", token]
    (change,) = payload["changes"]
    assert change["rule"] == f"flow/payment_invoke/{token}"
    assert (payload["masked"], payload["redacted"]) == (True, ["limitApp"])


def test_a_change_of_the_field_itself_is_hidden_on_both_sides(hidden: Any, redaction: Redaction) -> None:
    def allow(apps: str) -> list[dict[str, Any]]:
        return [{"resource": "pay", "limitApp": apps, "strategy": 0}]

    hidden.commit("authority", allow(APP))
    event = hidden.commit("authority", allow("customer-1"))
    assert b"customer-" not in event.data
    sides = {change["action"]: change["old"] or change["new"] for change in event.payload["changes"]}
    told = {str(side["limitApp"] if isinstance(side, dict) else side) for side in sides.values()}
    assert told <= {redaction.keyed(APP), redaction.keyed("customer-1")}


def test_one_value_has_one_hash_in_every_event_and_a_number_that_of_its_text(redaction: Redaction) -> None:
    assert redaction.keyed(13800000001) == redaction.keyed("13800000001") == Redaction((), KEY).keyed("13800000001")
    assert redaction.keyed("a") != redaction.keyed("b")
    other = Redaction((), KEY[::-1])
    assert redaction.keyed("a") != other.keyed("a")
    assert redaction.key_id != other.key_id


def test_with_a_key_values_of_hot_items_are_hashed_too(hidden: Any, redaction: Redaction) -> None:
    hidden.commit("param_flow", hot("13800000001"))
    event = hidden.commit("param_flow", hot("13900000002"))
    (change,) = event.payload["changes"]
    assert change["old"][0]["object"] == redaction.keyed("13800000001")
    assert change["new"][0]["object"] == redaction.keyed("13900000002")
    assert event.payload["redacted"] == ["paramFlowItemList.object"]


def test_without_a_key_they_stay_labels_and_are_listed(history: Any) -> None:
    event = history.commit("param_flow", hot("13800000001"))
    assert event.payload["newRules"][0]["paramFlowItemList"][0]["object"] == "***#1"
    assert event.payload["redacted"] == ["paramFlowItemList.object"]


def test_where_nothing_was_hidden_nothing_is_listed(hidden: Any, flow: Any) -> None:
    event = hidden.commit("flow", [flow()])
    assert (event.payload["masked"], event.payload["redacted"]) == (False, [])


def test_a_rejection_hides_value_message_and_line(hidden: Any) -> None:
    text = f"  - {{resource: pay, limitApp: {APP}, count: x}}\n"
    for field, message in (("limitApp", f'limitApp is "{APP}"'), ("count", f'the rule with limitApp "{APP}" is twice')):
        problem = Problem(
            "SR999", "error", message, "sentinel-rules.yaml", 1, 4, f"$.flowRules[0].{field}", "flow", 0, "pay", field
        )
        assert APP.encode() not in hidden.reject(problem, text=text).to_json()


def test_a_move_of_a_breaker_hides_the_origin_in_the_path(redaction: Redaction) -> None:
    facts = {"resource": "pay", "rule": f"degrade/pay/{APP}", "before": "CLOSED", "after": "OPEN"}
    event = breaker_moved(
        environment="prod", app="a", instance="i", at=START, number=1, kind="degrade", facts=facts, redaction=redaction
    )
    assert APP.encode() not in event.to_json()
    assert event.payload["rule"] == f"degrade/pay/{redaction.keyed(APP)}"


def test_the_metric_in_the_path_of_a_business_rule_is_no_origin(redaction: Redaction) -> None:
    path = "biz_metric/pay/PAY_FAIL_RATE"
    assert redaction.path(path, "biz_metric", "pay") == path


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("limitapp", "did you mean limitApp"),
        ("paramFlowItemList.objct", "did you mean paramFlowItemList.object"),
        ("resource", "what events are found by"),
    ],
)
def test_a_field_that_cannot_be_hidden_is_refused(field: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Redaction((field,), KEY)


def test_a_key_that_is_missing_or_too_short_is_refused_without_telling_it() -> None:
    with pytest.raises(KeyUnusable, match="redactKeyFile"):
        Redaction(("limitApp",))
    with pytest.raises(KeyUnusable) as refusal:
        Redaction((), "hunter2")
    assert "hunter2" not in str(refusal.value)
