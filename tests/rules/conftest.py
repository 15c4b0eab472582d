"""Texts in, rule sets or refusals out: what the tests of this part share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sentinel_core.rules import KINDS, Problem, Revision, RuleRejected, RuleSet, SourceText, parse_revision, parse_rules

DATA = Path(__file__).parent.parent / "data" / "rules"


@pytest.fixture
def data() -> Path:
    """The samples of the articles."""
    return DATA


@pytest.fixture
def load_yaml() -> Callable[..., dict[str, RuleSet]]:
    """Reads one YAML document called rules.yaml; the kinds it manages."""

    def load(text: str | bytes, *kinds: str) -> dict[str, RuleSet]:
        content = text if isinstance(text, bytes) else text.encode()
        revision = Revision((SourceText("rules.yaml", content),), source="test", version="1")
        return parse_revision(revision, kinds or KINDS)

    return load


@pytest.fixture
def yaml_problems(load_yaml: Callable[..., dict[str, RuleSet]]) -> Callable[[str], list[Problem]]:
    """The problems for which a YAML document is refused."""

    def problems(text: str) -> list[Problem]:
        with pytest.raises(RuleRejected) as caught:
            load_yaml(text)
        return list(caught.value.problems)

    return problems


@pytest.fixture
def json_problems() -> Callable[..., list[Problem]]:
    """The problems for which a JSON list (text or objects) of a kind is refused."""

    def problems(kind: str, content: Any, **options: Any) -> list[Problem]:
        with pytest.raises(RuleRejected) as caught:
            parse_rules(kind, content, name="rules.json", **options)
        return list(caught.value.problems)

    return problems
