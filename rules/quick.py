"""The short way for a text that has nothing wrong with it, as nearly all published lists have.

Everything else, the slightest remark included, goes the careful way of `build.py` and gives the same result there:
this file may be deleted and only time is lost.
"""

from __future__ import annotations

from pydantic import ValidationError

from sentinel_core.rules.canonical import arrange, digest_of, list_adapter, write
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.source import Limits

_BLANKS = " \t\n\r"


def quick_set(model: type[Rule], text: str, limits: Limits) -> RuleSet | None:
    """The rule set of a JSON list without flaw; None says nothing."""
    try:
        rules: list[Rule] = list_adapter(model).validate_json(text, by_alias=True, by_name=False)
    except ValidationError:
        return None
    if len(rules) > limits.max_rules:
        return None
    fields = [rule.model_fields_set for rule in rules]
    kept = sum(map(len, fields))
    if kept != text.count(":") and kept != most_keys(text):  # the first is the cheaper bound, for names without colons
        return None
    if any(not given.issuperset(model.loud_defaults) for given in fields):
        return None
    if any(True for rule in rules for _ in rule.check()) or any(model.check_together(rules)):
        return None
    order, duplicates = arrange(rules)
    if duplicates:
        return None
    canonical = write(model, rules, order)
    return RuleSet(model.kind, tuple(rules), canonical, digest_of(canonical))


def most_keys(text: str) -> int:
    """At least the number of keys in a JSON text: where it equals the number of keys that were kept, none was dropped.

    A key is a text with a colon behind it, maybe after blanks. The same characters inside texts are counted too, which
    only makes the number larger.
    """
    return text.count('":') + sum(text.count(f"{blank}:") for blank in _BLANKS if blank in text)
