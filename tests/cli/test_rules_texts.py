"""Commands on rule texts alone: validate, fmt, schema, show and diff of files. No store, no repository."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import jsonschema
import pytest

from sentinel_core.cli.main import run
from sentinel_core.datasources import FileSource, SourceMisconfigured
from tests.cli.conftest import Run
from tests.unprivileged import exit_code_as_nobody, folder_for_all

GOOD = """\
# rules of the order service
flowRules:
  - resource: order_create
    grade: qps   # per second
    count: 500
degradeRules: []
"""
BAD = "flowRules:\n  - {resource: payment_invoke, grade: 1, count: 2O}\n"
SUSPICIOUS = "flowRules:\n  - {resource: payment_invoke, grade: 2, count: 20}\n"


@pytest.fixture
def rules(here: Path) -> Path:
    path = here / "sentinel-rules.yaml"
    path.write_text(GOOD, encoding="utf-8")
    return path


# -- validate ----------------------------------------------------------------------------------------------------------


def test_validate_takes_the_rules_of_the_settings_when_no_path_is_given(rules: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("rules", "validate")
    assert (ended.code, ended.out, ended.err) == (0, "", "1 rule valid.\n")


def test_validate_says_where_what_and_what_to_write(here: Path, sentinelctl: Run) -> None:
    (here / "bad.yaml").write_text(BAD, encoding="utf-8")
    ended = sentinelctl("rules", "validate", "bad.yaml")
    assert ended.code == 65
    assert ended.out.startswith('bad.yaml:2:49: error SR102 payment_invoke: count is "2O"')
    assert "did you mean 20?" in ended.out
    assert ended.err == "1 error in 1 rule. Nothing was changed.\n"


def test_warnings_are_allowed_except_with_strict(here: Path, sentinelctl: Run) -> None:
    (here / "odd.yaml").write_text(SUSPICIOUS, encoding="utf-8")
    assert sentinelctl("rules", "validate", "odd.yaml").code == 0
    strict = sentinelctl("rules", "validate", "--strict", "odd.yaml")
    assert strict.code == 65
    assert " warning SR203 payment_invoke: " in strict.out


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "ndjson", "name"])
def test_the_exit_code_never_depends_on_the_form(here: Path, sentinelctl: Run, form: str) -> None:
    (here / "bad.yaml").write_text(BAD, encoding="utf-8")
    assert sentinelctl("rules", "validate", "bad.yaml", "-o", form).code == 65


def test_validate_as_json_carries_every_fact_of_a_problem(here: Path, sentinelctl: Run) -> None:
    (here / "bad.yaml").write_text(BAD, encoding="utf-8")
    document = json.loads(sentinelctl("rules", "validate", "bad.yaml", "-o", "json").out)
    (problem,) = document["problems"]
    assert document["formatVersion"] == 1
    assert document["valid"] is False
    assert {problem[name] for name in ("code", "file", "resource", "field")} == {
        "SR102",
        "bad.yaml",
        "payment_invoke",
        "count",
    }
    assert (problem["line"], problem["column"]) == (2, 49)


def test_a_json_list_needs_its_kind_by_name_or_by_flag(here: Path, sentinelctl: Run) -> None:
    for name in ("sentinel-flow-rules.json", "list.json"):
        (here / name).write_text('[{"resource":"a","grade":1,"count":1}]', encoding="utf-8")
    assert sentinelctl("rules", "validate", "sentinel-flow-rules.json").code == 0
    unnamed = sentinelctl("rules", "validate", "list.json")
    assert unnamed.code == 64
    assert "list.json is a JSON list, and its name does not say of which kind\n  next: add --kind" in unnamed.err
    assert sentinelctl("rules", "validate", "list.json", "--kind", "flow").code == 0


def test_a_folder_is_one_document(here: Path, sentinelctl: Run) -> None:
    folder = here / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(GOOD, encoding="utf-8")
    (folder / "b.yml").write_text(SUSPICIOUS, encoding="utf-8")
    (folder / ".hidden.yaml").write_text(BAD, encoding="utf-8")
    (folder / "README.md").write_text("no rules", encoding="utf-8")
    ended = sentinelctl("rules", "validate", "rules")
    assert (ended.code, ended.err) == (0, "2 rules valid, 1 warning.\n")
    assert ended.out.startswith("rules/b.yml:2:39: warning")


def test_a_folder_of_lists_alone_is_read_list_by_list(here: Path, sentinelctl: Run) -> None:
    (here / "rules").mkdir()
    for name, rule in (("flow", '{"resource":"a","grade":1,"count":1}'), ("system", '{"qps": 100}')):
        (here / "rules" / f"sentinel-{name}-rules.json").write_text(f"[{rule}]", encoding="utf-8")
    ended = sentinelctl("rules", "validate", "rules")
    assert (ended.code, ended.err) == (0, "2 rules valid.\n")


def test_a_folder_that_a_source_refuses_is_refused_here_in_its_words(here: Path, sentinelctl: Run) -> None:
    folder = here / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(GOOD, encoding="utf-8")
    (folder / "sentinel-system-rules.json").write_text('[{"qps": 100}]', encoding="utf-8")
    source = FileSource(folder)
    with pytest.raises(SourceMisconfigured) as refused:
        source.read(source.items(["flow"])[0])
    for command in ("validate", "fmt", "show"):
        ended = sentinelctl("rules", command, "rules")
        assert ended.code == 64
        assert str(refused.value).removeprefix(f"{here}/") in ended.err


# -- fmt and schema ----------------------------------------------------------------------------------------------------


def test_fmt_keeps_comments_and_mode_and_writes_lf(rules: Path, sentinelctl: Run) -> None:
    rules.write_bytes(GOOD.replace("\n", "\r\n").encode())
    rules.chmod(0o640)
    assert sentinelctl("rules", "fmt").code == 0
    content = rules.read_bytes()
    assert b"\r" not in content
    assert b"# rules of the order service\n" in content
    assert b"# per second" in content
    assert stat.S_IMODE(rules.stat().st_mode) == 0o640
    assert [path.name for path in rules.parent.iterdir()] == ["sentinel-rules.yaml"]


def test_fmt_is_at_rest_after_one_run(rules: Path, sentinelctl: Run) -> None:
    sentinelctl("rules", "fmt")
    assert sentinelctl("rules", "fmt", "--check").code == 0


@pytest.mark.parametrize("flag", ["--check", "--diff"])
def test_fmt_can_look_without_writing(rules: Path, sentinelctl: Run, flag: str) -> None:
    untidy = GOOD.replace("\n", "\r\n").encode()
    rules.write_bytes(untidy)
    ended = sentinelctl("rules", "fmt", flag)
    assert ended.code == 1
    assert "sentinel-rules.yaml" in ended.out
    assert rules.read_bytes() == untidy


def test_fmt_follows_a_symbolic_link_instead_of_replacing_it(here: Path, rules: Path, sentinelctl: Run) -> None:
    target = rules.rename(here / "real.yaml")
    target.write_bytes(GOOD.replace("\n", "\r\n").encode())
    rules.symlink_to(target)
    assert sentinelctl("rules", "fmt").code == 0
    assert rules.is_symlink()
    assert b"\r" not in target.read_bytes()


def test_fmt_refuses_what_is_not_yaml_and_writes_nothing(rules: Path, sentinelctl: Run) -> None:
    rules.write_text("flowRules: [\n", encoding="utf-8")
    ended = sentinelctl("rules", "fmt")
    assert ended.code == 65
    assert "sentinel-rules.yaml:" in ended.err
    assert rules.read_text(encoding="utf-8") == "flowRules: [\n"


@pytest.mark.parametrize("kind", [None, "flow", "param-flow"])
def test_schema_is_a_valid_json_schema(sentinelctl: Run, kind: str | None) -> None:
    ended = sentinelctl("rules", "schema", *(("--kind", kind) if kind else ()))
    jsonschema.Draft7Validator.check_schema(json.loads(ended.out))


# -- show --------------------------------------------------------------------------------------------------------------


def test_show_lists_rules_in_words_and_as_the_store_spells_them(rules: Path, sentinelctl: Run) -> None:
    assert "order_create   qps ≤ 500" in sentinelctl("rules", "show", "sentinel-rules.yaml").out
    (line,) = sentinelctl("rules", "show", "sentinel-rules.yaml", "-o", "ndjson").out.splitlines()
    assert json.loads(line)["rule"]["grade"] == 1
    assert sentinelctl("rules", "show", "sentinel-rules.yaml", "-o", "name").out == "flow/order_create/default\n"
    assert sentinelctl("rules", "show", "sentinel-rules.yaml", "--resource", "other", "-o", "name").out == ""


def test_get_is_show(rules: Path, sentinelctl: Run) -> None:
    show, get = (sentinelctl("rules", verb, "sentinel-rules.yaml", "-o", "json").out for verb in ("show", "get"))
    assert get == show


# -- diff --------------------------------------------------------------------------------------------------------------

SPELLINGS = {
    "a default written out": "flowRules:\n  - {resource: a, grade: 1, count: 5, limitApp: default}\n",
    "1 and 1.0": "flowRules:\n  - {resource: a, grade: 1, count: 5.0}\n",
    "another order of keys": "flowRules:\n  - {count: 5, grade: 1, resource: a}\n",
    "names for codes": "flowRules:\n  - {resource: a, grade: qps, count: 5, strategy: direct}\n",
    "null for an optional": "flowRules:\n  - {resource: a, grade: 1, count: 5, refResource: null}\n",
    "comments and blanks": "# x\n\nflowRules:\n  - resource: a   # y\n    grade: 1\n\n    count: 5\n",
    "Windows line ends (C05)": "flowRules:\r\n  - resource: a\r\n    grade: 1\r\n    count: 5\r\n",
    "mixed line ends (C05)": "flowRules:\n  - resource: a\r\n    grade: 1\n    count: 5\r\n",
    "no last line end (P09)": "flowRules:\n  - {resource: a, grade: 1, count: 5}",
    "a byte order mark (P08)": "\ufeffflowRules:\n  - {resource: a, grade: 1, count: 5}\n",
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_c01_c05_two_spellings_of_the_same_rules_give_no_output_and_exit_0(
    here: Path, sentinelctl: Run, text: str
) -> None:
    (here / "a.yaml").write_text("flowRules:\n  - {resource: a, grade: 1, count: 5}\n", encoding="utf-8")
    (here / "b.yaml").write_bytes(text.encode())
    ended = sentinelctl("rules", "diff", "a.yaml", "b.yaml")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_c01_the_order_of_rules_is_no_difference(here: Path, sentinelctl: Run) -> None:
    first, second = "{resource: a, grade: 1, count: 5}", "{resource: b, grade: 1, count: 6}"
    for name, one, two in (("a.yaml", first, second), ("b.yaml", second, first)):
        (here / name).write_text(f"flowRules:\n  - {one}\n  - {two}\n", encoding="utf-8")
    ended = sentinelctl("rules", "diff", "a.yaml", "b.yaml")
    assert (ended.code, ended.out) == (0, "")


def test_diff_shows_what_changed_field_by_field_and_exits_1(here: Path, rules: Path, sentinelctl: Run) -> None:
    (here / "b.yaml").write_text(
        "flowRules:\n  - {resource: order_create, count: 300, grade: 1}\n  - {resource: new, count: 1, grade: 1}\n"
        "degradeRules: []\n",
        encoding="utf-8",
    )
    ended = sentinelctl("rules", "diff", "sentinel-rules.yaml", "b.yaml")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "sentinel-rules.yaml  →  b.yaml",
        "flow",
        "  + new           qps ≤ 1",
        "  ~ order_create  count  500 → 300",
        "degrade",
        "  (no differences)",
    ]
    assert ended.err == "1 changed, 1 only in B, 0 only in A. Exit code 1.\n"


def test_diff_as_json_carries_the_changes_as_events_do(here: Path, rules: Path, sentinelctl: Run) -> None:
    (here / "b.yaml").write_text(GOOD.replace("500", "300"), encoding="utf-8")
    ended = sentinelctl("rules", "diff", "sentinel-rules.yaml", "b.yaml", "-o", "json")
    assert ended.code == 1
    assert json.loads(ended.out)["changes"] == [
        {
            "action": "change",
            "resource": "order_create",
            "rule": "flow/order_create/default",
            "field": "count",
            "old": 500,
            "new": 300,
        }
    ]


def test_a_kind_that_one_side_does_not_manage_is_not_compared_and_it_says_so(
    here: Path, rules: Path, sentinelctl: Run
) -> None:
    (here / "b.yaml").write_text(GOOD + "systemRules:\n  - {qps: 10}\n", encoding="utf-8")
    ended = sentinelctl("rules", "diff", "sentinel-rules.yaml", "b.yaml")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "note: system rules are not managed by sentinel-rules.yaml; not compared\n"


def test_diff_of_invalid_rules_names_the_side_and_exits_65(here: Path, rules: Path, sentinelctl: Run) -> None:
    (here / "bad.yaml").write_text(BAD, encoding="utf-8")
    ended = sentinelctl("rules", "diff", "sentinel-rules.yaml", "bad.yaml")
    assert ended.code == 65
    assert ended.err.startswith("error: bad.yaml: the rules are not valid\nbad.yaml:2:49: error SR102")


def test_invalid_rules_in_a_store_are_mended_by_writing_others_there(here: Path, sentinelctl: Run) -> None:
    (here / "live.yaml").write_text(BAD, encoding="utf-8")
    ended = sentinelctl("rules", "show", f"file://{here}/live.yaml")
    assert ended.code == 65
    assert "next: put valid rules there: sentinelctl rules publish" in ended.err
    assert "validate PATH" not in ended.err


def test_a04_values_that_may_be_personal_are_masked_on_both_sides_of_a_difference(here: Path, sentinelctl: Run) -> None:
    for name, phone, count in (("a.yaml", "13800138000", 1), ("b.yaml", "13900139000", 2)):
        (here / name).write_text(
            f"paramFlowRules:\n  - {{resource: r, paramIdx: 0, grade: 1, count: {count}, paramFlowItemList: "
            f'[{{object: "{phone}", classType: String, count: 5}}]}}\n',
            encoding="utf-8",
        )
    for form in ("table", "json", "ndjson", "yaml"):
        ended = sentinelctl("rules", "diff", "a.yaml", "b.yaml", "-o", form)
        assert ended.code == 1
        assert "***" in ended.out
        assert "0013" not in ended.out + ended.err


def test_nothing_in_a_rule_can_forge_a_line_or_move_the_cursor(here: Path, sentinelctl: Run) -> None:
    """A name may hold what turns the direction of a line; control characters are refused, and told as escapes too."""
    (here / "a.yaml").write_text("flowRules: []\n", encoding="utf-8")
    rule = '  - {{resource: "{}", grade: 1, count: 5}}\n'
    (here / "b.yaml").write_text("flowRules:\n" + rule.format("evil\\u202e+ forged"), encoding="utf-8")
    (here / "c.yaml").write_text("flowRules:\n" + rule.format("evil\\n+ forged\\u001b[2J\\u202e"), encoding="utf-8")
    for command in (("diff", "a.yaml", "b.yaml"), ("show", "b.yaml"), ("show", "b.yaml", "-o", "name")):
        ended = sentinelctl("rules", *command)
        assert not {"\x1b", "\u202e"} & set(ended.out + ended.err)
        assert "evil\\u202e+ forged" in ended.out
    refused = sentinelctl("rules", "validate", "c.yaml")
    assert refused.code == 65
    assert not {"\x1b", "\u202e"} & set(refused.out + refused.err)
    assert len(refused.out.splitlines()) == 1
    assert "evil\\x0a+ forged\\x1b[2J\\u202e: " in refused.out


# -- inputs that are none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("missing.yaml", "missing.yaml: cannot be read: No such file or directory"),
        ("", "an empty path is given"),
        ("/dev/zero", "/dev/zero: cannot be read: it is neither a file nor a pipe"),
        ("empty-folder", "empty-folder: no .yaml, .yml or .json file is in this folder"),
        ("loop.yaml", "loop.yaml: cannot be read: Too many levels of symbolic links"),
        ("x" * 5000, "cannot be read: File name too long"),
        ("nul\0byte", "cannot be read: embedded null byte"),
        ("sentinel-rules.yaml/below", "cannot be read: Not a directory"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error_that_names_it(
    here: Path, rules: Path, sentinelctl: Run, argument: str, said: str
) -> None:
    (here / "empty-folder").mkdir()
    (here / "loop.yaml").symlink_to("loop.yaml")
    for command in ("validate", "fmt", "show"):
        ended = sentinelctl("rules", command, argument)
        assert ended.code == 64
        assert said.replace("\0", "\\x00") in ended.err
        assert "\n  next: " in ended.err


def test_an_unreadable_file_is_named(
    sentinelctl: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder_for_all() as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder))
        rules = folder / "sentinel-rules.yaml"
        rules.write_text(GOOD, encoding="utf-8")
        assert sentinelctl("rules", "validate").code == 0
        assert exit_code_as_nobody(lambda: run(["rules", "validate"])) == 0
        rules.chmod(0)
        capfd.readouterr()
        assert exit_code_as_nobody(lambda: run(["rules", "validate"])) == 64
        assert "sentinel-rules.yaml: cannot be read: Permission denied\n  next: " in capfd.readouterr().err
        monkeypatch.chdir("/")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x01\x02",
        b"\xff\xfe[\x00]\x00",
        os.urandom(4096),
        b"[" * 100_000,
        b"a: &a [*a]",
        b"\x89PNG\r\n\x1a\n",
    ],
    ids=["empty", "control", "utf-16", "random", "deep", "recursive", "png"],
)
@pytest.mark.parametrize("name", ["x.yaml", "sentinel-flow-rules.json"])
def test_bytes_that_are_no_rules_end_in_65_with_their_place(
    here: Path, sentinelctl: Run, content: bytes, name: str
) -> None:
    (here / name).write_bytes(content)
    ended = sentinelctl("rules", "validate", name)
    assert ended.code == 65
    assert ended.out.startswith(f"{name}:")
    assert sentinelctl("rules", "fmt", name).code == 65
    assert (here / name).read_bytes() == content
