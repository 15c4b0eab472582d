"""The output layer: forms, colours, and streams that fail."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sentinel_core.cli.encode import to_json, to_yaml
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.main import run
from sentinel_core.cli.output import Output, OutputError, View, _write_whole, table, wants_colour
from sentinel_core.cli.text import Span, Styled, display_width


def lines(wide: bool) -> Iterator[Sequence[Span]]:
    first: list[Span] = ["支付\x1b[2J", "20"]
    second: list[Span] = [Styled("a", "red"), "5"]
    if wide:
        yield from table(["资源", "COUNT", "APP"], [[*first, "x"], [*second, "y"]])
    else:
        yield from table(["资源", "COUNT"], [first, second])


VIEW = View(
    document={"rules": [{"resource": "支付\u202e", "count": 1.5, "on": "no"}]},
    items=[{"resource": "支付\u202e"}, {"resource": "b"}],
    names=["flow/支付/default", "evil\nname"],
    lines=lines,
)


def shown(form: str = "table", *, encoding: str = "utf-8", **options: Any) -> str:
    """What the view looks like on a stdout that is no terminal."""
    raw = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(raw, encoding=encoding, write_through=True)):
        Output(form=form, **options).show(VIEW)
        return raw.getvalue().decode(encoding)


def test_a_table_is_aligned_by_display_width_and_escapes_control_characters() -> None:
    header, first, second = shown("table").splitlines()
    assert "\\x1b[2J" in first
    columns = [display_width(header.partition("COUNT")[0]), display_width(first.rpartition("20")[0]), second.index("5")]
    assert len(set(columns)) == 1


def test_wide_adds_columns() -> None:
    assert "APP" in shown("wide").splitlines()[0]


def test_json_has_a_format_version_and_escapes_what_could_turn_a_terminal_around() -> None:
    text = shown("json")
    assert json.loads(text) == {"formatVersion": 1, **VIEW.document}
    assert "\u202e" not in text
    assert "支付" in text


def test_every_line_of_ndjson_stands_alone() -> None:
    parsed = [json.loads(line) for line in shown("ndjson").splitlines()]
    assert parsed == [{"formatVersion": 1, **item} for item in VIEW.items]


def test_yaml_says_the_same_as_json_to_readers_of_yaml_1_1_and_1_2() -> None:
    text = shown("yaml")
    reader = YAML(typ="safe", pure=True)
    assert reader.load(text) == {"formatVersion": 1, **VIEW.document}
    reader.version = (1, 1)
    assert reader.load(to_yaml({"on": "no", "n": "010", "t": "1:30", "e": "1e3"}, ascii_only=True)) == {
        "on": "no",
        "n": "010",
        "t": "1:30",
        "e": "1e3",
    }


def test_names_are_one_a_line_even_when_a_name_holds_a_line_break() -> None:
    assert shown("name").splitlines() == ["flow/支付/default", "evil\\nname"]


def test_json_on_an_ascii_stream_is_still_the_same_json() -> None:
    assert json.loads(shown("json", encoding="ascii")) == {"formatVersion": 1, **VIEW.document}


@pytest.mark.parametrize("text", ["\udc80", "\x7f\x9b", "😀\U000e0041", '"\\'])
def test_json_text_means_what_was_given(text: str) -> None:
    for ascii_only in (True, False):
        encoded = to_json({"v": text}, ascii_only=ascii_only)
        assert json.loads(encoded) == {"v": text}


def test_json_into_writes_the_document_beside_human_output(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    text = shown(json_into=target)
    assert json.loads(target.read_text(encoding="utf-8")) == {"formatVersion": 1, **VIEW.document}
    assert "COUNT" in text
    assert [path.name for path in tmp_path.iterdir() if "result" in path.name] == ["result.json"]


def test_json_into_a_folder_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"--json-into .*missing/x\.json: No such file"):
        Output(json_into=tmp_path / "missing" / "x.json").show(VIEW)


@pytest.mark.parametrize(
    ("environment", "flag", "coloured"),
    [
        ({}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_colour_wishes_are_obeyed_off_a_terminal(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], flag: bool, coloured: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in shown(colour=flag)) == coloured


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": ""}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_colour_by_terminal(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool, coloured: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(terminal=terminal) == coloured


class Terminal(io.StringIO):
    """A terminal that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_what_takes_long_is_named_on_a_terminal_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Output().waiting("reading the history", after_s=0):
        assert terminal.written.wait(5)
    assert terminal.getvalue() == "reading the history …\r\x1b[K"


def test_what_is_quick_or_has_no_terminal_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Output().waiting("reading the history", after_s=60):
        pass
    monkeypatch.setattr(sys, "stderr", plain := io.StringIO())
    with Output().waiting("reading the history", after_s=0):
        pass
    assert terminal.getvalue() == plain.getvalue() == ""


def told_of_progress(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with Output().progress() as tell:
        for text in ("1 of 3", "1 of 3", "3 of 3"):
            tell(text)
    return stream.getvalue()


def test_progress_is_one_line_of_a_terminal_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = "\r\x1b[K"
    assert told_of_progress(monkeypatch, terminal=True) == f"{clear}1 of 3{clear}3 of 3{clear}"


def test_progress_in_a_log_is_a_line_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_of_progress(monkeypatch, terminal=False) == "1 of 3\n3 of 3\n"


def test_json_into_never_replaces_what_is_no_file(tmp_path: Path) -> None:
    """As root it would put a file in the place of /dev/null."""
    pipe, real, link = tmp_path / "pipe", tmp_path / "real.json", tmp_path / "link.json"
    os.mkfifo(pipe)
    link.symlink_to(real)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for target in (pipe, link):
        _write_whole(target, "{}")
    assert (os.read(reader, 10), real.read_text()) == (b"{}", "{}")
    assert pipe.is_fifo()
    assert link.is_symlink()
    os.close(reader)


def test_json_into_a_link_without_a_target_makes_the_target(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("later.json")
    _write_whole(tmp_path / "link.json", "{}")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "later.json").read_text() == "{}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a device")
def test_json_into_a_device_leaves_the_device(tmp_path: Path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    with contextlib.suppress(OutputError):  # a file system mounted without devices refuses to open it
        _write_whole(null, "{}")
    assert null.is_char_device()


def test_json_into_a_folder_is_a_wrong_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["engine", "slots", "--json-into", "."]) == Exit.USAGE
    assert "'.' is a directory" in capsys.readouterr().err
