"""What files of this machine say: rules as code, plans, running services, commits, readings of metrics."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from sentinel_core.cli.shells import item
from sentinel_core.cli.values.line import Items, Line
from sentinel_core.cli.values.soon import soon

if TYPE_CHECKING:
    from sentinel_core.observation.store import Recorded

MOST_BYTES = 8 * 2**20
"""Of each file that is looked through for resources."""
COMMITS = 15
_PLAN_HEAD = 4096
"""Bytes of a file that tell whether it is a plan."""
_PLAN = re.compile(rb'"plan": "(p-[0-9a-f]{12})",\s*"store": ("(?:[^"\\]|\\.)*")')
_RESOURCE = re.compile(
    rb"""\bresource["']?\s*:\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[^\s"'#&*!|>%@`{\[\]},][^,}\]\n#]*)"""
)


def paths(line: Line) -> Items:
    """Paths are the shell's own."""
    return [CompletionItem(line.incomplete, type="file")]


def folders(line: Line) -> Items:
    return [CompletionItem(line.incomplete, type="dir")]


def below(begun: str) -> Iterator[str]:
    """Files and folders as a path goes on; those that are hidden for who asks for them."""
    head, _, name = begun.rpartition("/")
    folder = Path(head or ("/" if begun.startswith("/") else "."))
    with suppress(OSError), os.scandir(folder) as listed:
        for each in sorted(listed, key=lambda entry: entry.name):
            if each.name.startswith(name) and (name or not each.name.startswith(".")):
                yield f"{begun[: len(begun) - len(name)]}{each.name}{'/' if each.is_dir() else ''}"


def resources(line: Line) -> Iterator[str]:
    """Of the rules as code, of stores that are files, and of what services of this machine ran last."""
    for path in _rule_files(line):
        with path.open("rb") as file:
            yield from resources_in(file.read(MOST_BYTES))


def _rule_files(line: Line) -> Iterator[Path]:
    from sentinel_core.datasources.names import is_rule_file
    from sentinel_core.datasources.uri import SourceUri

    settings = line.app.settings
    places = [Path(settings.rules), Path(settings.last_known_good)]
    places += [Path(SourceUri.parse(uri).path) for uri in line.stores() if uri.startswith("file://")]
    for place in places:
        if place.is_dir():
            files = [
                each for each in sorted(place.rglob("*")) if each.suffix == ".last-good" or is_rule_file(each.name)
            ]
            yield from (each for each in files if each.is_file())
        elif place.is_file():
            yield place


def resources_in(text: bytes) -> Iterator[str]:
    """Of rules as somebody is writing them: a text that is not valid yet has resources, too."""
    for found in _RESOURCE.findall(text):
        word = found.decode("utf-8", "replace").strip()
        if word[:1] == '"':
            with suppress(ValueError):
                yield str(json.loads(word))
        else:
            yield word[1:-1].replace("''", "'") if word[:1] == "'" else word


def plans(line: Line) -> Items:
    """Those of the folder that is written, the newest first, and its folders; where there is none, any path."""
    found = []
    for name in below(line.incomplete):
        if name.endswith("/"):
            found.append((0.0, item(name)))
        elif (told := _plan(Path(name))) is not None:
            found.append((-Path(name).stat().st_mtime, item(name, told)))
    return [each for _, each in sorted(found, key=lambda pair: pair[0])] or paths(line)


def _plan(path: Path) -> str | None:
    """Its id and where it goes; None for any other file."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            told = _PLAN.search(file.read(_PLAN_HEAD))
        return f"{told[1].decode()} for {json.loads(told[2])}" if told else None
    except (OSError, ValueError):
        return None


def checks(_: Line) -> Items:
    """Own checks that are installed."""
    from sentinel_core.publishing.checks import installed

    return [item(each.name, each.distribution) for each in installed()]


def instances(line: Line) -> Items:
    from sentinel_core.cli.instances.found import running

    return [item(each.status.instance, f"{each.status.app}, {each.state}") for each in running(line.app.settings)]


def commits(line: Line) -> Items:
    """Branches, tags and the newest commits of the repository that `git:` means."""
    from sentinel_core.cli import git
    from sentinel_core.cli.rules.sides import repository_uri
    from sentinel_core.datasources.uri import SourceUri

    uri = SourceUri.parse(repository_uri(line.app))
    top = Path(uri.path)
    if not top.is_dir():
        return
    yield item("HEAD")
    for name, told in git.references(top):
        yield item(name, told)
    for commit, told in git.newest(top, uri.query.get("path", "."), COMMITS):
        yield item(commit, told)


def repositories(line: Line) -> Items:
    """URIs: of the repository around the rules, of stores that are one; and paths."""
    from sentinel_core.cli.rules.sides import repository_uri

    yield CompletionItem(line.incomplete, type="file")
    with suppress(Exception):
        yield item(repository_uri(line.app), "of the rules")
    yield from (item(uri, "store") for uri in line.app.settings.stores if uri.startswith("git"))


def metrics(line: Line) -> Items:
    """Business metrics that are recorded."""
    return _recorded(line, lambda each: (each.metric, f"{each.kind}, {each.readings} readings"))


def observed_resources(line: Line) -> Items:
    return _recorded(line, lambda each: (each.resource, each.metric))


def observed_dimensions(line: Line) -> Items:
    return _recorded(line, lambda each: (each.dimension, each.metric))


def _recorded(line: Line, told: Callable[[Recorded], tuple[str, str]]) -> Items:
    """Of what is recorded of the metric that is given, else of any."""
    from sentinel_core.cli.biz.common import opened

    def ask() -> Items:
        with opened(line.app, line.given.get("file")) as readings:
            for each in readings.recorded():
                value, text = told(each)
                if value and line.given.get("metric") in (None, each.metric):
                    yield item(value, text)

    return soon(ask)
