"""Own checks: what an organisation wants to see before rules are published, and what a broken one does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.datasources import MemorySource
from sentinel_core.publishing import CheckContext, Finding, make_plan
from sentinel_core.publishing.checks import Check, ask, installed
from sentinel_core.publishing.make import Wanted
from sentinel_core.rules import Provenance, parse_rules
from sentinel_core.rules.guard import Objection
from sentinel_core.settings import Guards

CONTEXT = CheckContext("prod", "memory://", "rules", "chen", "Ada <ada@example.org>", "sale")
FLOW = {"flow": parse_rules("flow", b'[{"resource": "a", "grade": 1, "count": 7}]')}


def check(function: Callable[..., Any], name: str = "mine") -> Check:
    return Check(name, "acme-checks 1.2", lambda: function)


def told(function: Callable[..., Any], timeout_s: float = 5.0) -> list[str]:
    return [each.text for each in ask([check(function)], {}, FLOW, CONTEXT, timeout_s)]


def test_a_check_is_given_both_states_and_what_is_known_and_its_findings_are_objections() -> None:
    asked: list[Any] = []

    def mine(old: Any, new: Any, context: CheckContext) -> list[Finding]:
        asked.append((old, new, context))
        return [Finding("too  many\nof them", ["a"])]

    (found,) = ask([check(mine)], {}, FLOW, CONTEXT)
    assert asked == [({}, FLOW, CONTEXT)]
    assert found == Objection("check", None, "mine: too many of them", ("a",), check="mine")
    assert found.overruled_by == "check:mine"


def test_a_check_that_has_nothing_against_it_is_silent() -> None:
    assert told(lambda *_: []) == []
    assert told(lambda *_: iter(())) == []


def raising(*_: Any) -> Iterator[Finding]:
    yield Finding("first")
    raise KeyError("password=hunter2")


def ending(*_: Any) -> None:
    raise SystemExit(0)


def leaving(*_: Any) -> None:
    os._exit(0)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class HopelessError(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


class Odd(str):
    __slots__ = ()

    def split(self, *_: Any) -> Any:
        raise RuntimeError("odd")

    __str__ = __format__ = strip = split


def failing(error: Exception) -> Callable[..., Any]:
    def mine(*_: Any) -> None:
        raise error

    return mine


def names(*texts: str) -> Iterator[str]:
    yield from texts
    raise KeyError("in the names")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (raising, "KeyError: 'password=***'"),
        (ending, "SystemExit: 0"),
        (leaving, "SystemExit: 0"),
        (lambda *_: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda *_: ["no"], "TypeError: it gave str and not sentinel_core.publishing.Finding"),
        (lambda *_: [Finding(" ")], "TypeError: it gave a finding without a text"),
        (lambda *_: [Finding("x", "abc")], "TypeError: the resources of a finding are a list of names"),
        (list, "TypeError: "),
        (failing(SpeechlessError()), "SpeechlessError, which does not say why"),
        (failing(HopelessError()), "HopelessError, which does not say why"),
        (failing(ValueError("half \ud800")), "ValueError: half \\ud800"),
        (lambda *_: [Finding("x", names("a"))], "KeyError: 'in the names'"),  # type: ignore[arg-type]  # as checks do
    ],
)
def test_a_broken_check_opens_no_gate_and_its_package_is_named(function: Any, why: str) -> None:
    (text,) = told(function)
    assert text.startswith("mine of acme-checks 1.2 is broken, so nobody knows what it would have said: ")
    assert why in text
    assert text.endswith("; mend that package, or remove it")


def test_texts_that_are_more_than_texts_are_told_as_plain_ones() -> None:
    (found,) = ask([check(lambda *_: [Finding(Odd("no \ud800"), (Odd("a"),))])], {}, FLOW, CONTEXT)
    assert found == Objection("check", None, "mine: no \\ud800", ("a",), check="mine")
    assert {type(found.text), *map(type, found.resources)} == {str}


def test_a_check_that_does_not_end_is_broken_and_is_not_started_a_second_time() -> None:
    end = threading.Event()
    asked: list[int] = []

    def slow(*_: Any) -> list[Finding]:
        asked.append(1)
        end.wait(30)
        return []

    assert "it did not end within 0.05 s" in told(slow, 0.05)[0]
    assert "has not ended since it was asked before" in told(slow, 0.05)[0]
    assert asked == [1]
    end.set()
    deadline = time.monotonic() + 5
    while told(lambda *_: []) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert told(lambda *_: []) == []


def test_what_a_check_prints_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    def talking(*_: Any) -> list[Finding]:
        print("looking")  # noqa: T201 -- what checks do
        return []

    assert told(talking) == []
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "looking\n")


def test_what_a_check_writes_beside_print_is_talk_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    def talking(*_: Any) -> list[Finding]:
        os.write(1, b"raw\n")
        subprocess.run(["echo", "child"], check=True)
        return []

    assert told(talking) == []
    os.write(1, b"ours\n")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("ours\n", "raw\nchild\n")


def test_a_child_of_a_check_ends_as_it_wants() -> None:
    def forking(*_: Any) -> list[Finding]:
        child = subprocess.Popen([sys.executable, "-c", "import os; os._exit(7)"])
        return [Finding(f"ended with {child.wait(10)}")]

    assert told(forking) == ["mine: ended with 7"]
    assert os._exit.__module__ != "sentinel_core.publishing.foreign_code"


def test_of_very_many_findings_the_rest_is_counted() -> None:
    assert told(lambda *_: [Finding(f"{number}") for number in range(130)])[-1] == "mine: and 30 more"


def test_one_that_cannot_be_imported_is_broken() -> None:
    def load() -> Any:
        raise ModuleNotFoundError("No module named 'acme'")

    (found,) = ask([Check("mine", "acme-checks 1.2", load)], {}, FLOW, CONTEXT)
    assert "No module named 'acme'" in found.text


def proposed(**options: Any) -> list[tuple[str, str | None]]:
    source = MemorySource()
    proposal = make_plan(
        source, "memory://", Wanted("rules", FLOW), environment="prod", provenance=Provenance(reason="x"),
        policy=Guards(), max_bytes=1000, checks=[check(lambda *_: [Finding("no")])], **options,
    )  # fmt: skip
    return [(each.guard, each.check) for each in proposal.objections]


def test_a_plan_asks_them_and_each_is_overruled_by_its_own_name() -> None:
    assert proposed() == [("check", "mine")]
    assert proposed(allowed=["check:other", "jump"]) == [("check", "mine")]
    assert proposed(allowed=["check:mine"]) == []


def test_none_is_installed_here() -> None:
    assert installed() == ()


def example() -> str:
    """The check of docs/guards.md."""
    text = (Path(__file__).parents[2] / "docs/guards.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("```")[0]


def package(folder: Path, code: str) -> None:
    """As an installer leaves it."""
    info = folder / "acme_checks-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / "acme_checks.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-checks\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[sentinel.guards]\ntwo-digits = acme_checks:two_digits\n")


def publish(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from sentinel_core.cli.main import main; main()", "rules", "publish", "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "HOME": str(folder)}
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def shop(folder: Path, count: int) -> None:
    (folder / "sentinel.yaml").write_text(f'environment: prod\nstores: ["file://{folder}/live.yaml"]\n')
    (folder / "sentinel-rules.yaml").write_text(f"flowRules: [{{resource: a, grade: qps, count: {count}}}]\n")


def test_the_check_of_the_documentation_works_when_it_is_installed(tmp_path: Path) -> None:
    package(tmp_path / "site", example())
    shop(tmp_path, 100)
    refused = publish(tmp_path, "--reason", "sale")
    assert refused.returncode == 3, refused.stderr
    assert "check: two-digits: a has a limit of 100; below 100 in production" in refused.stderr
    assert '--allow-check two-digits --reason "why"' in refused.stderr
    assert not (tmp_path / "live.yaml").exists()
    done = publish(tmp_path, "--reason", "sale", "--allow-check", "two-digits")
    assert done.returncode == 0, done.stderr
    assert "guard check is overruled: two-digits: a has a limit of 100" in done.stderr
    mistyped = publish(tmp_path, "--reason", "sale", "--allow-check", "two-digit")
    assert mistyped.returncode == 64, mistyped.stderr
    assert "there is no check two-digit; did you mean two-digits?" in mistyped.stderr
    shop(tmp_path, 99)
    assert publish(tmp_path, "--reason", "back").returncode == 0


def test_one_that_ends_the_process_does_not_look_like_success(tmp_path: Path) -> None:
    package(tmp_path / "site", "import os\ndef two_digits(*_):\n    os.write(1, b'RAW')\n    os._exit(0)\n")
    shop(tmp_path, 5)
    refused = publish(tmp_path, "--reason", "sale", "-o", "json")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "RAW" in refused.stderr
    assert "two-digits of acme-checks 1.2 is broken" in refused.stderr


def test_one_that_is_installed_and_broken_refuses_without_a_traceback(tmp_path: Path) -> None:
    package(tmp_path / "site", "import acme_missing\n")
    shop(tmp_path, 5)
    refused = publish(tmp_path, "--reason", "sale")
    assert refused.returncode == 3, refused.stderr
    assert "two-digits of acme-checks 1.2 is broken" in refused.stderr
    assert "acme_missing" in refused.stderr
    assert "Traceback" not in refused.stderr
