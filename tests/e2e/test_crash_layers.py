"""Killing a process with several stores between any two steps: each store's own change is told once, with one id."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sentinel_core.rules import Revision, SourceText, merge_sets, parse_revision
from tests.e2e.test_crash import NEW, OLD, events, live, stored_bodies

if TYPE_CHECKING:
    from tests.e2e.conftest import Site

OVER = "flowRules:\n  - {resource: coupon, grade: qps, count: 3}\n"
POINTS = [f"{when} {step}" for step in ("make durable", "swap", "save last good") for when in ("before", "after")]


def together(site: Site, below: str) -> str:
    """The digest of what holds of both stores."""
    texts = [Revision((SourceText("rules.yaml", text.encode()),), text, "1") for text in (OVER, below)]
    return merge_sets([parse_revision(each, ["flow"])["flow"] for each in texts]).digest


@pytest.fixture(scope="module")
def first_life(module_site: Site) -> Site:
    """A service with a file over a repository, which was closed cleanly."""
    module_site.commit(OLD)
    (module_site.folder / "over.yaml").write_text(OVER, encoding="utf-8")
    text = module_site.settings.read_text().replace("stores:\n", f"stores:\n  - {module_site.folder}/over.yaml\n")
    module_site.settings.write_text(text, encoding="utf-8")
    assert live(module_site, together(module_site, OLD)) == 0
    return module_site


@pytest.fixture
def site(first_life: Site, tmp_path: Path) -> Iterator[Site]:
    """That service again for every test, at the same place, because its path is part of what it knows."""
    kept = tmp_path / "kept"
    shutil.copytree(first_life.folder, kept, symlinks=True)
    yield first_life
    shutil.rmtree(first_life.folder)
    kept.rename(first_life.folder)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_loses_and_repeats_nothing(site: Site, point: str) -> None:
    commit = site.commit(NEW)
    assert live(site, together(site, NEW), point) == -signal.SIGKILL
    assert live(site, together(site, NEW)) == 0
    told = [event for event in events(site) if event.type == "sentinel.rules.changed.v1"]
    assert len(told) == stored_bodies(site) == 3, "two first looks, and one change"
    (change,) = [each.payload for each in told if not each.payload["initial"]]
    assert (change["oldDigest"], change["newDigest"]) == (site.digest(OLD), site.digest(NEW)), "of that store alone"
    assert change["commitHash"] == commit
