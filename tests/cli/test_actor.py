"""Who runs a command: one person has one name, in a pipeline, with Git and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel_core.cli.actor import actor, names
from tests.cli.conftest import Run, Shop, git, ok, shop_with

ADA = "Ada Example <ada@example.org>"


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    for name in ("GITHUB_ACTOR", "GITHUB_RUN_ID", "GITLAB_USER_LOGIN", "CI_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGNAME", "ada")


def no_identity(patch: pytest.MonkeyPatch) -> None:
    (Path.home() / ".gitconfig").unlink()
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def in_github(patch: pytest.MonkeyPatch, login: str = "ada") -> None:
    patch.setenv("GITHUB_ACTOR", login)
    patch.setenv("GITHUB_RUN_ID", "42")


def in_gitlab(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("GITLAB_USER_LOGIN", "ada")
    patch.setenv("CI_JOB_ID", "7")


def test_it_is_who_git_commits_as_wherever_that_is_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert actor() == ADA  # of the user, outside of every repository
    git(here, "init", "-q")
    git(here, "config", "user.email", "ada@work.example")
    assert actor() == "Ada Example <ada@work.example>"
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@home.example")
    assert actor() == "Ada Example <ada@home.example>"


def test_without_one_it_is_the_user_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    no_identity(monkeypatch)
    assert actor() == "ada"


def test_in_a_pipeline_it_is_the_user_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    in_github(monkeypatch)
    assert actor() == "ada (GitHub Actions run 42)"
    assert names() == ("ada (GitHub Actions run 42)",)


def test_gitlab_knows_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    in_gitlab(monkeypatch)
    assert actor() == "ada (GitLab job 7)"
    monkeypatch.setenv("GITLAB_USER_NAME", "Ada Example")
    monkeypatch.setenv("GITLAB_USER_EMAIL", "ada@example.org")
    assert actor() == f"{ADA} (GitLab job 7)"


def test_what_is_published_by_hand_has_the_name_that_commits_have(here: Path, sentinelctl: Run) -> None:
    shop = shop_with("etcd", here, sentinelctl)
    shop.write(30)
    ok(shop.run("rules", "publish", "--reason", "sale", "--yes"))
    assert shop.standing()["publishedBy"] == ADA
    assert ADA in ok(shop.run("rules", "history")).out


@pytest.mark.parametrize("taken", ["git", "login", "github", "gitlab"])
@pytest.mark.parametrize("given_up", ["git", "login", "github", "gitlab"])
def test_a_lock_is_given_up_by_whoever_took_it_under_any_of_the_names(
    plain: Shop, taken: str, given_up: str, tmp_path: Path
) -> None:
    def run_as(name: str, *line: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            if name == "login":
                patch.setenv("HOME", str(tmp_path))
                patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
            elif name == "github":
                in_github(patch)
            elif name == "gitlab":
                in_gitlab(patch)
            return ok(plain.run(*line)).out.strip()

    lock = run_as(taken, "lock", "hold", "--reason", "incident", "-o", "name")
    run_as(given_up, "lock", "release", lock)


def test_a_lock_of_somebody_else_is_not_given_up(plain: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = ok(plain.run("lock", "hold", "--reason", "incident", "-o", "name")).out.strip()
    in_github(monkeypatch, "li")
    assert plain.run("lock", "release", lock).code == 64
