"""How the program ends: the exit codes, and which error leads to which.

    CommandError            what a command itself finds wrong, with the code and the next step
    ├── UsageProblem        64: the command line cannot be meant like this
    └── BadSettings         78: something is missing in the settings

Every other error is one of the packages' own and is looked up in `code_of`.
"""

from __future__ import annotations

import enum
import errno

import click


class Exit(enum.IntEnum):
    """Exit codes are API; scripts and CI decide by them."""

    DONE = 0
    DIFFERENCES = 1
    ERROR = 2
    REFUSED = 3
    DENIED = 4
    CONFLICT = 5
    NOT_CONVERGED = 6
    USAGE = 64
    INVALID_RULES = 65
    UNREACHABLE = 69
    OUTPUT = 74
    BAD_SETTINGS = 78
    INTERRUPTED = 130


class CommandError(Exception):
    """What is wrong and where (`message`), and what to type next (`next_step`)."""

    code = Exit.ERROR

    def __init__(self, message: str, *, next_step: str, code: Exit | None = None) -> None:
        super().__init__(message)
        self.next_step = next_step
        self.code = self.code if code is None else code


class UsageProblem(CommandError):
    """The command line cannot be meant like this."""

    code = Exit.USAGE


class BadSettings(CommandError):
    """A command needs something that the settings do not give."""

    code = Exit.BAD_SETTINGS


def code_of(error: BaseException) -> Exit:
    """The exit code of an error that reached the top. What is not foreseen is ERROR (2)."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        return Exit.USAGE
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # click writes its help by itself
        return Exit.OUTPUT
    return next((code for kind, code in _known_errors() if isinstance(error, kind)), Exit.ERROR)


def next_step_of(error: BaseException) -> str | None:
    """What to type next, where the code alone says it and the message does not."""
    if isinstance(error, CommandError):
        return error.next_step
    return _step_of_kind(error) or _NEXT_STEPS.get(code_of(error))


def _step_of_kind(error: BaseException) -> str | None:
    """Where the code alone says too little."""
    from sentinel_core.audit.errors import EventDamaged, EventInvalid, LibraryMissing, PurgeFailed, QueryInvalid

    if isinstance(error, PurgeFailed):
        return error.next_step
    if isinstance(error, (EventInvalid, EventDamaged)):
        return "sentinelctl audit verify    (says what is not as it was written)"
    if isinstance(error, QueryInvalid):
        return error.next_step or "sentinelctl audit query --help    (how times and terms are written)"
    if isinstance(error, LibraryMissing) or (code_of(error) == Exit.BAD_SETTINGS and "pip install " in str(error)):
        return "install that, then run the command again"
    return None


def is_foreseen(error: BaseException) -> bool:
    """Whether the message of the error is written for users; of any other only `--debug` shows more."""
    return isinstance(error, (CommandError, click.ClickException, click.Abort)) or any(
        isinstance(error, kind) for kind, _ in _known_errors()
    )


_NEXT_STEPS = {
    Exit.UNREACHABLE: "sentinelctl doctor    (reaches every store and says which step fails)",
    Exit.DENIED: "check the credentials that this store needs, then: sentinelctl doctor",
    Exit.CONFLICT: "look at what changed in between, then run the command again",
    Exit.BAD_SETTINGS: "mend the settings, then: sentinelctl doctor",
    Exit.INVALID_RULES: "mend the rules, then: sentinelctl rules validate",
}


def _known_errors() -> tuple[tuple[type[BaseException], Exit], ...]:
    """Imported when something failed, so that a run that goes well does not pay for it."""
    from sentinel_core.audit.errors import (
        AuditError,
        EventDamaged,
        KeyUnusable,
        PublisherDenied,
        PublisherMisconfigured,
        PublisherUnavailable,
        QueryInvalid,
        StoreDamaged,
        StoreDenied,
        StoreMisconfigured,
        StoreUnavailable,
    )
    from sentinel_core.cli.output import OutputError
    from sentinel_core.datasources.contract import (
        DatasourceError,
        SourceConflict,
        SourceDenied,
        SourceMisconfigured,
        SourceUnavailable,
    )
    from sentinel_core.rules.errors import RuleRejected
    from sentinel_core.settings import SettingsError

    return (
        (RuleRejected, Exit.INVALID_RULES),
        (SourceUnavailable, Exit.UNREACHABLE),
        (SourceDenied, Exit.DENIED),
        (SourceConflict, Exit.CONFLICT),
        (SourceMisconfigured, Exit.BAD_SETTINGS),
        (DatasourceError, Exit.ERROR),
        (SettingsError, Exit.BAD_SETTINGS),
        (QueryInvalid, Exit.USAGE),
        (EventDamaged, Exit.ERROR),
        (StoreDamaged, Exit.ERROR),
        (StoreDenied, Exit.DENIED),
        (StoreMisconfigured, Exit.BAD_SETTINGS),
        (StoreUnavailable, Exit.UNREACHABLE),
        (KeyUnusable, Exit.BAD_SETTINGS),
        (PublisherDenied, Exit.DENIED),
        (PublisherMisconfigured, Exit.BAD_SETTINGS),
        (PublisherUnavailable, Exit.UNREACHABLE),
        (AuditError, Exit.ERROR),
        (OutputError, Exit.OUTPUT),
    )
