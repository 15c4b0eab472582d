"""What an installation holds: everything of ours, under one name, and nothing else."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("rules", "datasources", "audit", "cli", "examples")
DATA = ("py.typed", "*.pyi", "*.schema.json", "*.yaml")


def modules_of(tree: Path) -> set[str]:
    """Every file of the tree that must be in a wheel, by its name there."""
    found = set()
    for top in ("sentinel_core", *PARTS):
        prefix = "" if top == "sentinel_core" else "sentinel_core/"
        folder = tree / top
        for pattern in ("*.py", *DATA):
            for path in folder.rglob(pattern):
                relative = path.relative_to(tree)
                under_symlink = any((tree / parent).is_symlink() for parent in relative.parents)
                if not under_symlink:
                    found.add(prefix + relative.as_posix())
    return found


def test_wheel_holds_every_module_and_data_file_and_nothing_else(wheel: Path, clean_tree: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = modules_of(clean_tree)
    assert len(expected) > 40
    manual = {name for name in names if ".data/data/share/man/man1/" in name}
    assert names - manual == expected
    assert {Path(name).name for name in manual} == {path.name for path in (clean_tree / "docs" / "man").iterdir()}


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, wheel_of_sdist: Path) -> None:
    def names(path: Path) -> set[str]:
        return set(zipfile.ZipFile(path).namelist())

    assert names(wheel_of_sdist) == names(wheel)


def test_wheel_metadata_names_the_command_and_the_license(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = {name.split(".dist-info/", 1)[1]: name for name in archive.namelist() if ".dist-info/" in name}
    assert b"sentinelctl = sentinel_core.cli.entry:main" in archive.read(info["entry_points.txt"])
    assert "licenses/LICENSE" in info


def test_every_folder_with_modules_or_data_is_a_package(clean_tree: Path) -> None:
    """A folder without __init__.py would be left out of the wheel without a word."""
    for top in ("sentinel_core", *PARTS):
        for path in (found for pattern in ("*.py", *DATA) for found in (clean_tree / top).rglob(pattern)):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(target)
    return target


def python(code: str, installed: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_from_another_directory_only_the_name_space_is_importable(installed: Path, tmp_path: Path) -> None:
    done = python("import sentinel_core.rules as m; print(m.__file__)", installed, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(installed))
    for part in PARTS:
        bare = python(f"import {part}", installed, tmp_path)
        assert bare.returncode != 0
        assert "ModuleNotFoundError" in bare.stderr


def test_importing_the_engine_brings_no_heavy_library(installed: Path, tmp_path: Path) -> None:
    heavy = ("click", "watchfiles", "sqlite3", "nacos", "v2", "grpc", "kafka", "redis", "prometheus_client")
    code = f"import sys, sentinel_core; print([m for m in {heavy!r} if m in sys.modules])"
    done = python(code, installed, tmp_path)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_compiled_modules_lie_inside_the_package() -> None:
    """The shared library of the compiled modules must not lie bare beside the packages."""
    assert not list(ROOT.glob("*__mypyc*"))
    ours = metadata.files("sentinel-control-plane") or []
    assert not [file for file in ours if "__mypyc" in file.name and file.parts[0] != "sentinel_core"]


def test_a_variable_has_the_hot_modules_interpreted(tmp_path: Path) -> None:
    hot = [line for line in (ROOT / "hot_modules.txt").read_text().splitlines() if line and not line.startswith("#")]
    names = [path.removesuffix(".py").replace("/", ".") for path in hot]
    code = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {names!r}), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "SENTINEL_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    files = done.stdout.split()
    assert len(files) == len(hot)
    assert all(file.endswith(".py") for file in files)


def test_expected_build_is_the_one_under_test() -> None:
    """Guards against testing a stale binary, or the interpreted engine under the name of the compiled one."""
    expected = os.environ.get("SENTINEL_EXPECT")
    if expected is None:
        return
    import sentinel_core.window as window

    file = window.__file__
    assert file is not None
    assert ("pure" if file.endswith(".py") else "compiled") == expected


def test_what_is_compiled_passes_its_check_in_a_build_that_has_no_library() -> None:
    """`pip install .` builds apart from everything that is installed."""
    flags = re.search(r"^ +flags = (\[.*\])$", (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert flags is not None
    hot = [
        line for line in (ROOT / "hot_modules.txt").read_text(encoding="utf-8").split("\n") if line[:1] not in ("", "#")
    ]
    apart = ["--no-site-packages", "--cache-dir=/dev/null", *json.loads(flags[1])]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *apart, *hot], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
