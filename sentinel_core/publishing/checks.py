"""Own checks: what an organisation wants to see before rules are published, as Python of its own.

A check is an entry point of the group `sentinel.guards`: a callable that is given the rules that stand, the rules that
are to stand there, and what is known of the change, and gives a `Finding` for each thing it has against it. It runs on
a thread of its own. One that raises, takes too long or gives something else is an objection, too: nothing is published
because a check was broken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sentinel_core.masking import mask_text
from sentinel_core.publishing.foreign_code import kept_alive, talk_on_stderr
from sentinel_core.rules import Kind, RuleSet
from sentinel_core.rules.guard import Objection

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "sentinel.guards"
TIMEOUT_S = 10.0
"""A check that takes longer is broken."""
_MOST = 100
"""Findings of one check that are told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has against a change."""

    text: str
    """What, and what to do about it, in one line."""
    resources: Sequence[str] = ()
    """That it is about."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is known of a change beside its rules."""

    environment: str
    store: str
    """URI, without credentials."""
    title: str
    """What the rules are, e.g. `git main@9f1c2ab34d5e (rules)`."""
    actor: str | None
    """Who publishes: the user of this machine, or the pipeline."""
    author: str | None
    """Who committed."""
    reason: str | None


_alone = threading.Lock()
"""While checks are asked, the process has another standard output."""
_running: dict[str, threading.Thread] = {}
"""By name of the check: a loop that asks again must not pile up threads of one that never ends."""
Sets = Mapping[Kind, RuleSet]
CheckFunction = Callable[[Sets, Sets, CheckContext], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One check, as it was found."""

    name: str
    """That of the entry point; the change is published in spite of it with `--allow-check NAME`."""
    distribution: str
    """Which package brought it, for messages."""
    load: Callable[[], CheckFunction]


@cache
def installed() -> tuple[Check, ...]:
    """Every check that can be found here, by name."""
    from importlib.metadata import entry_points  # slow to import, and only needed here

    return tuple(_check(point) for point in sorted(entry_points(group=ENTRY_POINTS)))


def _check(point: EntryPoint) -> Check:
    dist = point.dist
    return Check(point.name, f"{dist.name} {dist.version}" if dist is not None else point.value, point.load)


def ask(
    checks: Iterable[Check],
    old: dict[Kind, RuleSet],
    new: dict[Kind, RuleSet],
    context: CheckContext,
    timeout_s: float = TIMEOUT_S,
) -> list[Objection]:
    """What the checks have against it. Raises nothing."""
    before, after = MappingProxyType(old), MappingProxyType(new)
    if not (asked := list(checks)):
        return []
    with _alone, talk_on_stderr(), kept_alive(lambda: threading.current_thread() in _running.values()):
        return [each for check in asked for each in _asked(check, before, after, context, timeout_s)]


def _asked(check: Check, old: Sets, new: Sets, context: CheckContext, timeout_s: float) -> list[Objection]:
    answer: list[list[Finding] | str] = []
    if (before := _running.get(check.name)) is not None and before.is_alive():
        return [_broken(check, "it has not ended since it was asked before")]

    def run() -> None:
        try:
            answer.append([_finding(each) for each in check.load()(old, new, context)])
        except BaseException as error:  # noqa: BLE001 - whatever it is, the check has not spoken
            answer.append(_why(error))

    thread = threading.Thread(target=run, name=f"sentinel-check-{check.name}", daemon=True)
    _running[check.name] = thread
    thread.start()
    thread.join(timeout_s)
    if not answer:
        return [_broken(check, f"it did not end within {timeout_s:g} s")]
    (found,) = answer
    if isinstance(found, str):
        return [_broken(check, found)]
    objections = [
        Objection("check", None, f"{check.name}: {_line(each.text)}", tuple(each.resources), check=check.name)
        for each in found[:_MOST]
    ]
    if len(found) > _MOST:
        more = f"{check.name}: and {len(found) - _MOST} more"
        objections.append(Objection("check", None, more, check=check.name))
    return objections


def _why(error: BaseException) -> str:
    """On the check's own thread: the words of an error are code of the check, too."""
    name = type(error).__name__
    try:
        words = _plain(str(error))
    except BaseException:  # noqa: BLE001 - whatever it is, there are no words
        return f"{name}, which does not say why"
    return f"{name}: {words}" if words else name


def _finding(value: Any) -> Finding:
    """Made of plain texts: what a check gives may have code of its own, which runs here and not when it is shown."""
    if not isinstance(value, Finding):
        raise TypeError(f"it gave {type(value).__name__} and not sentinel_core.publishing.Finding")
    text: Any = value.text
    if not isinstance(text, str) or not (text := _plain(text)).strip():
        raise TypeError("it gave a finding without a text")
    resources: Any = () if isinstance(value.resources, str) else tuple(value.resources)
    if isinstance(value.resources, str) or not all(isinstance(each, str) for each in resources):
        raise TypeError("the resources of a finding are a list of names")
    return Finding(text, tuple(map(_plain, resources)))


def _plain(text: str) -> str:
    """Of a subclass, too, and with halves of characters spelled out."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _line(text: str) -> str:
    return " ".join(mask_text(text).split())


def _broken(check: Check, why: str) -> Objection:
    text = (
        f"{check.name} of {check.distribution} is broken, so nobody knows what it would have said: "
        f"{_line(why)}; mend that package, or remove it"
    )
    return Objection("check", None, text, check=check.name)
