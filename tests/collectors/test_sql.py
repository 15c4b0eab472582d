"""A number from a query, through the one driver that is always there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import Engine
from sentinel_core.collectors import CollectorError, SourceLost
from sentinel_core.collectors.contract import MAX_VALUES
from sentinel_core.collectors.sql import SqlCollector
from tests.services.server import wait_until


@pytest.fixture
def connect(tmp_path: Path) -> Callable[[], sqlite3.Connection]:
    def made() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "shop.db", timeout=1)

    connection = made()
    with connection:
        connection.execute("create table stock (api text, sku text, depth int)")
        connection.executemany("insert into stock values (?, ?, ?)", [("deduct", "a", 7), ("deduct", "b", 3)])
    connection.close()
    return made


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select sum(depth) from stock", {"r": 10}),
        ("select depth from stock where sku = 'z'", {}),
        ("select null", {"r": None}),
        ("select api, sum(depth) from stock group by api", {"deduct": 10}),
        ("select api, sku, depth from stock", {("deduct", "a"): 7, ("deduct", "b"): 3}),
    ],
)
def test_rows_become_values(connect: Any, query: str, values: dict[Any, Any]) -> None:
    assert SqlCollector("STOCK_DEPTH", connect, query, resource="r").collect() == values


def test_parameters_are_bound(connect: Any) -> None:
    query = "select depth from stock where sku = ?"
    assert SqlCollector("STOCK_DEPTH", connect, query, ["b"]).collect() == {"": 3}


@pytest.mark.parametrize("query", ["select depth from stock", "select 1, 2, 3, 4"])
def test_rows_of_another_shape_are_refused(connect: Any, query: str) -> None:
    with pytest.raises(CollectorError, match="select one value"):
        SqlCollector("STOCK_DEPTH", connect, query).collect()


def test_not_more_rows_are_fetched_than_can_be_values(connect: Any, engine: Engine) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n) select i, i from n"
    engine.collectors.register(SqlCollector("STOCK_DEPTH", connect, numbers), thread=False)
    engine.collectors.refresh()
    assert f"{MAX_VALUES + 1} values" in engine.collectors.status()[0]["lastError"]


def test_nothing_is_committed(connect: Any) -> None:
    with pytest.raises(CollectorError):
        SqlCollector("STOCK_DEPTH", connect, "delete from stock").collect()
    assert SqlCollector("STOCK_DEPTH", connect, "select count(*) from stock").collect() == {"": 2}


def test_failures_of_connection_and_query_are_told_apart(connect: Any) -> None:
    def nobody() -> Any:
        raise sqlite3.OperationalError("unable to open")

    with pytest.raises(SourceLost, match="unable to open"):
        SqlCollector("STOCK_DEPTH", nobody, "select 1").collect()
    with pytest.raises(CollectorError, match="no such table"):
        SqlCollector("STOCK_DEPTH", connect, "select 1 from nowhere").collect()


def test_any_reader_thread_may_read_it(connect: Any) -> None:
    """sqlite3 refuses a connection of another thread: each read has its own."""
    with Engine(app="test") as engine:
        for number in range(3):
            engine.collectors.register(SqlCollector(f"M{number}", connect, "select 1", every_s=0.01))
        assert wait_until(lambda: all(each["reads"] > 5 for each in engine.collectors.status()))
        assert engine.collectors.failures == 0
