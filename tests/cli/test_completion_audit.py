"""Completion of what the audit store was told: events, and the terms that find them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sentinel_core.audit.events import Event
from sentinel_core.audit.outbox import Outbox
from sentinel_core.audit.query.grammar import QUALIFIERS, TIMES, parse_query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.cli.main import run
from tests.cli.conftest import Complete

NEWEST = "0badcafe-0000-4000-8000-000000000001"
DIGEST = "d1" * 32
COMMIT = "c0ffee" * 6 + "beef"


@pytest.fixture
def told(months: Path) -> Path:
    """Six changes of pay by chen, and a newer one of an order by li."""
    change = {"action": "change", "resource": "order", "rule": "flow/order", "field": "count", "old": 1, "new": 2}
    data = {
        "environment": "staging", "author": "li <li@example.org>", "kind": "flow", "changes": [change], "app": "shop",
        "instance": "shop-1", "channel": "git", "commitHash": COMMIT, "revision": COMMIT, "reason": "sale, at noon",
        "message": "Raise it", "planId": "p-0123456789ab", "newDigest": DIGEST,
    }  # fmt: skip
    store = SqliteStore(months / "audit.db")
    at = datetime(2026, 9, 2, tzinfo=UTC)
    source = "/staging/x/flow"
    store.ingest([Event(NEWEST, source, "sentinel.rules.changed.v1", "flow", at, json.dumps(data).encode())])
    store.close()
    return months


def test_events_are_offered_in_short_and_the_newest_first(told: Path, complete: Complete) -> None:
    offered = complete("audit show ")
    assert list(offered) == [NEWEST[:8], *(f"{number:08}" for number in range(5, -1, -1))]
    assert offered[NEWEST[:8]].startswith("li (git c0ffeec0ffee), ")
    assert offered[NEWEST[:8]].endswith(" ago: order count 1 → 2")
    assert list(complete("audit hash secret --event 0ba")) == [NEWEST[:8]]


def test_an_id_of_which_more_is_written_than_its_beginning_goes_on(told: Path, complete: Complete) -> None:
    assert list(complete(f"audit show {NEWEST[:12]}")) == [NEWEST]


def test_ids_that_begin_alike_are_offered_whole(told: Path, complete: Complete) -> None:
    store = SqliteStore(told / "audit.db")
    at = datetime(2026, 9, 3, tzinfo=UTC)
    store.ingest([Event(f"{NEWEST[:8]}-other", "/x", "sentinel.rules.changed.v1", "flow", at, b'{"changes": []}')])
    store.close()
    assert list(complete("audit show 0bad")) == [f"{NEWEST[:8]}-other", NEWEST]


def test_of_many_the_newest_are_offered_and_older_ones_as_they_are_begun(months: Path, complete: Complete) -> None:
    store = SqliteStore(months / "audit.db")
    store.ingest(
        [
            Event(f"{99 - number:08}-more", "/x", "sentinel.rules.changed.v1", "flow", at, b'{"changes": []}')
            for number in range(90)
            for at in [datetime(2026, 9, 3, tzinfo=UTC) + timedelta(hours=number)]
        ]
    )
    store.close()
    assert list(complete("audit show ")) == [f"{number:08}" for number in range(10, 60)]
    assert list(complete("audit show 00000099")) == ["00000099"]


def test_the_source_is_that_of_the_event(told: Path, complete: Complete) -> None:
    assert list(complete(f"audit show {NEWEST[:8]} --source ")) == ["/staging/x/flow"]


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ("resource:", ["resource:order", "resource:pay"]),
        ("resource:or", ["resource:order"]),
        ("rule:", ["rule:flow/order", "rule:flow/pay"]),
        ("author:", ["author:li", "author:chen"]),
        ("author:c", ["author:chen"]),
        ("author:li,", ["author:li,li", "author:li,chen"]),
        ("env:", ["env:prod", "env:staging"]),
        ("app:", ["app:shop"]),
        ("instance:", ["instance:shop-1"]),
        ("channel:", ["channel:git"]),
        ("commit:", [f"commit:{COMMIT[:12]}"]),
        ("revision:c", [f"revision:{COMMIT}"]),
        ("plan:", ["plan:p-0123456789ab"]),
        ("digest:", [f"digest:{DIGEST[:12]}"]),
        ("message:", ["message:Raise it"]),
        ("reason:", []),
        ("source:/st", ["source:/staging/x/flow"]),
        ("action:mo", ["action:moved"]),
        ("type:app", ["type:applied"]),
        ("kind:param", ["kind:param_flow"]),
        ("field:cou", ["field:count"]),
        ("since:yes", ["since:yesterday"]),
        ("in:la", ["in:last week"]),
        ("bogus:", []),
    ],
)
def test_each_term_has_its_values(told: Path, complete: Complete, term: str, values: list[str]) -> None:
    """A text with a comma would be two values, and is not offered."""
    offered = list(complete(f"audit query {term}"))
    name = term.partition(":")[0]
    assert [each for each in offered if each in values] == values
    assert name in TIMES or len(offered) == len(values)
    for each in offered:
        parse_query(each.replace(":", ':"', 1) + '"', now=datetime.now(UTC), zone=UTC)


def test_every_qualifier_is_offered_and_the_resources_too(told: Path, complete: Complete) -> None:
    assert list(complete("audit tail ")) == [*(f"{name}:" for name in (*QUALIFIERS, *TIMES)), "order", "pay"]


def test_the_terms_before_it_count(told: Path, complete: Complete) -> None:
    assert list(complete("audit query author:chen resource:")) == ["resource:pay"]
    assert list(complete("audit export env:staging author:")) == ["author:li"]
    assert list(complete("audit query --between 2026-09-02 2026-09-03 author:")) == ["author:li"]
    assert list(complete("audit query nonsense: author:")) == ["author:li", "author:chen"]


def test_who_is_asked_about_what_was_changed(told: Path, complete: Complete) -> None:
    offered = complete("audit who ")
    assert list(offered) == ["order", "pay"]
    assert offered["order"].startswith("li (git c0ffeec0ffee), ")
    assert list(complete("audit who --env prod ")) == ["pay"]
    assert list(complete("audit who pay --env ")) == ["prod", "staging"]
    assert list(complete("audit who pay --kind auth")) == ["authority"]
    assert complete("audit who pay --kind flow --field co")["count"] == ""


def test_nothing_is_written_for_an_answer(told: Path, complete: Complete) -> None:
    """Not into the outbox either, which is looked into where a past is put together."""
    outbox = Outbox(told / ".sentinel" / "outbox.db")
    outbox.append([Event("1", "/x", "sentinel.rules.changed.v1", "flow", datetime(2026, 9, 2, tzinfo=UTC), b"{}")])
    outbox.close()
    with (told / "sentinel.yaml").open("a") as file:
        file.write(f"stores: ['file://{told}/rules.yaml']\n")
    (told / "rules.yaml").write_text("flowRules:\n  - {resource: pay, grade: qps, count: 1}\n")
    lines = ("audit show ", "audit query author:", "audit who ", "rules rollback --to ", "rules rollback --to-commit ")
    before = files(told)
    assert [line for line in lines if complete(line)]
    assert files(told) == before


def files(folder: Path) -> dict[Path, bytes]:
    """But for what SQLite shares among those who read."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
    return {path: path.read_bytes() for path in found}


def test_without_an_audit_store_nothing_is_said(here: Path, complete: Complete) -> None:
    for line in ("audit show ", "audit query author:", "audit who ", "audit show x --source "):
        assert complete(line) == {}
    assert list(here.iterdir()) == []


def test_what_is_offered_is_taken(told: Path, complete: Complete) -> None:
    for id_ in complete("audit show "):
        assert run(["audit", "show", id_]) == 0
    for term in complete("audit query commit:"):
        assert run(["audit", "query", term]) == 0
