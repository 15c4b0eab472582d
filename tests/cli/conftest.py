"""A clean environment, and two ways to run the program: in this process, and as the process that users start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sentinel_core import set_default_engine
from sentinel_core.audit.events import Event
from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.cli.lazy import COMPLETING
from sentinel_core.cli.main import PROGRAM, cli, run
from sentinel_core.cli.shells import SHELLS
from sentinel_core.cli.values import soon
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import load_settings
from sentinel_core.starting import start
from tests.services import etcd, nacos


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine, no terminal wishes, a home of its own, and a Git identity that is nobody's."""
    for name in list(os.environ):
        if name.startswith(("SENTINEL_", "GIT_")) or name in {"NO_COLOR", "FORCE_COLOR", "PAGER", "LC_ALL", "LANG"}:
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = Ada Example\nemail = ada@example.org\n[gc]\nauto = 0\n[maintenance]\nauto = false\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture(autouse=True)
def own_default_engine() -> Iterator[None]:
    """`start` makes its engine the default one; the next test begins without it."""
    before = set_default_engine(None)
    yield
    set_default_engine(before)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test: empty, and not inside any repository."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def sentinelctl(capfd: pytest.CaptureFixture[str], here: Path) -> Iterator[Run]:
    """Runs the program in this process, in `here`."""

    def call(*arguments: str | Path) -> Ended:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert "--debug" in arguments or "Traceback" not in captured.err
        return Ended(code, captured.out, captured.err)

    return call  # type: ignore[return-value]  # a plain fixture


@pytest.fixture
def process(here: Path) -> Run:
    """Runs the program as a process of its own, in `here`."""

    def call(
        *arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None, script: str = ""
    ) -> Ended:
        """`script` is for bash; in it `$SENTINELCTL` is the program."""
        program = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()"]
        environment = {**os.environ, **(env or {}), "PYTHONWARNINGS": "error"}
        if script:
            quoted = f'{sys.executable} -c "from sentinel_core.cli.main import main; main()"'
            command = ["bash", "-c", script.replace("$SENTINELCTL", quoted)]
        else:
            command = [*program, *arguments]
        done = subprocess.run(
            command,
            input=(stdin or "").encode(),
            capture_output=True,
            env=environment,
            cwd=here,
            timeout=60,
            check=False,
        )
        out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in err, err
        return Ended(done.returncode, out, err)

    return call


ADA = (
    *("-c", "user.name=Ada Example", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


def git(folder: Path, *arguments: str) -> str:
    """Git in a test repository, as Ada; stdout, stripped."""
    done = subprocess.run(["git", "-C", str(folder), *ADA, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


FIRST = "flowRules:\n  - {resource: payment_invoke, grade: 1, count: 20}\n  - {resource: coupon, grade: 1, count: 5}\n"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with settings and a Git repository `repo` that holds the rules and is the store."""

    folder: Path

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def rules(self) -> Path:
        return self.repo / "sentinel-rules.yaml"

    def commit(self, text: str, message: str) -> str:
        """Commits these rules; the hash."""
        self.rules.write_text(text, encoding="utf-8")
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-qm", message)
        return git(self.repo, "rev-parse", "HEAD")

    def head(self) -> str:
        return git(self.repo, "rev-parse", "HEAD")


def make_project(folder: Path) -> Project:
    """Three revisions of the rules: payment_invoke at 20, 25 and 30."""
    made = Project(folder)
    made.repo.mkdir()
    git(made.repo, "init", "-qb", "main")
    for count, message in (("20", "First rules"), ("25", "Raise payment"), ("30", "Raise it again")):
        made.commit(FIRST.replace("20", count), message)
    write_settings(made)
    return made


def write_settings(project: Project) -> None:
    (project.folder / "sentinel.yaml").write_text(
        "environment: prod\nrules: repo/sentinel-rules.yaml\n"
        f"stores: ['git+file://{project.repo}?ref=main&path=sentinel-rules.yaml']\n",
        encoding="utf-8",
    )


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is copied, because a copy is ten times as fast as three commits."""
    return make_project(tmp_path_factory.mktemp("template")).folder


@pytest.fixture
def project(here: Path, template: Path) -> Project:
    """A project of the test's own, with the three revisions of `make_project`; the working directory."""
    shutil.copytree(template, here, dirs_exist_ok=True)
    made = Project(here)
    write_settings(made)
    return made


@pytest.fixture
def months(here: Path) -> Path:
    """An audit store with six changes of one rule, one a month, the last in September 2026; settings, and a key."""
    key = Ed25519PrivateKey.generate()
    (here / "audit.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (here / "sentinel.yaml").write_text(
        "environment: prod\n"
        "audit: {store: 'sqlite:///audit.db', checkpoints: checkpoints.ndjson, signingKeyFile: audit.key}\n"
    )
    store = SqliteStore(here / "audit.db")
    for number in range(6):
        change = {"action": "change", "resource": "pay", "rule": "flow/pay", "field": "count", "old": 0, "new": number}
        data = json.dumps({"environment": "prod", "author": "chen", "kind": "flow", "changes": [change]}).encode()
        at = datetime(2026, 9, 1, tzinfo=UTC) - timedelta(days=30 * (5 - number))
        store.ingest([Event(f"{number:08}-event", "/prod/x", "sentinel.rules.changed.v1", "flow", at, data)])
    store.close()
    return here


@pytest.fixture
def service(here: Path) -> Iterator[Callable[..., ServiceEngine]]:
    """Starts services that follow a file with these rules, as services are started; closed at the end."""
    running: list[ServiceEngine] = []

    def begin(rules: str, settings: str = "") -> ServiceEngine:
        (here / "rules.yaml").write_text(rules, encoding="utf-8")
        (here / "sentinel.yaml").write_text(
            f"app: shop\nrules: rules.yaml\nstores: ['file://{here}/rules.yaml']\n{settings}", encoding="utf-8"
        )
        engine = start(load_settings())
        running.append(engine)
        assert engine.wait_ready(10)
        return engine

    yield begin
    for engine in running:
        engine.close()


# -- a shop and its stores ---------------------------------------------------------------------------------------------

RULES = (
    "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n  - {resource: coupon, grade: qps, count: 5}\n"
)


class Shop:
    """A repository with rules as code, and a store that they are published to."""

    def __init__(self, here: Path, store: str, run: Run) -> None:
        self.here, self.store, self.run = here, store, run
        text = f'app: shop\nenvironment: prod\nrules: rules.yaml\nstores: ["{store}"]\n'
        (here / "sentinel.yaml").write_text(text, encoding="utf-8")
        git(here, "init", "-qb", "main")
        self.commit(20, "First rules\n\nReason: opening day")

    def write(self, count: float) -> None:
        (self.here / "rules.yaml").write_text(RULES.replace("20", str(count)), encoding="utf-8")

    def commit(self, count: float, message: str) -> str:
        self.write(count)
        git(self.here, "add", "rules.yaml")
        git(self.here, "commit", "-qm", message)
        return git(self.here, "rev-parse", "HEAD")

    def standing(self) -> dict[str, Any]:
        """What stands in the store: the count of payment_invoke, and the provenance."""
        shown = self.run("rules", "show", "-o", "json")
        assert shown.code == 0, shown.err
        found: dict[str, Any] = json.loads(shown.out)
        (revision,) = found["revisions"]
        counts = {each["rule"]["resource"]: each["rule"]["count"] for each in found["rules"]}
        return {"count": counts["payment_invoke"], **revision}


@pytest.fixture(params=["file", "lists", "git", "etcd", "nacos-3-http", "nacos-2-http", "nacos-3-grpc"])
def shop(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Shop:
    return shop_with(request.param, here, sentinelctl)


def shop_with(name: str, here: Path, run: Run) -> Shop:
    """With a store of that sort."""
    return Shop(here, new_store(name, here), run)


def new_store(name: str, here: Path) -> str:
    """The URI of an empty store of that sort."""
    own = here.parent.name
    if name == "etcd":
        etcd.needed()
        store = etcd.shared().uri(f"/publish/{own}")
    elif name.startswith("nacos"):
        major, transport = int(name[6]), name[8:]
        nacos.needed(major)
        store = nacos.shared(major).uri(group=own, transport=transport)
    elif name == "git":
        (here / "repo").mkdir()
        git(here / "repo", "init", "-qb", "main")
        git(here / "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
        store = f"git+file://{here}/repo?ref=main&path=sentinel-rules.yaml"
    elif name == "lists":
        (here / "lists").mkdir()
        store = f"file://{here}/lists?format=json"
    else:
        store = f"file://{here}/live.yaml"
    return store


@pytest.fixture
def plain(here: Path, sentinelctl: Run) -> Shop:
    """A store that costs nothing, for what is the same with all."""
    return shop_with("lists", here, sentinelctl)


def ok(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


Complete = Callable[[str], dict[str, str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What may stand where a line ends, in order, each with what is told of it; paths are the shell's own."""
    monkeypatch.setattr(soon, "WAIT_S", 20)  # the machine may be busy

    def answers(line: str) -> dict[str, str]:
        *words, begun = f"{PROGRAM} {line}".split(" ")
        with monkeypatch.context() as asking:
            asking.setenv(COMPLETING, "fish_complete")
            found = SHELLS["fish"](cli, {}, PROGRAM, COMPLETING).get_completions(words[1:], begun)
        return {each.value: each.help or "" for each in found if each.type == "plain"}

    return answers
