"""Whatever stands on the command line, the program ends with a code of its table and with words, never a traceback."""

from __future__ import annotations

import random

import pytest

from sentinel_core.cli.exits import Exit
from tests.cli.conftest import Project, Run

COMMANDS = [
    ("instances", "list"),
    ("instances", "show"),
    *(("rules", name) for name in ("validate", "schema", "explain", "show", "diff", "history")),
    ("rules", "fmt", "--check"),
    ("rules", "rollback", "--dry-run"),
    ("rules", "import", "--dry-run"),
    *(("audit", name) for name in ("query", "who", "show")),
    ("engine", "slots"),
    ("version",),
    (),
]
WORDS = [
    *("-o", "json", "yaml", "name", "xml", "--kind", "flow", "param-flow", "--strict", "--limit", "0", "-1", "9" * 20),
    *("--to", "--to-commit", "HEAD", "--steps", "--reason", "--store", "file:///tmp", "file://", "memory://x", "://"),
    *("git:", "git:HEAD", "git:-1", "git:--help", "history:", "history:1", "history:²", "live", "-", "--", "--at"),
    *("--between", "--since", "--zone", "UTC", "now", "yesterday", "2h", "--field", "--env", "--after", "--json-into"),
    *("/nope/x", "--config", "/dev/null", "/", ".", "..", "", " ", "\udc80", "支付", "a\u202eb", "~", "~nobody", "%s"),
    *("{}", "--from", "--help", "--yes", "--no-input", "sentinel.yaml", "repo", "count>3", "x" * 100_000, "\x1b[2J"),
]


@pytest.mark.parametrize("seed", range(6))
def test_random_lines_end_with_a_known_code_and_no_unexpected_error(
    project: Project, sentinelctl: Run, seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        line = [*dice.choice(COMMANDS), *(dice.choice(WORDS) for _ in range(dice.randint(0, 5)))]
        ended = sentinelctl(*line)
        assert ended.code in set(Exit), line
        assert "error: unexpected " not in ended.err, (line, ended.err)
        assert not {"\x1b", "\u202e"} & set(ended.out + ended.err), line
