"""`audit export`: every form reads back as what the store holds, and no half of a file is left."""

from __future__ import annotations

import csv
import io
import json
import secrets
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.events import Event, parse_event
from sentinel_core.audit.export import paging
from sentinel_core.audit.export.lines import _line, _text, ndjson
from sentinel_core.audit.export.paging import COLUMNS
from sentinel_core.audit.store.contract import Page, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from tests.cli.conftest import Run
from tests.cli.test_process import on_terminal

AT = datetime(2026, 11, 25, 6, 30, 0, 123000, tzinfo=UTC)


def event(number: int, *changes: tuple[str, Any, Any], resource: str = "payment_invoke", **data: Any) -> Event:
    content = {
        "environment": "prod",
        "author": "chen",
        "kind": "flow",
        "changes": [
            {"action": "change", "resource": resource, "rule": "flow/x", "field": field, "old": old, "new": new}
            for field, old, new in changes
        ],
        **data,
    }
    at = AT - timedelta(seconds=number)  # late ones arrive after newer ones
    return Event(
        f"{number:08}-event", "/prod/x/flow", "sentinel.rules.changed.v1", "flow", at, json.dumps(content).encode()
    )


EVENTS = [
    event(0, ("count", 20, 25)),
    event(1, ("count", 25, 0.5), ("controlBehavior", 0, 2), resource="订单"),
    event(2),
    event(3, ("limitApp", "default", 'a,"b"\r\nc'), author="=HYPERLINK(1)", message="two\nlines", late=True),
    event(4, ("count", None, -5), resource="@sum", reason=""),
]


@pytest.fixture
def store(here: Path) -> SqliteStore:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    made = SqliteStore(here / "audit.db")
    made.ingest(EVENTS)
    made.close()
    return made


def test_ndjson_is_each_event_whole_in_the_order_of_arrival(store: SqliteStore, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "export")
    assert (ended.code, ended.err) == (0, "5 events written.\n")
    read = [parse_event(line) for line in ended.out.splitlines()]
    assert [each.id for each in read] == [each.id for each in EVENTS]
    assert [each.payload for each in read] == [each.payload for each in EVENTS]


def test_what_was_exported_can_be_taken_again(store: SqliteStore, sentinelctl: Run, tmp_path: Path) -> None:
    lines = sentinelctl("audit", "export").out.splitlines()
    other = SqliteStore(tmp_path / "other.db")
    assert other.ingest([parse_event(line) for line in lines]).new == len(EVENTS)
    assert store.ingest([parse_event(line) for line in lines]).duplicate == len(EVENTS)
    assert [head.hash for head in other.heads()] == [head.hash for head in store.heads()]


def test_a_file_is_taken_into_another_store(store: SqliteStore, sentinelctl: Run, here: Path) -> None:
    sentinelctl("audit", "export", "-o", "all.ndjson")
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///other.db'}\n")
    for told in ("5 stored, 0 were there already", "0 stored, 5 were there already"):
        ended = sentinelctl("audit", "ingest", "--file", "all.ndjson")
        assert (ended.code, ended.err) == (0, f"{told}, 0 lines refused.\n")
    assert [head.hash for head in SqliteStore(here / "other.db").heads()] == [head.hash for head in store.heads()]


def test_lines_that_are_no_events_are_told_and_the_others_are_stored(
    store: SqliteStore, sentinelctl: Run, here: Path
) -> None:
    lines = sentinelctl("audit", "export").out.splitlines()
    damaged = lines[1].replace('"changes":[', '"changes":[7,')
    (here / "some.ndjson").write_text("\n".join([lines[0], "{}", damaged, "", *lines[2:4]]))
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///other.db'}\n")
    ended = sentinelctl("audit", "ingest", "--file", "some.ndjson")
    assert ended.code == 2
    assert [line.partition(" ")[0] for line in ended.err.splitlines()] == ["some.ndjson:2:", "some.ndjson:3:", "3"]
    assert ended.err.endswith("3 stored, 0 were there already, 2 lines refused.\n")
    assert sentinelctl("audit", "ingest", "--file", "missing.ndjson").code == 2


def test_a_line_that_is_refused_leaves_one_of_the_same_id_alone(here: Path, sentinelctl: Run) -> None:
    whole = json.loads(event(1, ("count", 1, 2)).to_json())
    poison = whole | {"source": "/mallory", "data": {"changes": [1]}}
    Path("some.ndjson").write_text(f"{json.dumps(whole)}\n{json.dumps(poison)}\n")
    ended = sentinelctl("audit", "ingest", "--file", "some.ndjson")
    assert (ended.code, ended.err.count("some.ndjson:2: event")) == (2, 1)
    assert "1 stored, 0 were there already, 1 line refused." in ended.err


def test_file_and_until_idle_exclude_one_another(here: Path, sentinelctl: Run) -> None:
    Path("some.ndjson").write_text("")
    assert sentinelctl("audit", "ingest", "--file", "some.ndjson", "--until-idle").code == 64


def test_a_pipe_from_store_to_store_works(store: SqliteStore, process: Run, here: Path) -> None:
    ended = process(
        script="$SENTINELCTL audit export | SENTINEL_AUDIT__STORE=sqlite:///other.db $SENTINELCTL audit ingest --file -"
    )
    assert (ended.code, ended.err) == (0, "5 events written.\n5 stored, 0 were there already, 0 lines refused.\n")
    assert SqliteStore(here / "other.db").count() == 5


def test_csv_has_a_row_a_change(store: SqliteStore, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "export", "--format", "csv", "-o", "all.csv")
    assert (ended.code, ended.out, ended.err) == (0, "", "6 changes written to all.csv.\n")
    content = Path("all.csv").read_bytes().decode()
    assert content.endswith("\n")
    assert "\r" not in content.replace("\\r", "").replace("b\r\nc", "")
    rows = list(csv.DictReader(content.splitlines(keepends=True)))
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["id"][:8], row["field"], row["old"], row["new"]) for row in rows] == [
        ("00000000", "count", "20", "25"),
        ("00000001", "count", "25", "0.5"),
        ("00000001", "controlBehavior", "0", "2"),
        ("00000002", "", "", ""),
        ("00000003", "limitApp", '"default"', json.dumps('a,"b"\r\nc')),
        ("00000004", "count", "", "-5"),
    ]
    assert rows[0]["time"] == "2026-11-25T06:30:00.123Z"
    assert (rows[4]["late"], rows[0]["late"], rows[4]["message"]) == ("true", "false", "two\nlines")
    assert Path("all.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "＝1"])
def test_no_text_is_a_formula_for_a_spreadsheet(here: Path, sentinelctl: Run, text: str) -> None:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    SqliteStore(here / "audit.db").ingest([event(1, ("count", 1, 2), resource=text, author=text)])
    sentinelctl("audit", "export", "-o", "x.csv")
    with Path("x.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["resource"], row["author"], row["new"]) == (f"'{text}", f"'{text}", "2")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_half_a_surrogate_pair_stays_an_escape(here: Path, sentinelctl: Run, form: str) -> None:
    (here / "sentinel.yaml").write_text("audit: {store: 'sqlite:///audit.db'}\n")
    SqliteStore(here / "audit.db").ingest([event(1, ("limitApp", "订单\ud800", {"\udfff": "é"}))])
    ended = sentinelctl("audit", "export", "-o", f"x.{form}")
    assert ended.code == 0, ended.err
    with duckdb.connect() as database:
        found = database.execute(f"SELECT old, new FROM 'x.{form}'").fetchall()  # noqa: S608  our own file
    assert found == [('"订单\\ud800"', '{"\\udfff": "é"}')]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_text_reads_back_from_csv_but_for_the_apostrophe(texts: list[str]) -> None:
    line = _line(map(_text, ["x", *texts, "x"])).decode()
    ((_, *read, _),) = csv.reader(io.StringIO(line, newline=""))
    assert [
        cell.removeprefix("'") if not text.startswith("'") else cell for cell, text in zip(read, texts, strict=True)
    ] == texts
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in read)


def test_parquet_has_types_and_duckdb_reads_it(store: SqliteStore, sentinelctl: Run) -> None:
    assert sentinelctl("audit", "export", "-o", "all.parquet").code == 0
    with duckdb.connect() as database:
        database.execute("SET timezone = 'UTC'")
        types = dict(
            database.execute("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM 'all.parquet')").fetchall()
        )
        assert list(types) == list(COLUMNS)
        assert (types["time"], types["late"], types["new"]) == ("TIMESTAMP WITH TIME ZONE", "BOOLEAN", "VARCHAR")
        found = database.execute(
            "SELECT id[:8], epoch_ms(time), author, new::JSON::DOUBLE FROM 'all.parquet' "
            "WHERE field = 'count' ORDER BY time DESC"
        ).fetchall()
    at = int(AT.timestamp() * 1000)
    assert found == [
        ("00000000", at, "chen", 25.0),
        ("00000001", at - 1000, "chen", 0.5),
        ("00000004", at - 4000, "chen", -5.0),
    ]


@pytest.mark.parametrize("form", ["csv", "parquet", "ndjson"])
def test_nothing_that_matches_is_a_file_without_rows(store: SqliteStore, sentinelctl: Run, form: str) -> None:
    assert sentinelctl("audit", "export", "no_such", "-o", f"none.{form}").code == 0
    content = Path(f"none.{form}").read_bytes()
    if form == "parquet":
        with duckdb.connect() as database:
            assert database.execute("SELECT count(*) FROM 'none.parquet'").fetchall() == [(0,)]
    else:
        assert content == {"csv": (",".join(COLUMNS) + "\n").encode(), "ndjson": b""}[form]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_terminal_is_shown_escapes_and_programs_get_what_is_there(
    store: SqliteStore, sentinelctl: Run, here: Path, form: str
) -> None:
    hostile = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b2J", "\u202eevil", "back\x08\r"]
    store.ingest([event(9 + number, ("count", 1, 2), resource=name) for number, name in enumerate(hostile)])
    code, shown = on_terminal("audit", "export", "--format", form, cwd=here)
    assert (code, shown.count("-event")) == (0, sentinelctl("audit", "export", "--format", form).out.count("-event"))
    assert not set(shown.replace("\r\n", "\n")) & set("\x1b\x07\x08\x9b\u202e\r")
    assert "\\x9b2J" in shown
    if form == "csv":
        read = csv.DictReader(io.StringIO(sentinelctl("audit", "export", "--format", form).out, newline=""))
        assert set(hostile) <= {row["resource"] for row in read}


def test_terms_and_times_narrow_as_in_query(store: SqliteStore, sentinelctl: Run) -> None:
    ended = sentinelctl("audit", "export", "field:count", "count>1", "--format", "csv")
    assert [row["new"] for row in csv.DictReader(ended.out.splitlines())] == ["25"]
    ended = sentinelctl(
        "audit", "export", "--between", "2026-11-25T06:29:58Z", "2026-11-25T06:29:59.5Z", "--zone", "UTC"
    )
    assert [parse_event(line).id[:8] for line in ended.out.splitlines()] == ["00000001", "00000002"]
    assert "06:29:58" in ended.err
    assert sentinelctl("audit", "export", "what:x").code == 64


def test_pages_join_without_a_gap_or_a_repeat(
    store: SqliteStore, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [sentinelctl("audit", "export", "--format", form).out for form in ("ndjson", "csv")]
    for size in (1, 2, 3):
        monkeypatch.setattr(paging, "PAGE", size)
        monkeypatch.setattr(paging, "AT_ONCE", size)
        assert [sentinelctl("audit", "export", "--format", form).out for form in ("ndjson", "csv")] == whole


def test_a_dash_is_stdout_and_a_form_is_no_file(store: SqliteStore, sentinelctl: Run, here: Path) -> None:
    assert sentinelctl("audit", "export", "-o", "-").out == sentinelctl("audit", "export").out
    for form in ("json", "ndjson", "csv"):
        ended = sentinelctl("audit", "export", "-o", form)
        assert (ended.code, (here / form).exists()) == (64, False)
        assert "--format" in ended.err


def test_a_disk_that_is_full_leaves_what_stood_there(store: SqliteStore, sentinelctl: Run, here: Path) -> None:
    (here / "all.csv").write_text("old")
    (here / "folder").mkdir()
    ended = sentinelctl("audit", "export", "-o", "missing/all.csv")
    assert ended.code == 2
    assert "missing/all.csv" in ended.err
    assert sentinelctl("audit", "export", "--format", "csv", "-o", "/dev/full").code == 2
    assert (here / "all.csv").read_text() == "old"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_export_that_fails_on_the_way_leaves_nothing(
    store: SqliteStore, sentinelctl: Run, here: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 1)
    arrived, asked = SqliteStore.arrived, iter(range(3))

    def locked(self: SqliteStore, of: Query) -> Page:
        if next(asked) == 2:
            raise StoreUnavailable("locked")
        return arrived(self, of)

    monkeypatch.setattr(SqliteStore, "arrived", locked)
    assert sentinelctl("audit", "export", "-o", f"all.{form}").code == 69
    assert list(here.glob("*all*")) == []


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_an_interrupt_leaves_what_stood_there(
    store: SqliteStore, sentinelctl: Run, here: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)
    arrived, asked = SqliteStore.arrived, iter(range(3))

    def interrupted(self: SqliteStore, of: Query) -> Page:
        if next(asked) == 2:
            raise KeyboardInterrupt
        return arrived(self, of)

    monkeypatch.setattr(SqliteStore, "arrived", interrupted)
    (here / f"all.{form}").write_text("old")
    assert sentinelctl("audit", "export", "-o", f"all.{form}").code == 130
    assert [path.read_text() for path in here.glob("*all*")] == ["old"]


def test_pages_are_read_as_they_are_written(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)
    arrived, asked = SqliteStore.arrived, list[str | None]()

    def counted(self: SqliteStore, of: Query) -> Page:
        asked.append(of.after)
        return arrived(self, of)

    monkeypatch.setattr(SqliteStore, "arrived", counted)
    lines = ndjson(store, Query(), paging.Tally())
    next(lines)
    assert len(asked) == 1
    assert len(list(lines)) == 4
    assert len(asked) > 1


def test_without_pyarrow_it_says_what_to_install(
    store: SqliteStore, sentinelctl: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = sentinelctl("audit", "export", "-o", "all.parquet")
    assert ended.code == 2
    assert "pip install 'sentinel-control-plane[parquet]'" in ended.err
    assert not list(here.glob("*all.parquet*"))


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_a_reader_that_leaves_is_no_error(store: SqliteStore, process: Run, form: str) -> None:
    # Beyond what a pipe takes before anybody reads, packed too: else all was written when the reader leaves.
    store.ingest([event(number, ("count", 1, 2), reason=secrets.token_hex(200)) for number in range(10, 1010)])
    ended = process(script=f"$SENTINELCTL audit export --format {form} | head -c 5 >/dev/null; echo ${{PIPESTATUS[0]}}")
    assert (ended.out.strip(), ended.err) == ("0", "")


def test_an_export_that_is_killed_leaves_no_file_that_looks_whole(store: SqliteStore, here: Path) -> None:
    pipe = subprocess.Popen(
        [sys.executable, "-c", _HALF, str(here / "all.csv")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    assert pipe.stdout.readline() == b"half\n"
    pipe.send_signal(signal.SIGKILL)
    pipe.wait(10)
    pipe.stdout.close()
    pipe.stderr.close()
    assert not (here / "all.csv").exists()


_HALF = """
import sys, time
from pathlib import Path
from sentinel_core.audit.files import written_whole
with written_whole(Path(sys.argv[1])) as file:
    file.write(b"half"); file.flush(); print("half", flush=True); time.sleep(60)
"""


def test_canonical_data_is_what_is_written(store: SqliteStore, sentinelctl: Run) -> None:
    for line, told in zip(sentinelctl("audit", "export").out.splitlines(), EVENTS, strict=True):
        assert rfc8785.dumps(told.payload).decode() in line
