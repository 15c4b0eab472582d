"""Every store is down, and a service starts: the rules of its last run protect from the first call on."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sentinel_core.audit.store import open_store
from sentinel_core.audit.store.contract import Query
from sentinel_core.datasources import Item, LastGood, State
from sentinel_core.rules import Revision, SourceText
from sentinel_core.service import ServiceEngine
from sentinel_core.settings import Settings, load_settings
from sentinel_core.starting import start
from tests.services import etcd
from tests.unprivileged import exit_code_as_nobody, folder_for_all

if TYPE_CHECKING:
    from tests.e2e.conftest import Site

FLOW = "flowRules: [{resource: pay, grade: qps, count: 0}]\n"
DEGRADE = "degradeRules: [{resource: pay, grade: error_ratio, count: 0.5, timeWindow: 5}]\n"
START = """\
import sys, time
from pathlib import Path
from sentinel_core import start
from sentinel_core.settings import load_settings
settings = load_settings(Path(sys.argv[1]))
began = time.perf_counter()
engine = start(settings)
blocked = not engine.try_entry("pay")
print((time.perf_counter() - began) * 1000, blocked, *(each.state.value for each in engine.subscriptions), flush=True)
engine.close()
"""


def write_settings(site: Site, *stores: str) -> Settings:
    site.settings.write_text(
        f"app: shop\nstores: {json.dumps(stores)}\nlastKnownGood: .sentinel/last-good\ntimeout: 1s\n"
        f"audit: {{outbox: .sentinel/outbox.db, store: 'sqlite:///{site.folder}/.sentinel/audit.db'}}\n",
        encoding="utf-8",
    )
    return load_settings(site.settings)


def ran_once(settings: Settings) -> ServiceEngine:
    """A service that followed its stores and ended well."""
    engine = start(settings)
    assert all(each.refresh(20) for each in engine.subscriptions)
    assert len(engine.rules("flow")) == 1
    engine.close()
    return engine


@pytest.fixture
def follows(site: Site) -> Settings:
    """A service that follows a repository, which has run once."""
    site.commit(FLOW)
    settings = write_settings(site, f"git+file://{site.folder}/rules?ref=main&path=sentinel-rules.yaml")
    ran_once(settings)
    return settings


@pytest.fixture
def copy(follows: Settings) -> Path:
    """Its last good copy."""
    (path,) = Path(follows.last_known_good).glob("*.last-good")
    return path


def test_with_a_file_a_git_url_and_an_etcd_gone_the_first_call_is_refused_within_a_moment(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure stands in docs/performance.md; here the bound leaves room for a busy machine."""
    etcd.needed()
    (tmp_path / "etcd").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = etcd.EtcdServer(tmp_path / "etcd").start()
    try:
        server.put("/sentinel/public/SENTINEL_GROUP/sentinel-authority-rules", b"[]")
        (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
        site.commit(DEGRADE)
        git = f"git+file://{site.folder}/rules?ref=main&path=sentinel-rules.yaml&clone=true"
        ran_once(write_settings(site, server.uri(), git, str(tmp_path / "flow.yaml")))
    finally:
        server.kill()
    (tmp_path / "flow.yaml").unlink()
    (site.folder / "rules").rename(site.folder / "gone")
    done = subprocess.run(
        [sys.executable, "-c", START, str(site.settings)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    took_ms, blocked, *states = done.stdout.split()
    assert (blocked, float(took_ms) < 1000) == ("True", True), done.stdout
    assert set(states) <= {"stale", "error"}, "and it says so"


def test_it_says_that_it_runs_the_rules_of_the_last_run(
    site: Site, follows: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    (site.folder / "rules").rename(site.folder / "gone")
    engine = start(follows)
    try:
        assert not engine.try_entry("pay")
        engine.subscriptions[0].refresh(10)
        (item,) = engine.status()["subscriptions"][0]["items"]
        assert (item["restored"], item["state"]) == (True, "error")
        assert "gone" not in str(item["reason"])
        assert str(site.folder / "rules") in item["reason"]
        assert "error: " in caplog.text
    finally:
        engine.close()


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "altered": lambda data: data.replace(b"count: 0", b"count: 9"),
    "another format": lambda data: data.replace(b"sentinel-last-good 1", b"sentinel-last-good 9", 1),
    "random": lambda _: random.Random(7).randbytes(5000),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_copy_that_cannot_be_trusted_is_refused_with_an_event_and_never_taken(
    site: Site, follows: Settings, copy: Path, spoil: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    copy.write_bytes(spoil(copy.read_bytes()))
    (site.folder / "rules").rename(site.folder / "gone")
    engine = start(follows)
    try:
        assert engine.rules("flow").rules == ()
        assert engine.try_entry("pay")
        assert f"{copy} is not used: " in str(engine.subscriptions[0].status()[0].last_good_problem)
        assert "SR012" in caplog.text
        assert engine.forwarder.drain(10)
        assert refusals(follows) == ["SR012"]
    finally:
        engine.close()


def refusals(settings: Settings) -> list[str]:
    store = open_store(settings.audit.store, read_only=True)
    events = [store.get(each.event.id) for each in store.query(Query()).rows]
    store.close()
    return [
        each.payload["problems"][0]["code"] for each in events if each and each.type == "sentinel.rules.rejected.v1"
    ]


def test_a_copy_of_another_store_is_refused(site: Site, follows: Settings, copy: Path) -> None:
    settings = write_settings(site, f"git+file://{site.folder}/rules?ref=main&path=other.yaml")
    item = Item("other.yaml", f"/default/git/file://{site.folder}/rules@main/other.yaml", ("flow",))
    copy.rename(LastGood(copy.parent).path(item))
    engine = start(settings)
    try:
        assert engine.rules("flow").rules == ()
        assert "it belongs to " in str(engine.subscriptions[0].status()[0].last_good_problem)
    finally:
        engine.close()


def test_a_refused_copy_is_replaced_by_the_next_good_revision(follows: Settings, copy: Path) -> None:
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-1])
    engine = start(follows)
    try:
        assert engine.wait_ready(10)
        assert engine.subscriptions[0].status()[0].last_good_problem is None
    finally:
        engine.close()
    assert copy.read_bytes().partition(b'"revisions"')[2] == whole.partition(b'"revisions"')[2]


def test_a_copy_older_than_what_runs_is_refused(site: Site, follows: Settings, copy: Path) -> None:
    """A subscription that is made anew in a process must not go back, even if its copy could not be written."""
    older = copy.read_bytes()
    site.commit(FLOW.replace("0", "5"))
    engine = start(follows)
    try:
        assert engine.wait_ready(10)
        first = engine.subscriptions[0]
        first.close()
        copy.write_bytes(older)
        (site.folder / "rules").rename(site.folder / "gone")
        again = engine.subscribe(first.kinds, first.source)
        assert engine.rules("flow").rules[0].count == 5
        again.refresh(10)
        assert engine.rules("flow").rules[0].count == 5
        assert engine.forwarder.drain(10)
        assert refusals(follows) == ["SR012"]
    finally:
        engine.close()


def test_rules_that_an_older_revision_left_behind_are_there_too(site: Site) -> None:
    """A copy holds two revisions where the newer one no longer says anything of a kind."""
    site.commit(FLOW + DEGRADE)
    settings = write_settings(site, f"git+file://{site.folder}/rules?ref=main&path=sentinel-rules.yaml")
    engine = start(settings)
    assert engine.wait_ready(10)
    site.commit(FLOW.replace("count: 0", "count: 5"))
    deadline = time.monotonic() + 10
    while engine.rules("flow").rules[0].count != 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.subscriptions[0].wait_ready(10)
    engine.close()
    (site.folder / "rules").rename(site.folder / "gone")
    again = start(settings)
    try:
        assert (again.rules("flow").rules[0].count, len(again.rules("degrade"))) == (5, 1)
        assert "older than" not in str(again.subscriptions[0].status()[0].last_error)
    finally:
        again.close()


def test_a_folder_that_may_not_be_written_degrades_and_never_stops() -> None:
    with folder_for_all() as folder:
        (folder / "rules.yaml").write_text(FLOW, encoding="utf-8")
        (folder / "rules.yaml").chmod(0o644)
        (folder / "last-good").mkdir(mode=0o555)
        (folder / "own").mkdir()
        (folder / "own").chmod(0o777)
        settings = Settings(
            stores=(str(folder / "rules.yaml"),),
            last_known_good=str(folder / "last-good"),
            status=None,
            audit={"outbox": str(folder / "own" / "o.db"), "store": f"sqlite:///{folder}/own/a.db"},  # type: ignore[arg-type]  # as pydantic takes it
        )

        def serve() -> int:
            engine = start(settings)
            ready = engine.wait_ready(10)
            problem = str(engine.subscriptions[0].status()[0].last_good_problem)
            blocked = not engine.try_entry("pay")
            engine.close()
            return 0 if ready and blocked and "cannot be written" in problem else 1

        assert exit_code_as_nobody(serve) == 0
        assert list((folder / "last-good").iterdir()) == []


SAVE = """\
import sys
from pathlib import Path
from sentinel_core.datasources import Item, LastGood
from sentinel_core.rules import Revision, SourceText
item, last_good = Item("rules", "/prod/rules", ("flow",)), LastGood(Path(sys.argv[1]))
print("up", flush=True)
for number in range(10**9):
    content = b"%d " % number * 20000
    last_good.save(item, Revision((SourceText("rules", content),), item.source, str(number)), frozenset({"flow"}))
"""


def test_a_process_that_is_killed_while_it_saves_leaves_a_whole_copy(tmp_path: Path) -> None:
    item, dice = Item("rules", "/prod/rules", ("flow",)), random.Random(5)
    last = -1
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", SAVE, str(tmp_path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(dice.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        last_good = LastGood(tmp_path)
        loaded = last_good.load(item)
        assert last_good.problem(item) is None
        if loaded:
            (revision,) = loaded
            last = int(revision.version)
            assert revision.texts[0].content == b"%d " % last * 20000
    assert last >= 0, "not one of them came to save"


def test_what_a_killed_process_left_is_removed_by_the_next_copy(tmp_path: Path) -> None:
    item, last_good = Item("rules", "/prod/rules", ("flow",)), LastGood(tmp_path)
    left = tmp_path / f".{last_good.path(item).name}.sentinel-abcd1234.tmp"
    left.write_bytes(b"half")
    last_good.save(item, Revision((SourceText("rules", b"[]"),), item.source, "1"), frozenset({"flow"}))
    assert not left.exists()


def test_a_start_without_stores_and_copies_says_that_nothing_protects(site: Site) -> None:
    engine = start(write_settings(site, str(site.folder / "missing.yaml")))
    try:
        engine.subscriptions[0].refresh(10)
        assert engine.subscriptions[0].state is State.INIT
        assert "no rules are active" in str(engine.subscriptions[0].status()[0].reason)
    finally:
        engine.close()
