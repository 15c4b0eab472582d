"""The day of docs/day.md, typed at a pseudo-terminal: what stands on that page is what happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.audit.errors import StoreUnavailable
from sentinel_core.audit.event import RuleApplied
from sentinel_core.audit.store.contract import Condition, Query
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.rules import Revision, parse_revision
from tests.e2e.terminal import Session, type_in
from tests.services import etcd, nacos
from tests.services.nacos import NacosServer
from tests.services.server import wait_until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "day.md"
FLEET, PROCESSES = 20, 2
CHEN = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Chen"), ("EMAIL", "chen@example.com"))
}
PASSWORD = "day-1-secret"
RULES = (
    "flowRules:\n"
    "  - {resource: payment_invoke, grade: qps, count: 20}\n"
    "  - {resource: order_create, grade: qps, count: 500}\n"
    "degradeRules:\n"
    "  - {resource: payment_invoke, grade: error_ratio, count: 0.5, timeWindow: 10}\n"
)
EDITS = {
    "sets the limit of `payment_invoke` to 200": (200, 500),
    "raises `order_create` to 600": (25, 600),
}
"""Words of the page at which somebody edits in the console, and the limits of both resources then."""
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d"), "2026-11-25"),
    (re.compile(r"\d\d:\d\d:\d\d"), "hh:mm:ss"),
    (re.compile(r"\d\d:\d\d (?=UTC|Asia|–)"), "hh:mm "),
    (re.compile(r"\b([0-9a-f]{12})-\d{13}\b"), r"\1-1795588200123"),
    (re.compile(r"\bp-[0-9a-f]{12}\b"), "p-0123456789ab"),
    (re.compile(r"\bid [0-9a-f]{8}\b"), "id 01234567"),
    (re.compile(r"(\(git |HEAD@|back to |[Cc]ommit |:00  )[0-9a-f]{12}\b"), r"\g<1>0123456789ab"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|min)\b"), "N s"),
)


class Day:
    """A checkout of the rules, twenty instances that follow a store, and somebody at a terminal."""

    def __init__(self, folder: Path, store: str, address: str, undo: ExitStack) -> None:
        self.folder = folder / "order-rules"
        self.folder.mkdir()
        self._store, self._address = store, address
        program = folder / "bin" / "sentinelctl"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nfrom sentinel_core.cli.main import main\nmain()\n", encoding="utf-8")
        program.chmod(0o755)
        at_nine = {f"GIT_{role}_DATE": "2026-11-25T09:00:00+08:00" for role in ("AUTHOR", "COMMITTER")}
        kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
        self.env = {
            **kept,
            **CHEN,
            **at_nine,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LOGNAME": "chen",
            "TZ": "Asia/Shanghai",
            "LC_ALL": "C.UTF-8",
            "SENTINEL_NACOS_PASSWORD": PASSWORD,
        }
        settings = self.folder / "sentinel.yaml"
        settings.write_text(
            f'app: order-service\nenvironment: prod\nrules: rules.yaml\nstores: ["{store}"]\nstatus: null\n'
            f'audit: {{store: "sqlite:///.sentinel/audit.db"}}\n',
            encoding="utf-8",
        )
        (self.folder / "rules.yaml").write_text(RULES, encoding="utf-8")
        for line in (
            "git init -qb main",
            "git add rules.yaml",
            'git commit -qm "First rules" -m "Reason: opening day"',
            "sentinelctl rules publish --yes",
        ):
            self.types(line, ends_with=0)
        for number in range(PROCESSES):
            undo.enter_context(self._instances(undo, settings, 1 + number * FLEET // PROCESSES, FLEET // PROCESSES))
        self.settles()

    def _instances(self, undo: ExitStack, settings: Path, first: int, count: int) -> subprocess.Popen[str]:
        return _Ending(
            [sys.executable, "-m", "tests.e2e.fleet_process", str(settings), str(first), str(count)],
            cwd=ROOT,
            env={**os.environ, **self.env},
            stdin=subprocess.PIPE,
            stderr=undo.enter_context((self.folder.parent / f"fleet-{first}.log").open("w")),
            text=True,
        )

    def settles(self) -> None:
        """Returns when every instance has told that it runs what stands in the store now."""
        with closing(datasources.open(self._store, environment="prod")) as source:
            (item,) = source.items(["flow"])
            reading = source.read(item)
        assert isinstance(reading, Revision)
        digest = parse_revision(reading, ["flow"])["flow"].digest
        wanted = {"type": RuleApplied.TYPE, "source": reading.source, "revision": reading.version, "digest": digest}
        query = Query(tuple(Condition(column, "is", (value,)) for column, value in wanted.items()))

        def all_told() -> bool:
            try:
                return len(store.query(query).rows) == FLEET
            except StoreUnavailable:  # the first event makes it
                return False

        with closing(SqliteStore(self.folder / ".sentinel" / "audit.db", read_only=True)) as store:
            assert wait_until(all_told, 60)

    def types(self, command: str, *, ends_with: int | None = None) -> Session:
        session = type_in(command, cwd=self.folder, env=self.env)
        assert ends_with in (None, session.code), session.screen
        assert PASSWORD not in session.raw
        return session

    def plays(self, commands: list[str]) -> str:
        """A transcript of some lines."""
        lines = []
        for command in commands:
            session = self.types(command)
            lines.append(f"$ {command}")
            lines += [self._blanked(line) for line in session.screen.split("\n") if session.screen]
            lines += [f"[{session.code}]"] if session.code else []
        return "".join(f"{line}\n" for line in lines)

    def _blanked(self, line: str) -> str:
        line = line.replace(self._address, "nacos.example:8848").replace(str(self.folder), "/srv/order-rules")
        for pattern, blank in _CHANGING:
            line = pattern.sub(blank, line)
        return line


class _Ending(subprocess.Popen[str]):
    """A process that ends when its stdin does."""

    def __exit__(self, *_: object) -> None:
        assert self.stdin is not None
        self.stdin.close()
        try:
            self.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()


def commands_of(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def edited(payment: int, order: int) -> bytes:
    """The flow rules as somebody writes them in a console."""
    limits = {"payment_invoke": payment, "order_create": order}
    return json.dumps([{"resource": name, "grade": 1, "count": limit} for name, limit in limits.items()]).encode()


def lived(day: Day, edit: Callable[[bytes], object]) -> str:
    """The page as it would be written now."""
    text = PAGE.read_text(encoding="utf-8")
    written, end = "", 0
    assert all(words in text for words in EDITS)
    for block in _CONSOLE.finditer(text):
        before = text[end : block.start()]
        for words, (payment, order) in EDITS.items():
            if words in before:
                edit(edited(payment, order))
                day.settles()
        written += f"{before}```console\n{day.plays(commands_of(block[1]))}```"
        end = block.end()
        day.settles()
    return written + text[end:]


@pytest.fixture
def undo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setenv("SENTINEL_NACOS_PASSWORD", PASSWORD)
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(240)  # a minute, where nothing else runs: a Nacos starts, and sixteen commands
def test_the_page_is_what_happens(tmp_path: Path, undo: ExitStack) -> None:
    nacos.needed()
    (tmp_path / "nacos").mkdir()
    server = NacosServer(tmp_path / "nacos", auth=True)
    undo.callback(server.stop)
    server.start()
    for name in ("publisher", "ops-li"):
        server.make_user(name, PASSWORD, "public:*:*")
    store = f"nacos://{server.address}?user=publisher&transport=http"
    day = Day(tmp_path, store, server.address, undo)

    def edit(content: bytes) -> None:
        server.put_as("ops-li", PASSWORD, "sentinel-flow-rules", content)
        assert wait_until(lambda: server.read("sentinel-flow-rules") == content)

    page = lived(day, edit)
    if os.environ.get("SENTINEL_DAY") == "write":
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


def test_it_is_the_same_over_etcd(tmp_path: Path, undo: ExitStack) -> None:
    """Which has no console and no users: who edited there is unknown, all else is told."""
    etcd.needed()
    server, path = etcd.shared(), f"/day/{tmp_path.name}"
    day = Day(tmp_path, server.uri(path), server.address, undo)
    page = lived(day, lambda content: server.put(f"/sentinel{path}/sentinel-flow-rules", content))
    assert re.findall(r"^\[\d+\]$", page, re.MULTILINE) == re.findall(r"^\[\d+\]$", PAGE.read_text(), re.MULTILINE)
    assert page.count(f"Converged: {FLEET} of {FLEET} instances run it.") == 3
    assert re.search(r"count  25 → 200   by (unknown|somebody) ", page)
    assert re.search(r"~ count  50 → 25\n +reason: payment calls time out   rollback of", page)
