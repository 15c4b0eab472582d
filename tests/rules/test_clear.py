"""Writing down that a kind has no rules, because engines keep the rules of a kind that is merely absent."""

from __future__ import annotations

import pytest

from sentinel_core.rules import KINDS, Revision, SourceText, clear_kinds, parse_revision

FLOW = "# limits\nflowRules:\n  - {resource: a, count: 1} # mine"


def text(content: str, name: str = "rules.yaml", format: str = "yaml") -> SourceText:  # noqa: A002 (the field's name)
    return SourceText(name, content.encode(), format)


@pytest.mark.parametrize("content", [FLOW, FLOW + "\n", FLOW + "\n\n# the end\n"], ids=["bare", "line", "end"])
def test_lines_are_added_and_nothing_else_is_touched(content: str) -> None:
    cleared = clear_kinds([text(content)], ["degrade", "system"])
    assert cleared[0].content.startswith(content.encode())
    found = parse_revision(Revision(cleared, "test", "1"), KINDS)
    assert {kind: len(rules) for kind, rules in found.items()} == {"flow": 1, "degrade": 0, "system": 0}


@pytest.mark.parametrize(
    "unfit", [text("{flowRules: []}"), text("[]", "sentinel-flow-rules.json", "json")], ids=["braces", "list"]
)
def test_what_lines_cannot_be_added_to_is_refused(unfit: SourceText) -> None:
    with pytest.raises(ValueError, match=r"degradeRules: \[\]"):
        clear_kinds([unfit], ["degrade"])


def test_the_lines_go_into_the_base_and_not_into_an_overlay() -> None:
    """Also where the whole repository lies below a folder that is called like the one of overlays."""
    base, overlay = (
        text(FLOW, "environments/all/rules.yaml"),
        text("flowRules: []", "environments/all/environments/prod.yaml"),
    )
    cleared = clear_kinds([overlay, base], ["degrade"])
    assert cleared[0] == overlay
    assert cleared[1].content.endswith(b"degradeRules: []\n")
