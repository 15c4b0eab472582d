"""What `doctor` looks at. Every check ends in lines, never in an exception, and none waits longer than it may."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sentinel_core.audit.redact import mask_text
from sentinel_core.cli import evidence, gauges, git
from sentinel_core.cli.app import App
from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit, UsageProblem, code_of
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.cli.rules.sides import short_version
from sentinel_core.cli.text import plural
from sentinel_core.cli.version import engine_build
from sentinel_core.datasources.contract import (
    Absent,
    DatasourceError,
    HasHistory,
    Item,
    Ordered,
    Readable,
    Reading,
    SourceRewound,
)
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.rules import Kind, Revision, RuleRejected, parse_revision
from sentinel_core.rules.overlay import FOLDER as OVERLAYS
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.service import open_stores
from sentinel_core.settings import NOT_ACTED_ON, Settings, SettingsError, parse_duration, set_by_somebody
from sentinel_core.settings_sources import dotted, settings_file

OLDEST_GIT = (2, 31)


def all_checks(app: App, timeout: str | None) -> Iterator[Check]:
    """In the order in which a rule travels; what needs the settings is left out where they are bad."""
    limit = _limit(timeout)
    yield from (_python(), _git(), _engine())
    found = settings_file(app.config)
    try:
        settings = app.settings
    except SettingsError as error:
        for problem in error.problems:
            yield Check("settings", "fail", problem, "mend it and run this again", Exit.BAD_SETTINGS)
        return
    where = str(found) if found else "no sentinel.yaml here or above; defaults and environment are used"
    yield Check("settings", "ok", f"{where}; app {settings.app}, environment {settings.environment}")
    yield from _not_acted_on(app)
    yield from _rules_as_code(settings)
    yield from _stores(settings, limit or settings.timeout)
    yield from evidence.kafka(settings, limit or settings.timeout)
    yield from (evidence.outbox(settings), evidence.audit_store(settings), evidence.last_good(settings))
    yield from evidence.observations(settings)
    yield from gauges.collectors(settings, limit or settings.timeout)


def _not_acted_on(app: App) -> Iterator[Check]:
    """Said once for all: who sets a limit must not believe that it holds."""
    settings = set_by_somebody(app.config)
    told = [f"{dotted(name)} ({origin})" for name, origin in settings.items() if name[0] in NOT_ACTED_ON]
    if told:
        text = f"{', '.join(told)}: {'is' if len(told) == 1 else 'are'} not acted on by this version"
        yield Check("settings", "warn", text, "leave it out, so that nobody relies on it")


def _limit(timeout: str | None) -> float | None:
    try:
        value = None if timeout is None else float(str(parse_duration(timeout)))
    except ValueError as error:
        raise UsageProblem(f"--timeout {timeout}: {error}", next_step="for example: --timeout 5s") from error
    if value is not None and value <= 0:
        raise UsageProblem(f"--timeout {timeout}: it must be more than nothing", next_step="for example: --timeout 5s")
    return value


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})")


def _git() -> Check:
    version = git.version()
    if version is None:
        return Check("git", "warn", "not found on PATH", "install Git: stores in Git cannot be used without it")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        return Check("git", "warn", f"{version} is old", f"install Git {wanted} or newer")
    return Check("git", "ok", version)


def _engine() -> Check:
    if engine_build() == "compiled":
        return Check("engine", "ok", "compiled")
    return Check("engine", "ok", "pure Python; a build with a C compiler is about twice as fast")


def _rules_as_code(settings: Settings) -> Iterator[Check]:
    from sentinel_core.cli.rules.inputs import read_revisions

    path = Path(settings.rules)
    if not path.exists():
        return
    try:
        found = read_revisions(shown(path), None, settings.environment)
        parts = [parse_revision(revision, kinds) for revision, kinds in found]
    except (RuleRejected, UsageProblem) as error:
        yield Check(
            "rules",
            "fail",
            _first_line(error),
            f"sentinelctl rules validate {shown(path)}",
            Exit.INVALID_RULES,
        )
        return
    count = sum(len(ruleset.rules) for part in parts for ruleset in part.values())
    warnings = sum(len(ruleset.warnings) for part in parts for ruleset in part.values())
    overlay = _overlay([revision for revision, _ in found])
    if not overlay and (path / OVERLAYS).is_dir():
        overlay = f", without an overlay: there is none for {settings.environment}"
    text = f"{shown(path)}: {plural(count, 'rule')}, valid{overlay}"
    if warnings:
        yield Check(
            "rules", "warn", f"{text}, {plural(warnings, 'warning')}", f"sentinelctl rules validate {shown(path)}"
        )
    else:
        yield Check("rules", "ok", text)


def _overlay(revisions: Sequence[Revision]) -> str:
    names = [name for each in revisions for name in sorted(overlays_among(text.name for text in each.texts))]
    return f", with the overlay {', '.join(names)}" if names else ""


# -- stores ------------------------------------------------------------------------------------------------------------


def _stores(settings: Settings, limit: float) -> Iterator[Check]:
    if not settings.stores:
        yield Check("store", "warn", "none is configured", "write `stores: [URI]` into sentinel.yaml")
        return
    with ExitStack() as undo:
        try:
            stores = list(open_stores(settings, undo))
        except (DatasourceError, SettingsError) as error:
            yield Check("store", "fail", str(error), "mend `stores` in the settings", code_of(error))
            return
        folder = Path(settings.last_known_good)
        running = [Bounded(partial(_store, source, kinds, LastGood(folder))) for source, kinds in stores]
        deadline = time.monotonic() + limit
        for (source, _), each in zip(stores, running, strict=True):
            late = Check(
                "store",
                "fail",
                f"{source.uri}: no answer within {limit:g} s",
                "check the network and the address",
                Exit.UNREACHABLE,
            )
            yield each.result(deadline, late)


def _store(source: Readable, kinds: Sequence[Kind], last_good: LastGood) -> Check:
    began = time.monotonic()
    behind = ""
    try:
        found = [(item, source.read(item)) for item in source.items(kinds)]
        took = (time.monotonic() - began) * 1000
        rules = 0
        versions = []
        for item, reading in found:
            if not isinstance(reading, Absent):
                behind = _behind(item, reading, last_good)
                rules += sum(len(ruleset.rules) for ruleset in parse_revision(reading, item.kinds).values())
                versions.append(short_version(reading))
    except RuleRejected as error:
        step = f"sentinelctl rules show '{source.uri}'    (tells every problem)"
        return Check("store", "fail", f"{source.uri}: {behind}{_first_line(error)}", step, Exit.INVALID_RULES)
    except Exception as error:  # noqa: BLE001 -- an adapter may raise anything; the report goes on with the next store
        return Check(
            "store",
            "fail",
            f"{source.uri}: {_first_line(error)}",
            "see what it says, then run this again",
            code_of(error),
        )
    if not versions:
        reasons = "; ".join(reading.reason for _, reading in found if isinstance(reading, Absent))
        return Check(
            "store",
            "warn",
            f"{source.uri}: reached in {took:.0f} ms, but it holds no rules ({reasons})",
            f"check its {'ref and path' if isinstance(source, HasHistory) else 'path'}",
        )
    rewound = _rewound(source, found, last_good)
    if rewound is not None:
        return rewound
    overlay = _overlay([reading for _, reading in found if not isinstance(reading, Absent)])
    version = ", ".join(dict.fromkeys(versions))
    text = f"{source.uri}: {took:.0f} ms, at {version}, {plural(rules, 'rule')}, valid{overlay}"
    return Check("store", "ok", text)


def _behind(item: Item, reading: Revision, last_good: LastGood) -> str:
    """How services of this machine stand to a revision that they refuse; nothing where they never ran another one."""
    ran = last_good.load(item)
    if not ran or ran[-1].version == reading.version:
        return ""
    here, there = short_version(ran[-1]), short_version(reading)
    return f"services here last ran {here}, the store stands at {there}: refused because "


def _rewound(source: Readable, found: Sequence[tuple[Item, Reading]], last_good: LastGood) -> Check | None:
    """A warning where the store went back behind what services of this machine ran: they keep what they have."""
    if not isinstance(source, Ordered):
        return None
    for item, reading in found:
        ran = last_good.load(item)
        if isinstance(reading, Absent) or not ran or ran[-1].version == reading.version:
            continue
        try:
            source.admit(item, ran[-1], reading)
        except SourceRewound as error:
            why = _first_line(error).removeprefix(f"{source.uri}: ")
            step = "push the lost commits again, or add &allow_rewind=true to the store"
            return Check("store", "warn", f"{source.uri}: {_behind(item, reading, last_good)}{why}", step)
    return None


def _first_line(error: BaseException) -> str:
    return mask_text(str(error)).partition("\n")[0] or type(error).__name__
