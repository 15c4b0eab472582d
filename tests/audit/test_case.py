"""Letter case and patterns, alike in every store and in no time."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.event import parse_event
from sentinel_core.audit.store._case import lower, pattern
from sentinel_core.audit.store.contract import AuditStore, Condition, Query
from tests.audit.test_each import document


@pytest.mark.parametrize("asked", ["Öncü", "öncü", "ÖNCÜ", "ncü <O@", "Überlast", "ÜBER", "ß", "张"])
def test_letters_of_any_case_are_found_in_every_store(store: AuditStore, asked: str) -> None:
    store.ingest([parse_event(json.dumps(document(author="Öncü <o@x> 张", reason="Überlast ß")))])
    column = "reason" if asked.lower().startswith(("ü", "ß")) else "author"
    assert len(store.query(Query((Condition(column, "contains", (asked,)),))).rows) == 1
    assert not store.query(Query((Condition(column, "contains", (asked,), negated=True),))).rows


@pytest.mark.parametrize(("letter", "small"), [("Ö", "ö"), ("İ", "İ"), ("\u212a", "\u212a"), ("K", "k"), ("ß", "ß")])
def test_nothing_grows_and_nothing_becomes_ascii(letter: str, small: str) -> None:
    assert lower(letter) == small


@given(st.text("ab*", max_size=12), st.text("ab", max_size=12))
def test_a_pattern_is_what_it_would_be_as_an_expression(text: str, value: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, text.split("*"))), value) is not None
    assert pattern(text)(value) == expected


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    begun = time.process_time()
    assert not pattern("*a" * 200 + "b")("a" * 10_000)
    assert time.process_time() - begun < 1


def test_a_pattern_of_many_stars_takes_no_time_in_any_store(store: AuditStore) -> None:
    change = {"action": "change", "resource": "a" * 60, "rule": "r", "field": "count", "old": 1, "new": 2}
    store.ingest([parse_event(json.dumps(document(changes=[change])))])
    for negated in (True, False):
        condition = Condition("resource", "like", ("*a" * 20 + "b",), negated=negated)
        assert len(store.query(Query((condition,))).rows) == negated
