"""A04: a service whose rules, calls and stores are full of secrets shows none in anything that leaves it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sentinel_core import BlockException
from sentinel_core.metrics.prometheus import register
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.cli.conftest import Run
from tests.planted import SHAPES, Planted
from tests.services.server import wait_until

ONE_LINE = [shape for shape, write in SHAPES.items() if "\n" not in write("")]
"""A name with a line break is refused."""


def rules(planted: Planted) -> dict[str, list[dict[str, Any]]]:
    """Rules that are taken, with a secret in every name that a rule may have."""
    found: dict[str, list[dict[str, Any]]] = {
        "flow": [],
        "degrade": [],
        "bizMetric": [],
        "authority": [],
        "paramFlow": [],
    }
    for number, shape in enumerate(ONE_LINE):
        name = planted.secret(shape, "resource")
        found["flow"].append({"resource": name, "count": 1, "limitApp": planted.secret(shape, "origin")})
        found["flow"].append(
            {
                "resource": f"related-{number}",
                "count": 1,
                "strategy": 1,
                "refResource": planted.secret(shape, "related"),
            }
        )
        found["degrade"].append({"resource": name, "grade": 2, "count": 1, "timeWindow": 60, "minRequestAmount": 1})
        found["bizMetric"].append({"resource": name, "bizMetricType": "M", "threshold": 5, "minRequestAmount": 1})
        found["authority"].append(
            {"resource": planted.secret(shape, "resource"), "limitApp": planted.secret(shape, "origin"), "strategy": 0}
        )
        item = {"object": planted.phone("hot item"), "count": 1, "classType": "java.lang.String"}
        found["paramFlow"].append({"resource": "hot", "paramIdx": number, "count": 1, "paramFlowItemList": [item]})
    return {f"{kind}Rules": each for kind, each in found.items()}


def refused(planted: Planted) -> Iterator[str]:
    """Texts that are not taken, for reasons of all sorts, with secrets in the faults and beside them."""
    for shape in ONE_LINE:
        yield json.dumps(
            {"flowRules": [{"resource": planted.secret(shape, "faulty"), "count": planted.secret(shape, "fault")}]}
        )
        yield json.dumps(
            {"flowRules": [{"resource": "r", planted.secret(shape, "key"): planted.secret(shape, "unknown")}, 7]}
        )
    for phone in ({"classType": "int"}, {"classType": "boolean"}, {"count": "x"}):
        item: dict[str, Any] = {"object": planted.phone("faulty item"), "count": 1, "classType": "java.lang.String"}
        item |= phone
        if item["classType"] == "int":
            item["object"] += "x"
        yield json.dumps(
            {"paramFlowRules": [{"resource": "r", "paramIdx": 0, "count": 1, "paramFlowItemList": [item]}]}
        )
    yield f"flowRules: [{{resource: a, count: 1}}, {planted.secret('user of a URI', 'syntax')}"
    yield f"# {planted.secret('assignment', 'comment')}\nflowRules: [{{resource: a, count: x}}]"


def put(text: str) -> None:
    Path("aside").write_text(text, encoding="utf-8")
    Path("aside").replace("rules.yaml")


def call_all(engine: ServiceEngine, planted: Planted) -> Iterator[object]:
    """Calls that pass, fail and are refused; the refusals."""
    for kind in ("flow", "degrade", "biz_metric", "authority", "param_flow"):
        for rule in engine.rules(kind).rules:
            for number in range(3):
                try:
                    with engine.entry(rule.resource, args=("x",) * 40, origin=planted.secret("assignment", "caller")):
                        raise LookupError if number else ConnectionError
                except BlockException as refusal:
                    yield from (refusal, repr(refusal), f"{refusal!s}")
                except (LookupError, ConnectionError):
                    pass
            engine.report("M", ok=False, resource=rule.resource)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_that_a_service_shows_writes_or_raises_holds_a_secret(
    here: Path, caplog: pytest.LogCaptureFixture, sentinelctl: Run, seed: int
) -> None:
    planted = Planted(seed)
    put(json.dumps(rules(planted)))
    settings = {"stores": [f"file://{here / 'rules.yaml'}"], "metricLog": {"folder": "logs"}, "status": "status"}
    Path("sentinel.yaml").write_text(json.dumps(settings), encoding="utf-8")
    caplog.set_level(logging.DEBUG)
    engine = start(load_settings())
    assert engine.wait_ready(10), caplog.text
    for rule in engine.rules("degrade").rules:
        engine.control(rule.resource, "closed")
    raised = list(call_all(engine, planted))
    for rule in engine.rules("degrade").rules:
        engine.control(rule.resource, "open")
    assert len(raised) > 50
    assert planted.found_in(*raised) == set(), "exceptions"
    for number, text in enumerate(refused(planted)):
        put(text)
        assert engine.subscriptions[0].refresh(10)
        assert engine.subscriptions[0].status()[0].counters.rejected == number + 1, text
        told = (engine.status(), engine.subscriptions[0].status())
        assert planted.found_in(*told) == set(), text
    registry = CollectorRegistry()
    register(engine, registry)
    shown = generate_latest(registry)
    assert shown.count(b"sentinel_breaker_state{") > 5
    assert planted.found_in(shown) == set(), "metrics"
    status = Path("status")
    assert wait_until(lambda: any("***" in path.read_text() for path in status.glob("*.json")), 10)
    assert planted.found_in(*(path.read_bytes() for path in status.glob("*.json"))) == set(), "status file"
    engine.close()
    assert "are refused, the active ones stay" in caplog.text
    assert planted.found_in(caplog.text) == set(), "log"
    kept = [
        path for path in here.rglob("*") if path.is_file() and path.suffix != ".last-good" and path.name != "rules.yaml"
    ]
    assert {"outbox.db", "audit.db", "sentinel-block.log"} <= {path.name for path in kept}
    assert {path.name: found for path in kept if (found := planted.found_in(path.read_bytes()))} == {}
    for line in (
        ["audit", "query", "since:1h", "type:*", "-o", "json"],
        ["audit", "query", "type:rejected", "-o", "wide"],
        ["audit", "query", "type:breaker"],
        ["audit", "who", "hot", "-o", "json"],
        ["instances", "list"],
        ["rules", "validate", "rules.yaml"],
        ["rules", "show", "rules.yaml"],
        ["doctor"],
    ):
        ended = sentinelctl(*line)
        assert planted.found_in(ended.out, ended.err) == set(), line
