"""`?client=etcd3`: the same contract through that library, where it can be imported at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel_core import datasources
from sentinel_core.datasources import SourceMisconfigured
from tests.services import etcd

HERE = Path(__file__).parent


def test_the_contract_holds_in_a_process_with_the_pure_python_protobuf() -> None:
    """Whose whole process is slowed by it, so it is another one than ours."""
    etcd.needed()
    cases = [str(HERE / "test_contract.py"), str(HERE / "etcd3_cases.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *cases],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert "31 passed" in done.stdout


def test_where_it_cannot_be_imported_the_message_says_what_to_do() -> None:
    source = datasources.open("etcd://127.0.0.1:1?client=etcd3")
    with pytest.raises(SourceMisconfigured) as caught:
        source.read(source.items(["flow"])[0])
    says = str(caught.value)
    assert "client=etcd3 cannot be used: " in says
    assert "Leave client out, which is better; or pip install etcd3, and set PROTOCOL_BUFFERS_PYTHON_" in says
    source.close()


def test_another_client_is_refused_by_name() -> None:
    with pytest.raises(SourceMisconfigured, match="client: 'aetcd' is not a client that can be had"):
        datasources.open("etcd://127.0.0.1:1?client=aetcd")
