"""What is found in rules, as the pages of a pipeline show it: GitHub's workflow commands, JUnit XML and SARIF 2.1.0.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions, the `testsuites` that GitLab and Jenkins
read, https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sentinel_core.cli.encode import to_json
from sentinel_core.cli.text import visible

FORMS = ("github", "junit", "sarif")
_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "docs/problem-codes.md"
_NOT_XML = dict.fromkeys((0xFFFE, 0xFFFF), "?")
"""What no reader of XML takes; control characters are escaped before."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing to show beside a line."""

    level: Literal["error", "warning", "note"]
    code: str
    """A problem code, or `guard-NAME`, or `plan`."""
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    subject: str | None = None
    """The resource that it is about."""
    suite: str = "rules"
    """What was looked through, e.g. a file."""
    is_failure: bool = False
    """The run ends with an error because of it."""

    @property
    def title(self) -> str:
        return f"{self.code} {self.subject}" if self.subject else self.code


def forms(found: Sequence[Annotation], suites: Sequence[str], rules: Mapping[str, str]) -> dict[str, Callable[[], str]]:
    """By the name of the form. `suites`: everything that was looked through, also what is sound; `rules`: code →
    what it means."""
    return {
        "github": lambda: "".join(map(_command, found)),
        "junit": lambda: _junit(found, suites),
        "sarif": lambda: to_json(_sarif(found, rules), ascii_only=True, indent=2) + "\n",
    }


def _command(found: Annotation) -> str:
    level = "notice" if found.level == "note" else found.level
    places = {"file": found.file and _relative(found.file), "line": found.line, "col": found.column}
    facts = {**(places if found.file else {}), "title": found.title}
    told = ",".join(f"{name}={_property(str(value))}" for name, value in facts.items() if value is not None)
    return f"::{level} {told}::{_data(found.message)}\n"


def _data(text: str) -> str:
    """What would end the line, or begin an escape."""
    text = "\n".join(map(visible, text.split("\n")))
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# -- JUnit -------------------------------------------------------------------------------------------------------------


def _junit(found: Sequence[Annotation], suites: Sequence[str]) -> str:
    names = dict.fromkeys([*suites, *(each.suite for each in found)])
    bodies = {name: _cases(name, [each for each in found if each.suite == name]) for name in names}
    failures = sum(each.is_failure for each in found)
    tests = sum(len(cases) for cases in bodies.values())
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites tests="{tests}" failures="{failures}">']
    for name, cases in bodies.items():
        failed = sum(each.is_failure for each in found if each.suite == name)
        lines.append(f'  <testsuite name={_attribute(name)} tests="{len(cases)}" failures="{failed}">')
        lines += [f"    {case}" for case in cases]
        lines.append("  </testsuite>")
    text = "\n".join([*lines, "</testsuites>", ""])
    return text.translate(_NOT_XML).encode("ascii", "xmlcharrefreplace").decode()


def _cases(suite: str, found: Sequence[Annotation]) -> list[str]:
    """A case for each thing found; one that passes where nothing is."""
    if not found:
        return [f'<testcase classname={_attribute(suite)} name="valid" time="0"/>']
    return [_case(each) for each in found]


def _case(found: Annotation) -> str:
    from xml.sax.saxutils import escape  # it brings HTTP and TLS along

    place = ":".join(str(part) for part in (found.file, found.line, found.column) if part is not None)
    file = f" file={_attribute(_relative(found.file))}" if found.file else ""
    text = escape("\n".join(map(visible, f"{place}: {found.message}".removeprefix(": ").split("\n"))))
    name = _attribute(f"{found.title} ({place})" if place else found.title)
    inner = (
        f"<failure type={_attribute(found.code)} message={_attribute(found.message)}>{text}</failure>"
        if found.is_failure
        else f"<system-out>{text}</system-out>"
    )
    return f'<testcase classname={_attribute(found.suite)} name={name}{file} time="0">{inner}</testcase>'


def _attribute(text: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(visible(text))


# -- SARIF -------------------------------------------------------------------------------------------------------------


def _sarif(found: Sequence[Annotation], rules: Mapping[str, str]) -> dict[str, Any]:
    from sentinel_core.cli.version import product_version

    codes = list(dict.fromkeys(each.code for each in found))
    driver = {
        "name": "sentinelctl",
        "version": product_version(),
        "rules": [
            {"id": code, "shortDescription": {"text": rules.get(code, code)}, "help": {"text": f"See {_HOME}."}}
            for code in codes
        ],
    }
    results = [
        {
            "ruleId": each.code,
            "ruleIndex": codes.index(each.code),
            "level": each.level,
            "message": {"text": f"{visible(each.subject)}: {each.message}" if each.subject else each.message},
            "locations": [_location(each)],
        }
        for each in found
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}


def _location(found: Annotation) -> dict[str, Any]:
    """GitHub takes none without a file."""
    region = {"startLine": found.line or 1, "startColumn": found.column or 1}
    uri = quote(_relative(found.file or found.suite))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _relative(name: str) -> str:
    """As the repository's pages know the file: from the folder in which the pipeline runs."""
    path = Path(name)
    return (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).as_posix()
