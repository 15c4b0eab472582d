"""Replacing a file: whole or not at all, and what writers that were killed have left is removed by the next."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sentinel_core.datasources.atomic import replace_file, temporary_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from sentinel_core.datasources import atomic
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
atomic.replace_file(Path(sys.argv[1]), b"half", mode=0o644)
"""
WAITING = """
import os, sys, time
from pathlib import Path
from sentinel_core.datasources import atomic
rename = os.replace
def replace(*names):
    print("written", flush=True)
    sys.stdin.readline()
    rename(*names)
os.replace = replace
atomic.replace_file(Path(sys.argv[1]), b"theirs", mode=0o644)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_has_left_is_removed_by_the_next_write_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -9
    assert len(names(tmp_path)) == 2
    replace_file(tmp_path / "other.yaml", b"x", mode=0o644)
    assert len(names(tmp_path)) == 3, "of another file"
    replace_file(path, b"new", mode=0o644)
    assert names(tmp_path) == ["other.yaml", "rules.yaml"]
    assert path.read_bytes() == b"new"


def test_that_of_a_writer_who_lives_stays(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "written\n"
        replace_file(path, b"ours", mode=0o644)
        assert path.read_bytes() == b"ours"
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.wait(10) == 0
    assert path.read_bytes() == b"theirs"
    assert names(tmp_path) == ["rules.yaml"]


@pytest.mark.parametrize(
    "name",
    [".rules.yaml.swp", ".rules.yaml.abcdefgh.tmp", "rules.yaml.sentinel-abcdefgh.tmp", ".rules.yaml.quarantine"],
)
def test_what_is_not_ours_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".rules.yaml.sentinel-abcdefgh.tmp").mkdir()
    replace_file(tmp_path / "rules.yaml", b"new", mode=0o644)
    assert (tmp_path / name).read_bytes() == b"mine"
    assert (tmp_path / ".rules.yaml.sentinel-abcdefgh.tmp").is_dir()


LEFT = """
import os, signal
from sentinel_core.datasources.atomic import temporary_folder
with temporary_folder("sentinel-index-"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_that_a_killed_process_has_left_is_removed_by_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert subprocess.run([sys.executable, "-c", LEFT], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    (tmp_path / "sentinel-index-of-somebody").mkdir()
    with temporary_folder("sentinel-index-") as mine, temporary_folder("sentinel-index-") as other:
        assert not left.exists()
        assert mine.is_dir()
        assert other.is_dir()
    assert names(tmp_path) == ["sentinel-index-of-somebody"]


def test_of_many_writers_at_once_each_writes_whole(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    failed: list[OSError] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                replace_file(path, bytes([number]) * 1000, mode=0o644)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert names(tmp_path) == ["rules.yaml"]
    assert len(set(path.read_bytes())) == 1
