"""The reference cannot drift: tables are compared with the code, examples are run, in docs/*.md."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click
import pytest

import sentinel_core
from sentinel_core import set_default_engine
from sentinel_core.audit.events import rule_changed
from sentinel_core.audit.query.grammar import QUALIFIERS, TIMES, parse_query
from sentinel_core.audit.query.interval import window
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.lazy import LazyGroup
from sentinel_core.cli.main import cli
from sentinel_core.cli.output import FORMATS
from sentinel_core.datasources import State, SubscriptionOptions, schemes
from sentinel_core.engine import Engine
from sentinel_core.errors import exception_class
from sentinel_core.rules import (
    KINDS,
    Problem,
    Provenance,
    Revision,
    RuleRejected,
    RuleSet,
    SourceText,
    parse_revision,
    parse_rules,
)
from sentinel_core.rules.codes import CODES
from sentinel_core.rules.guard import GUARDS, Guard
from sentinel_core.rules.registry import MODELS
from sentinel_core.rules.rule import Rule, Shape
from sentinel_core.settings import Settings
from sentinel_core.settings_sources import dotted, leaves, variable

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
Cells = list[str]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of the same or a higher level."""
    level = len(heading) - len(heading.lstrip("#"))
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no heading {heading}"
    return found[1]


def tables(text: str) -> Iterator[list[Cells]]:
    """The rows of every table, without its head."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield rows[2:]


def rows(text: str) -> list[Cells]:
    return [row for table in tables(text) for row in table]


def code(cell: str) -> str:
    """The first text in backticks of a cell, the cell itself where it has none."""
    found = re.search(r"`([^`]*)`", cell)
    return found[1].replace("\\|", "|") if found else cell


# -- all pages ---------------------------------------------------------------------------------------------------------


def test_the_index_lists_every_page() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", page("README.md")))
    assert linked == {path.name for path in PAGES} - {"README.md"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_problem_code_that_is_named_exists(path: Path) -> None:
    for named in re.findall(r"\bSR\d{3}\b", path.read_text(encoding="utf-8")):
        assert named in CODES, named


PYTHON = [
    pytest.param(body, id=f"{path.stem}-{number}")
    for path in PAGES
    for number, (language, body) in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")))
    if language == "python"
]


@pytest.mark.parametrize("body", PYTHON)
def test_python_blocks_run(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each by itself, in an empty folder; what it asserts holds, what stands behind `#>` is printed."""
    monkeypatch.chdir(tmp_path)
    before = set_default_engine(None)
    try:
        exec(compile(body, "<docs>", "exec"), {"__name__": "docs"})  # noqa: S102 (our own text)
    finally:
        engine = set_default_engine(before)
        if engine is not None:
            engine.close()
    assert capsys.readouterr().out.splitlines() == re.findall(r"#> (.*)", body)


# -- rules.md and problem-codes.md -------------------------------------------------------------------------------------


def documented_default(info: Any) -> str:
    if info.is_required():
        return "required"
    if info.default_factory is not None:
        return "see meaning"
    if info.default == "":
        return "empty"
    text = info.default if isinstance(info.default, str) else json.dumps(info.default)
    return text.removesuffix(".0")


def fields_of(shape: type[Shape], prefix: str = "") -> Iterator[tuple[str, str]]:
    for alias, info in shape.fields_by_alias().items():
        yield prefix + alias, documented_default(info)
    if issubclass(shape, Rule):
        for alias, inner in shape.nested.items():
            is_list = isinstance(shape.fields_by_alias()[alias].default, tuple)
            yield from fields_of(inner, f"{alias}{'[]' if is_list else ''}.")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_documented_with_its_default(kind: str) -> None:
    (table,) = tables(section(page("rules.md"), f"### {kind}"))
    written = {code(row[0]): code(row[1]) for row in table}
    assert written == {name: default for name, default in fields_of(MODELS[kind]) if name != "id"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_a_code_is_documented_with_its_number(kind: str) -> None:
    (table,) = tables(section(page("rules.md"), f"### {kind}"))
    written = {code(row[0]): dict(re.findall(r"`(\w+)` (\d+)", row[2])) for row in table}
    for field, names in MODELS[kind].names.items():
        assert written[field] == {name: str(number) for name, number in names.items()}
    assert {field for field, names in written.items() if names} == set(MODELS[kind].names)


def problems_of(text: str) -> list[Problem]:
    """What is said about an example of the page on codes."""
    try:
        if text.startswith(("[", "null")):
            return list(parse_rules("flow", text, name="rules.json").warnings)
        revision = Revision((SourceText("rules.yaml", text.encode()),), "/example", "1")
        return [problem for ruleset in parse_revision(revision, KINDS).values() for problem in ruleset.warnings]
    except RuleRejected as rejection:
        return list(rejection.problems)


def code_rows() -> list[Cells]:
    return [row for row in rows(page("problem-codes.md")) if len(row) == 4]


def remark_rows() -> list[Cells]:
    return [row for row in rows(page("problem-codes.md")) if len(row) == 3]


def test_every_code_is_documented_with_its_meaning() -> None:
    assert {row[0]: row[1] for row in code_rows()} | {row[0]: row[2] for row in remark_rows()} == CODES


@pytest.mark.parametrize("row", [row for row in code_rows() if row[2]], ids=lambda row: row[0])
def test_the_example_of_a_code_causes_it(row: Cells) -> None:
    text = code(row[2]).replace("↵", "\n").replace("\\ufeff", "\ufeff")
    assert (row[0], code(row[3])) in {(problem.code, problem.message) for problem in problems_of(text)}


def test_codes_without_a_short_example_are_caused_as_the_page_says() -> None:
    bare = {row[0] for row in code_rows() if not row[2]}
    many = [{"resource": "a", "count": -1}] * 150
    base = SourceText("base.yaml", b"flowRules: [{resource: a, count: 1}]")
    overlay = SourceText("environments/prod.yaml", b"flowRules: [{resource: b, $delete: true}]")
    seen = set()
    for cause in (
        lambda: parse_rules("flow", many),
        lambda: parse_rules("flow", [{"resource": "a", "count": 1}] * 100_001),
        lambda: parse_revision(Revision((base, overlay), "/example", "1"), KINDS),
    ):
        with pytest.raises(RuleRejected) as caught:
            cause()
        seen |= {problem.code for problem in caught.value.problems}
    bare.remove("SR012")  # no text causes it: tests/e2e/test_cold_start.py
    assert bare == seen & bare == {"SR000", "SR003", "SR115"}


# -- engine.md ---------------------------------------------------------------------------------------------------------


SIGNATURE = re.compile(r"^(?:(engine|service)\.)?(\w+)\((.*)\) -> (.+)$|^(Engine)\((.*)\)$", re.MULTILINE)
OWNERS = {
    "engine": (("sentinel_core/gate.py", "Gate"), ("sentinel_core/engine.py", "Engine")),
    "service": (("sentinel_core/service.py", "ServiceEngine"),),
    "": (("sentinel_core/default.py", None), ("sentinel_core/starting.py", None)),
}


def signature(owner: str, name: str) -> tuple[str, str]:
    """(arguments without annotations, result) as the source has them: compiled code does not tell."""
    for file, cls in OWNERS[owner]:
        body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if cls is not None:
            body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == cls)
        for node in reversed(body):  # what is overloaded is defined last
            if isinstance(node, ast.FunctionDef) and node.name == name:
                arguments = node.args
                arguments.args = [each for each in arguments.args if each.arg != "self"]
                for each in (*arguments.args, *arguments.kwonlyargs, *filter(None, [arguments.kwarg])):
                    each.annotation = None
                return ast.unparse(arguments).replace("'", '"'), ast.unparse(node.returns) if node.returns else ""
    pytest.fail(f"{owner} has no {name}")


def test_signatures_are_the_true_ones() -> None:
    found = SIGNATURE.findall(
        "".join(body for language, body in BLOCK.findall(page("engine.md")) if language == "text")
    )
    assert len(found) == 18
    for owner, name, arguments, result, constructor, made_with in found:
        if constructor:
            assert made_with == signature("engine", "__init__")[0]
        else:
            assert (arguments, result) == signature(owner, name), name


def test_every_exception_of_a_kind_is_documented() -> None:
    (table,) = tables(section(page("engine.md"), "## What is raised"))
    classes = {kind: exception_class(kind) for kind in KINDS}
    assert {code(row[1]): code(row[0]) for row in table} == {kind: cls.__name__ for kind, cls in classes.items()}
    own = {cls.__name__ for cls in classes.values() if cls.__module__ == "sentinel_core.errors"}
    assert set(sentinel_core.__all__) >= own


def test_the_order_of_slots_is_told_for_both_engines() -> None:
    row = next(row for row in rows(page("java-differences.md")) if row[0] == "order of slots")
    assert row[1].split(", ") == list(Engine().slots())
    assert row[3].split(", ") == list(Engine(compat="sentinel-1.8.9").slots())


# -- sources.md --------------------------------------------------------------------------------------------------------


def test_every_scheme_and_every_option_of_a_uri_is_documented() -> None:
    scheme_table, option_table, *_ = tables(page("sources.md"))
    assert {code(row[0]) for row in scheme_table} == set(schemes())
    written = {code(row[0]): set(row[1].split(", ")) for row in option_table}
    real: dict[str, set[str]] = {}
    for name, scheme in schemes().items():
        for option in scheme.options:
            real.setdefault(option, set()).add(name.partition("+")[0])
    assert written == real


def test_states_and_timings_of_a_subscription_are_documented() -> None:
    text = page("sources.md")
    (table,) = tables(section(text, "## States"))
    assert {row[0] for row in table} == {state.name for state in State}
    timings = list(tables(section(text, "## From a change to active rules")))[1]
    defaults = SubscriptionOptions()
    assert {code(row[0]): float(row[1]) for row in timings} == {
        name: getattr(defaults, name) for name in SubscriptionOptions.__slots__
    }


# -- audit.md ----------------------------------------------------------------------------------------------------------


def flow_of(count: int, version: str, **made_by: Any) -> tuple[Revision, RuleSet]:
    text = SourceText("sentinel-rules.yaml", f"flowRules: [{{resource: payment_invoke, count: {count}}}]".encode())
    source = "/prod/git/file:///srv/rules.git@main/rules/sentinel-rules.yaml"
    revision = Revision((text,), source, version, Provenance(**made_by))
    return revision, parse_revision(revision, ["flow"])["flow"]


def test_the_event_is_a_true_one() -> None:
    (body,) = (body for language, body in BLOCK.findall(page("audit.md")) if language == "json")
    commit = "2b7e151628aed2a6abf7158809cf4f3c762e7160"
    said = "Raise payment limits for the sale"
    _, old = flow_of(20, "9d4ccda7cb10f1a2b3c4d5e6f708192a3b4c5d6e")
    revision, new = flow_of(
        25,
        commit,
        commit_hash=commit,
        author="Chen <chen@example.com>",
        committed_at=datetime(2026, 11, 25, 6, 29, 59, tzinfo=UTC),
        message=said,
        reason=said,
        channel="git",
    )
    at = datetime(2026, 11, 25, 6, 30, 0, 123000, tzinfo=UTC)
    event = rule_changed(
        environment="prod", app="order-service", old=old, new=new, revision=revision, at=at, instance="order-1"
    )
    assert json.loads(body) == json.loads(event.to_json())


def test_every_qualifier_is_documented_with_an_example_that_is_understood() -> None:
    (table,) = tables(section(page("audit.md"), "## Queries"))
    written = {code(row[0]).rstrip(":") for row in table if row[0].startswith("`")}
    assert written == {*QUALIFIERS, *TIMES}
    for row in table:
        asked = parse_query(code(row[2]), now=datetime(2026, 11, 30, 4, tzinfo=UTC), zone=ZoneInfo("Asia/Shanghai"))
        assert len(asked.conditions) + (asked.interval is not None) == 1


def test_times_mean_what_is_said() -> None:
    (table,) = tables(section(page("audit.md"), "## Times"))
    assert len(table) > 20
    zone = ZoneInfo("Asia/Shanghai")
    now = datetime(2026, 11, 30, 12, tzinfo=zone)
    for phrase, resolved in table:
        assert window(phrase, now=now, zone=zone).describe() == f"{resolved} Asia/Shanghai", phrase


# -- settings.md and cli.md --------------------------------------------------------------------------------------------


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    (table,) = tables(section(page("settings.md"), "## Every setting"))
    written = {code(row[0]): (code(row[1]), row[2]) for row in table}
    real = {}
    for location, default in leaves(Settings):
        shown = default if isinstance(default, str) else json.dumps(default).removesuffix(".0")
        real[dotted(location)] = (variable(location), "none" if default is None else shown)
    assert written == real


def commands(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, LazyGroup):
                yield from commands(command, (*path, name))
            elif command is not None:
                yield " ".join((*path, name)), command


def options(command: click.Command) -> set[str]:
    return {spelling for each in command.params if isinstance(each, click.Option) for spelling in each.opts}


def documented_options(text: str) -> set[str]:
    return {spelling for row in rows(text) for spelling in re.findall(r"`(-[\w-]+)`", row[0])}


ALIASES = {"rules get": "rules show"}


@pytest.mark.parametrize(
    ("name", "command"), list(commands(cli)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_is_documented_with_its_options(name: str, command: click.Command) -> None:
    text = page("cli.md")
    everywhere = documented_options(section(text, "## For all commands"))
    shared, forms = options(cli) - {"--help"}, {"-o", "--output", "--json-into"}
    assert everywhere == shared | forms
    heading = re.search(rf"^### sentinelctl {re.escape(ALIASES.get(name, name))}(?: .*)?$", text, re.MULTILINE)
    assert heading, name
    own = options(command) - shared - {"--help"}
    left = forms if "--json-into" in own else set()  # -o FILE of `audit export` and `rules plan` is another thing
    assert documented_options(section(text, heading[0])) - left == own - left
    listed = re.findall(
        r"(?<= )\[?([A-Z|a-z]+)\]?", heading[0].removeprefix(f"### sentinelctl {ALIASES.get(name, name)}")
    )
    assert len(listed) == sum(isinstance(each, click.Argument) for each in command.params)


def test_every_command_that_is_documented_exists() -> None:
    known = dict(commands(cli))
    for words in re.findall(r"^### sentinelctl ([a-z -]*[a-z])", page("cli.md"), re.MULTILINE):
        assert any(words == name or words.startswith(f"{name} ") for name in known), words


def test_every_guard_is_documented_with_what_overrules_it() -> None:
    (table,) = tables(section(page("guards.md"), "## Every guard"))
    written = {code(row[0]): code(row[3]) for row in table}
    overruled = {guard: f"--allow-{guard}" for guard in GUARDS} | {"check": "--allow-check NAME"}
    assert written == overruled | {"quarantine": "sentinelctl rules release DIGEST"}
    assert set(get_args(Guard)) == written.keys()
    settings = {dotted(location) for location, _ in leaves(Settings)}
    named = {name for row in table for name in re.findall(r"`([^`]+)`", row[2])}
    assert named == {name for name in settings if name.startswith("guards.")} | {"owners"}


def test_exit_codes_and_output_forms_are_documented() -> None:
    text = section(page("cli.md"), "## For all commands")
    assert {int(row[0]) for row in rows(text) if row[0].isdigit()} == {code.value for code in Exit}
    assert [form for form in re.findall(r"`(\w+)`", text) if form in FORMATS] == list(FORMATS)
