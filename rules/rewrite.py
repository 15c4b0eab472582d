"""The texts of a repository, changed where they say something else than given rules, and nowhere else.

A rule stays in the file in which it is; a field is changed where it is written: in the overlay of the environment if
that writes it, else in the base. A new rule goes behind the last one of its resource, else to the end of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sentinel_core.rules.build import Listing
from sentinel_core.rules.diff import pair_rules
from sentinel_core.rules.draft import Draft, Fields, Unchangeable
from sentinel_core.rules.errors import RuleRejected
from sentinel_core.rules.overlay import DELETE, names_rule, overlays_among, places_of
from sentinel_core.rules.parse import collect, parse_revision
from sentinel_core.rules.registry import KINDS, model_of
from sentinel_core.rules.revision import Kind, Revision, SourceText
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.source import DEFAULT_LIMITS, Path
from sentinel_core.rules.write import fields_of

_PASSES = 6
"""What an anchor shares is changed for all in one pass, and set right where it was not meant in the next."""
Place = tuple[str, Path]
"""(name of a text, path in it)"""


def rewrite(
    texts: Sequence[SourceText], wanted: Mapping[Kind, RuleSet], kinds: Sequence[Kind] = KINDS
) -> tuple[SourceText, ...]:
    """The same texts with the rules of `wanted`; the rules of other kinds, and every byte that need not change, stay.

    `kinds`: those that the texts may hold, as for `parse_revision`. Raises RuleRejected where the texts are not valid,
    Unchangeable where the rules cannot be written there by changes in place.
    """
    now = tuple(texts)
    kinds, meant = _held(now, kinds), wanted
    before, valid = now, dict[Kind, RuleSet]()
    for number in range(_PASSES):
        try:
            sets = parse_revision(Revision(now, "document", ""), kinds)
        except RuleRejected as rejection:
            if number == 0:
                raise
            told = [*_Pass(before, kinds).anchored(valid, now), *map(str, rejection.errors)]
            raise Unchangeable("\n".join(["changed in place, the rules would not be valid:", *told])) from rejection
        if number == 0:
            meant = {**sets, **wanted}  # other kinds, too, may share parts with what changes
        different = [kind for kind in meant if kind not in sets or sets[kind].digest != meant[kind].digest]
        if not different:
            return now
        before, valid = now, sets
        now = _Pass(now, kinds).changed(sets, {kind: meant[kind] for kind in different})
        if before == now:
            break
    names = dict.fromkeys(rule.path for kind in different for rule in _differing(valid.get(kind), meant[kind]))
    raise Unchangeable(f"{', '.join(names)}: shares parts (anchors, merges) that do not allow the change")


def _held(texts: Sequence[SourceText], kinds: Sequence[Kind]) -> Sequence[Kind]:
    """Those whose rules may come to be others by a change: in documents all, whichever were asked for."""
    listings = [each for found in collect(texts, kinds, DEFAULT_LIMITS)[0].values() for each in found]
    is_list = any(not each.prefix for each in listings) or any(text.format == "json" for text in texts)
    return kinds if is_list else KINDS


class _Pass:
    """One look at the texts, and every change that it shows to be needed."""

    def __init__(self, texts: tuple[SourceText, ...], kinds: Sequence[Kind]) -> None:
        self._texts = texts
        self._overlays = overlays_among(text.name for text in texts)
        self._listings = collect(texts, kinds, DEFAULT_LIMITS)[0]
        self._drafts: dict[str, Draft] = {}
        self._by_number: dict[tuple[Kind, str], bool] = {}

    def changed(self, sets: Mapping[Kind, RuleSet], wanted: Mapping[Kind, RuleSet]) -> tuple[SourceText, ...]:
        for kind, rules in wanted.items():
            self._kind(kind, sets.get(kind), rules)
        drafts = self._drafts
        return tuple(drafts[text.name].result() if text.name in drafts else text for text in self._texts)

    def anchored(self, sets: Mapping[Kind, RuleSet], changed: Sequence[SourceText]) -> Iterator[str]:
        """Which rules carry an anchor that is no more in the `changed` texts, and is used there."""
        texts = {text.name: text.content.decode() for text in changed}
        for kind, rules in sets.items():
            for rule, place in zip(rules.rules, self._places(kind), strict=False):
                (name, path) = place[0]
                for anchor in sorted(self._draft(name).anchors(path)):
                    if _mentions(texts[name], f"*{anchor}") and not _mentions(texts[name], f"&{anchor}"):
                        yield (
                            f"{name}:{self._draft(name).line(path)}: {rule.path} carries the anchor &{anchor}, which "
                            f"other rules use; write those out first"
                        )

    def _places(self, kind: Kind) -> list[list[Place]]:
        listings = self._listings.get(kind, ())
        return [places_of(each, index) for each in listings for index in range(len(each.items))]

    def _draft(self, name: str) -> Draft:
        if name not in self._drafts:
            self._drafts[name] = Draft(next(text for text in self._texts if text.name == name))
        return self._drafts[name]

    def _kind(self, kind: Kind, standing: RuleSet | None, wanted: RuleSet) -> None:
        if standing is None:
            self._add_section(kind, wanted)
            return
        places = self._places(kind)
        if len(places) != len(standing.rules):
            raise Unchangeable(f"a {kind} rule stands there twice; remove one of them first")
        where = {id(rule): place for rule, place in zip(standing.rules, places, strict=True)}
        pairs = pair_rules(standing.rules, wanted.rules)
        removed, added = list(pairs.removed), list(pairs.added)
        for before, after in [*pairs.changed, *_of_one_resource(removed, added)]:
            self._change(where[id(before)], before, after)
        for rule in removed:
            self._remove(kind, where[id(rule)])
        for rule in added:
            self._add(rule, standing, where)

    # -- one rule ----------------------------------------------------------------------------------------------------

    def _change(self, places: Sequence[Place], before: Rule, after: Rule) -> None:
        if self._draft(places[0][0]).is_shared(places[0][1]):
            self._write_out(places[0], after)
            return
        self._change_fields(places, type(after), before.to_json(), after.to_json())

    def _change_fields(
        self, places: Sequence[Place], model: type[Rule] | None, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        for name in sorted(old.keys() | new.keys()):
            before, after = old.get(name), new.get(name)
            if before == after:
                continue
            text, path = next((place for place in reversed(places) if self._writes(place, name)), places[0])
            inner = [(each, (*at, name)) for each, at in places if self._writes((each, at), name)]
            if isinstance(before, dict) and isinstance(after, dict) and inner and self._are_mappings(inner):
                self._change_fields(inner, None, before, after)
            elif after is None and self._writes((text, path), name) and text not in self._overlays:
                self._draft(text).remove(path, name)
            else:
                plain = self._word(model, name, after, (text, path)) if model else None
                self._draft(text).write(path, name, after, plain=plain)

    def _writes(self, place: Place, name: str) -> bool:
        return self._draft(place[0]).owns(place[1], name)

    def _are_mappings(self, places: Sequence[Place]) -> bool:
        return all(self._draft(name).is_mapping(path) for name, path in places)

    def _write_out(self, place: Place, rule: Rule) -> None:
        """Over an alias: the rule itself."""
        name, path = place
        self._draft(name).append(path[:-1], self._fields(rule), after=int(path[-1]))
        self._draft(name).drop(path[:-1], int(path[-1]))

    def _remove(self, kind: Kind, places: Sequence[Place]) -> None:
        """From the base; where the overlay has a patch of it, by the overlay alone."""
        if len(places) == 1:
            (name, path) = places[0]
            self._draft(name).drop(path[:-1], int(path[-1]))
            return
        name, path = places[-1]
        draft = self._draft(name)
        patch = _at(draft.data, path)
        telling = {"resource", "limitApp", "id", *model_of(kind).names, "refResource", "bizMetricType", "paramIdx"}
        for field in [field for field in patch if field not in telling and draft.owns(path, field)]:
            draft.remove(path, field)
        draft.write(path, DELETE, value=True)

    # -- new rules ---------------------------------------------------------------------------------------------------

    def _add(self, rule: Rule, standing: RuleSet, where: Mapping[int, Sequence[Place]]) -> None:
        if self._undeleted(rule):
            return
        siblings = [where[id(each)][0] for each in standing.rules if each.resource == rule.resource]
        if siblings:
            name, path = siblings[-1]
            self._draft(name).append(path[:-1], self._fields(rule), after=int(path[-1]))
            return
        lists = [each for each in self._listings[rule.kind] if each.source.name not in self._overlays]
        filled = [each for each in lists if each.items] or lists
        if not filled:
            self._draft(self._home(rule)).add_section(rule.document_key, [self._fields(rule)])
            return
        self._draft(filled[-1].source.name).append(filled[-1].prefix, self._fields(rule))

    def _undeleted(self, rule: Rule) -> bool:
        """Takes away the overlay's word that this rule of the base is none."""
        for name in self._overlays:
            draft = self._draft(name)
            patches = draft.data.get(rule.document_key) if isinstance(draft.data, dict) else None
            for index, patch in enumerate(patches or ()):
                if patch.get(DELETE) is True and names_rule(type(rule), patch, rule.to_json()):
                    draft.drop((rule.document_key,), index)
                    return True
        return False

    def _add_section(self, kind: Kind, rules: RuleSet) -> None:
        if any(text.format == "json" for text in self._texts):
            raise Unchangeable(f"a JSON list of one kind has no place for {kind} rules")
        home = self._home(rules.rules[0] if rules.rules else None)
        self._draft(home).add_section(model_of(kind).document_key, [self._fields(rule) for rule in rules])

    def _home(self, rule: Rule | None) -> str:
        """The text of the base that speaks of the resource, else the first."""
        names = [text.name for text in self._texts if text.name not in self._overlays]
        spoken = [name for name, listing in self._base_lists() if rule and _speaks_of(listing, rule.resource)]
        return next(iter(spoken), names[0])

    def _base_lists(self) -> Iterator[tuple[str, Listing]]:
        for listings in self._listings.values():
            yield from ((each.source.name, each) for each in listings if each.source.name not in self._overlays)

    # -- words -------------------------------------------------------------------------------------------------------

    def _fields(self, rule: Rule) -> Fields:
        return [(name, self._code(type(rule), name, value)) for name, value in fields_of(rule)]

    def _code(self, model: type[Rule], name: str, value: Any) -> Any:
        """A code as the rules of its kind are written here: by its name, or by its number."""
        if name not in model.names or type(value) is not int or self._numbers(model, name):
            return value
        word = model.code_name(name, value)
        return value if word == str(value) else word

    def _numbers(self, model: type[Rule], name: str) -> bool:
        """Whether the rules of a kind write this code as a number here."""
        if (model.kind, name) not in self._by_number:
            self._by_number[model.kind, name] = self._writes_numbers(model, name)
        return self._by_number[model.kind, name]

    def _writes_numbers(self, model: type[Rule], name: str) -> bool:
        lists = [each.items for each in self._listings.get(model.kind, ()) if isinstance(each.items, list)]
        written = [item[name] for items in lists for item in items if name in item]
        return any(text.format == "json" for text in self._texts) or any(type(value) is int for value in written)

    def _word(self, model: type[Rule], name: str, value: Any, place: Place) -> str | None:
        """A code in the spelling of the one that it replaces."""
        if name not in model.names or type(value) is not int:
            return None
        draft, path = self._draft(place[0]), place[1]
        written = _at(draft.data, path).get(name) if draft.owns(path, name) else None
        by_number = type(written) is int or (written is None and self._numbers(model, name))
        return str(value) if by_number else model.code_name(name, value)


def _of_one_resource(removed: list[Rule], added: list[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Takes out of both lists what is another rule, but in the place of one: it keeps its comment."""
    for before in list(removed):
        if after := next((each for each in added if each.resource == before.resource), None):
            removed.remove(before)
            added.remove(after)
            yield before, after


def _differing(standing: RuleSet | None, wanted: RuleSet) -> Iterator[Rule]:
    pairs = pair_rules(standing.rules if standing else (), wanted.rules)
    yield from (after for _, after in pairs.changed)
    yield from (*pairs.removed, *pairs.added)


def _mentions(text: str, mark: str) -> bool:
    """An anchor or an alias, and none whose name only begins so."""
    return re.search(rf"[\s,\[{{]{re.escape(mark)}(?![^\s,\[\]{{}}])", f" {text}") is not None


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _speaks_of(listing: Listing, resource: str) -> bool:
    items = listing.items if isinstance(listing.items, list) else []
    return any(isinstance(item, dict) and item.get("resource") == resource for item in items)
