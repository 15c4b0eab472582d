"""A rule that never triggers, because no call reaches it under the name it is written for."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.cli.moments import age
from sentinel_core.cli.text import plural
from sentinel_core.cli.troubles.finding import Case, Trouble
from sentinel_core.cli.troubles.names import difference
from sentinel_core.masking import may_hold_secret


def reached(case: Case) -> Iterator[Trouble]:
    """Names that differ, and guards that nobody came to."""
    scene, resource = case.scene, case.resource
    if not scene.telling or not case.rules or may_hold_secret(resource):  # services tell such a name masked
        return
    for other in scene.alike(resource):
        yield Trouble(
            "never_triggers",
            resource,
            f"{_shown(resource)} is seen as {_shown(other)} ({plural(scene.seen[other], 'call')} in "
            f"{age(scene.counted_s)}); {difference(resource, other)}",
            f"write resource: {_shown(other)} in the rule, or {_shown(resource)} in the code; names are compared "
            "letter by letter",
        )
    if resource not in scene.seen and not scene.alike(resource):
        yield _never(case)


def _never(case: Case) -> Trouble:
    scene = case.scene
    close = "".join(
        f"; {_shown(each)} was ({plural(scene.seen[each], 'call')})" for each in scene.names.close(case.resource)
    )
    beyond = sum(each.beyond for each in scene.telling)
    unknown = f"; {beyond} more are beyond the bound and not told by name" if beyond else ""
    return Trouble(
        "never_triggers",
        case.resource,
        f"no call of it was seen in {plural(len(scene.telling), 'service')}, for {age(scene.counted_s)}"
        f"{close}{unknown}",
        f'guard the code that runs with guard("{case.resource}") or engine.entry("{case.resource}"), on the engine '
        "that `start` returned",
    )


def silent(case: Case) -> Iterator[Trouble]:
    """Calls came once, and come no more."""
    quiet = [calls.silent_s for _, calls in case.found if calls.silent_s is not None]
    if quiet and min(quiet) >= 60:
        yield Trouble("never_triggers", case.resource, f"the last call of it was seen {age(min(quiet))} ago")


def _shown(name: str) -> str:
    """In quotes where it holds what cannot be seen."""
    return name if name.isprintable() and name == name.strip() and name.isascii() else repr(name)
