"""What `doctor` looks at. Every check ends in lines, never in an exception, and none waits longer than it may."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from sentinel_core.cli import applied_clocks, evidence, gauges, git, services_checks, stores_checks
from sentinel_core.cli.app import App
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.keys import keys
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.cli.serving import serving_of
from sentinel_core.cli.stores_checks import first_line, overlay_of
from sentinel_core.cli.text import plural
from sentinel_core.cli.version import engine_build
from sentinel_core.rules import RuleRejected, parse_revision
from sentinel_core.rules.overlay import FOLDER as OVERLAYS
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
    if app.context.name:
        severe = "; production: publishing asks for its name" if settings.production else ""
        yield Check("context", "ok", f"{app.context.name} (from {app.context.origin}){severe}")
    yield from _not_acted_on(app)
    yield from _rules_as_code(settings)
    yield from stores_checks.checks(settings, limit or settings.timeout)
    yield from services_checks.checks(app, limit or settings.timeout)
    yield from evidence.kafka(settings, limit or settings.timeout)
    yield evidence.outbox(settings)
    yield evidence.audit_store(settings, limit or settings.timeout)
    yield from applied_clocks.checks(settings, limit or settings.timeout)
    yield evidence.last_good(settings)
    yield from keys(settings)
    yield from evidence.observations(settings)
    yield from gauges.collectors(settings, limit or settings.timeout)


def _not_acted_on(app: App) -> Iterator[Check]:
    """Said once for all: who sets a limit must not believe that it holds."""
    settings = set_by_somebody(app.config, app.context.name)
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
        parts = [parse_revision(revision, kinds, serving=serving_of(settings)) for revision, kinds in found]
    except (RuleRejected, UsageProblem) as error:
        yield Check(
            "rules",
            "fail",
            first_line(error),
            f"sentinelctl rules validate {shown(path)}",
            Exit.INVALID_RULES,
        )
        return
    count = sum(len(ruleset.rules) for part in parts for ruleset in part.values())
    warnings = sum(len(ruleset.warnings) for part in parts for ruleset in part.values())
    overlay = overlay_of([revision for revision, _ in found])
    if not overlay and (path / OVERLAYS).is_dir():
        overlay = f", without an overlay: there is none for {settings.environment}"
    text = f"{shown(path)}: {plural(count, 'rule')}, valid{overlay}"
    if warnings:
        yield Check(
            "rules", "warn", f"{text}, {plural(warnings, 'warning')}", f"sentinelctl rules validate {shown(path)}"
        )
    else:
        yield Check("rules", "ok", text)
