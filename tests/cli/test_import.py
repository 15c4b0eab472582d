"""What somebody changed in a store, written back into the texts of the repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.datasources.contract import Writable
from sentinel_core.rules import Provenance, SourceText
from tests.cli.conftest import Run, git
from tests.cli.test_process import on_terminal
from tests.services import etcd

RULES = """\
# Ask the payment team first.
flowRules:
  # the bank takes 30
  - resource: payment_invoke
    grade: qps
    count: 20    # reviewed
  - {resource: coupon, grade: 1, count: 5}
"""
PAYMENT = {"resource": "payment_invoke", "grade": 1, "count": 20}
COUPON = {"resource": "coupon", "grade": 1, "count": 5}


class Shop:
    """A repository with rules, which is the working directory, and a store that holds the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "rules.yaml"
        self.lists = folder / "store"
        self.lists.mkdir()
        self.hold(PAYMENT, COUPON)
        self.rules.write_text(RULES, encoding="utf-8")
        (folder / ".gitignore").write_text("store\nsentinel.yaml\n")
        self.settings(f"file://{self.lists}?format=json")
        git(folder, "init", "-qb", "main")
        git(folder, "config", "user.name", "Ada Example")
        git(folder, "config", "user.email", "ada@example.org")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "First rules")

    def settings(self, store: str) -> None:
        (self.folder / "sentinel.yaml").write_text(
            f"environment: prod\nrules: rules.yaml\nstores: ['{store}']\n", encoding="utf-8"
        )

    def hold(self, *rules: object, kind: str = "flow") -> None:
        (self.lists / f"sentinel-{kind}-rules.json").write_text(json.dumps(rules), encoding="utf-8")

    def log(self, form: str, rev: str = "HEAD") -> str:
        return git(self.folder, "log", "-1", f"--format={form}", rev)


@pytest.fixture
def shop(here: Path) -> Shop:
    return Shop(here)


def test_what_stands_in_the_store_already_changes_nothing(shop: Shop, sentinelctl: Run) -> None:
    before = shop.rules.stat()
    ended = sentinelctl("rules", "import", "--yes")
    assert (ended.code, ended.out) == (0, "")
    assert "Nothing to do: rules.yaml says what stands in the store." in ended.err
    assert (shop.rules.read_text(), shop.rules.stat()) == (RULES, before)


def test_an_edit_is_written_where_it_belongs_and_nothing_else_is_touched(shop: Shop, sentinelctl: Run) -> None:
    shop.hold(PAYMENT | {"count": 25}, COUPON, {"resource": "refund", "grade": 1, "count": 2})
    ended = sentinelctl("rules", "import", "--yes")
    assert (ended.code, ended.out) == (0, "written rules.yaml\n")
    new = RULES.replace("count: 20 ", "count: 25 ") + "  - {resource: refund, count: 2}\n"
    assert shop.rules.read_text() == new
    assert "-    count: 20    # reviewed\n+    count: 25    # reviewed" in ended.err
    shown = json.loads(sentinelctl("rules", "validate", "-o", "json").out)
    store = json.loads(sentinelctl("rules", "show", "-o", "json").out)
    assert shown["inputs"][0]["digests"]["flow"] == store["digests"]["flow"]
    assert sentinelctl("rules", "import", "--yes").out == ""


def test_a_dry_run_shows_the_difference_and_writes_nothing(shop: Shop, sentinelctl: Run) -> None:
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", "--dry-run")
    assert ended.code == 0
    assert ended.out.splitlines()[:2] == ["--- rules.yaml", "+++ rules.yaml"]
    assert ended.out.splitlines()[-1] == "-  - {resource: coupon, grade: 1, count: 5}"
    assert shop.rules.read_text() == RULES
    document = json.loads(sentinelctl("rules", "import", "--dry-run", "-o", "json").out)
    assert (document["files"], document["commit"]) == (["rules.yaml"], None)
    assert [change["action"] for change in document["changes"]] == ["remove"]


def test_it_asks(shop: Shop, sentinelctl: Run) -> None:
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import")
    assert ended.code == 64
    assert "must be confirmed" in ended.err
    assert shop.rules.read_text() == RULES


LATER = RULES + "  - {resource: refund, count: 1}\n"


def test_work_that_comes_while_it_asks_is_not_overwritten(shop: Shop) -> None:
    shop.hold(PAYMENT)
    code, shown = on_terminal(
        "rules", "import", cwd=shop.folder, answer="y\n", meanwhile=lambda: shop.rules.write_text(LATER)
    )
    assert (code, "rules.yaml was changed meanwhile; nothing was written" in shown) == (5, True)
    assert shop.rules.read_text() == LATER


def test_a_file_that_comes_while_it_asks_is_seen(shop: Shop) -> None:
    shop.hold(PAYMENT)
    (shop.folder / "rules").mkdir()
    shop.rules.rename(shop.folder / "rules" / "a.yaml")
    more = shop.folder / "rules" / "b.yaml"
    code, shown = on_terminal(
        *("rules", "import", "rules"),
        cwd=shop.folder,
        answer="y\n",
        meanwhile=lambda: more.write_text("flowRules:\n  - {resource: refund, count: 1}\n"),
    )
    assert (code, "b.yaml was changed meanwhile; nothing was written" in shown) == (5, True)
    assert (shop.folder / "rules" / "a.yaml").read_text() == RULES


def test_rules_of_a_kind_that_nobody_asked_for_stay_where_they_share_parts(shop: Shop, sentinelctl: Run) -> None:
    rest = "degradeRules:\n  - <<: *a\n    grade: error_count\n    timeWindow: 5\n"
    shop.rules.write_text("flowRules:\n  - &a {resource: r1, count: 20}\n" + rest, encoding="utf-8")
    shop.hold({"resource": "r1", "grade": 1, "count": 30})
    ended = sentinelctl("rules", "import", "--kind", "flow", "--yes")
    assert ended.code == 0
    assert shop.rules.read_text() == ("flowRules:\n  - &a {resource: r1, count: 30}\n" + rest + "    count: 20\n")


def test_a_kind_that_the_store_does_not_hold_stays_and_one_that_is_new_comes(shop: Shop, sentinelctl: Run) -> None:
    more = RULES + "authorityRules:\n  - {resource: a, limitApp: app, strategy: white}\n"
    shop.rules.write_text(more, encoding="utf-8")
    shop.hold({"qps": 900}, kind="system")
    ended = sentinelctl("rules", "import", "--yes")
    assert "note: no authority rules stand in the store; those of the files stay" in ended.err
    assert shop.rules.read_text() == more + "systemRules:\n  - qps: 900\n"


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_its_link(shop: Shop, sentinelctl: Run) -> None:
    (shop.folder / "real").mkdir()
    real = shop.rules.rename(shop.folder / "real" / "rules.yaml")
    real.chmod(0o640)
    shop.rules.symlink_to(real)
    shop.hold(PAYMENT)
    assert sentinelctl("rules", "import", "--yes").code == 0
    assert shop.rules.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in real.parent.iterdir()) == ["rules.yaml"]


@pytest.mark.parametrize("what", ["-", "git+file:///nowhere"])
def test_only_files_are_imported_into(shop: Shop, sentinelctl: Run, what: str) -> None:
    assert sentinelctl("rules", "import", what).code == 64


def test_rules_that_are_not_valid_are_not_imported_into(shop: Shop, sentinelctl: Run) -> None:
    shop.rules.write_text(RULES.replace("20", "2O"), encoding="utf-8")
    ended = sentinelctl("rules", "import", "--yes")
    assert ended.code == 65
    assert 'rules.yaml:6:12: error SR102 payment_invoke: count is "2O"' in ended.err


def test_what_no_change_in_place_can_say_is_refused_with_the_place(shop: Shop, sentinelctl: Run) -> None:
    shop.rules.write_text("x-all: &all\n  - {resource: a, grade: 1, count: 1}\nflowRules: *all\n", encoding="utf-8")
    ended = sentinelctl("rules", "import", "--yes")
    assert ended.code == 2
    assert "rules.yaml:3:12: $.flowRules: it is an alias; nothing was changed" in ended.err
    assert "next: make this change by hand" in ended.err


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_says_what_changed_and_where_it_is_from(shop: Shop, sentinelctl: Run) -> None:
    shop.hold(PAYMENT | {"count": 25}, COUPON)
    ended = sentinelctl("rules", "import", "--commit", "--yes", "--reason", "the sale goes on")
    assert ended.code == 0, ended.err
    assert ended.out == f"Committed as {git(shop.folder, 'rev-parse', 'HEAD')[:12]}.\n"
    assert git(shop.folder, "status", "--porcelain") == ""
    assert shop.log("%s") == "Take flow rules over from the store"
    message = shop.log("%b")
    assert f"Store: file://{shop.lists}" in message
    assert "~ flow/payment_invoke/default count: 20 -> 25" in message
    assert "Reason: the sale goes on" in message
    assert shop.log("%an <%ae> | %cn") == "Ada Example <ada@example.org> | Ada Example"


@pytest.mark.parametrize(("remotes", "named"), [(["origin"], "origin"), (["up", "origin"], "origin"), (["up"], "up")])
def test_a_new_branch_is_pushed_where_the_repository_has_a_remote(
    shop: Shop, sentinelctl: Run, remotes: list[str], named: str
) -> None:
    for remote in remotes:
        git(shop.folder, "remote", "add", remote, "https://git.example/rules.git")
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", "--branch", "from-console", "--yes")
    assert f"To have it reviewed: git -C . push {named} from-console\n" in ended.err


def test_a_new_branch_touches_no_file_and_no_index(shop: Shop, sentinelctl: Run) -> None:
    (shop.folder / "other.txt").write_text("staged")
    git(shop.folder, "add", "other.txt")
    head, staged = git(shop.folder, "rev-parse", "HEAD"), git(shop.folder, "diff", "--cached")
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", "--branch", "from-console", "--yes")
    assert ended.code == 0, ended.err
    assert "To have it reviewed: git -C . show from-console    (the repository has no rem" in ended.err
    assert shop.rules.read_text() == RULES
    assert (git(shop.folder, "rev-parse", "HEAD"), git(shop.folder, "diff", "--cached")) == (head, staged)
    assert git(shop.folder, "rev-parse", "from-console~1") == head
    assert git(shop.folder, "diff", "--stat", "--summary", "main", "from-console").startswith("rules.yaml | 1 -")
    again = sentinelctl("rules", "import", "--branch", "from-console", "--yes")
    assert again.code == 5, "the branch exists: nothing is forced"


@pytest.mark.parametrize("how", [["--commit"], ["--branch", "from-console"]])
def test_a_file_with_work_that_is_not_committed_is_refused(shop: Shop, sentinelctl: Run, how: list[str]) -> None:
    shop.rules.write_text(RULES + "# mine\n", encoding="utf-8")
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", *how, "--yes")
    assert ended.code == 5
    assert "rules.yaml has changes that are not committed; nothing was changed" in ended.err
    assert shop.rules.read_text() == RULES + "# mine\n"


def test_a_link_is_committed_as_what_it_leads_to(shop: Shop, sentinelctl: Run) -> None:
    shop.rules.rename(shop.folder / "real.yaml")
    shop.rules.symlink_to("real.yaml")
    git(shop.folder, "add", "-A")
    git(shop.folder, "commit", "-qm", "Link it")
    shop.hold(PAYMENT, COUPON | {"count": 6})
    assert sentinelctl("rules", "import", "--commit", "--yes").code == 0
    assert git(shop.folder, "show", "HEAD:real.yaml") + "\n" == RULES.replace("count: 5", "count: 6")
    assert (shop.rules.is_symlink(), shop.rules.read_text()) == (True, RULES.replace("count: 5", "count: 6"))
    assert git(shop.folder, "status", "--porcelain") == ""


@pytest.mark.parametrize("what", ["merge", "cherry-pick", "revert"])
def test_nothing_is_committed_into_what_is_not_finished(shop: Shop, sentinelctl: Run, what: str) -> None:
    other = shop.folder / "other"
    for content, branch in (("1", None), ("2", "topic"), ("3", "main")):
        if branch:
            git(shop.folder, "checkout", "-q", *(["-b"] if branch == "topic" else []), branch)
        other.write_text(content)
        git(shop.folder, "add", ".")
        git(shop.folder, "commit", "-qm", content)
    with pytest.raises(subprocess.CalledProcessError):
        git(shop.folder, what, "main~1" if what == "revert" else "topic")
    before = shop.log("%H")
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", "--commit", "--yes")
    assert (ended.code, f"a {what} is not finished" in ended.err) == (5, True)
    assert shop.log("%H") == before


@pytest.mark.parametrize("name", ["a..b", "", "HEAD", "@", "@{-1}", "-x", "refs/heads/x", "a b", "x.lock"])
def test_a_branch_of_no_name_is_refused(shop: Shop, sentinelctl: Run, name: str) -> None:
    shop.hold(PAYMENT)
    ended = sentinelctl("rules", "import", f"--branch={name}", "--yes")
    assert ended.code == 78
    assert f"{name!r} is no name for a branch" in ended.err
    assert git(shop.folder, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.parametrize("how", [["--dry-run"], ["--yes"], []])
def test_a_branch_that_exists_is_refused_before_anything_is_asked(shop: Shop, sentinelctl: Run, how: list[str]) -> None:
    shop.hold(PAYMENT)
    before = git(shop.folder, "rev-parse", "main")
    ended = sentinelctl("rules", "import", "--branch", "main", *how)
    assert ended.code == 5
    assert "there is a branch main already; write the name of a new one" in ended.err
    assert git(shop.folder, "rev-parse", "main") == before


def test_the_author_is_who_changed_the_store_and_the_committer_who_imports(shop: Shop, sentinelctl: Run) -> None:
    etcd.needed()
    uri = etcd.shared().uri(f"/import/{shop.folder.parent.name}")
    shop.settings(uri)
    assert sentinelctl("rules", "publish", "--yes").code == 0
    source = datasources.open(uri)
    assert isinstance(source, Writable)
    (item,) = source.items(["flow"])
    standing = source.read(item)
    edit = SourceText(item.key, json.dumps([PAYMENT | {"count": 25}, COUPON]).encode(), "json")
    by = Provenance(author="ops-li", channel="console", reason="incident 7")
    source.write(item, [edit], expected=standing.version, provenance=by)
    source.close()
    ended = sentinelctl("rules", "import", "--commit", "--yes")
    assert ended.code == 0, ended.err
    assert shop.log("%an <%ae> | %cn <%ce>") == "ops-li <> | Ada Example <ada@example.org>"
    assert "There by ops-li (console) on " in shop.log("%b")
    assert "as the store says: incident 7" in shop.log("%b")


# -- folders -----------------------------------------------------------------------------------------------------------

BASE = "flowRules:\n  - {resource: payment_invoke, grade: qps, count: 20}\n  - {resource: coupon, grade: 1, count: 5}\n"
PROD = "flowRules:\n  - {resource: payment_invoke, count: 200}   # ten machines\n"


@pytest.fixture
def folder(shop: Shop) -> Path:
    folder = shop.folder / "rules"
    (folder / "environments").mkdir(parents=True)
    for name, text in (("base", BASE), ("environments/prod", PROD), ("environments/staging", "flowRules: []\n")):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    git(shop.folder, "add", ".")
    git(shop.folder, "commit", "-qm", "A folder")
    return folder


def test_a_field_lands_in_the_overlay_that_writes_it(shop: Shop, folder: Path, sentinelctl: Run) -> None:
    shop.hold(PAYMENT | {"count": 250}, COUPON)
    ended = sentinelctl("rules", "import", "rules", "--yes")
    assert ended.code == 0, ended.err
    assert "rules/environments/prod.yaml: the overlay" in ended.err
    assert (folder / "environments" / "prod.yaml").read_text() == PROD.replace("200", "250")
    assert (folder / "base.yaml").read_text() == BASE


def test_a_field_of_the_base_changes_other_environments_and_that_is_said(
    shop: Shop, folder: Path, sentinelctl: Run
) -> None:
    shop.hold(PAYMENT | {"count": 200}, COUPON | {"count": 6})
    ended = sentinelctl("rules", "import", "rules", "--branch", "from-console", "--yes")
    assert ended.code == 0, ended.err
    assert "base.yaml: the base, common to all environments" in ended.err
    assert "note: this changes the environment staging, too: flow/coupon/default" in ended.err
    assert git(shop.folder, "show", "from-console:rules/base.yaml") + "\n" == BASE.replace("count: 5", "count: 6")


def test_what_would_make_another_environment_invalid_is_refused(shop: Shop, folder: Path, sentinelctl: Run) -> None:
    shop.hold(PAYMENT | {"count": 200})
    (folder / "environments" / "staging.yaml").write_text("flowRules:\n  - {resource: coupon, $delete: true}\n")
    ended = sentinelctl("rules", "import", "rules", "--yes")
    assert ended.code == 65
    assert "in the environment staging the rules would not be valid any more" in ended.err
    assert (folder / "base.yaml").read_text() == BASE


def test_the_overlay_of_the_named_environment_is_meant(shop: Shop, folder: Path, sentinelctl: Run) -> None:
    shop.hold(PAYMENT | {"count": 21}, COUPON)
    ended = sentinelctl("rules", "import", "rules", "--env", "staging", "--yes")
    assert ended.code == 0, ended.err
    assert (folder / "base.yaml").read_text() == BASE.replace("count: 20", "count: 21")
    assert "note: this changes the environment prod" not in ended.err, "its overlay has a count of its own"
