"""Why a suggested rule is as it is, in words."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.observation.normal import PEAK
from sentinel_core.observation.statistics import CUT, tail
from sentinel_core.observation.suggestion import FEWEST, Suggestion

SUSPICIOUS = 0.2
"""Share of observations in incidents beyond which they are hardly incidents."""


def reasons(made: Suggestion) -> Iterator[tuple[str, str]]:
    """Field of the rule → why it has this value."""
    yield "threshold", "; ".join(_threshold(made))
    yield "windowIntervalMs", _window(made)
    yield "minRequestAmount", _minimum(made)
    yield "stateWindowMs", "15 to 30 s are reasonable; shorter lets a wave of calls onto what has just come back"
    yield "halfOpenMs, halfOpenPercent", _trial(made)
    yield "mode", "shadow: it counts what it would block and lets it pass, until you trust it and take the line out"


def cautions(made: Suggestion) -> Iterator[str]:
    """What to look at before the rule is used."""
    left_out = made.normal.left_out / made.observed
    if left_out > SUSPICIOUS:
        yield (
            f"{left_out:.0%} of the time was left out as incidents, which is hardly an incident any more: look at "
            "`sentinelctl biz observe`, and choose a normal time with --between"
        )
    if made.clamped:
        yield (
            f"{made.factor:g} times the normal peak is beyond 100 %, so the threshold stands half-way to it: a rate "
            "that is so bad normally makes a weak breaker; can it be defined more narrowly?"
        )
    if not 2 <= made.factor <= 3:
        yield f"a factor of {made.factor:g} is unusual: 2 to 3 have proved themselves"
    if made.kind == "rate" and not made.peak and made.direction == "above":
        yield (
            f"no bad sample was seen in a normal window, and nothing times {made.factor:g} is nothing: the threshold "
            f"is taken from one bad sample in {FEWEST}; put it lower by hand if the business needs it"
        )
    if made.trial.samples < made.trial.needed:
        yield (
            f"a trial of {made.trial.ms / 1000:g} s holds {made.trial.samples:.1f} samples in a thin hour and needs "
            f"{made.trial.needed} to be judged: expect it to open again by chance"
        )
    if made.kind == "rate" and made.volume < made.minimum:
        yield (
            f"only {made.judged:.0%} of the windows hold {made.minimum} samples, in the others the rule does nothing: "
            "try a longer --window, or no --dimension"
        )


def _threshold(made: Suggestion) -> Iterator[str]:
    above, normal = made.direction == "above", made.normal
    unit = " %" if made.kind == "rate" else ""
    how, what, percent = ("×", "peak", PEAK) if above else ("÷", "trough", 100 - PEAK)
    side = "above" if above else "below"
    yield (
        f"normal {what} {made.peak:.4g}{unit} {how} {made.factor:g}, rounded away from it; the {what} is p{percent:g} "
        f"of {len(normal.kept):,} observations"
    )
    if normal.incidents:
        yield (
            f"left out as incidents: {normal.left_out:,} {side} {normal.bound:.4g}{unit} (median and {CUT:g} robust "
            f"deviations), {len(normal.incidents)} times"
        )
    if normal.usual_hours:
        hours = ", ".join(f"{hour:02}" for hour in normal.usual_hours)
        yield f"kept, because half of the days have them: those in the hours {hours} UTC"


def _window(made: Suggestion) -> str:
    if made.kind == "gauge":
        return "a gauge is judged as it stands; only the calls before a verdict are counted in it"
    enough = f"{made.minimum} are needed" if made.volume >= made.minimum else f"fewer than the {made.minimum} needed"
    return f"nine of ten windows of {made.window_ms / 1000:g} s hold {made.volume:,.0f} samples or more, {enough}"


def _minimum(made: Suggestion) -> str:
    if made.kind == "gauge":
        return "calls before a verdict, so that the first moments after a start do not count"
    threshold, rate = made.threshold / 100, made.rate / 100
    if made.direction == "below":
        threshold, rate = 1 - threshold, 1 - rate
    return (
        f"at least {FEWEST}; more than one bad sample to trip (100/threshold); and by chance less than once in "
        f"{made.days:g} days at {made.rate:.3g} %, the rate of the worst normal hour: n ≥ ln({made.looks:,.0f}) ÷ "
        f"D(threshold‖rate) (Hoeffding 1963, theorem 1); exactly, a window of {made.minimum} trips with a probability "
        f"of {tail(made.minimum, rate, threshold):.1g}"
    )


def _trial(made: Suggestion) -> str:
    trial = made.trial
    how = f"{trial.percent:g} % of the calls for {trial.ms / 1000:g} s"
    if made.kind == "gauge":
        return f"{how}: the gauge is judged as it stands at the end"
    return (
        f"{how} give {trial.samples:,.3g} samples in a thin hour; it takes {trial.needed}, so that neither one bad "
        "sample alone nor, more than once in twenty trials, chance opens it again"
    )
