"""Stores of every kind that keep notes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import MemorySource
from tests.services import etcd, nacos


@pytest.fixture
def identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git knows somebody."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada Example\nemail = ada@example.org\n[gc]\nauto = 0\n")
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(params=["memory", "lists", "document", "folder", "git", "etcd", "nacos-2", "nacos-3"])
def noting(request: pytest.FixtureRequest, tmp_path: Path, identity: None) -> Iterator[Any]:
    """A store under test; two openings of it, as two machines have them, come from `again`."""
    name = request.param
    if name == "memory":
        uri = None
    elif name == "lists":
        (tmp_path / "lists").mkdir()
        uri = f"file://{tmp_path}/lists?format=json"
    elif name == "folder":
        (tmp_path / "rules").mkdir()
        uri = f"file://{tmp_path}/rules"
    elif name == "document":
        uri = f"file://{tmp_path}/rules.yaml"
    elif name == "git":
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(tmp_path / "repo")], check=True)
        uri = f"git+file://{tmp_path}/repo?ref=main&path=rules.yaml"
    elif name == "etcd":
        etcd.needed()
        uri = etcd.shared().uri(f"/notes/{tmp_path.name}")
    else:
        major = int(name[-1])
        nacos.needed(major)
        uri = nacos.shared(major).uri(group=tmp_path.name, transport="http")
    source = datasources.open(uri) if uri else MemorySource()
    yield source
    source.close()
