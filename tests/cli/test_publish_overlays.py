"""A base with the overlay of an environment, published into stores of every sort."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel_core.cli.exits import Exit
from tests.cli.conftest import RULES, Run, Shop, git, ok, shop_with


@pytest.fixture(params=["file", "lists", "git", "etcd", "nacos-3-http"])
def shop(request: pytest.FixtureRequest, here: Path, sentinelctl: Run) -> Shop:
    return shop_with(request.param, here, sentinelctl)


@pytest.fixture
def overlaid(shop: Shop) -> Shop:
    """Rules in a folder, with an overlay for prod and one for staging."""
    folder = shop.here / "rules"
    (folder / "environments").mkdir(parents=True)
    (folder / "base.yaml").write_text(f"# Ask first.\n{RULES}", encoding="utf-8")
    for name, count in (("prod", 200), ("staging", 2)):
        (folder / "environments" / f"{name}.yaml").write_text(
            f"flowRules:\n  - {{resource: payment_invoke, count: {count}}}\n", encoding="utf-8"
        )
    git(shop.here, "add", "rules")
    git(shop.here, "commit", "-qm", "A folder")
    return shop


def test_a_base_with_its_overlay_is_published_with_the_comments_of_the_base(overlaid: Shop) -> None:
    ok(overlaid.run("rules", "publish", "rules", "--yes"))
    assert overlaid.standing()["count"] == 200
    if overlaid.store.startswith("file") and overlaid.store.endswith("yaml"):
        text = (overlaid.here / "live.yaml").read_text()
    elif overlaid.store.startswith("git"):
        text = (overlaid.here / "repo" / "sentinel-rules.yaml").read_text()
    else:
        return
    assert text == f"# Ask first.\n{RULES}".replace("count: 20", "count: 200")


def test_a_store_of_another_environment_is_guarded(overlaid: Shop) -> None:
    ok(overlaid.run("rules", "publish", "rules", "--yes"))
    planned = overlaid.run("rules", "plan", "rules", "--env", "staging", "--allow-jump", "--reason", "why")
    assert planned.code == Exit.REFUSED
    assert "--allow-environment" in planned.err
    assert "was published for the environment prod and would be replaced by the rules for staging" in planned.err
    assert "for the environment" not in overlaid.run("rules", "plan", "git:HEAD").err
