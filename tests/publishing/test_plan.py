"""Plans: what would be written, kept as a file, and carried out exactly or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import SourceConflict, SourceDenied, SourceUnavailable, Writable
from sentinel_core.datasources.file import FileSource
from sentinel_core.publishing import (
    Plan,
    PlanInvalid,
    PlanStale,
    carry_out,
    make_plan,
    read_plan,
    write_plan,
)
from sentinel_core.publishing.make import Proposal, Wanted
from sentinel_core.rules import KINDS, Provenance, Revision, SourceText, parse_revision, parse_rules
from sentinel_core.settings import Guards

ADA = Provenance(
    commit_hash="c0ffee" * 6 + "abcd",
    author="Ada Example <ada@example.com>",
    committed_at=datetime(2026, 11, 30, 8, tzinfo=UTC),
    channel="git",
    reason="促销",
)
RULES = b"# limits\nflowRules:\n  - {resource: a, grade: qps, count: 5}\ndegradeRules: []\n"


def wanted(text: bytes = RULES) -> Wanted:
    texts = (SourceText("sentinel-rules.yaml", text),)
    return Wanted("rules", parse_revision(Revision(texts, "", ""), KINDS), texts)


def propose(uri: str, text: bytes = RULES, **options: Any) -> Proposal:
    source = datasources.open(uri)
    arguments: dict[str, Any] = {"environment": "prod", "provenance": ADA, "policy": Guards(), "max_bytes": 1000}
    return make_plan(source, uri, wanted(text), **{**arguments, **options})


@pytest.fixture
def lists(tmp_path: Path) -> str:
    """A store with a JSON list a kind."""
    (tmp_path / "lists").mkdir()
    return f"file://{tmp_path}/lists?format=json"


@pytest.fixture
def document(tmp_path: Path) -> str:
    """A store with one YAML document."""
    return f"file://{tmp_path}/rules.yaml"


def carried_out(plan: Plan) -> list[str]:
    return [outcome.state for outcome in carry_out(plan, datasources.open(plan.store))]


# -- making ------------------------------------------------------------------------------------------------------------


def test_a_plan_has_a_step_for_each_item_that_would_change(lists: str, tmp_path: Path) -> None:
    plan = propose(lists).plan
    names = [Path(step.key).name for step in plan.steps]
    assert names == ["sentinel-flow-rules.json", "sentinel-degrade-rules.json"], "the largest first"
    assert [step.expected for step in plan.steps] == [None, None]
    assert [(change["action"], change["rule"]) for change in plan.changes] == [("add", "flow/a/default")]
    assert not list((tmp_path / "lists").iterdir()), "nothing is written"


def test_what_stands_already_is_no_step_whatever_it_looks_like(lists: str, tmp_path: Path) -> None:
    (tmp_path / "lists/sentinel-flow-rules.json").write_text('[{"count": 5.0, "resource": "a", "grade": 1}]')
    (tmp_path / "lists/sentinel-degrade-rules.json").write_text("[ ]")
    assert propose(lists).plan.steps == ()


def test_a_document_is_written_as_somebody_wrote_it(document: str, tmp_path: Path) -> None:
    carried_out(propose(document).plan)
    assert (tmp_path / "rules.yaml").read_bytes() == RULES, "with its comments"


def test_a_kind_that_is_not_carried_stays_in_a_document(document: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("systemRules: [{qps: 9}]\nflowRules: []\n")
    carried_out(propose(document).plan)
    found = parse_revision(datasources.open(document).read(datasources.open(document).items(KINDS)[0]), KINDS)  # type: ignore[arg-type]
    assert {kind: len(rules) for kind, rules in found.items()} == {"flow": 1, "degrade": 0, "system": 1}


def test_a_folder_of_several_texts_is_not_made_one(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / "rules" / name).write_text("")
        (tmp_path / "rules" / name).write_text(f"{'flow' if name == 'a.yaml' else 'degrade'}Rules: []\n")
    with pytest.raises(datasources.SourceMisconfigured, match=r"several texts .*a\.yaml.*b\.yaml"):
        propose(f"file://{tmp_path}/rules")


def test_rules_that_are_not_valid_may_be_replaced_and_that_is_told(lists: str, tmp_path: Path) -> None:
    (tmp_path / "lists/sentinel-flow-rules.json").write_text("junk")
    proposal = propose(lists)
    assert [source.rpartition("/")[2] for source in proposal.invalid] == ["sentinel-flow-rules.json"]
    assert carried_out(proposal.plan) == ["written", "written"]


def test_guards_are_asked_and_can_be_overruled(lists: str) -> None:
    carried_out(propose(lists).plan)
    many = b"flowRules:\n  - {resource: a, grade: qps, count: 500}\n"
    assert [each.guard for each in propose(lists, many).objections] == ["jump"]
    overruled = propose(lists, many, allowed=["jump"])
    assert (overruled.objections, [each.guard for each in overruled.overruled]) == ([], ["jump"])
    assert overruled.plan.allowed == ("jump",)


def test_a_resource_with_a_rule_in_another_item_has_not_lost_its_last(lists: str, tmp_path: Path) -> None:
    text = RULES.replace(b"[]", b"\n  - {resource: a, grade: error_count, count: 3, timeWindow: 5}")
    carried_out(propose(lists, text).plan)
    kept = text.partition(b"flow")[0] + b"flowRules: []\n" + text.partition(b"count: 5}\n")[2]
    assert [each.guard for each in propose(lists, kept).objections] == ["empty"], "both are published"
    assert [each.guard for each in propose(lists, b"flowRules: []\n").objections] == ["empty"], (
        "one is, the other stays"
    )
    (tmp_path / "lists/sentinel-degrade-rules.json").write_text("[]")
    assert [each.guard for each in propose(lists, b"flowRules: []\n").objections] == ["empty", "last"]


def test_a_file_that_was_only_touched_makes_no_plan_stale(lists: str, tmp_path: Path) -> None:
    carried_out(propose(lists).plan)
    plan = propose(lists, RULES.replace(b"5", b"6")).plan
    (tmp_path / "lists/sentinel-flow-rules.json").chmod(0o600)
    assert carried_out(plan) == ["written"]


def test_a_text_that_is_too_long_is_told(lists: str) -> None:
    assert [each.guard for each in propose(lists, max_bytes=50).objections] == ["size"]


# -- as a file ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_read_back_as_it_was(lists: str, tmp_path: Path) -> None:
    plan = propose(lists, allowed=["jump"]).plan
    write_plan(plan, tmp_path / "p.plan")
    assert read_plan(tmp_path / "p.plan") == plan
    assert (tmp_path / "p.plan").stat().st_mode & 0o777 == 0o600


def test_the_same_plan_has_the_same_id_and_another_one_another(lists: str) -> None:
    assert propose(lists).plan.id == propose(lists).plan.id
    assert propose(lists).plan.id != propose(lists, b"flowRules: []\n").plan.id


def edited(content: bytes) -> bytes:
    return content.replace(b'"expected": null', b'"expected": "1"', 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited, "was changed after it was made"),
        (lambda _: b"", "is no plan"),
        (lambda _: b"[]", "is no plan"),
        (lambda _: b'{"steps": 5}', "of another version"),
        (lambda _: b"[" * 100_000, "is no plan"),
        (lambda _: b'{"steps": "\xff', "is no plan"),
        (lambda content: content[:-100], "is no plan"),
    ],
)
def test_what_is_no_plan_or_was_edited_is_refused(lists: str, tmp_path: Path, change: Any, words: str) -> None:
    path = tmp_path / "p.plan"
    write_plan(propose(lists).plan, path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(PlanInvalid, match=words):
        read_plan(path)


@pytest.mark.parametrize(
    "forge",
    [
        lambda plan: plan["steps"][0]["texts"][0].update(content="{{{"),
        lambda plan: plan["steps"][0]["texts"][0].update(content="[]"),
        lambda plan: plan["steps"][0].update(changes=5),
        lambda plan: plan["steps"][0].update(changes=[{"action": "boom", "rule": "a"}]),
        lambda plan: plan.update(store=5),
    ],
)
def test_a_plan_that_does_not_do_what_it_says_is_none_even_if_somebody_seals_it_anew(
    lists: str, tmp_path: Path, forge: Any
) -> None:
    path = tmp_path / "p.plan"
    write_plan(propose(lists).plan, path)
    document = json.loads(path.read_text())
    del document["seal"]
    forge(document)
    sealed = {**document, "seal": sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()}
    path.write_text(json.dumps(sealed))
    with pytest.raises(PlanInvalid, match="is no plan"):
        read_plan(path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path(os.devnull)):
        with pytest.raises(PlanInvalid, match="is no file"):
            read_plan(path)


# -- carrying out ------------------------------------------------------------------------------------------------------


def test_a_plan_is_carried_out_once(lists: str, tmp_path: Path) -> None:
    plan = propose(lists).plan
    assert carried_out(plan) == ["written", "written"]
    (rule,) = json.loads((tmp_path / "lists/sentinel-flow-rules.json").read_text())
    assert (rule["resource"], rule["count"], rule["grade"]) == ("a", 5, 1)
    assert carried_out(plan) == ["already there", "already there"]


def test_a_store_that_has_moved_on_is_not_touched_at_all(lists: str, tmp_path: Path) -> None:
    plan = propose(lists).plan
    (tmp_path / "lists/sentinel-degrade-rules.json").write_text('[{"resource": "x", "count": 1, "timeWindow": 1}]')
    with pytest.raises(PlanStale) as caught:
        carried_out(plan)
    assert [source.rpartition("/")[2] for source in caught.value.moved] == ["sentinel-degrade-rules.json"]
    assert not (tmp_path / "lists/sentinel-flow-rules.json").exists()


class Failing(FileSource):
    """A store that refuses the n-th write."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(path, format="json")
        self.error: Exception | None = error
        self.writes = 0

    def write(self, item: Any, texts: Sequence[SourceText], *, expected: str | None, provenance: Provenance) -> Any:
        self.writes += 1
        if self.writes == 2 and self.error is not None:
            raise self.error
        return super().write(item, texts, expected=expected, provenance=provenance)


@pytest.mark.parametrize("error", [SourceConflict("raced"), SourceUnavailable("gone"), SourceDenied("no right")])
def test_a_plan_that_broke_off_is_finished_by_carrying_it_out_again(
    lists: str, tmp_path: Path, error: Exception
) -> None:
    text = RULES + b"systemRules: [{qps: 9}]\n"
    plan = propose(lists, text).plan
    source = Failing(tmp_path / "lists", error)
    assert isinstance(source, Writable)
    outcomes = carry_out(plan, source)
    assert [outcome.state for outcome in outcomes] == ["written", "failed", "not tried"]
    assert outcomes[1].error is error
    assert [outcome.state for outcome in carry_out(plan, source)] == ["already there", "written", "written"]
    assert propose(lists, text).plan.steps == ()


def test_a_plan_for_another_store_is_refused(lists: str, document: str) -> None:
    plan = replace(propose(lists).plan, store=document)
    with pytest.raises(datasources.SourceMisconfigured, match="holds no"):
        carried_out(plan)


def test_rules_are_published_whatever_their_order(lists: str) -> None:
    two = b"flowRules:\n  - {resource: b, grade: qps, count: 5}\n  - {resource: a, grade: qps, count: 5}\n"
    carried_out(propose(lists, two).plan)
    source = datasources.open(lists)
    (item,) = source.items(["flow"])
    reading = source.read(item)
    assert isinstance(reading, Revision)
    assert [rule.resource for rule in parse_rules("flow", reading.texts[0].content)] == ["b", "a"], "as they are asked"
