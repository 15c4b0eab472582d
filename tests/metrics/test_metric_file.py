"""Files of the metric log, byte for byte: `data/java` was written by Java Sentinel 1.8.9 from the same values."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sentinel_core.metrics.metric_file import Line, MetricFiles, base_name, files, index_of, parse, read

JAVA = Path(__file__).parent / "data" / "java"
BASE = "shop-orders-metrics.log"
ZONE = ZoneInfo("Asia/Shanghai")
BEGAN = 1_796_013_337
DAY = 86_400
ALWAYS = 1 << 40
WRITTEN = [
    (BEGAN, [Line(BEGAN, "order:create", 5, 1, 5, 1, 12), Line(BEGAN, "a|b", 1, 0, 1, 0, 3)]),
    (BEGAN + 1, [Line(BEGAN + 1, "付款", 5, 1, 5, 1, 12, 2)]),
    (BEGAN + 3, [Line(BEGAN + 3, name, 5, 1, 5, 1, 12, 2) for name in ("x", "__total_inbound_traffic__")]),
    (BEGAN + 4, [Line(BEGAN + 4, name, 5, 1, 5, 1, 12, 2) for name in ("y", "__total_inbound_traffic__")]),
    (BEGAN + 5, [Line(BEGAN + 5, "z", 1, 1, 1, 1, 1, 1)]),
    (BEGAN + DAY, [Line(BEGAN + DAY, "nextday", 1, 1, 1, 1, 1, 1)]),
    (BEGAN + DAY + 1, [Line(BEGAN + DAY + 1, "nextday2", 1, 1, 1, 1, 1, 1)]),
]


def pairs(path: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qq", index_of(path).read_bytes()))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[MetricFiles]:
    writer = MetricFiles(tmp_path, BASE, max_bytes=300, zone=ZONE)
    yield writer
    writer.close()


def test_lines_files_and_rolls_are_those_of_java(writer: MetricFiles, tmp_path: Path) -> None:
    for second, lines in WRITTEN:
        writer.write(second, lines)
    assert [path.name for path in files(tmp_path, BASE)] == [path.name for path in files(JAVA, BASE)]
    for path in files(JAVA, BASE):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_indexes_are_those_of_java_but_at_the_turn_of_a_day(writer: MetricFiles, tmp_path: Path) -> None:
    for second, lines in WRITTEN:
        writer.write(second, lines)
    first, second_file, next_day = files(JAVA, BASE)
    ours = [pairs(tmp_path / path.name) for path in (first, second_file, next_day)]
    assert ours[0] == pairs(first)
    assert ours[1] == pairs(second_file)[:-1], "Java puts the new day's first second here"
    assert ours[2] == [(BEGAN + DAY, 0), *pairs(next_day)]


@pytest.mark.parametrize("folder", ["java", "ours"])
def test_the_reader_finds_every_second_in_both(writer: MetricFiles, tmp_path: Path, folder: str) -> None:
    for second, lines in WRITTEN:
        writer.write(second, lines)
    found = list(read(JAVA if folder == "java" else tmp_path, BASE, BEGAN, BEGAN + 2 * DAY))
    expected = [line for _, lines in WRITTEN for line in lines]
    expected[1] = expected[1]._replace(resource="a_b")
    if folder == "java":
        expected.remove(WRITTEN[5][1][0])
    assert found == expected


def test_the_reader_begins_and_ends_where_it_is_told(writer: MetricFiles, tmp_path: Path) -> None:
    for second, lines in WRITTEN:
        writer.write(second, lines)
    assert {line.second for line in read(tmp_path, BASE, BEGAN + 2, BEGAN + 4)} == {BEGAN + 3, BEGAN + 4}


def test_a_day_begins_at_local_midnight(tmp_path: Path) -> None:
    midnight = 1_796_054_400  # 2026-12-01 00:00:00 in Shanghai, still November in Greenwich
    writer = MetricFiles(tmp_path, BASE, zone=ZONE)
    for second in (midnight - 1, midnight):
        writer.write(second, [Line(second, "r", 1, 0, 1, 0, 1)])
    writer.close()
    assert [path.name.removeprefix(BASE) for path in files(tmp_path, BASE)] == [".2026-11-30", ".2026-12-01"]
    assert (tmp_path / f"{BASE}.2026-12-01").read_text() == f"{midnight}000|2026-12-01 00:00:00|r|1|0|1|0|1|0|0|0\n"


def test_a_restart_leaves_what_is_there_and_goes_on_in_the_next_file(tmp_path: Path) -> None:
    for run in range(12):
        writer = MetricFiles(tmp_path, BASE, zone=ZONE, keep=20)
        writer.write(BEGAN + run, [Line(BEGAN + run, f"r{run}", 1, 0, 1, 0, 1)])
        writer.close()
    names = [path.name.removeprefix(f"{BASE}.2026-11-30") for path in files(tmp_path, BASE)]
    assert names == ["", *(f".{number}" for number in range(1, 12))]
    assert [line.resource for line in read(tmp_path, BASE, 0, ALWAYS)] == [f"r{run}" for run in range(12)]


def test_the_oldest_files_go_with_their_indexes(tmp_path: Path) -> None:
    writer = MetricFiles(tmp_path, BASE, max_bytes=1, keep=3, zone=ZONE)
    for second in range(BEGAN, BEGAN + 8):
        writer.write(second, [Line(second, "r", 1, 0, 1, 0, 1)])
    writer.close()
    assert [line.second - BEGAN for line in read(tmp_path, BASE, 0, ALWAYS)] == [5, 6, 7]
    assert len(list(tmp_path.iterdir())) == 6


def test_files_that_somebody_removed_are_made_again(writer: MetricFiles, tmp_path: Path) -> None:
    writer.write(BEGAN, [Line(BEGAN, "gone", 1, 0, 1, 0, 1)])
    for path in tmp_path.iterdir():
        path.unlink()
    writer.write(BEGAN + 1, [Line(BEGAN + 1, "here", 1, 0, 1, 0, 1)])
    assert [line.resource for line in read(tmp_path, BASE, 0, ALWAYS)] == ["here"]


def test_processes_never_share_a_file(tmp_path: Path) -> None:
    writers = [MetricFiles(tmp_path, BASE, zone=ZONE) for _ in range(3)]
    for number, writer in enumerate(writers):
        writer.write(BEGAN, [Line(BEGAN, f"r{number}", 1, 0, 1, 0, 1)])
    assert len(files(tmp_path, BASE)) == 3
    for writer in writers:
        writer.close()


def test_names_of_files() -> None:
    assert base_name("shop.orders") == BASE
    assert base_name("a/../b", 17) == "a----b-metrics.log.pid17"


@contextmanager
def full_disk(free: int) -> Iterator[None]:
    """No file can grow beyond `free` bytes: writes end in the middle, then fail, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("free", [105, 150, 156, 207])
def test_a_full_disk_leaves_no_half_line_and_nothing_is_lost(writer: MetricFiles, tmp_path: Path, free: int) -> None:
    lines = [Line(BEGAN, "r", 1, 0, 0, 0, 0), Line(BEGAN, "s", 1, 0, 0, 0, 0)]
    writer.write(BEGAN, lines)
    (path,) = files(tmp_path, BASE)
    whole = path.stat().st_size
    assert whole < free < 2 * whole
    with full_disk(free), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        writer.write(BEGAN + 1, lines)
    assert path.stat().st_size == whole
    writer.write(BEGAN + 1, lines)
    assert [line.resource for line in read(tmp_path, BASE, 0, ALWAYS)] == ["r", "s"] * 2
    assert pairs(path) == [(BEGAN, 0), (BEGAN + 1, whole)]


def test_what_was_torn_by_a_crash_is_skipped(writer: MetricFiles, tmp_path: Path) -> None:
    writer.write(BEGAN, [Line(BEGAN, "whole", 1, 0, 1, 0, 1)])
    (path,) = files(tmp_path, BASE)
    with path.open("ab") as file:
        file.write(b"1796013338000|2026-11-30 12:3")
    with index_of(path).open("ab") as file:
        file.write(b"\0\0\0")
    assert [line.resource for line in read(tmp_path, BASE, 0, ALWAYS)] == ["whole"]


@pytest.mark.parametrize("fields", [8, 9, 10, 11])
def test_older_lines_have_fewer_fields(fields: int) -> None:
    counts = ["5", "1", "4", "2", "12", "3", "7", "1"][: fields - 3]
    text = "|".join(["1796013337000", "2026-11-30 12:35:37", "r", *counts]) + "\n"
    line = parse(text)
    assert line == Line(BEGAN, "r", 5, 1, 4, 2, 12, *(3, 7, 1)[: fields - 8])
