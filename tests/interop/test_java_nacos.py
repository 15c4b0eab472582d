"""Java services and Python services share one rule set in a real Nacos: each enforces what the other has written."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import BlockException, Engine, datasources
from sentinel_core.datasources import NacosSource
from sentinel_core.rules import Provenance, Revision, SourceText, parse_revision
from tests.services import nacos
from tests.services.server import CACHE, cannot, wait_until

JARS = CACHE / "sentinel"
SOURCE = Path(__file__).with_name("JavaService.java")
KINDS = ("flow", "degrade", "param_flow")
RULES = """\
flowRules:
- {resource: "py:flow", count: 3}
degradeRules:
- {resource: "py:degrade", grade: error_count, count: 2, timeWindow: 30, minRequestAmount: 1}
paramFlowRules:
- resource: "py:param"
  paramIdx: 0
  count: 1
  paramFlowItemList: [{object: vip, count: 3, classType: java.lang.String}]
"""


def needed() -> None:
    """Skips the test where there can be no Java service; on CI that is a failure."""
    why = None
    if shutil.which("javac") is None:
        why = "javac is not installed (a JDK of 17 or newer)"
    elif not (JARS / ".complete").exists():
        why = "the jars of Java Sentinel are not in .cache/sentinel (script/test fetches them; it takes mvn)"
    if why:
        cannot(why)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needed()
    folder = tmp_path_factory.mktemp("classes")
    command = ["javac", "-nowarn", "-cp", f"{JARS / 'lib'}/*", "-d", str(folder), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class JavaService:
    """See JavaService.java."""

    def __init__(self, classes: Path, home: Path, server: str, group: str) -> None:
        home.mkdir()
        memory = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        folders = (f"-Duser.home={home}", f"-DJM.LOG.PATH={home}", f"-Dcsp.sentinel.log.dir={home}")
        self._log = home / "java.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *memory, *folders, "-cp", f"{classes}:{JARS / 'lib'}/*", "JavaService", server, group],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
            )

    def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._log.read_text(errors="replace")[-2000:]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)


@pytest.fixture(params=[(3, "grpc"), (2, "http")], ids=["nacos-3-grpc", "nacos-2-http"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[nacos.NacosServer, str, str]:
    """A server, a group of the test's own, and the transport used here; Java uses its own."""
    major, transport = request.param
    nacos.needed(major)
    return nacos.shared(major), tmp_path.name, transport


@pytest.fixture
def java(store: tuple[nacos.NacosServer, str, str], classes: Path, tmp_path: Path) -> Iterator[JavaService]:
    server, group, _ = store
    service = JavaService(classes, tmp_path / "java", server.address, group)
    yield service
    service.close()


@pytest.fixture
def source(store: tuple[nacos.NacosServer, str, str]) -> Iterator[NacosSource]:
    server, group, transport = store
    opened = datasources.open(server.uri(group=group, transport=transport, interval="50ms"))
    assert isinstance(opened, NacosSource)
    yield opened
    opened.close()


def test_java_enforces_what_is_published_here(source: NacosSource, java: JavaService) -> None:
    assert java.ask("rules") == {"flow": 0, "degrade": 0, "param_flow": 0}
    rules = parse_revision(Revision((SourceText("rules.yaml", RULES.encode()),), "test", "1"), KINDS)
    for item in source.items(KINDS):
        text = SourceText(item.key, rules[item.kinds[0]].canonical, "json")
        source.write(item, [text], expected=None, provenance=Provenance(author="Ada Example"))
    assert wait_until(lambda: java.ask("rules") == {"flow": 1, "degrade": 1, "param_flow": 1}, 10)
    assert java.ask("call py:flow 5") == {"passed": 3, "blocked": {"FlowException": 2}}
    assert java.ask("fail py:degrade 5") == {"passed": 3, "blocked": {"DegradeException": 2}}
    assert java.ask("call py:param 3 anybody") == {"passed": 1, "blocked": {"ParamFlowException": 2}}
    assert java.ask("call py:param 4 vip") == {"passed": 3, "blocked": {"ParamFlowException": 1}}


def test_what_java_published_is_enforced_here(source: NacosSource, java: JavaService) -> None:
    with Engine(app="interop") as engine:
        subscription = engine.subscribe(KINDS, source)
        assert java.ask("publish") == {"published": True}
        kinds = ("flow", "degrade", "param_flow")
        assert wait_until(lambda: all(engine.rules(kind).rules for kind in kinds), 20), subscription.status()
        assert calls(engine, "java:flow", 5) == (2, 3)
        assert calls(engine, "java:degrade", 5, failing=True) == (3, 2)
        assert calls(engine, "java:param", 3, "anybody") == (1, 2)
        assert calls(engine, "java:param", 4, "vip") == (3, 1)


def calls(engine: Engine, resource: str, times: int, *args: object, failing: bool = False) -> tuple[int, int]:
    """How many passed, and how many were refused."""
    passed = 0
    for _ in range(times):
        with suppress(BlockException, LookupError), engine.entry(resource, args=args):
            passed += 1
            fail(failing)
    return passed, times - passed


def fail(really: bool) -> None:
    if really:
        raise LookupError
