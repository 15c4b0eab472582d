"""Every error has its exit code, and its message says what, where, and what to type next."""

from __future__ import annotations

import click
import pytest

from sentinel_core.audit.errors import QueryInvalid, SinkUnavailable, StoreDamaged, StoreUnavailable
from sentinel_core.cli import version
from sentinel_core.cli.exits import BadSettings, CommandError, Exit, UsageProblem, code_of, next_step_of
from sentinel_core.cli.output import OutputError
from sentinel_core.datasources.contract import (
    DatasourceError,
    SourceConflict,
    SourceDenied,
    SourceMisconfigured,
    SourceUnavailable,
)
from sentinel_core.rules import Problem, RuleRejected
from sentinel_core.settings import SettingsError
from tests.cli.conftest import Run

PROBLEM = Problem("SR102", "error", "count is 2O", file="r.yaml", line=3, column=9, resource="pay")
ERRORS: list[tuple[BaseException, int, str]] = [
    (RuleRejected([PROBLEM]), 65, "r.yaml:3:9: error SR102 pay: count is 2O"),
    (SourceUnavailable("nacos at h:8848 does not answer"), 69, "nacos at h:8848 does not answer"),
    (SourceDenied("h refuses ops"), 4, "h refuses ops"),
    (SourceConflict("somebody else wrote"), 5, "somebody else wrote"),
    (SourceMisconfigured("no such ref"), 78, "no such ref"),
    (DatasourceError("odd"), 2, "odd"),
    (SettingsError(["sentinel.yaml:1:1: ap: unknown setting"]), 78, "sentinel.yaml:1:1: ap: unknown setting"),
    (BadSettings("no store", next_step="write one"), 78, "no store\n  next: write one"),
    (UsageProblem("two targets", next_step="give one"), 64, "two targets\n  next: give one"),
    (CommandError("nothing there", next_step="look"), 2, "nothing there\n  next: look"),
    (CommandError("refused", next_step="allow", code=Exit.REFUSED), 3, "refused\n  next: allow"),
    (QueryInvalid("feild: is no qualifier"), 64, "feild: is no qualifier"),
    (StoreUnavailable("audit.db is locked"), 69, "audit.db is locked"),
    (StoreDamaged("audit.db is damaged"), 2, "audit.db is damaged"),
    (SinkUnavailable("outbox.db is full"), 2, "outbox.db is full"),
    (OutputError("the output could not be written"), 74, "the output could not be written"),
    (click.BadParameter("no number", param_hint="--limit"), 64, "Invalid value for --limit: no number"),
    (click.UsageError("no such option"), 64, "no such option"),
    (PermissionError(13, "Permission denied", "/etc/x"), 2, "/etc/x: Permission denied"),
    (ZeroDivisionError("division by zero"), 2, "unexpected ZeroDivisionError: division by zero"),
    (RecursionError("too deep"), 2, "--debug shows the traceback"),
    (MemoryError(), 2, "unexpected MemoryError"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (click.Abort(), 130, "interrupted"),
]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What `sentinelctl version` raises."""
    errors: list[BaseException] = []

    def fail() -> str:
        raise errors[0]

    monkeypatch.setattr(version, "product_version", fail)
    return errors


@pytest.mark.parametrize(("error", "code", "said"), ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_ends_with_its_code_and_its_words(
    failing: list[BaseException], sentinelctl: Run, error: BaseException, code: int, said: str
) -> None:
    failing.append(error)
    ended = sentinelctl("version")
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert code_of(error) == code


def test_debug_shows_the_traceback(failing: list[BaseException], sentinelctl: Run) -> None:
    failing.append(ZeroDivisionError("x"))
    ended = sentinelctl("version", "--debug")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.endswith("--debug shows the traceback.\n")


@pytest.mark.parametrize("flag", [[], ["--debug"]])
def test_a04_no_credential_is_in_any_message_not_even_of_an_unexpected_error(
    failing: list[BaseException], sentinelctl: Run, flag: list[str]
) -> None:
    failing.append(RuntimeError("cannot reach nacos://ops:hunter2@h:8848?token=abcdef123456"))
    ended = sentinelctl("version", *flag)
    assert "hunter2" not in ended.err
    assert "abcdef123456" not in ended.err


def test_an_error_message_cannot_move_the_cursor(failing: list[BaseException], sentinelctl: Run) -> None:
    failing.append(SourceUnavailable("\x1b[2Jgone\u202e"))
    assert "\\x1b[2Jgone\\u202e" in sentinelctl("version").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verzion"], "There is no command 'verzion'. Did you mean 'version'?\n  next: sentinelctl --help"),
        (
            ["rules", "vlidate"],
            "There is no command 'vlidate'. Did you mean 'validate'?\n  next: sentinelctl rules --help",
        ),
        (["rules", "zzz"], "Known: validate, fmt, schema"),
        (["version", "--frobnicate"], "No such option"),
        (["rules", "show", "--kind", "flows"], "'flow'"),
        (["rules", "show", "-o", "xml"], "'ndjson'"),
        (["rules", "diff", "a", "b", "c"], "extra argument"),
        (["rules", "rollback", "--to", "first"], "not a valid integer"),
        (["audit", "who"], "Missing argument"),
        (["doctor", "--timeout", "soon"], "write a duration such as 250ms, 5s, 2m or 1h"),
    ],
)
def test_usage_errors_end_with_64_and_the_nearest_right_thing(
    sentinelctl: Run, arguments: list[str], said: str
) -> None:
    ended = sentinelctl(*arguments)
    assert (ended.code, ended.out) == (64, "")
    assert said in ended.err
    assert "\n  next: " in ended.err


def test_without_a_command_the_help_is_shown_and_nothing_was_done(sentinelctl: Run) -> None:
    for arguments in ([], ["rules"]):
        ended = sentinelctl(*arguments)
        assert (ended.code, ended.out) == (64, "")
        assert "\nUsage: sentinelctl" in ended.err


def test_a_library_that_is_missing_is_installed_first() -> None:
    missing = SourceMisconfigured("etcd:// needs gRPC; install it with: pip install 'sentinel-control-plane[etcd]'")
    assert next_step_of(missing) == "install that, then run the command again"
    assert "mend the settings" in str(next_step_of(SourceMisconfigured("no such ref")))
