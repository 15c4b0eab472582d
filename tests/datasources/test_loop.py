"""The loop's decisions, without threads and without waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.datasources import Absent, State, SubscriptionOptions
from sentinel_core.datasources.loop import LoopState, Verdict
from sentinel_core.rules import Revision, SourceText

OPTIONS = SubscriptionOptions(debounce_s=0.02, compare_s=30, backoff_base_s=0.2, backoff_cap_s=30)


def revision(content: bytes, version: str = "1") -> Revision:
    return Revision((SourceText("rules", content),), "/test", version)


def fresh(now: float = 100.0) -> LoopState:
    return LoopState(OPTIONS, lambda: 0.5, now)


def active(content: bytes = b"[]", now: float = 100.0) -> LoopState:
    loop = fresh(now)
    loop.begin(now)
    loop.in_sync(revision(content), revision(content).content_digest)
    return loop


@given(st.integers(1, 500), st.floats(0, 1, exclude_max=True))
def test_back_off_doubles_to_the_cap_and_jitter_takes_at_most_half(failures: int, chance: float) -> None:
    longest = min(OPTIONS.backoff_cap_s, OPTIONS.backoff_base_s * 2 ** min(failures - 1, 60))
    assert longest / 2 <= OPTIONS.backoff(failures, lambda: chance) <= longest


def test_a_prompt_store_is_tried_again_soon_but_not_where_it_denies_access() -> None:
    loop = LoopState(OPTIONS, lambda: 0.5, 100.0, retry_cap_s=1.5)
    for _ in range(20):
        loop.begin(100.0)
        loop.failed("down", 100.0)
    assert 100.75 <= loop.due <= 101.5
    loop.begin(100.0)
    loop.failed("denied", 100.0, severe=True)
    assert loop.due > 110
    for _ in range(20):
        loop.begin(100.0)
        loop.channel_lost("reset", 100.0, lived_s=0)
    assert 100.75 <= loop.due <= 101.5


@pytest.mark.parametrize(
    "wrong", [{"debounce_s": -1}, {"compare_s": 0}, {"backoff_base_s": 0}, {"backoff_base_s": 2, "backoff_cap_s": 1}]
)
def test_timings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SubscriptionOptions(**wrong)


def test_the_first_read_is_due_at_once() -> None:
    assert fresh(100.0).due == 100.0


@given(st.lists(st.floats(0, 0.019), min_size=1, max_size=50))
def test_a_burst_of_hints_is_one_read_a_debounce_after_the_first(offsets: list[float]) -> None:
    loop = active(now=100.0)
    for offset in sorted(offsets):
        loop.hint(101.0 + offset)
    assert loop.due == pytest.approx(101.0 + min(offsets) + OPTIONS.debounce_s)


def test_a_prompt_source_is_read_at_the_first_hint_and_then_at_most_once_a_debounce() -> None:
    loop = LoopState(OPTIONS, lambda: 0.5, 100.0, retry_cap_s=1.0)
    loop.begin(100.0)
    loop.hint(101.0)
    assert loop.due == 101.0
    loop.begin(101.0)
    loop.hint(101.001)
    loop.hint(101.002)
    assert loop.due == pytest.approx(101.0 + OPTIONS.debounce_s)


@given(st.lists(st.sampled_from(["hint", "failed", "force", "channel_lost"]), max_size=30))
def test_a_read_is_never_later_than_the_periodic_compare(events: list[str]) -> None:
    loop, now = active(now=100.0), 100.0
    for event in events:
        now += 0.001
        if event == "failed":
            loop.begin(now)
            loop.failed("down", now)
        elif event == "channel_lost":
            loop.channel_lost("reset", now, 0.0)
        else:
            getattr(loop, event)(now)
        assert loop.due <= now + OPTIONS.compare_s


@given(st.integers(1, 20), st.lists(st.floats(0, 0.2), min_size=1, max_size=20))
def test_hints_do_not_make_a_failing_read_spin(failures: int, offsets: list[float]) -> None:
    loop, began = active(now=100.0), 100.0
    for _ in range(failures):
        loop.begin(began)
        loop.failed("down", began)
    for offset in sorted(offsets):
        loop.hint(began + offset)
    assert loop.due >= began + OPTIONS.backoff_base_s / 2


def test_what_a_failed_read_took_counts_as_waited_save_for_a_first_pause() -> None:
    loop = LoopState(OPTIONS, lambda: 0.0, 100.0, retry_cap_s=1.5)
    for began in (100.0, 200.0, 300.0, 400.0):
        loop.begin(began)
        loop.failed("refused", began)
    assert loop.due == pytest.approx(400.75)
    loop.begin(500.0)
    loop.failed("no answer", 505.0)
    assert loop.due == pytest.approx(505.1)


def test_a_refresh_goes_before_the_back_off() -> None:
    loop = active(now=100.0)
    loop.failed("down", 100.0)
    loop.force(100.01)
    assert loop.due == 100.01


def test_a_hint_that_comes_while_a_read_runs_makes_the_next_one_due() -> None:
    loop = active(now=100.0)
    loop.begin(101.0)
    loop.hint(101.5)
    loop.in_sync(revision(b"[1]"), "digest")
    assert loop.due == pytest.approx(101.52)


@pytest.mark.parametrize(
    ("reading", "verdict"),
    [
        (Absent("missing"), Verdict.EMPTY),
        (revision(b""), Verdict.EMPTY),
        (revision(b"\xef\xbb\xbf \n"), Verdict.EMPTY),
        (Revision((), "/test", "1"), Verdict.APPLY),
        (revision(b"[]", "2"), Verdict.DUPLICATE),
        (revision(b"bad"), Verdict.REFUSED_BEFORE),
        (revision(b"[1]"), Verdict.APPLY),
    ],
)
def test_what_is_done_with_a_reading(reading: Absent | Revision, verdict: Verdict) -> None:
    loop = active(b"[]")
    loop.refused(revision(b"bad").content_digest, "bad")
    digest = reading.content_digest if isinstance(reading, Revision) else None
    assert loop.judge(reading, digest) is verdict


def test_one_blank_file_of_a_folder_is_a_torn_folder() -> None:
    two = Revision((SourceText("a", b"flowRules: []"), SourceText("b", b"")), "/test", "1")
    assert active().judge(two, two.content_digest) is Verdict.EMPTY


def test_p09_the_cursor_moves_only_by_success() -> None:
    loop = active(b"[]")
    before = loop.cursor
    loop.failed("down", 101.0)
    loop.refused("digest", "bad")
    loop.empty("deleted")
    loop.kept("older")
    loop.needs_person("rewound")
    assert loop.cursor is before
    loop.in_sync(revision(b"[1]", "2"), "digest")
    assert loop.cursor is not None
    assert loop.cursor.version == "2"


def test_the_states_of_an_item_without_rules() -> None:
    loop = fresh()
    states = [loop.state]
    changes: list[Callable[[], None]] = [
        lambda: loop.empty("missing"),
        lambda: loop.failed("down", 100.0),
        lambda: loop.empty("missing"),
        lambda: loop.refused("digest", "bad"),
    ]
    for change in changes:
        change()
        states.append(loop.state)
    assert states == [State.INIT, State.INIT, State.ERROR, State.INIT, State.ERROR]


def test_p24_a_content_that_says_nothing_is_waited_for_like_an_absent_one() -> None:
    loop = fresh()
    loop.refused("digest", "says nothing", empty=True)
    loop.failed("down", 100.0)
    loop.refused_before()
    assert (loop.state, loop.reason) == (State.INIT, "says nothing")
    loop.refused("other", "bad")
    assert loop.state is State.ERROR


def test_the_states_of_an_item_with_rules() -> None:
    loop, first = fresh(), revision(b"[]")
    states = []
    changes: list[Callable[[], None]] = [
        lambda: loop.restored(first, first.content_digest),
        lambda: loop.in_sync(first, first.content_digest),
        lambda: loop.channel_lost("reset", 100.0, 0.0),
        loop.channel_up,
        lambda: loop.failed("down", 100.0),
        lambda: loop.failed("denied", 100.0, severe=True),
        lambda: loop.in_sync(revision(b"[1]"), "digest"),
    ]
    for change in changes:
        change()
        states.append(loop.state)
    assert states == [
        State.STALE, State.READY, State.STALE, State.READY, State.STALE, State.ERROR, State.READY,
    ]  # fmt: skip
    assert loop.reason is None
