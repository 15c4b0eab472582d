"""`sentinelctl sync`: a store is kept at what is committed."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.cli.exits import Exit
from sentinel_core.datasources.contract import Writable
from sentinel_core.rules import Provenance, Revision
from tests.cli.conftest import RULES, Run, Shop, git, ok, shop_with


def test_a_look_ends_with_what_it_found(plain: Shop) -> None:
    git_uri = f"git+file://{plain.here}?ref=main&path=rules.yaml"
    assert "published" in ok(plain.run("sync", git_uri, "--once")).out
    assert json.loads(ok(plain.run("sync", git_uri, "--once", "-o", "json")).out)["state"] == "in sync"
    (plain.here / "lists/sentinel-flow-rules.json").write_text("[]")
    assert plain.run("sync", git_uri, "--once").code == Exit.DIFFERENCES
    assert "healed" in ok(plain.run("sync", git_uri, "--once", "--drift", "heal")).out
    plain.commit(5000, "Open the gates")
    assert plain.run("sync", git_uri, "--once").code == Exit.REFUSED
    (plain.here / "rules.yaml").write_text("flowRules: 5\n")
    git(plain.here, "commit", "-qam", "A mistake")
    assert plain.run("sync", git_uri, "--once").code == Exit.INVALID_RULES


def test_an_edit_is_adopted_or_proposed(plain: Shop) -> None:
    git_uri = f"git+file://{plain.here}?ref=main&path=rules.yaml"
    ok(plain.run("sync", git_uri, "--once"))
    lists = plain.here / "lists/sentinel-flow-rules.json"
    lists.write_text(lists.read_text().replace("20", "25"))
    proposed = plain.run("sync", git_uri, "--once", "--drift", "adopt", "--branch", "from-console")
    assert (proposed.code, "from-console, to be merged" in proposed.out) == (Exit.DIFFERENCES, True)
    adopted = ok(plain.run("sync", git_uri, "--once", "--drift", "adopt", "-o", "json"))
    assert json.loads(adopted.out)["commit"] == git(plain.here, "rev-parse", "HEAD")
    assert (plain.here / "rules.yaml").read_text() == RULES.replace("20", "25")
    assert json.loads(ok(plain.run("sync", git_uri, "--once", "-o", "json")).out)["state"] == "in sync"
    assert plain.run("sync", git_uri, "--once", "--branch", "x").code == Exit.USAGE


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "HEAD"])
def test_a_branch_for_a_review_is_another_than_the_one_that_is_followed(plain: Shop, ref: str) -> None:
    git_uri = f"git+file://{plain.here}?ref={ref}&path=rules.yaml"
    ok(plain.run("sync", git_uri, "--once"))
    lists = plain.here / "lists/sentinel-flow-rules.json"
    lists.write_text(lists.read_text().replace("20", "25"))
    before = git(plain.here, "rev-parse", "main")
    refused = plain.run("sync", git_uri, "--once", "--drift", "adopt", "--branch", "main")
    assert (refused.code, "GIT is followed on main itself" in refused.err) == (Exit.USAGE, True)
    for name in ("@", "refs/heads/x", "HEAD"):
        assert plain.run("sync", git_uri, "--once", "--drift", "adopt", "--branch", name).code in {64, 78}
    assert git(plain.here, "for-each-ref", "--format=%(refname) %(objectname)") == f"refs/heads/main {before}"


def test_what_was_published_by_hand_is_known_when_an_edit_is_adopted(here: Path, sentinelctl: Run) -> None:
    shop = shop_with("etcd", here, sentinelctl)
    look = ["sync", f"git+file://{here}?ref=main&path=rules.yaml", "--once", "--drift", "adopt"]
    ok(shop.run("rules", "publish", "--yes"))
    with closing(datasources.open(shop.store)) as store:
        for old, new in (("20", "25"), ("25", "30")):
            (item,) = store.items(["flow"])
            reading = store.read(item)
            assert isinstance(reading, Revision)
            edited = replace(reading.texts[0], content=reading.texts[0].content.replace(old.encode(), new.encode()))
            assert isinstance(store, Writable)
            store.write(item, [edited], expected=reading.version, provenance=Provenance())
            assert "adopted" in ok(shop.run(*look)).out
            assert (here / "rules.yaml").read_text() == RULES.replace("20", new)


def test_an_edit_that_is_not_adopted_is_imported_or_undone(plain: Shop) -> None:
    git_uri = f"git+file://{plain.here}?ref=main&path=rules.yaml"
    (plain.here / "lists/sentinel-flow-rules.json").write_text("[]")
    told = plain.run("sync", git_uri, "--once", "--drift", "adopt")
    assert (told.code, "not adopted: " in told.out) == (Exit.DIFFERENCES, True)
    assert "next: sentinelctl rules import --store " in told.err
    assert "or: sentinelctl rules publish " in told.err


def test_it_goes_on_until_it_is_interrupted_and_tells_what_is_new(plain: Shop, process: Run) -> None:
    plain.write(20)
    script = (
        f'$SENTINELCTL sync "git+file://{plain.here}?ref=main&path=rules.yaml" --interval 100ms -o ndjson > told & '
        "pid=$!; for i in $(seq 100); do [ -s told ] && break; sleep 0.1; done; "
        f"sed -i s/20/30/ rules.yaml; git commit -qam 'Raise it'; "
        "for i in $(seq 100); do [ $(grep -c published told) -ge 2 ] && break; sleep 0.1; done; "
        "kill -INT $pid; wait $pid; echo ended $?"
    )
    ended = process(script=f"set -m; {script}")
    assert "ended 130" in ended.out
    told = [json.loads(line) for line in (plain.here / "told").read_text().splitlines()]
    assert [each["state"] for each in told if each["state"] != "in sync"] == ["published", "published"]
    assert plain.standing()["count"] == 30
