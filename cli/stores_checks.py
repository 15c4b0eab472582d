"""What `doctor` looks at in stores: reached or not, what stands there, who may do what, how services here fare with it.

Every store is asked on a thread of its own, which is left behind when it takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.conditions import dated_ahead, warned, with_condition
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit, code_of
from sentinel_core.cli.instances.found import DEAD, Instance, running, since_s, worst
from sentinel_core.cli.instances.found import items as items_of
from sentinel_core.cli.moments import age, utc_now
from sentinel_core.cli.rules.sides import short_version
from sentinel_core.cli.stores import where_to_look
from sentinel_core.cli.text import plural
from sentinel_core.datasources.contract import (
    Absent,
    Condition,
    DatasourceError,
    Inspectable,
    Item,
    Ordered,
    Readable,
    Reading,
    SourceRewound,
    Writable,
)
from sentinel_core.datasources.last_good import LastGood
from sentinel_core.following import Store, check_distinct
from sentinel_core.masking import mask_text
from sentinel_core.rules import Revision, RuleRejected, parse_revision
from sentinel_core.rules.overlay import overlays_among
from sentinel_core.service import open_stores
from sentinel_core.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True)
class _Asked:
    """A store, and what it is to the services of these settings."""

    name: str
    store: Store
    last_good: LastGood
    services: Sequence[Instance]


def checks(settings: Settings, limit_s: float) -> Iterator[Check]:
    """A line a store, in the order of the settings; none is waited for longer than `limit_s` from now."""
    if not settings.stores:
        yield Check("store", "warn", "none is configured", "write `stores: [URI]` into sentinel.yaml")
    with ExitStack() as undo:
        try:
            asked = _opened(settings, undo)
        except (DatasourceError, SettingsError) as error:
            yield Check("store", "fail", str(error), "mend `stores` in the settings", code_of(error))
            return
        working = [Bounded(partial(_look, each)) for each in asked]
        deadline = time.monotonic() + limit_s
        for each, work in zip(asked, working, strict=True):
            text = f"{each.store.source.uri}: no answer within {limit_s:g} s"
            late = Check(each.name, "fail", text, "check the network and the address", Exit.UNREACHABLE)
            yield _with_services(each, work.result(deadline, late))


def _opened(settings: Settings, undo: ExitStack) -> list[_Asked]:
    sources, bootstrap = open_stores(settings, undo)
    named = [("store", source) for source in sources] + ([("bootstrap", bootstrap)] if bootstrap else [])
    last_good, services = LastGood(Path(settings.last_known_good)), running(settings)
    asked = [_Asked(name, Store.of(source), last_good, services) for name, source in named]
    check_distinct([each.store for each in asked])
    return asked


# -- the store itself --------------------------------------------------------------------------------------------------


def _look(asked: _Asked) -> Check:
    """Reads every item, then asks what else the store tells."""
    name, (source, kinds) = asked.name, asked.store
    behind = ""
    began = time.monotonic()
    try:
        found = [(item, source.read(item)) for item in source.items(kinds)]
        took_ms = (time.monotonic() - began) * 1000
        rules = 0
        versions = []
        for item, reading in found:
            if not isinstance(reading, Absent):
                behind = _behind(item, reading, asked.last_good)
                rules += sum(len(ruleset.rules) for ruleset in parse_revision(reading, item.kinds).values())
                versions.append(short_version(reading))
    except RuleRejected as error:
        step = f"sentinelctl rules show '{source.uri}'    (tells every problem)"
        return Check(
            name, "fail", f"{source.uri}: {behind}{first_line(error)}", step, Exit.INVALID_RULES, {"mayRead": True}
        )
    except Exception as error:  # noqa: BLE001 -- an adapter may raise anything; the report goes on with the next store
        step = "install that" if "pip install " in str(error) else "see what it says"
        step += ", then run this again"
        return Check(name, "fail", f"{source.uri}: {first_line(error)}", step, code_of(error), {"mayRead": False})
    if not versions:
        check = _holding_nothing(name, source, found, took_ms)
    elif (rewound := _rewound(asked, found)) is not None:
        check = rewound
    else:
        overlay = overlay_of([reading for _, reading in found if not isinstance(reading, Absent)])
        version = ", ".join(dict.fromkeys(versions))
        since = f", of {age(old)} ago" if (old := _age(found).get("datedSecondsAgo", -1.0)) >= 0 else ""
        text = f"{source.uri}: {took_ms:.0f} ms, at {version}, {plural(rules, 'rule')}, valid{overlay}{since}"
        check = _with_provenance(found, Check(name, "ok", text))
    check = replace(check, facts={"tookMs": round(took_ms, 1), "mayRead": True, **_age(found)})
    return dated_ahead(_with_condition(source, found[0][0], check), _newest(found))


def _with_provenance(found: Sequence[tuple[Item, Reading]], check: Check) -> Check:
    """A warning where what tells whose the rules are cannot be read."""
    problems = [reading.provenance.problem for _, reading in found if not isinstance(reading, Absent)]
    problem = next((each for each in problems if each), None)
    if problem is None:
        return check
    text = f"{check.what}; whose they are is not known: {mask_text(problem)}"
    return warned(check, text, "mend it, or publish again")


def _newest(found: Sequence[tuple[Item, Reading]]) -> datetime | None:
    """When the newest of what stands there was published, or committed, as far as the store tells."""
    told = [reading.provenance for _, reading in found if not isinstance(reading, Absent)]
    times = [each.published_at or each.committed_at for each in told]
    return max((each for each in times if each is not None), default=None)


def _age(found: Sequence[tuple[Item, Reading]]) -> dict[str, float]:
    newest = _newest(found)
    return {} if newest is None else {"datedSecondsAgo": round((utc_now() - newest).total_seconds(), 3)}


def _holding_nothing(name: str, source: Readable, found: Sequence[tuple[Item, Reading]], took_ms: float) -> Check:
    absent = [reading for _, reading in found if isinstance(reading, Absent)]
    reasons = "; ".join(dict.fromkeys(each.reason for each in absent))
    text = f"{source.uri}: reached in {took_ms:.0f} ms, but it holds no rules ({reasons})"
    step = f"check its {where_to_look(source)}"
    if name == "store" and isinstance(source, Writable):
        step += "; where it is new: sentinelctl rules publish    (writes what was committed)"
    known = next((each.next_step for each in absent if each.next_step), None)
    return Check(name, "warn", text, known or step)


def _behind(item: Item, reading: Revision, last_good: LastGood) -> str:
    """How services of this machine stand to a revision that they refuse; nothing where they never ran another one."""
    ran = last_good.load(item)
    if not ran or ran[-1].version == reading.version:
        return ""
    here, there = short_version(ran[-1]), short_version(reading)
    return f"services here last ran {here}, the store stands at {there}: refused because "


def _rewound(asked: _Asked, found: Sequence[tuple[Item, Reading]]) -> Check | None:
    """A warning where the store went back behind what services of this machine ran: they keep what they have."""
    source = asked.store.source
    if not isinstance(source, Ordered):
        return None
    for item, reading in found:
        ran = asked.last_good.load(item)
        if isinstance(reading, Absent) or not ran or ran[-1].version == reading.version:
            continue
        try:
            source.admit(item, ran[-1], reading)
        except SourceRewound as error:
            why = first_line(error).removeprefix(f"{source.uri}: ")
            step = "push the lost commits again, or add &allow_rewind=true to the store"
            text = f"{source.uri}: {_behind(item, reading, asked.last_good)}{why}"
            return Check(asked.name, "warn", text, step)
    return None


def _with_condition(source: Readable, item: Item, check: Check) -> Check:
    """Server, rights and clock, as far as the store tells of them."""
    try:
        told = source.inspect(item) if isinstance(source, Inspectable) else Condition()
    except Exception as error:  # noqa: BLE001 -- as for read; the rules were read, so this is a remark
        return replace(check, what=f"{check.what}; it tells nothing of itself: {first_line(error)}")
    if not isinstance(source, Writable):
        told = replace(told, may_write=False)
    return with_condition(check, told)


# -- services that follow it -------------------------------------------------------------------------------------------


def _with_services(asked: _Asked, check: Check) -> Check:
    """How services of this machine that run do with the store: state, staleness, last error."""
    uri = asked.store.source.uri
    follow = [
        (each, store)
        for each in asked.services
        for store in each.status.subscriptions
        if store.get("source") == uri and each.state != DEAD
    ]
    services = [_service(each, store) for each, store in follow]
    transport = uri.partition(":")[0]
    check = replace(check, facts={"transport": transport, **check.facts, "services": services})
    if not follow:
        return check
    state = worst([store for _, store in follow])
    oldest_s = max((each["readSecondsAgo"] for each in services if each["readSecondsAgo"] is not None), default=None)
    read = "" if oldest_s is None else f", read {age(oldest_s)} ago"
    text = f"{check.what}; {plural(len(follow), 'service')} here: {state}{read}"
    if state == "ready":
        return replace(check, what=text)
    trouble = next((each for each in services if each["state"] == state), services[0])
    why = f" ({trouble['reason']})" if trouble["reason"] else ""
    return warned(check, f"{text}{why}", f"sentinelctl instances show {trouble['instance']}")


def _service(instance: Instance, store: Mapping[str, Any]) -> dict[str, Any]:
    items = items_of(store)
    reads = [since_s(each.get("lastRead"), instance.now) for each in items if each.get("lastRead")]
    failed = [each for each in items if each.get("lastError")]
    newest = max(failed, key=lambda each: str(each.get("lastErrorAt")), default={})
    return {
        "instance": instance.status.instance,
        "state": store.get("state"),
        "reason": next((each.get("reason") for each in items if each.get("state") == store.get("state")), None),
        "readSecondsAgo": round(max(reads), 3) if reads else None,
        "lastError": newest.get("lastError"),
        "lastErrorAt": newest.get("lastErrorAt"),
    }


def overlay_of(revisions: Sequence[Revision]) -> str:
    """The overlays that some revisions are read with, for a line."""
    names = [name for each in revisions for name in sorted(overlays_among(text.name for text in each.texts))]
    return f", with the overlay {', '.join(names)}" if names else ""


def first_line(error: BaseException) -> str:
    """What an error says, masked; its type where it says nothing."""
    return mask_text(str(error)).partition("\n")[0] or type(error).__name__
