"""Promises about the repository itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel_core.rules.codes import CODES

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("part", ["rules", "datasources", "audit", "cli", "examples"])
def test_type_checkers_see_the_name_space(part: str) -> None:
    link = ROOT / "sentinel_core" / part
    assert link.is_symlink()
    assert link.readlink() == Path("..") / part


def test_coverage_counts_the_real_paths(tmp_path: Path) -> None:
    """Through the symlinks every file would be counted under a second name, or not at all."""
    data = tmp_path / "data"
    run = [sys.executable, "-m", "coverage"]
    config = f"--rcfile={ROOT / 'pyproject.toml'}"
    code = "import sentinel_core.rules"
    script = tmp_path / "script.py"
    script.write_text(code)
    subprocess.run(
        [*run, "run", config, f"--data-file={data}", "--parallel-mode", str(script)], cwd=ROOT, check=True, timeout=60
    )
    subprocess.run([*run, "combine", config, f"--data-file={data}", "--quiet", str(tmp_path)], cwd=ROOT, check=True)
    report = subprocess.run(
        [*run, "json", config, f"--data-file={data}", "-o", "-"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert '"rules/ruleset.py"' in report
    assert "sentinel_core/rules/" not in report


def test_the_text_of_the_repository_names_no_machine() -> None:
    machine = re.compile(r"(?<![\w./-])/(?:work|root|farm)/|/home/[a-z]+/")
    for path in tracked("*.py", "*.md", "*.toml", "*.yaml", "*.json", "script/*"):
        if path == Path(__file__):
            continue
        found = machine.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(ROOT)} names {found.group()}"


def test_every_problem_code_of_any_source_is_in_the_table_and_none_is_left_over() -> None:
    sources = [path for path in tracked("*.py") if "tests" not in path.parts and path.name != "codes.py"]
    used = {code for path in sources for code in re.findall(r"\bSR\d{3}\b", path.read_text(encoding="utf-8"))}
    assert used == set(CODES)


def test_every_decision_record_has_the_same_headings() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert records
    for record in records:
        text = record.read_text(encoding="utf-8")
        for heading in ("## Context", "## Choice", "## Consequences"):
            assert heading in text, f"{record.name} lacks {heading}"


def test_no_file_of_code_grows_beyond_five_hundred_lines() -> None:
    """One subject a file; a longer one is two subjects."""
    for path in tracked("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines"
