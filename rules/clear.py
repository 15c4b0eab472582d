"""Saying in a document that a kind has no rules: a kind that is merely absent keeps its last good ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.rules.parse import parse_revision
from sentinel_core.rules.registry import KINDS, model_of
from sentinel_core.rules.revision import Kind, Revision, SourceText
from sentinel_core.rules.ruleset import RuleSet


def clear_kinds(texts: Sequence[SourceText], kinds: Sequence[Kind]) -> tuple[SourceText, ...]:
    """The same document with an empty list for each of `kinds`, none of which it carries; nothing else is touched.

    Raises ValueError where that cannot be written by adding lines (a document in braces, a list of one kind).
    """
    added = "".join(f"{model_of(kind).document_key}: []\n" for kind in kinds)
    if any(text.format != "yaml" for text in texts):
        raise ValueError(f"a list of one kind cannot say {' '.join(added.splitlines())}")
    wanted = {kind: rules.digest for kind, rules in _sets(texts).items()}
    overlays = overlays_among(text.name for text in texts)
    for index, text in enumerate(texts):
        if text.name in overlays:
            continue
        ending = b"" if not text.content or text.content.endswith(b"\n") else b"\n"
        grown = (*texts[:index], replace(text, content=text.content + ending + added.encode()), *texts[index + 1 :])
        try:
            found = _sets(grown)
        except RuleRejected:
            continue
        if all(not found[kind].rules for kind in kinds if kind in found) and wanted == {
            kind: rules.digest for kind, rules in found.items() if kind not in kinds
        }:
            return grown
    raise ValueError(f"no text of the document takes the lines: {' '.join(added.splitlines())}")


def _sets(texts: Sequence[SourceText]) -> dict[Kind, RuleSet]:
    return parse_revision(Revision(tuple(texts), "document", ""), KINDS)
