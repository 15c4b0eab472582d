"""No bytes end in anything but a rule set or RuleRejected."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sentinel_core.rules import KINDS, Revision, RuleRejected, SourceText, format_text, parse_revision, parse_rules
from sentinel_core.rules.strategies import lists_of

DATA = Path(__file__).parent.parent / "data" / "rules"
SEEDS = [path.read_bytes() for path in sorted(DATA.iterdir())]
ALPHABET = [
    *(bytes([character]) for character in b"\t\n\r :-{[]}\"'|>#!%@`?,0~\x00\xff"),
    *(b"&a ", b"*a", b"<<", b"1e999", b"NaN", b"null", b"\xe4\xb8\xad", b"\\ud800", b"---\n", b"..."),
]


def everything(content: bytes) -> None:
    """Every door of the package, on the same bytes."""
    for kind in KINDS:
        refused_or_read(lambda kind=kind: parse_rules(kind, content))
    for form in ("yaml", "json"):
        text = SourceText("x", content, form)
        revision = Revision((text,), source="fuzz", version="1")
        refused_or_read(lambda revision=revision: parse_revision(revision, KINDS))
        refused_or_read(lambda revision=revision: parse_revision(revision, ["flow"]))
        refused_or_read(lambda text=text: format_text(text))


def refused_or_read(work: Any) -> None:
    try:
        work()
    except RuleRejected as rejection:
        said = [str(problem) for problem in rejection.errors]
    else:
        return
    assert all(said)
    assert said


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    everything(content)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(ALPHABET), max_size=30))
def test_random_syntax(pieces: list[bytes]) -> None:
    everything(b"".join(pieces))


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_mutated_samples(seed: bytes, rng: random.Random, edits: int) -> None:
    content = bytearray(seed)
    for _ in range(edits):
        at = rng.randrange(len(content) + 1)
        content[at : at + rng.choice((0, 0, 1, 5, 40))] = rng.choice(ALPHABET) if rng.random() < 0.8 else b""
    everything(bytes(content))


@given(
    lists_of(),
    st.randoms(use_true_random=False),
    st.sampled_from(
        [None, True, "20", "x", -1, 0, 1.5, 10**30, float("inf"), [], {}, [None], {"flowId": "a"}, "\ud800"]
    ),
)
def test_wrong_values_in_valid_rules(case: tuple[str, list[dict[str, Any]]], rng: random.Random, value: Any) -> None:
    kind, items = case
    for item in items:
        item[rng.choice([*item, "clusterConfig", "paramFlowItemList", "id", "resource"])] = value
    refused_or_read(lambda: parse_rules(kind, items))
    refused_or_read(lambda: parse_rules(kind, json.dumps(items)))


@pytest.mark.parametrize("content", [5, None, {"resource": "r"}, [5], [[("resource", "r")]], object(), iter([1])])
def test_objects_of_any_shape(content: Any) -> None:
    with pytest.raises(RuleRejected):
        parse_rules("flow", content)
