"""What somebody wrote beside a content: it tells who and why, and never keeps rules from being read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sentinel_core.datasources.provenance import decode, encode
from sentinel_core.rules import Provenance


def told(**document: Any) -> Provenance:
    found = decode(json.dumps(document).encode())
    assert found is not None
    return found[0]


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"5", b"\xff", b"{", b"[" * 100_000, b'{"a": ' + b"9" * 5000])
def test_what_is_none_is_passed_over(content: bytes) -> None:
    assert decode(content) is None


@pytest.mark.parametrize(
    "moment",
    [
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "10000-01-01T00:00:00Z",
        "yesterday",
        10**400,
        float("nan"),
        {},
    ],
)
def test_a_time_that_is_none_is_unknown(moment: Any) -> None:
    assert told(author="ada", publishedAt=moment) == Provenance(author="ada")


def test_the_last_time_that_there_is_is_taken() -> None:
    moment = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert told(committedAt=moment.isoformat()).committed_at == moment


@pytest.mark.parametrize("author", [5, [], {}, None, True, ""])
def test_an_author_of_another_shape_is_unknown(author: Any) -> None:
    assert told(author=author) == Provenance()


def test_a_text_that_never_ends_is_cut_short() -> None:
    author = told(author="x" * 10_000_000).author
    assert author is not None
    assert len(author) < 20_000


def test_half_a_surrogate_pair_comes_back_as_it_was() -> None:
    odd = Provenance(author="Ada \udcff", reason="为什么")
    assert decode(encode(odd, "d")) == (odd, "d")
    assert "为什么".encode() in encode(odd, "d"), "what people can read stays readable"
