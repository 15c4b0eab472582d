"""Whatever stores say, in whatever order: what holds is what their last words together say."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.datasources.layers import Layers, in_force
from sentinel_core.rules import RuleSet, parse_rules

STORES = 3
Counts = dict[str, int]
Step = tuple[int, str, Counts]
"""Store, kind, resource → count."""

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), max_size=3)
STEPS = st.lists(st.tuples(st.integers(0, STORES), st.sampled_from(["flow", "authority"]), COUNTS), max_size=12)


def rules(kind: str, counts: Counts) -> RuleSet:
    if kind == "flow":
        return parse_rules(kind, [{"resource": name, "grade": 1, "count": count} for name, count in counts.items()])
    return parse_rules(kind, [{"resource": name, "limitApp": f"app{count}"} for name, count in counts.items()])


def played(steps: Sequence[Step]) -> tuple[Layers, dict[str, RuleSet]]:
    """Delivers one after the other; what holds in the end, kind by kind as an engine would have it."""
    layers, active = Layers(STORES, bootstrap=True), dict[str, RuleSet]()
    for store, kind, counts in steps:
        layer, delivered = layers.layer(store), {kind: rules(kind, counts)}
        active |= layer.over(delivered)
        layer.keep(delivered)
    return layers, active


def expected(steps: Sequence[Step], kind: str) -> Counts | None:
    """The same in the words of the manual."""
    last = {store: counts for store, its_kind, counts in steps if its_kind == kind}
    live = [last[store] for store in range(STORES) if store in last]
    if not live:
        return last.get(STORES)  # the bootstrap
    held: Counts = {}
    for counts in live:
        held = {**counts, **held}
    return held


@given(STEPS)
def test_what_holds_follows_from_the_last_word_of_each_store_alone(steps: list[Step]) -> None:
    _, active = played(steps)
    for kind in ("flow", "authority"):
        wanted = expected(steps, kind)
        held = active.get(kind)
        assert (None if held is None else held.digest) == (None if wanted is None else rules(kind, wanted).digest)


@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_stores_speak_does_not_matter(steps: list[Step], random: object) -> None:
    last = {(store, kind): (store, kind, counts) for store, kind, counts in steps}
    shuffled = list(last.values())
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis has no type for it
    one, other = played(list(last.values()))[1], played(shuffled)[1]
    assert {kind: each.digest for kind, each in one.items()} == {kind: each.digest for kind, each in other.items()}


@given(STEPS)
def test_what_holds_step_by_step_is_what_holds_at_once(steps: list[Step]) -> None:
    layers, active = played(steps)
    *stores, bootstrap = layers.said
    at_once = in_force(stores, bootstrap)
    assert {kind: each.digest for kind, each in active.items()} == {kind: each.digest for kind, each in at_once.items()}


@given(STEPS, st.integers(0, STORES), st.sampled_from(["flow", "authority"]), COUNTS)
def test_asking_what_would_hold_changes_nothing(steps: list[Step], store: int, kind: str, counts: Counts) -> None:
    layers, _ = played(steps)
    before = [dict(each) for each in layers.said]
    layers.layer(store).over({kind: rules(kind, counts)})
    assert layers.said == before
