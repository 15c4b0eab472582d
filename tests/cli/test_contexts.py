"""Contexts: settings under a name, as kubectl has them."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sentinel_core.cli.config.edit import _changed, edited
from sentinel_core.settings import SettingsError, load_settings
from tests.cli.conftest import FIRST, Project, Run
from tests.cli.test_process import on_terminal

SETTINGS = """\
# of the team
app: order-service   # not the name of the image
stores:
    - file:///srv/default.yaml   # the only one
timeout: 5s
contexts:
    # nobody minds
    staging:
        environment: staging
        stores: [file:///srv/staging.yaml]
    prod-eu1:
        environment: prod
        stores: ["file:///srv/prod.yaml"]
        production: true
"""


@pytest.fixture
def file(here: Path) -> Path:
    path = here / "sentinel.yaml"
    path.write_text(SETTINGS, encoding="utf-8")
    return path


def environment_of(sentinelctl: Run, *flags: str) -> str:
    told = json.loads(sentinelctl("config", "view", "-o", "json", *flags).out)
    return str(next(each["value"] for each in told["settings"] if each["setting"] == "environment"))


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_without_a_context_the_file_counts_as_it_stands(file: Path, sentinelctl: Run) -> None:
    assert environment_of(sentinelctl) == "default"
    ended = sentinelctl("config", "current-context")
    assert (ended.code, "no context is in use" in ended.err) == (78, True)


def test_the_flag_stands_above_the_variable_and_that_above_the_choice(
    file: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sentinelctl("config", "use-context", "staging").code == 0
    assert environment_of(sentinelctl) == "staging"
    monkeypatch.setenv("SENTINEL_CONTEXT", "prod-eu1")
    assert environment_of(sentinelctl) == "prod"
    assert environment_of(sentinelctl, "--context", "staging") == "staging"
    assert environment_of(sentinelctl, "--context", "") == "default"
    monkeypatch.setenv("SENTINEL_CONTEXT", "")
    assert environment_of(sentinelctl) == "default"


def test_the_choice_belongs_to_the_project_and_is_kept_beside_its_file(file: Path, sentinelctl: Run) -> None:
    sentinelctl("config", "use-context", "staging")
    kept = file.parent / ".sentinel" / "context"
    assert kept.read_text(encoding="utf-8") == "staging\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    other = file.parent / "other"
    other.mkdir()
    (other / "sentinel.yaml").write_text(SETTINGS, encoding="utf-8")
    assert environment_of(sentinelctl, "--config", "other/sentinel.yaml") == "default"
    assert sentinelctl("config", "use-context", "--none").code == 0
    assert environment_of(sentinelctl) == "default"


def test_a_context_stands_above_the_environment_and_leaves_the_rest_as_it_is(
    file: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `--context staging` would write into the store that some variable names."""
    monkeypatch.setenv("SENTINEL_STORES", "file:///srv/somewhere.yaml")
    monkeypatch.setenv("SENTINEL_TIMEOUT", "7s")
    settings = load_settings(context="staging")
    assert settings.stores == ("file:///srv/staging.yaml",)
    assert (settings.timeout, settings.app) == (7, "order-service")


def test_a_service_uses_the_one_of_the_variable_and_never_the_choice(
    file: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentinelctl("config", "use-context", "staging")
    assert load_settings().environment == "default"
    monkeypatch.setenv("SENTINEL_CONTEXT", "staging")
    assert load_settings().environment == "staging"


def test_one_of_the_project_stands_for_one_of_the_user_with_the_same_name(file: Path, sentinelctl: Run) -> None:
    user = Path.home() / ".config" / "sentinel" / "sentinel.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("contexts: {staging: {environment: theirs}, mine: {environment: mine}}\n", encoding="utf-8")
    assert environment_of(sentinelctl, "--context", "staging") == "staging"
    assert environment_of(sentinelctl, "--context", "mine") == "mine"


@pytest.mark.parametrize(
    "line",
    [
        ("rules", "show", "--context", "stagin"),
        ("config", "view", "--context", "stagin"),
        ("config", "use-context", "stagin"),
        ("config", "delete-context", "stagin"),
    ],
)
def test_an_unknown_context_ends_with_78_and_the_nearest_name(
    file: Path, sentinelctl: Run, line: tuple[str, ...]
) -> None:
    ended = sentinelctl(*line)
    assert (ended.code, ended.out) == (78, "")
    assert "there is no context stagin; did you mean staging?" in ended.err
    assert "  next: " in ended.err


def test_a_choice_that_is_gone_is_no_reason_to_write_elsewhere(file: Path, sentinelctl: Run) -> None:
    sentinelctl("config", "use-context", "staging")
    file.write_text("app: order-service\n", encoding="utf-8")
    ended = sentinelctl("rules", "show")
    assert (ended.code, "no settings file has contexts" in ended.err) == (78, True)
    assert "names the context staging, and there is none" in sentinelctl("config", "get-contexts").err


def test_a_choice_that_cannot_be_read_is_no_reason_to_write_elsewhere(file: Path, sentinelctl: Run) -> None:
    (file.parent / ".sentinel" / "context").mkdir(parents=True)
    ended = sentinelctl("rules", "show")
    assert (ended.code, ended.err.partition("\n")[0]) == (2, f"error: {file.parent}/.sentinel/context: Is a directory")
    assert sentinelctl("rules", "show", "--context", "staging").code == 2, "and a flag is a way around: nothing there"


# -- looking -----------------------------------------------------------------------------------------------------------


def test_every_context_is_listed_and_the_one_in_use_is_marked(file: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("config", "get-contexts", "--context", "prod-eu1")
    assert [line.split() for line in ended.out.splitlines()] == [
        ["NAME", "ENVIRONMENT", "STORES", "PRODUCTION"],
        ["*", "prod-eu1", "prod", "file:///srv/prod.yaml", "yes"],
        ["staging", "staging", "file:///srv/staging.yaml", "–"],
    ]
    assert sentinelctl("config", "get-contexts", "-o", "name").out == "prod-eu1\nstaging\n"


def test_doctor_and_version_say_which_is_in_use(file: Path, sentinelctl: Run) -> None:
    assert "context prod-eu1, from --context" in sentinelctl("version", "--context", "prod-eu1").out
    told = json.loads(sentinelctl("doctor", "--context", "prod-eu1", "-o", "json").out)
    (check,) = (each for each in told["checks"] if each["check"] == "context")
    assert check["what"] == "prod-eu1 (from --context); production: publishing asks for its name"


def test_view_says_where_each_value_comes_from_and_shows_no_credential(
    file: Path, sentinelctl: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_BOOTSTRAP", "git+https://ops:hunter2@git.example/rules.git")
    monkeypatch.setenv("SENTINEL_AUDIT__REDACT_KEY", "hunter2hunter2hunter2")
    ended = sentinelctl("config", "view", "--context", "staging")
    lines = {line.split()[0]: line.split()[-1] for line in ended.out.splitlines()}
    assert lines["app"] == "sentinel.yaml:2:1"
    assert lines["environment"] == "sentinel.yaml:9:9"
    assert (lines["bootstrap"], lines["rules"]) == ("SENTINEL_BOOTSTRAP", "default")
    assert "hunter2" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("contexts: prod", ":1:1: contexts: write `name: {setting: value}` lines below it"),
        ("contexts: {prod: 5}", ":1:12: contexts.prod: write `name: value` lines below it"),
        ("contexts: {'a b': {}}", ":1:12: contexts: a name is letters"),
        ("contexts: {prod: {storez: []}}", ":1:19: storez: unknown setting; did you mean stores?"),
        ("contexts: {prod: {contexts: {}}}", "contexts: unknown setting"),
        ("contexts: {prod: {audit: {redactKey: abcdefghijklmnopq}}}", "a key stands in the file"),
        ("contexts: {prod: {stores: ['git+https://a:hunter2@h/r']}}", "a password stands in the file"),
    ],
)
def test_mistakes_in_contexts_are_told_with_their_place_although_none_is_in_use(
    here: Path, text: str, said: str
) -> None:
    (here / "sentinel.yaml").write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as told:
        load_settings()
    assert said in str(told.value)
    assert "hunter2" not in str(told.value)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_new_context_leaves_every_other_line_as_it_was(file: Path, sentinelctl: Run) -> None:
    ended = sentinelctl("config", "set-context", "dev", "environment=dev", "stores=file:///a.yaml file:///b.yaml")
    assert (ended.code, ended.err) == (0, "Context dev stands in sentinel.yaml.\n")
    text = file.read_text(encoding="utf-8")
    assert text.startswith(SETTINGS)
    assert load_settings(context="dev").stores == ("file:///a.yaml", "file:///b.yaml")


@pytest.mark.parametrize("given", ["file:///a.yaml file:///b.yaml", "[file:///a.yaml, 'file:///b.yaml']"])
def test_several_stores_are_given_with_blanks_between_or_as_yaml_has_a_list(
    file: Path, sentinelctl: Run, given: str
) -> None:
    assert sentinelctl("config", "set-context", "dev", f"stores={given}").code == 0
    assert load_settings(context="dev").stores == ("file:///a.yaml", "file:///b.yaml")


def test_a_dry_run_shows_the_lines_that_would_change(file: Path, sentinelctl: Run) -> None:
    made = sentinelctl("config", "set-context", "dev", "environment=dev", "--dry-run")
    assert (made.code, "+        environment: dev\n" in made.out, "Dry run" in made.err) == (0, True, True)
    gone = sentinelctl("config", "delete-context", "staging", "--dry-run")
    assert (gone.code, "-    staging:\n" in gone.out) == (0, True)
    assert sentinelctl("config", "set-context", "dev", "stores=nowhere://x", "--dry-run").code == 78
    assert sentinelctl("config", "set-context", "dev", "--user", "--dry-run").code == 0
    assert file.read_text(encoding="utf-8") == SETTINGS
    assert not (Path.home() / ".config").exists()


def test_a_list_of_more_than_texts_is_given_as_yaml_has_it(file: Path, sentinelctl: Run) -> None:
    assert sentinelctl("config", "set-context", "dev", "owners=[{team: pay, resources: ['pay_*']}]").code == 0
    assert [(each.team, each.resources) for each in load_settings(context="dev").owners] == [("pay", ("pay_*",))]


def test_a_setting_of_a_context_is_changed_and_taken_out_again(file: Path, sentinelctl: Run) -> None:
    assert sentinelctl("config", "set-context", "staging", "guards.maxJump=3", "production=true").code == 0
    assert load_settings(context="staging").guards.max_jump == 3
    assert (
        sentinelctl("config", "set-context", "staging", "--unset", "guards.maxJump", "--unset", "production").code == 0
    )
    assert file.read_text(encoding="utf-8") == SETTINGS


def test_contexts_that_are_written_at_once_all_stand(file: Path, process: Run) -> None:
    """Whoever is told that it stands can rely on it."""
    names = [f"c{number}" for number in range(6)]
    script = "".join(f"$SENTINELCTL config set-context {name} environment=e-{name} & " for name in names)
    ended = process(script=f"{script} $SENTINELCTL config delete-context staging & wait")
    assert ended.err.count("stands in sentinel.yaml") == len(names), ended.err
    assert sorted(YAML().load(file)["contexts"]) == [*names, "prod-eu1"]
    assert file.read_text(encoding="utf-8").startswith(SETTINGS.partition("contexts:")[0])


def test_edits_of_a_file_wait_for_one_another(file: Path) -> None:
    def add(number: int) -> None:
        edited(file, lambda tree: tree["contexts"].__setitem__(f"c{number}", {"environment": "e"}))

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(add, range(24)))
    assert {f"c{number}" for number in range(24)} <= YAML().load(file)["contexts"].keys()


def test_deleting_twice_at_once_deletes_once(file: Path, process: Run) -> None:
    script = "$SENTINELCTL config delete-context staging & " * 3
    process(script=f"{script} wait")
    assert list(YAML().load(file)["contexts"]) == ["prod-eu1"]


def test_deleting_leaves_the_others_and_forgets_the_choice(file: Path, sentinelctl: Run) -> None:
    sentinelctl("config", "use-context", "staging")
    ended = sentinelctl("config", "delete-context", "staging")
    assert (ended.code, "no context is in use now" in ended.err) == (0, True)
    assert sentinelctl("config", "get-contexts", "-o", "name").out == "prod-eu1\n"
    assert "# of the team" in file.read_text(encoding="utf-8")


def test_without_a_project_the_users_file_is_written_and_nobody_else_reads_it(here: Path, sentinelctl: Run) -> None:
    assert sentinelctl("config", "set-context", "dev", "environment=dev").code == 0
    user = Path.home() / ".config" / "sentinel" / "sentinel.yaml"
    assert user.read_text(encoding="utf-8") == "contexts:\n  dev:\n    environment: dev\n"
    assert stat.S_IMODE(user.stat().st_mode) == 0o600
    assert sentinelctl("config", "use-context", "dev").code == 0
    assert environment_of(sentinelctl) == "dev"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("a b",), 64, "a context's name is letters"),
        (("--", "-x"), 64, "a context's name is letters"),
        (("dev", "environment"), 64, "a setting is given as SETTING=VALUE"),
        (("dev", "enviroment=dev"), 64, "there is no setting enviroment; did you mean environment?"),
        (("dev", "guards.maxJump=a lot"), 78, "error: guards.maxJump: input should be a valid number"),
        (("dev", "owners=[{teem: a}]"), 78, "error: owners.0."),
        (("dev", "stores=ftp://x"), 78, "the context could not be used: ftp://x: unknown scheme ftp"),
        (("dev", "stores=file:///a.yaml?pat=b"), 78, "unknown parameter pat"),
        (("dev", "bootstrap=ftp://x"), 78, "ftp://x: unknown scheme ftp"),
        (("dev", "stores=[file:///a.yaml"), 64, "begins with a bracket and is no list of YAML"),
        (("dev", "stores=[git+https://a:hunter2@h/r]"), 78, "a password stands in the file"),
        (("dev", "production=perhaps"), 78, "production: input should be a valid boolean"),
        (("dev", "app=x", "--unset", "app"), 64, "set and unset at once"),
        (("dev", "bootstrap=git+https://a:hunter2@h/r"), 78, "a password stands in the file"),
        (("dev", "audit.redactKey=hunter2hunter2hunter2"), 78, "a key stands in the file"),
    ],
)
def test_what_could_not_be_used_is_not_written(
    file: Path, sentinelctl: Run, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended = sentinelctl("config", "set-context", *arguments)
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert "hunter2" not in ended.err
    assert file.read_text(encoding="utf-8") == SETTINGS
    assert [path.name for path in file.parent.iterdir()] == ["sentinel.yaml"]


def test_a_file_that_cannot_be_read_or_written_is_told(here: Path, sentinelctl: Run) -> None:
    (here / "sentinel.yaml").write_text("contexts: {", encoding="utf-8")
    for line in (("get-contexts",), ("set-context", "dev"), ("use-context", "dev"), ("view",)):
        assert sentinelctl("config", *line).code == 78, line
    (here / "sentinel.yaml").write_text("", encoding="utf-8")
    (here / ".sentinel").write_text("", encoding="utf-8")
    sentinelctl("config", "set-context", "dev")
    ended = sentinelctl("config", "use-context", "dev")
    assert (ended.code, "the choice cannot be kept in .sentinel/context" in ended.err) == (2, True)


names = st.text("abcdefgh", min_size=1, max_size=6)


@given(st.dictionaries(names, st.one_of(st.integers(), st.text("xy ", max_size=5)), min_size=1), names)
def test_adding_and_removing_a_context_gives_the_same_bytes(others: dict[str, object], name: str) -> None:
    """Of a file as our own writer lays it out; other layouts are kept as far as it knows them."""
    from io import BytesIO

    stream = BytesIO()
    YAML().dump(others, stream)
    before = stream.getvalue()
    added = _changed(before, "sentinel.yaml", lambda tree: tree.update({f"{name}_": {"a": 1}}))
    assert added.startswith(before)
    assert _changed(added, "sentinel.yaml", lambda tree: tree.pop(f"{name}_")) == before


# -- production --------------------------------------------------------------------------------------------------------


@pytest.fixture
def production(project: Project) -> Project:
    with (project.folder / "sentinel.yaml").open("a", encoding="utf-8") as file:
        file.write("contexts: {prod: {production: true}}\n")
    (project.folder / "new.yaml").write_text(FIRST.replace("20", "31"), encoding="utf-8")
    return project


LINES = [("rules", "publish", "new.yaml", "--reason", "why"), ("rules", "rollback")]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
@pytest.mark.parametrize(("answer", "code"), [("y\n", 2), ("prod\n", 0)])
def test_in_production_the_name_of_the_context_is_typed(
    production: Project, line: tuple[str, ...], answer: str, code: int
) -> None:
    before = production.head()
    ended, shown = on_terminal(*line, "--context", "prod", cwd=production.folder, answer=answer)
    assert "[prod] Write this" in shown
    assert "To go on, type prod:" in shown
    assert (ended, production.head() == before) == (code, code != 0), shown


def test_in_production_automation_says_yes_and_nothing_is_guessed(production: Project, sentinelctl: Run) -> None:
    line = ["rules", "rollback", "--context", "prod"]
    assert sentinelctl(*line).code == 64
    assert sentinelctl(*line, "--no-input").code == 64
    assert sentinelctl(*line, "--yes").code == 0


def test_a_store_of_production_is_known_from_another_context_too(production: Project) -> None:
    uri = f"git+file://{production.repo}?ref=main&path=sentinel-rules.yaml"
    (production.folder / "sentinel.yaml").write_text(
        f"contexts: {{dev: {{}}, prod: {{production: true, stores: ['{uri}']}}}}\n", encoding="utf-8"
    )
    line = ("rules", "publish", "new.yaml", "--reason", "why", "--store", uri, "--context", "dev")
    ended, shown = on_terminal(*line, cwd=production.folder, answer="y\n")
    assert "[dev] Write this" in shown
    assert "To go on, type prod:" in shown
    assert ended == 2
