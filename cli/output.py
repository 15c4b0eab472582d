"""The one output layer: data on stdout, talk on stderr, and no way to break either.

Commands hand over a `View` and never write themselves. A pipe that closes early loses output and nothing else: the
command goes on, so that a rollback is never cut in half and the exit code never depends on the reader.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sentinel_core.cli.encode import to_json, to_yaml
from sentinel_core.cli.text import COLOURS, Span, Styled, display_width, pad, plain, visible

FORMAT_VERSION = 1
FORMATS = ("table", "wide", "json", "yaml", "ndjson", "name")
Lines = Callable[[bool], Iterator[Sequence[Span]]]


@dataclass(frozen=True, slots=True)
class View:
    """What a command has to show, once for people and once for programs."""

    document: Mapping[str, Any]
    """The whole as one JSON object, without `formatVersion`."""
    items: Sequence[Mapping[str, Any]]
    """The same as records, one per line of `-o ndjson`."""
    names: Sequence[str]
    """What `-o name` prints, for a shell loop."""
    lines: Lines
    """For people: called with True for `-o wide`, gives lines as spans."""
    forms: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """Further forms that this command has, by name: the text of each."""


class OutputError(Exception):
    """Output could not be written (disk full, device gone); a closed pipe is not such an error."""


class Output:
    """Writes views and talk. One per run of the program; not thread-safe."""

    def __init__(
        self, *, form: str = "table", json_into: Path | None = None, colour: bool = True, pager: bool = True
    ) -> None:
        self.form = form
        self.json_into = json_into
        self._may_page = pager
        self._stdout = _Stream(sys.stdout, colour=colour)
        self._stderr = _Stream(sys.stderr, colour=colour)

    @property
    def closed(self) -> bool:
        """True once nobody reads stdout any more; endless commands stop here."""
        return self._stdout.closed

    @property
    def for_people(self) -> bool:
        """True where what is shown may come in parts; programs get one document at the end."""
        return self.form in ("table", "wide") and self.json_into is None

    def is_read(self) -> bool:
        """Whether somebody may still read stdout, found out without writing: what waits ends with its reader."""
        return self._stdout.is_read()

    def show(self, view: View) -> None:
        """Writes the view in the form that was asked for, and to `--json-into` as well."""
        if self.json_into is not None:
            _write_whole(self.json_into, to_json(_document(view), ascii_only=False, indent=2) + "\n")
        if self.form in ("table", "wide"):
            self._page([self._stdout.render(line) for line in view.lines(self.form == "wide")])
        elif self.form in view.forms:
            self._stdout.write(view.forms[self.form]())
        else:
            for text in self._machine(view):
                self._stdout.write(text + "\n")

    def _machine(self, view: View) -> Iterator[str]:
        ascii_only = not self._stdout.unicode
        if self.form == "json":
            yield to_json(_document(view), ascii_only=ascii_only, indent=2)
        elif self.form == "ndjson":
            for item in view.items:
                yield to_json({"formatVersion": FORMAT_VERSION, **item}, ascii_only=ascii_only)
        elif self.form == "yaml":
            yield to_yaml(_document(view), ascii_only=ascii_only)
        else:
            yield from (visible(name) for name in view.names)

    def write_bytes(self, content: bytes) -> None:
        """Data that is a file of its own (formatted rules, a patch): as it is, when stdout takes bytes."""
        self._stdout.write_bytes(content)

    def line(self, *spans: Span) -> None:
        """One line of data for people."""
        self._stdout.write(self._stdout.render(spans) + "\n")

    def say(self, *spans: Span) -> None:
        """One line of talk on stderr."""
        self._stderr.write(self._stderr.render(spans) + "\n")

    def say_text(self, text: str, colour: str | None = None) -> None:
        """Talk of several lines; each is made visible by itself."""
        for line in text.splitlines():
            self.say(Styled(line, colour) if colour else line)

    @contextmanager
    def waiting(self, what: str, *, after_s: float = 1.0) -> Iterator[None]:
        """On a terminal, says what takes so long once it has taken so long; the line goes away at the end. The block
        itself must not write."""
        if not self._stderr.terminal:
            yield
            return
        said = threading.Event()

        def say() -> None:
            with suppress(OutputError):
                self._stderr.write(self._stderr.render([f"{what} …"]))
                self._stderr.flush()
                said.set()

        timer = threading.Timer(after_s, say)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if said.is_set():
                self._stderr.write("\n" if os.environ.get("TERM", "") in ("", "dumb") else "\r\x1b[K")

    @contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """Tells how something goes: one line that is written anew on a terminal and goes away at the end, else a line
        for each change. The block itself must not write."""
        rewrites = self._stderr.terminal and os.environ.get("TERM", "") not in ("", "dumb")
        last = ""

        def tell(text: str) -> None:
            nonlocal last
            if text == last:
                return
            last = text
            if rewrites:
                self._stderr.write(f"\r\x1b[K{self._stderr.render([text])}")
                self._stderr.flush()
            else:
                self.say(text)
                self._stderr.flush()

        try:
            yield tell
        finally:
            if rewrites and last:
                self._stderr.write("\r\x1b[K")

    def ask(self, question: str) -> str:
        """One line typed on the terminal, stripped; the end of input is "". The caller knows that there is one."""
        self._stderr.write(self._stderr.render([question, " "]))
        self._stderr.flush()
        return sys.stdin.readline().strip()

    def flush(self) -> None:
        """Pushes everything out; raises OutputError when the device refuses it."""
        try:
            self._stdout.flush()
        finally:
            self._stderr.flush()

    def _page(self, lines: list[str]) -> None:
        text = "".join(line + "\n" for line in lines)
        pager = self._pager(len(lines))
        if pager is None:
            self._stdout.write(text)
            return
        import subprocess

        self._stdout.flush()
        # As Git does: `less` shows colours, and ends where all fits on the screen, unless somebody set it up otherwise.
        environment = {"LESS": "FRX", "LV": "-c", **os.environ}
        subprocess.run(pager, input=text, encoding="utf-8", errors="backslashreplace", check=False, env=environment)

    def _pager(self, height: int) -> list[str] | None:
        """The command, in the words of a shell; None where nothing is long, or nobody sits at a terminal."""
        is_plain = not self._stdout.unicode or os.environ.get("TERM", "") in ("", "dumb")
        if not self._may_page or is_plain or not self._stdout.terminal:
            return None
        import shlex
        import shutil

        if height < shutil.get_terminal_size().lines:
            return None
        named = next((os.environ[name] for name in ("SENTINEL_PAGER", "PAGER") if name in os.environ), "less")
        try:
            command = shlex.split(named)
        except ValueError:  # a quote that does not end
            return None
        return command if command and command != ["cat"] and shutil.which(command[0]) else None


class _Stream:
    """stdout or stderr: knows what it can take, and stops quietly when nobody reads it."""

    def __init__(self, stream: TextIO | None, *, colour: bool) -> None:
        self._stream = stream
        self.closed = stream is None
        self.terminal = stream is not None and not stream.closed and stream.isatty()
        self.colour = colour and wants_colour(terminal=self.terminal)
        encoding = ((stream.encoding if stream is not None else None) or "utf-8").lower().replace("_", "-")
        self.unicode = encoding.startswith(("utf", "cp65001"))
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def is_read(self) -> bool:
        if self.closed or self._stream is None:
            return False
        poll = select.poll()
        try:
            poll.register(self._stream, 0)
            return not poll.poll(0)
        except (OSError, ValueError):
            return True  # no descriptor that could be asked

    def render(self, spans: Sequence[Span]) -> str:
        return "".join(self._span(span) for span in spans)

    def _span(self, span: Span) -> str:
        text = visible(span.text if isinstance(span, Styled) else span)
        if not self.unicode:
            text = plain(text)
        if self.colour and isinstance(span, Styled) and text:
            return f"\x1b[{COLOURS[span.colour]}m{text}\x1b[0m"
        return text

    def write(self, text: str) -> None:
        self._guarded(lambda stream: stream.write(text))

    def write_bytes(self, content: bytes) -> None:
        def put(stream: TextIO) -> None:
            stream.flush()
            stream.buffer.write(content)
            stream.buffer.flush()

        self._guarded(put)

    def flush(self) -> None:
        self._guarded(lambda stream: stream.flush())

    def _guarded(self, action: Callable[[TextIO], object]) -> None:
        if self.closed or self._stream is None:
            return
        try:
            action(self._stream)
        except (OSError, ValueError) as error:  # ValueError: the stream object itself was closed
            self.closed = True
            _let_go(self._stream)
            if isinstance(error, OSError) and error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
                raise OutputError(f"the output could not be written: {error.strerror}") from error


def _let_go(stream: TextIO) -> None:
    """Points the descriptor at nothing, so that Python's own flush at exit has nobody to fail on."""
    try:
        descriptor = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (OSError, ValueError):
        return


def wants_colour(*, terminal: bool) -> bool:
    """`NO_COLOR` before `FORCE_COLOR` before what the stream is."""
    environment = os.environ
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return terminal and environment.get("TERM", "") not in ("", "dumb")


def table(headers: Sequence[str], rows: Sequence[Sequence[Span]]) -> Iterator[Sequence[Span]]:
    """Lines of a table, aligned by display width; the header is dim, cells may be coloured."""
    widths = widths_of(rows, [display_width(header) for header in headers])
    yield aligned([Styled(header, "dim") for header in headers], widths)
    for row in rows:
        yield aligned(row, widths)


def widths_of(rows: Sequence[Sequence[Span]], least: Sequence[int]) -> list[int]:
    """How wide each column must be."""
    widths = list(least)
    for row in rows:
        widths = [max(width, display_width(visible(_text(cell)))) for width, cell in zip(widths, row, strict=True)]
    return widths


def aligned(cells: Sequence[Span], widths: Sequence[int]) -> list[Span]:
    """A line of a table."""
    line: list[Span] = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if index:
            line.append("   ")
        text = visible(_text(cell))
        padded = text if index == len(cells) - 1 else pad(text, width)
        line.append(Styled(padded, cell.colour) if isinstance(cell, Styled) else padded)
    return line


def _text(cell: Span) -> str:
    return cell.text if isinstance(cell, Styled) else cell


def _document(view: View) -> dict[str, Any]:
    return {"formatVersion": FORMAT_VERSION, **view.document}


def _write_whole(path: Path, text: str) -> None:
    from sentinel_core.audit.files import written_whole

    try:
        with written_whole(path) as file:
            file.write(text.encode("utf-8", errors="backslashreplace"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"--json-into {path}: {reason}") from error
