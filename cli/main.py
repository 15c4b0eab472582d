"""`sentinelctl`: the table of commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Sequence
from typing import cast

import click
from click.exceptions import NoArgsIsHelpError

from sentinel_core.cli.app import App, shared_options
from sentinel_core.cli.entry import main  # noqa: F401 -- what is installed already begins here
from sentinel_core.cli.exits import Exit, code_of, is_foreseen, next_step_of
from sentinel_core.cli.lazy import COMPLETING, Lazy, LazyGroup
from sentinel_core.cli.output import OutputError

PROGRAM = "sentinelctl"
COMMANDS = {
    "demo": Lazy("sentinel_core.cli.demo.command:demo", "Show the whole loop on this machine, no server needed."),
    "doctor": Lazy("sentinel_core.cli.doctor:doctor", "Check settings, stores, rules, outbox and audit store."),
    "rules": Lazy("sentinel_core.cli.rules:rules", "Validate, compare, explain and roll back rules."),
    "sync": Lazy("sentinel_core.cli.sync:sync", "Keep a store at what is committed on a branch."),
    "serve": Lazy("sentinel_core.cli.serve:serve", "Keep a store at Git, and store events, in one process."),
    "lock": Lazy("sentinel_core.cli.lock:lock", "Locks of stores: list, hold, release, break."),
    "audit": Lazy("sentinel_core.cli.audit:audit", "Who changed which rule, when and why."),
    "instances": Lazy("sentinel_core.cli.instances:instances", "Running services, and which rules they have."),
    "biz": Lazy("sentinel_core.cli.biz:biz", "Watch business metrics, and draw thresholds from what was seen."),
    "config": Lazy("sentinel_core.cli.config:config", "Contexts: settings under a name, to choose from."),
    "engine": Lazy("sentinel_core.cli.engine:engine", "Look into the engine."),
    "completion": Lazy("sentinel_core.cli.completion:completion", "Print the completion script for a shell."),
    "version": Lazy("sentinel_core.cli.version:version", "Print the version of this program and what it runs on."),
}
HELP = """Control plane for Sentinel-style traffic rules.

\b
sentinelctl demo                                     the whole loop, without a server
sentinelctl rules validate                           the rules as code of this folder
sentinelctl rules diff                               what was committed against what is live
sentinelctl rules publish --yes                      what was committed into the store
sentinelctl audit who payment_invoke --since 2h      who changed it, from what to what

Data goes to stdout, talk to stderr. The flags below may stand anywhere on the line.

\b
Exit codes: 0 done · 1 differences · 2 error · 3 refused by a guard · 4 permission
            5 conflict · 6 not converged · 64 usage · 65 invalid rules
            69 not reachable · 74 no output · 78 bad settings · 130 interrupted
"""

cli = LazyGroup(PROGRAM, help=HELP, lazy=COMMANDS, shared=shared_options)


def run(arguments: Sequence[str]) -> int:
    """One run; gives the exit code. Nothing is raised, and nothing is left in a buffer that fails at exit."""
    app = App()
    if COMPLETING in os.environ:
        from sentinel_core.cli.shells import get_ready

        get_ready()
    try:
        code = _run(app, list(arguments))
        app.out.flush()
    except OutputError as error:
        code = _last_words(app, error)
    return int(code)


def _run(app: App, arguments: list[str]) -> int:
    _log_through(app)
    try:
        result = cli.main(arguments, prog_name=PROGRAM, standalone_mode=False, obj=app)
    except BrokenPipeError:  # click's own help pages; our data is guarded in the output layer
        return Exit.DONE
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 -- the last place that can turn it into words
        return _report(app, error, arguments)
    return result if isinstance(result, int) else Exit.DONE


def _report(app: App, error: BaseException, arguments: Sequence[str] = ()) -> int:
    code = code_of(error)
    out = app.out
    if app.debug:
        out.say_text(_masked("".join(traceback.format_exception(error))))
    if code is Exit.INTERRUPTED:
        out.say("interrupted")
        return code
    if isinstance(error, NoArgsIsHelpError):
        out.say_text(error.format_message())
        return code
    if isinstance(error, click.UsageError) and error.ctx is not None:
        out.say_text(error.ctx.get_usage())
    out.say_text(f"error: {_words(error)}", "red")
    step = next_step_of(error) or _help_step(error, arguments)
    if step is not None:
        out.say_text(f"  next: {step}")
    return code if app.code_of_errors is None else app.code_of_errors


def _last_words(app: App, error: OutputError) -> int:
    try:
        return _report(app, error)
    except OutputError:  # stderr is gone too; the exit code is all that is left to say
        return Exit.OUTPUT


def _words(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        text = error.format_message().replace(":\n\t", ": ").replace("\n\t", " ")  # click's lists of choices
    elif isinstance(error, OSError) and not is_foreseen(error) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif is_foreseen(error):
        text = str(error)
    else:
        text = f"unexpected {type(error).__name__}: {error}\nNothing more is known here; --debug shows the traceback."
    return _masked(text)


def _masked(text: str) -> str:
    from sentinel_core.masking import mask_text, mask_uri

    return mask_text(mask_uri(text))


def _help_step(error: BaseException, arguments: Sequence[str]) -> str | None:
    if not isinstance(error, click.UsageError):
        return None
    if error.ctx is not None:
        return f"{error.ctx.command_path} --help"
    path, group = [PROGRAM], cast("click.Command", cli)  # click does not say where an option has no value
    for word in arguments:
        if isinstance(group, LazyGroup) and word in group.lazy:
            path.append(word)
            group = group.get_command(click.Context(group), word) or group
    return " ".join([*path, "--help"])


def _log_through(app: App) -> None:
    """Log records of the packages become talk on stderr; one that cannot be written is dropped."""
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Talk)] + [_Talk(app)]
    root.setLevel(logging.WARNING)
    # What it says of each attempt to connect is said once, in our own words.
    logging.getLogger("kafka").setLevel(logging.WARNING if app.debug else logging.CRITICAL)


class _Talk(logging.Handler):
    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    def emit(self, record: logging.LogRecord) -> None:
        self._app.out.say_text(_masked(f"{record.levelname.lower()}: {record.getMessage()}"))
