"""`sentinelctl rules validate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from sentinel_core.cli.annotations import FORMS, Annotation, forms
from sentinel_core.cli.app import App, output_options_and, pass_app
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.rules.inputs import given_or_default, read_variants
from sentinel_core.cli.rules.options import kind_option
from sentinel_core.cli.serving import serving_if_known
from sentinel_core.cli.text import Span, Styled, plural
from sentinel_core.rules import Kind, Problem, Revision, RuleRejected, parse_revision
from sentinel_core.rules.codes import CODES
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.rules.queueing import Serving

_COLOURS = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One argument, looked through."""

    name: str
    valid: bool
    rules: int
    digests: Mapping[Kind, str]
    problems: tuple[Problem, ...]
    is_variant: bool = False
    """A base once more, with an environment's overlay: its rules are not counted again."""


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@kind_option("Kind of a JSON list; needed where the file name does not say.")
@click.option("--strict", is_flag=True, help="Warnings make the rules invalid too.")
@output_options_and(*FORMS)
@pass_app
def validate(app: App, paths: tuple[str, ...], kind: Kind | None, strict: bool) -> int:
    """Parse, validate and lint rules.

    \b
    sentinelctl rules validate
    sentinelctl rules validate sentinel-rules.yaml --strict      warnings are errors, for CI
    sentinelctl rules validate --kind flow - < flow.json         a list as a store holds it

    PATH is a YAML file, a folder whose files are taken together, a JSON list as a store holds it, or - for stdin;
    default: the `rules` of the settings. A folder is looked at as it is and once more with each overlay in its
    subfolder environments. Nothing is changed anywhere.

    \b
    sentinelctl rules validate -o github        annotations on the lines of a pull request
    sentinelctl rules validate -o junit         a report for GitLab and Jenkins; -o sarif for code scanning

    Exit code 0: valid, warnings allowed (not with --strict); 65: invalid.
    """
    parts = [part for path in given_or_default(app, paths) for part in read_variants(path, kind)]
    serving = serving_if_known(app)
    checked = _each_problem_once([check(revision, kinds, serving) for revision, kinds in parts])
    app.out.show(_view(checked, strict=strict))
    app.out.say(_summary(checked))
    bad = any(not each.valid or (strict and each.problems) for each in checked)
    return Exit.INVALID_RULES if bad else Exit.DONE


def _each_problem_once(checked: Sequence[Checked]) -> Sequence[Checked]:
    """What is wrong in a base is told once, not again with each overlay."""
    told: set[tuple[str | int | None, ...]] = set()
    kept = []
    for each in checked:
        places = {
            problem: (problem.file, problem.line, problem.column, problem.code, problem.message)
            for problem in each.problems
        }
        news = tuple(problem for problem in each.problems if not each.is_variant or places[problem] not in told)
        told.update(places.values())
        kept.append(replace(each, problems=news))
    return kept


def check(revision: Revision, kinds: Sequence[Kind], serving: Serving | None = None) -> Checked:
    """Parses one revision; a rejection is a result here, not an error."""
    name = revision.texts[0].name if len(revision.texts) == 1 else revision.source
    variant = bool(overlays_among(text.name for text in revision.texts))
    try:
        sets = parse_revision(revision, kinds, serving=serving)
    except RuleRejected as rejection:
        return Checked(
            name, valid=False, rules=rejection.total, digests={}, problems=rejection.problems, is_variant=variant
        )
    return Checked(
        name,
        valid=True,
        rules=sum(len(each.rules) for each in sets.values()),
        digests={each.kind: each.digest for each in sets.values()},
        problems=tuple(problem for each in sets.values() for problem in each.warnings),
        is_variant=variant,
    )


def problem_json(problem: Problem) -> dict[str, Any]:
    """Every fact of a problem, under its attribute's name."""
    return {name: getattr(problem, name) for name in problem.__slots__}


def problem_line(problem: Problem) -> Sequence[Span]:
    """`file:line:column: error SR102 resource: what is wrong and what to write`."""
    subject = f" {problem.resource}" if problem.resource else ""
    severity = Styled(problem.severity, _COLOURS[problem.severity])
    return (f"{problem.location}: ", severity, f" {problem.code}{subject}: {problem.message}")


def _view(checked: Sequence[Checked], *, strict: bool) -> View:
    problems = [problem for each in checked for problem in each.problems]
    inputs = [
        {"name": each.name, "valid": each.valid, "rules": each.rules, "digests": dict(each.digests)} for each in checked
    ]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        yield from map(problem_line, problems)

    return View(
        document={
            "valid": all(each.valid for each in checked),
            "inputs": inputs,
            "problems": [problem_json(each) for each in problems],
        },
        items=[problem_json(each) for each in problems],
        names=[each.name for each in checked if not each.valid],
        lines=lines,
        forms=forms(
            [annotation(problem, each.name, strict=strict) for each in checked for problem in each.problems],
            [each.name for each in checked],
            CODES,
        ),
    )


def annotation(problem: Problem, suite: str, *, strict: bool) -> Annotation:
    """Beside the line in which it stands."""
    return Annotation(
        level=problem.severity,
        code=problem.code,
        message=problem.message,
        file=problem.file,
        line=problem.line,
        column=problem.column,
        subject=problem.resource,
        suite=suite,
        is_failure=strict or problem.severity == "error",
    )


def _summary(checked: Sequence[Checked]) -> str:
    problems = [problem for each in checked for problem in each.problems]
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    rules = plural(sum(each.rules for each in checked if not each.is_variant or len(checked) == 1), "rule")
    overlays = sum(each.is_variant for each in checked)
    if overlays and len(checked) > 1:
        rules += f" and {plural(overlays, 'overlay')}"
    if not errors:
        return f"{rules} valid" + (f", {plural(warnings, 'warning')}." if warnings else ".")
    counts = plural(errors, "error") + (f", {plural(warnings, 'warning')}" if warnings else "")
    return f"{counts} in {rules}. Nothing was changed."
