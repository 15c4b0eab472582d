"""Settings: one file, the environment, one precedence, and errors that say where."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import start
from sentinel_core.settings import Settings, SettingsError, load_settings, parse_duration, parse_size
from sentinel_core.settings_sources import camel, leaves, parse_settings_text, variable

SAMPLE = """\
app: order-service
environment: prod
namespace: public
stores:
  - nacos://127.0.0.1:8848?group=SENTINEL_GROUP
  - rules/sentinel-rules.yaml
lastKnownGood: .sentinel/last-good
audit:
  outbox: .sentinel/outbox.db
  kafka: {bootstrap: "127.0.0.1:9092"}
  store: sqlite:///.sentinel/audit.db
guards: {maxRemovedPercent: 30, maxJump: 10, forbidZero: true, maxRules: 100000, maxBytes: 10MiB}
"""


def problems(text: str, here: Path) -> list[str]:
    (here / "sentinel.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return [line.replace(f"{here}/", "") for line in caught.value.problems]


def test_the_documented_sample_is_read_and_its_relative_paths_are_relative_to_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "sentinel.yaml").write_text(SAMPLE, encoding="utf-8")
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    settings = load_settings()
    assert settings.app == "order-service"
    assert settings.stores == ("nacos://127.0.0.1:8848?group=SENTINEL_GROUP", f"{here}/rules/sentinel-rules.yaml")
    assert settings.last_known_good == f"{here}/.sentinel/last-good"
    assert settings.audit.outbox == f"{here}/.sentinel/outbox.db"
    assert settings.audit.store == f"sqlite:///{here}/.sentinel/audit.db"
    assert settings.audit.kafka is not None
    assert settings.guards.max_bytes == 10 * 1024 * 1024


def test_without_any_file_the_defaults_are_relative_to_the_working_directory(here: Path) -> None:
    settings = load_settings()
    assert settings.stores == ()
    assert settings.audit.store == f"sqlite:///{here}/.sentinel/audit.db"


def test_flag_wins_over_environment_over_project_file_over_user_file_over_default(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = Path.home() / ".config/sentinel/sentinel.yaml"
    seen = [load_settings().app]
    user.parent.mkdir(parents=True)
    user.write_text("app: of-user\nnamespace: of-user\n", encoding="utf-8")
    seen.append(load_settings().app)
    (here / "sentinel.yaml").write_text("app: of-project\n", encoding="utf-8")
    seen.append(load_settings().app)
    monkeypatch.setenv("SENTINEL_APP", "of-environment")
    seen.append(load_settings().app)
    seen.append(load_settings(flags={"app": "of-flag"}).app)
    assert seen == ["app", "of-user", "of-project", "of-environment", "of-flag"]
    assert load_settings().namespace == "of-user"


def test_every_setting_can_be_given_by_environment() -> None:
    assert {variable(location) for location, _ in leaves(Settings)} >= {
        "SENTINEL_APP",
        "SENTINEL_STORES",
        "SENTINEL_LAST_KNOWN_GOOD",
        "SENTINEL_AUDIT__KAFKA__BOOTSTRAP",
        "SENTINEL_GUARDS__MAX_REMOVED_PERCENT",
    }


def test_nested_values_come_from_the_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_AUDIT__KAFKA__BOOTSTRAP", "broker:9092")
    monkeypatch.setenv("SENTINEL_GUARDS__MAX_BYTES", "2 kB")
    monkeypatch.setenv("SENTINEL_GUARDS__FORBID_ZERO", "false")
    monkeypatch.setenv("SENTINEL_STORES", "file:///a.yaml  rules")
    monkeypatch.setenv("SENTINEL_TIMEOUT", "250ms")
    settings = load_settings()
    assert settings.audit.kafka is not None
    assert settings.audit.kafka.bootstrap == "broker:9092"
    assert settings.guards.max_bytes == 2000
    assert not settings.guards.forbid_zero
    assert settings.stores == ("file:///a.yaml", f"{here}/rules")
    assert settings.timeout == 0.25


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lastKnwonGood: x\n", "sentinel.yaml:1:1: lastKnwonGood: unknown setting; did you mean lastKnownGood?"),
        ("last_known_good: x\n", "sentinel.yaml:1:1: last_known_good: unknown setting; did you mean lastKnownGood?"),
        ("audit:\n  outbx: x\n", "sentinel.yaml:2:3: audit.outbx: unknown setting; did you mean outbox?"),
        (
            "guards: {zzz: 1}\n",
            "sentinel.yaml:1:10: guards.zzz: unknown setting; known here: maxRemovedPercent, maxJump, forbidZero",
        ),
        (
            "guards: {maxBytes: 10 parsecs}\n",
            "sentinel.yaml:1:10: guards.maxBytes: write a size such as 10MiB, 512kB or 1048576",
        ),
        ("timeout: soon\n", "sentinel.yaml:1:1: timeout: write a duration such as 250ms, 5s, 2m or 1h"),
        ("guards: {maxRules: many}\n", "sentinel.yaml:1:10: guards.maxRules: input should be a valid integer"),
        ("audit: 5\n", "sentinel.yaml:1:1: audit: write `name: value` lines below it"),
        ("app:\n  x: 1\n", "sentinel.yaml:1:1: app: write text"),
        ("- a\n", "sentinel.yaml:1:1: settings are `name: value` lines"),
        ("app: [\n", "sentinel.yaml:2:1: not valid YAML"),
        ("app: a\napp: b\n", "sentinel.yaml:2:1: this name stands here twice; keep one"),
    ],
)
def test_an_error_names_file_line_column_setting_and_what_to_write(here: Path, text: str, said: str) -> None:
    (first, *_) = problems(text, here)
    assert first.startswith(said)


def test_all_problems_are_told_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_AUDIT__OUTBX", "x")
    said = problems("ap: x\nguards: {maxJump: 0.5}\n", here)
    assert [line.split(":")[0] for line in said] == ["sentinel.yaml", "SENTINEL_AUDIT__OUTBX", "sentinel.yaml"]
    assert said[1] == "SENTINEL_AUDIT__OUTBX: unknown setting; did you mean SENTINEL_AUDIT__OUTBOX?"


def test_variables_that_are_nobodys_misspelling_are_left_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("SENTINEL_TRACES", "/x")
    assert load_settings().app == "app"


def test_a04_a_password_in_the_file_is_refused_and_not_repeated(here: Path) -> None:
    (said,) = problems("stores:\n  - nacos://ops:hunter2@nacos:8848\n", here)
    assert said.startswith("sentinel.yaml:1:1: stores: a password stands in the file; set SENTINEL_STORES")
    assert "hunter2" not in said


@pytest.mark.parametrize("how", ["environment", "file of the environment", "file of the settings"])
def test_a04_a_password_comes_from_the_environment_or_from_a_file_of_its_own_and_is_never_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    uri = "nacos://ops:hunter2@nacos:8848"
    (here / "secret").write_text(f"{uri}\n", encoding="utf-8")
    if how == "environment":
        monkeypatch.setenv("SENTINEL_STORES", uri)
    elif how == "file of the environment":
        monkeypatch.setenv("SENTINEL_STORES_FILE", str(here / "secret"))
    else:
        (here / "sentinel.yaml").write_text("storesFile: secret\n", encoding="utf-8")
    settings = load_settings()
    assert settings.stores == (uri,)
    assert "hunter2" not in repr(settings)


def test_a_secret_file_that_is_missing_is_named_with_the_setting(here: Path) -> None:
    (said,) = problems("audit: {storeFile: /nowhere/secret}\n", here)
    assert said == "sentinel.yaml:1:9: audit.store: /nowhere/secret cannot be read: No such file or directory"


def test_a_file_named_by_flag_must_exist(here: Path) -> None:
    with pytest.raises(SettingsError, match=r"nope\.yaml: cannot be read: No such file"):
        load_settings(here / "nope.yaml")


@given(st.binary(max_size=60))
def test_no_bytes_make_the_settings_file_raise_anything_but_a_value_error(content: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_settings_text(content, "sentinel.yaml")[0], dict)


@given(st.integers(1, 10**6), st.sampled_from(["", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_sizes_scale_by_their_unit(number: int, unit: str) -> None:
    factor = {"": 1, "B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1024, "MiB": 2**20, "GiB": 2**30}[unit]
    assert parse_size(f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("5s", 5), ("5", 5), ("2m", 120), ("1.5h", 5400), ("1d", 86400)]
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


def test_names_in_files_are_camel_case() -> None:
    assert camel("last_known_good") == "lastKnownGood"


@pytest.mark.parametrize("key", ["S3cretPw", "ghp_abcdefghijklmnopqrst", "a" * 40, "pa/ss"])
def test_a_key_that_may_be_a_secret_is_not_repeated(here: Path, key: str) -> None:
    (said,) = problems(f"{key}: 1\n", here)
    assert said.startswith("sentinel.yaml:1:1: ***: unknown setting")
    (said,) = problems(f"{key}: hunter2\n{key}: hunter3\n", here)
    assert said == "sentinel.yaml:2:1: this name stands here twice; keep one"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stores: one\n", "stores: write a list, for example [first, second]"),
        ("app: [a]\n", "app: write text, in quotes if it looks like something else"),
        ("audit: text\n", "audit: write `name: value` lines below it"),
        ("- app\n", "a list stands here"),
        ("app\n", "one value stands here"),
    ],
)
def test_what_is_of_another_form_is_told_without_words_of_python(here: Path, text: str, said: str) -> None:
    (problem,) = problems(text, here)
    assert problem.startswith("sentinel.yaml:1:1: ")
    assert problem.endswith(said)


def test_a04_a_password_of_a_collector_is_refused_in_a_file_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "STOCK_DEPTH=redis://shop:hunter2@redis:6379/0?key=stock"
    (said,) = problems(f"collectors:\n  - {uri}\n", here)
    assert said.startswith("sentinel.yaml:1:1: collectors: a password stands in the file; set SENTINEL_COLLECTORS")
    assert "hunter2" not in said
    (here / "sentinel.yaml").unlink()
    monkeypatch.setenv("SENTINEL_COLLECTORS", f"{uri} QUEUE=redis://redis?key=q&length_of=list")
    settings = load_settings()
    assert settings.collectors == (uri, "QUEUE=redis://redis?key=q&length_of=list")
    assert "hunter2" not in repr(settings)


def test_a_service_decides_like_java_and_writes_its_logs_where_the_settings_say_so(here: Path) -> None:
    text = "app: shop\ncompat: sentinel-1.8.9\nmetricLog: {folder: logs}\n"
    (here / "sentinel.yaml").write_text(text, encoding="utf-8")
    service = start(load_settings())
    try:
        assert service.status()["compat"] == "sentinel-1.8.9"
        service.load_rules("flow", [{"resource": "r", "count": 0.3}])
        assert not service.try_entry("r")
    finally:
        service.close()
    assert "r,FlowException" in (here / "logs" / "sentinel-block.log").read_text()
    (said,) = problems("compat: sentinel-2\n", here)
    assert said == "sentinel.yaml:1:1: compat: input should be 'sentinel-1.8.9'"
