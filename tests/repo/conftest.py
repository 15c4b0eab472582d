"""A clean copy of the tree (what a clone would hold, plus files not yet committed), and the wheel built from it."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def clean_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, target / name
        if not source.exists() and not source.is_symlink():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy, follow_symlinks=False)
    return target


def build(what: str, tree: Path, out: Path) -> Path:
    """Runs the build as a packager would, interpreted for speed; gives the one file it made."""
    built = subprocess.run(
        [sys.executable, "-m", "build", f"--{what}", "--no-isolation", "--outdir", str(out), str(tree)],
        env={**os.environ, "SENTINEL_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="session")
def wheel(clean_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", clean_tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def wheel_of_sdist(clean_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that a package index's users get where no wheel fits: by way of the source distribution."""
    sdist = build("sdist", clean_tree, tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    return build("wheel", tree, tmp_path_factory.mktemp("wheel-of-sdist"))
