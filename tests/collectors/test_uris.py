"""Collectors from one line of text."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis

from sentinel_core import collectors
from sentinel_core.collectors.uris import SCHEMES
from tests.services.redis import Redis


@pytest.mark.service("redis")
def test_a_redis_uri_is_read(redis_server: Redis) -> None:
    with redis.Redis.from_url(redis_server.url) as store:
        store.set("stock:sku1", 7)
    made: Any = collectors.open(
        "STOCK_DEPTH",
        f"{redis_server.url}?key=stock:sku1&resource=stock:deduct&dimension=sku1&every=250ms&timeout=2s&client_name=x",
    )
    assert made.collect() == {("stock:deduct", "sku1"): b"7"}
    assert (made.metric, made.every_s, made.timeout_s) == ("STOCK_DEPTH", 0.25, 2.0)
    made.close()


@pytest.mark.parametrize("form", sorted({scheme.form for scheme in SCHEMES.values()}))
def test_every_example_makes_a_collector_and_connects_to_nobody(form: str) -> None:
    made: Any = collectors.open("STOCK_DEPTH", f"{form}&resource=r&every=5s")
    assert (made.metric, made.every_s) == ("STOCK_DEPTH", 5.0)


def test_parameters_of_others_stay_in_the_address() -> None:
    made: Any = collectors.open("STOCK_DEPTH", "json+https://host/stock?sku=1&path=$.depth&shop=a%20b")
    assert made._address.url == "https://host/stock?sku=1&shop=a+b"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("redi://host?key=a", "did you mean redis?"),
        ("mysql://host", "no collector reads such a URI"),
        ("redis", "no collector reads such a URI"),
        ("redis://[", "IPv6"),
        ("redis://host", "keys is empty"),
        ("redis://host?key=a&key=b", "key is given twice"),
        ("redis://host?key=a&every=soon", "write for example 5s"),
        ("redis://host?key=a&every=0s", "write for example 5s"),
        ("redis://host?key=a&field=f&group=g", "exclude each other"),
        ("kafka://host:9092/group?topic=a", "Known here: every, resource, timeout, topics"),
        ("kafka://host:9092", "are needed"),
        ("prometheus+http://host", "query is empty"),
        ("json+http://host?path=$..a", "write names and indexes"),
    ],
)
def test_what_cannot_be_meant_is_refused(uri: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        collectors.open("STOCK_DEPTH", uri)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="key is given twice") as refused:
        collectors.open("STOCK_DEPTH", "redis://app:hunter2@host?key=a&key=b")
    assert "hunter2" not in str(refused.value)
