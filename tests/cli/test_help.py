"""Help and docs that cannot drift from the commands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import pytest

from sentinel_core.audit.store.sqlite import SqliteStore
from sentinel_core.cli.app import App
from sentinel_core.cli.lazy import LazyGroup
from sentinel_core.cli.main import PROGRAM, cli
from sentinel_core.cli.manual import pages
from sentinel_core.cli.pages import page_of
from tests.cli.conftest import FIRST, Project, Run, git

ROOT = Path(__file__).parents[2]


def commands(group: LazyGroup = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, groups included."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, LazyGroup):
                yield from commands(command, (*path, name))


ALL = dict(commands())
IDS = [" ".join(path) for path in ALL]


@pytest.mark.parametrize(("path", "command"), ALL.items(), ids=IDS)
def test_every_command_and_every_option_has_help(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    assert page_of(command).what.endswith((".", "?"))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{' '.join(path)} {parameter.opts[0]}"
            assert parameter.help.endswith((".", "?", ")"))


@pytest.mark.parametrize(
    "path", [path for path, command in ALL.items() if not isinstance(command, LazyGroup)], ids=" ".join
)
def test_every_command_takes_the_global_flags_and_prints_its_help(path: tuple[str, ...], sentinelctl: Run) -> None:
    ended = sentinelctl(*path, "--help")
    assert ended.code == 0
    for flag in ("--config", "--debug", "--no-color", "--no-input", "--yes"):
        assert flag in ended.out


@pytest.mark.parametrize(("path", "command"), ALL.items(), ids=IDS)
def test_help_says_what_then_shows_examples_then_options(
    path: tuple[str, ...], command: click.Command, sentinelctl: Run
) -> None:
    page = page_of(command)
    assert page.examples, "a `\\b` block in its docstring, of lines that hold sentinelctl"
    told = sentinelctl(*path, "--help").out
    parts = [" ".join(page.what.split()[:4]), "\nUsage: ", f"\nExamples:\n  {page.examples[0].line}", "\nOptions"]
    places = [told.find(part) for part in parts]
    assert places == sorted(places)
    assert places[0] == 0
    assert all(f"  {each.line}" in told for each in page.examples), "whole, to be copied"


def test_the_table_of_a_group_says_what_the_command_says() -> None:
    for group in [cli, *(command for command in ALL.values() if isinstance(command, LazyGroup))]:
        for name, lazy in group.lazy.items():
            assert lazy.short_help.endswith("."), name


def named_in_docs() -> list[tuple[str, str]]:
    """Every `sentinelctl a b` in the README and the docs, with the file it stands in."""
    texts = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
    return [
        (path.name, found[1])
        for path in texts
        for found in re.finditer(rf"{PROGRAM}((?: [a-z][a-z-]*)+)", path.read_text(encoding="utf-8"))
    ]


def test_every_command_that_the_docs_name_exists() -> None:
    for file, words in named_in_docs():
        group: click.Command = cli
        for word in words.split():
            if not isinstance(group, LazyGroup):
                break
            assert word in group.lazy, f"{file}: {PROGRAM}{words}"
            with click.Context(group) as context:
                group = group.get_command(context, word) or group


# -- examples ----------------------------------------------------------------------------------------------------------

_EXAMPLE = re.compile(
    r"e\.g\. ([^\s)]*[^\s).,])|\"([^\"]+)\"|`([^`]+)`|\(([\d-]+T[\d:+]+|\d+h)\)|(?<![:\w])([\u4e00-\u9fff]+)|\b(2h) is"
)
RUN = {
    "5s": "doctor --timeout {}",
    "count": "audit who a --field {}",
    "flow": "audit who a --kind {}",
    "Asia/Shanghai": "audit who a --zone {}",
    "2026-11-25T14:00+08:00": "audit who a --since {}",
    "2h": "audit who a --since {}",
    "last wednesday 12:00": "audit who a --since '{}'",
    "上周三下午": "audit who a --since {}",
    "diff history:N": "rules diff history:1 history:1",
    "rollback --to N": "rules rollback --to 1 --dry-run",
    "history": "rules history",
    "instances list": "instances list",
    "audit query": "audit query a",
    "audit who": "audit who a",
    "audit verify": "audit verify",
    "1h": "audit tail since:{}",
    "90 days ago": "audit purge --before '{}' --to segments --dry-run",
}
"""Every example of a help text, and the line in which it is meant."""
NO_COMMANDS = {
    "rules": "a setting",
    "status": "a setting",
    "127.0.0.1:9465": "an address",
    "who changed it, from what to what?": "a question",
    "# yaml-language-server: $schema=FILE": "a line of YAML",
    "sentinel.slots": "an entry point",
}


def examples() -> Iterator[str]:
    """What stands in quotes or after "e.g.", of texts and options; the terms of `audit query` are run by themselves."""
    for path, command in ALL.items():
        options = [each.help or "" for each in command.params if isinstance(each, click.Option)]
        page = page_of(command)
        texts = options if path == ("audit", "query") else [page.what, *page.rest, *options]
        for found in _EXAMPLE.finditer(" ".join(" ".join(texts).split())):
            yield next(filter(None, found.groups()))


def test_every_example_of_a_help_text_is_run_here() -> None:
    assert set(examples()) == RUN.keys() | NO_COMMANDS.keys()


@pytest.mark.parametrize("example", RUN)
def test_an_example_works_as_it_is_written(asked: None, sentinelctl: Run, example: str) -> None:
    ended = sentinelctl(*shlex.split(RUN[example].format(example)))
    assert ended.code == 0, ended.err


LINES = [(path, each.line) for path, command in [((), cli), *ALL.items()] for each in page_of(command).examples]
ELSEWHERE = {
    "demo": "it is run by tests/e2e/test_demo.py",
    "sync": "a repository of that name",
    "serve": "the same",
    "audit ingest": "Kafka",
    "audit init": "Kafka",
    "audit tail -f": "it does not end",
    "audit purge": "a folder of the system; above it is run with another",
    "audit checkpoint": "it is run by tests/cli/test_audit_chain.py",
    "rules drift git:v1.4": "a server",
    "rules publish --yes --wait": "services that follow the store",
}
"""What examples need that a test of help does not have."""
ENDS_WITH = {
    "audit show 939b21ac": 2,
    "audit hash": 78,
    "instances show": 2,
    "rules release": 64,
    "lock release": 64,
    "lock break": 64,
    "rules rollback --lock": 5,
    "rules rollback --plan": 64,
    "biz": 78,
}
"""Where an example names something that is not there; all others do what they say."""


def arguments_in(line: str) -> list[str]:
    """Of `sentinelctl` in a line of a shell."""
    inner = re.search(r"\$\((.*)\)", line)
    words = shlex.split((inner[1] if inner else line).partition(f"{PROGRAM} ")[2])
    ends = [index for index, word in enumerate(words) if word in ("|", ">", "<", ">>", ";")]
    return words[: ends[0]] if ends else words


@pytest.mark.parametrize(("path", "line"), LINES, ids=[line for _, line in LINES])
def test_an_example_is_understood(here: Path, path: tuple[str, ...], line: str) -> None:
    (here / "segments").mkdir()
    words = arguments_in(line)
    group: click.Command = cli
    context = cli.make_context(PROGRAM, [*words], obj=App())
    while isinstance(group, LazyGroup):
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(name, rest, parent=context)
        group = command


@pytest.fixture
def busy(asked: None, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which the names of the examples stand for something."""
    with (project.folder / "sentinel.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "contexts:\n  staging: {environment: staging}\n  prod: {stores: [prod.yaml], guards: {maxJump: 3}}\n"
        )
    (project.folder / ".sentinel" / "context").write_text("staging", encoding="utf-8")
    (project.folder / "segments").mkdir()
    (project.folder / "sentinel-rules.yaml").write_text(FIRST, encoding="utf-8")
    (project.folder / "flow.json").write_text("[]", encoding="utf-8")
    (project.folder / "all.ndjson").write_text("", encoding="utf-8")
    git(project.repo, "tag", "v1.4")
    git(project.repo, "commit", "-q", "--allow-empty", "-m", "Nothing")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"[]")))
    return project


def runs() -> list[str]:
    return [line for _, line in LINES if not any(f"{PROGRAM} {start}" in line for start in ELSEWHERE)]


@pytest.mark.parametrize("line", runs())
def test_an_example_does_what_it_says(busy: Project, sentinelctl: Run, line: str) -> None:
    if "release.plan" in line and "apply" in line:
        assert sentinelctl("rules", "plan", "history:1", "-o", "release.plan", "--reason", "why").code == 0
    ended = sentinelctl(*arguments_in(line), "--yes")
    expected = next((code for start, code in ENDS_WITH.items() if f"{PROGRAM} {start}" in line), 0)
    tells_differences = any(word in line for word in (" diff", "--diff", "--check", "drift"))
    assert ended.code == expected or (tells_differences and ended.code == 1), ended


def terms() -> list[str]:
    """Examples are two blanks apart, what they mean stands after three."""
    text = (ALL["audit", "query"].help or "").partition("must all hold:\n")[2].partition("Put --")[0]
    return [term for line in text.splitlines() for term in re.split(" {3,}", line.strip())[0].split("  ") if term]


def test_the_terms_of_a_query_are_found() -> None:
    assert {"order_create", "resource:order-*", "count>300", 'until:"last friday"', "-env:staging"} <= set(terms())


@pytest.mark.parametrize("term", terms())
def test_every_term_that_help_teaches_is_understood(asked: None, sentinelctl: Run, term: str) -> None:
    ended = sentinelctl("audit", "query", "--", *shlex.split(term))
    assert ended.code == 0, ended.err
    assert ended.err.endswith("No change matches.\n")


@pytest.mark.parametrize("line", re.findall(r"sentinelctl (completion \w+)", ALL[("completion",)].help or ""))
def test_the_lines_that_install_completion_work(sentinelctl: Run, line: str) -> None:
    assert sentinelctl(*line.split()).code == 0


@pytest.fixture
def asked(project: Project) -> None:
    """A project whose audit store is there, and empty."""
    store = SqliteStore(project.folder / ".sentinel" / "audit.db")
    store.ingest(())
    store.close()


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that a run has imported."""
    script = (
        "import sys, sentinel_core.cli.main as main\n"
        f"assert main.run({list(arguments)!r}) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder)
    return set(done.stderr.splitlines()[-1].split())


def test_help_imports_no_command(here: Path) -> None:
    """`sentinelctl --help` must answer at once: of the command line only the frame is loaded."""
    loaded = {name for name in loaded_by(here, "--help") if name.startswith("sentinel_core.cli.")}
    frame = {"app", "encode", "entry", "exits", "lazy", "main", "output", "pages", "text"}
    assert loaded == {f"sentinel_core.cli.{name}" for name in frame}


HEAVY = {"grpc", "kafka", "ssl", "http.client", "asyncio", "google.protobuf", "cryptography", "sentinel_core.engine"}


@pytest.mark.parametrize(
    ("line", "not_needed"),
    [
        ("--help", {"pydantic", "ruamel.yaml", "sqlite3", "subprocess", "importlib.metadata"}),
        ("version", {"pydantic", "ruamel.yaml", "sqlite3"}),
        (
            "rules validate repo/sentinel-rules.yaml",
            {"sqlite3", "sentinel_core.datasources.git", "sentinel_core.rules.draft", "sentinel_core.cli.pages"},
        ),
        ("rules show", {"sqlite3", "sentinel_core.datasources.etcd", "sentinel_core.datasources.nacos"}),
        ("audit who coupon", {"sentinel_core.audit.kafka", "sentinel_core.datasources", "sentinel_core.rules"}),
        (
            "audit who coupon",
            {"pydantic", "importlib.metadata", "sentinel_core.audit.verify", "sentinel_core.cli.pages"},
        ),
        ("audit query coupon", {"pydantic", "sentinel_core.rules"}),
    ],
)
def test_a_command_imports_what_it_needs(asked: None, project: Project, line: str, not_needed: set[str]) -> None:
    assert loaded_by(project.folder, *line.split()) & (HEAVY | not_needed) == set()


def test_of_the_kinds_only_those_that_a_document_has_are_built(here: Path) -> None:
    """What validates and writes a kind takes longer to make than a hundred rules to validate."""
    (here / "rules.yaml").write_text("flowRules: [{resource: a, grade: qps, count: 1}]\n", encoding="utf-8")
    script = (
        "import sentinel_core.cli.main as main\n"
        "from sentinel_core.rules.canonical import list_adapter\n"
        "assert main.run(['rules', 'validate', 'rules.yaml']) == 0\n"
        "assert list_adapter.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=here)


def test_an_engine_has_all_kinds_built_before_there_are_threads(here: Path) -> None:
    script = (
        "import sentinel_core.engine\n"
        "from sentinel_core.rules.registry import MODELS\n"
        "shapes = [shape for model in MODELS.values() for shape in (model, *model.nested.values())]\n"
        "assert all(shape.__pydantic_complete__ for shape in shapes)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=here)


def test_version_tells_what_it_runs_on(sentinelctl: Run) -> None:
    ended = sentinelctl("version", "-o", "yaml")
    assert re.search(r"^version: '?\d+\.\d+\.\d+", ended.out, re.MULTILINE)
    assert re.search(r"^engine: (pure|compiled)$", ended.out, re.MULTILINE)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(sentinelctl: Run, shell: str) -> None:
    ended = sentinelctl("completion", shell)
    assert ended.code == 0
    assert "_SENTINELCTL_COMPLETE" in ended.out


def test_completion_completes_commands(process: Run) -> None:
    ended = process(script="export COMP_LINE='sentinelctl rules va' _SENTINELCTL_COMPLETE=bash_complete; $SENTINELCTL")
    assert ended.out.strip() == "plain,validate"


@pytest.mark.parametrize("place", ["before", "after", "between"])
def test_global_flags_may_stand_anywhere(here: Path, sentinelctl: Run, place: str) -> None:
    flag = ["--config", "other.yaml"]
    line = {"before": [*flag, "rules", "diff"], "after": ["rules", "diff", *flag], "between": ["rules", *flag, "diff"]}
    ended = sentinelctl(*line[place])
    assert ended.code == 78
    assert "other.yaml: cannot be read" in ended.err


# -- the manual --------------------------------------------------------------------------------------------------------

MANUAL = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "man").glob("*.1")}


def test_the_manual_is_that_of_the_commands() -> None:
    """`script/man` writes it anew."""
    made = pages()
    assert MANUAL.keys() == made.keys()
    assert [name for name, text in made.items() if MANUAL[name] != text] == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed: no manual page is set here")
def test_a_page_can_be_set() -> None:
    pages_ = [str(ROOT / "docs" / "man" / name) for name in ("sentinelctl.1", "sentinelctl-audit-query.1")]
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", *pages_], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "上周三下午" in done.stdout
    assert "sentinelctl audit query order_create --since 2h" in done.stdout
