"""`sentinelctl audit who`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

import click

from sentinel_core.audit.chain import COLUMNS, ROW
from sentinel_core.audit.event import RuleChanged
from sentinel_core.audit.instants import from_milliseconds
from sentinel_core.audit.query.grammar import resource_condition, text_condition
from sentinel_core.audit.query.interval import EVER, Interval, between, since, until
from sentinel_core.audit.query.near import Near
from sentinel_core.audit.query.outside import MOST, outside
from sentinel_core.audit.query.who import Answer, Blame, FieldChange, Rejection
from sentinel_core.audit.query.who import who as ask
from sentinel_core.audit.query.zones import zone_named
from sentinel_core.audit.standing import Standing
from sentinel_core.audit.store.contract import AuditStore, EventHead, Query
from sentinel_core.cli.app import WORDS, App, output_options, pass_app
from sentinel_core.cli.audit.common import SHORT_ID, SIGNS, author, clock, opened, value, what, zone_option
from sentinel_core.cli.audit.stands import say_tampered, stands_of
from sentinel_core.cli.exits import Exit, UsageProblem
from sentinel_core.cli.moments import age, utc_now
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled, display_width, pad, plural, visible

TOGETHER_SHOWN = 5
ROWS_ELSEWHERE = 200
"""Newest rows in which other environments are looked for."""


@click.command()
@click.argument("resource", type=WORDS)
@click.option("--field", type=WORDS, metavar="NAME", help="Only changes of this field, e.g. count.")
@click.option("--between", "window", nargs=2, metavar="START END", help="From START up to END, END not included.")
@click.option("--since", "start", metavar="TIME", help="From TIME until now; 2h is two hours ago.")
@click.option("--until", "end", metavar="TIME", help="Up to TIME, or its end; with --since, from there.")
@click.option("--at", "moment", metavar="TIME", help="The change that was in force at TIME.")
@click.option("--kind", type=WORDS, metavar="KIND", help="Only rules of this kind, e.g. flow.")
@click.option("--env", type=WORDS, metavar="NAME", help="Only this environment (default: of the context in use).")
@zone_option
@output_options
@pass_app
def who(
    app: App,
    resource: str,
    field: str | None,
    window: tuple[str, str] | None,
    start: str | None,
    end: str | None,
    moment: str | None,
    kind: str | None,
    env: str | None,
    zone: str | None,
) -> None:
    """Who changed the rules of a resource, when, by which channel and commit, from what to what, and why.

    \b
    sentinelctl audit who payment_invoke
    sentinelctl audit who payment_invoke --field count --since "last monday"
    sentinelctl audit who payment_invoke --at 2026-11-25T14:00+08:00

    TIME is RFC 3339 (2026-11-25T14:00+08:00), a date, a duration (2h is two hours ago) or a phrase, English or Chinese:
    "last wednesday 12:00", 上周三下午. The window that was understood is told on stderr with its time zone. Without
    one, all is told. RESOURCE may hold * for any text.
    """
    place = zone_named(zone)
    now = utc_now()
    interval = _interval(window, start, end, moment, now, place)
    env = env or (app.settings.environment if app.context.name else None)
    conditions = tuple(
        text_condition(name, given) for name, given in (("kind", kind), ("environment", env)) if given is not None
    )
    is_all = not any((window, start, end, moment))
    told = "all changes so far" if is_all else _told(interval, moment, place)
    app.out.say(f"{told}, environment {env}" if env else told)
    with opened(app) as store:
        with app.out.waiting("asking the audit store"):
            answer = ask(store, resource, interval=interval, field=field, conditions=conditions)
            past, future = outside(store, resource, interval, now=now, first=EVER, conditions=conditions)
        if moment is not None:
            answer = _in_force(answer)
        elsewhere = _elsewhere(store, answer, env)
        stands = stands_of(app, store, _shown(answer), interval)
        if stands is not None and not (moment or conditions):
            stands = replace(stands, unfound=_unfound(answer, stands))
    app.out.show(_view(answer, place, None if is_all or moment else interval, stands, outside=(past, future)))
    app.out.say(
        _summary(answer, place)
        + elsewhere
        + _holds(stands, place, checkpoints=app.settings.audit.checkpoints is not None)
    )
    _say_outside(app, past, "before 1970", place)
    _say_outside(app, future, "after now", place)
    if stands is not None:
        _say_standing(app, stands, interval, place)
        if not stands.is_sound:
            raise click.exceptions.Exit(Exit.ERROR)


def _shown(answer: Answer) -> list[EventHead]:
    """All whose words are told, and that they are told beside."""
    blames = [*answer.changes, *answer.baseline, *([answer.before] if answer.before else ())]
    heads = [head for blame in blames for head in (blame.event, *blame.beside)]
    return heads + [each.event for each in answer.rejections]


def _unfound(answer: Answer, stands: Standing) -> tuple[str, ...]:
    """Changes of the resource that stand in the chain between those that were found."""
    if answer.truncated or answer.field is not None or "*" in answer.resource:
        return ()
    found = {(head.id, head.source) for head in _shown(answer)}
    return tuple(
        str(event.columns[_ID])
        for event in stands.between
        if event.is_whole()
        and event.columns[_TYPE] == RuleChanged.TYPE
        and (event.columns[_ID], event.source) not in found
        and answer.interval.start <= from_milliseconds(event.columns[_TIME]) < answer.interval.end
        and any(row[_RESOURCE] == answer.resource for row in event.rows)
    )


_ID, _TYPE, _TIME = (COLUMNS.index(name) for name in ("id", "type", "time"))
_RESOURCE = ROW.index("resource")


def _say_outside(app: App, left: Sequence[EventHead], when: str, zone: tzinfo) -> None:
    if left:
        number = f"{MOST} or more events" if len(left) >= MOST else plural(len(left), "event")
        dated = clock(left[0].time, zone, None)
        app.out.say(
            f"note: {number} of it dated {when} left out, the newest {dated} ({left[0].id[:SHORT_ID]}): a clock that "
            "is wrong, or a forged time; sentinelctl audit query shows them"
        )


def _say_standing(app: App, stands: Standing, interval: Interval, zone: tzinfo) -> None:
    gone = stands.purged_before
    if gone is not None and interval.start < gone:
        app.out.say(f"Events of before {clock(gone, zone, None)} were purged; what they told is in their segments.")
    say_tampered(app, stands)


def _holds(stands: Standing | None, zone: tzinfo, *, checkpoints: bool) -> str:
    """What was looked at, and no more: the whole chain is for `audit verify`."""
    if stands is None or not stands.is_sound or not stands.checked:
        return ""
    which = "" if stands.checked == stands.shown else f" of the newest {stands.checked}"
    if not (which or stands.gapless):
        which = " of what is shown"
    text = " Its hash holds" if stands.checked == stands.shown == 1 else f" The hashes{which} hold"
    them = "it" if stands.checked == 1 else "them"
    rest = "" if stands.gapless else f" Whether others are missing beside {them}, sentinelctl audit verify tells."
    if stands.checkpoint is not None:
        made = clock(datetime.fromisoformat(stands.checkpoint), zone, None)
        if stands.covered == stands.checked:
            return f"{text}, and the checkpoint of {made} covers {them}.{rest}"
        return f"{text}; the checkpoint of {made} covers {stands.covered} of {stands.checked}.{rest}"
    return f"{text}; no checkpoint covers {them} yet.{rest}" if checkpoints else f"{text}.{rest}"


def _interval(
    window: tuple[str, str] | None,
    start: str | None,
    end: str | None,
    moment: str | None,
    now: datetime,
    zone: tzinfo,
) -> Interval:
    if [window, start or end, moment].count(None) < 2:
        raise UsageProblem(
            "--between, --since with --until, and --at name the time in three ways", next_step="give one of them"
        )
    if start is not None and end is not None:
        window = (start, end)
    if window is not None:
        return between(*window, now=now, zone=zone)
    if start is not None:
        return since(start, now=now, zone=zone)
    return until(moment or end or "now", now=now, zone=zone)


def _told(interval: Interval, moment: str | None, zone: tzinfo) -> str:
    if moment is not None:
        return f"in force at {interval.end.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone}"
    return interval.describe()


def _in_force(answer: Answer) -> Answer:
    """Of everything up to a moment, what still held then: the last change of each kind of rules of each resource."""
    last: dict[tuple[str | None, str | None], Blame] = {}
    for blame in answer.changes:
        last |= {(change.kind, change.resource): blame for change in blame.changes}
    held = {id(blame) for blame in last.values()}
    changes = tuple(_held(blame, last) for blame in answer.changes if id(blame) in held)
    return replace(answer, changes=changes, rejections=(), baseline=() if changes else answer.baseline[-1:])


def _held(blame: Blame, last: Mapping[tuple[str | None, str | None], Blame]) -> Blame:
    return replace(blame, changes=tuple(each for each in blame.changes if last[(each.kind, each.resource)] is blame))


def _elsewhere(store: AuditStore, answer: Answer, env: str | None) -> str:
    """Other environments that know a resource which the one that was asked for does not."""
    if answer.unknown is None or answer.unknown.what != "resource" or env is None:
        return ""
    rows = store.query(Query((resource_condition(answer.resource),), None, None, ROWS_ELSEWHERE)).rows
    known = sorted({row.event.environment for row in rows if row.event.environment})
    return f" It is known in {', '.join(map(visible, known))}: --env {visible(known[0])}." if known else ""


def _view(
    answer: Answer,
    zone: tzinfo,
    interval: Interval | None,
    stands: Standing | None,
    *,
    outside: tuple[Sequence[EventHead], Sequence[EventHead]],
) -> View:
    past, future = ([head.to_json() for head in heads] for heads in outside)
    document = answer.to_json() | {
        "chain": stands and stands.to_json(),
        "outside": {"past": past, "future": future},
    }

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        told: list[Blame | Rejection] = sorted((*answer.changes, *answer.rejections), key=lambda each: each.event.time)
        width = max((display_width(visible(author(each.event))) for each in told), default=0)
        kinds = max((display_width(visible(each.kind)) for each in told), default=0)
        for each in told:
            if isinstance(each, Blame):
                yield from _blame_lines(each, answer, zone, interval, (width, kinds), wide=wide)
            else:
                head = each.event
                lead = f"{clock(head.time, zone, interval)}  {pad(visible(author(head)), width)}  "
                lead += f"{pad(visible(each.kind), kinds)}  "
                words = what("rejected", None, None, each.problem.new)
                yield (lead, SIGNS["rejected"], f" {words}   id {head.id if wide else head.id[:SHORT_ID]}")

    return View(
        document={name: part for name, part in document.items() if name != "formatVersion"},
        items=document["changes"],
        names=[blame.event.id for blame in answer.changes],
        lines=lines,
    )


def _blame_lines(
    blame: Blame, answer: Answer, zone: tzinfo, interval: Interval | None, widths: tuple[int, int], *, wide: bool
) -> Iterator[Sequence[Span]]:
    head = blame.event
    when = clock(head.time, zone, interval)
    indent = " " * len(when)
    several = "*" in answer.resource
    width, kinds = widths
    for index, change in enumerate(blame.changes):
        lead = f"{when}  {pad(visible(author(head)), width)}" if not index else f"{indent}  {' ' * width}"
        named = f"{change.resource}  " if several else ""
        yield (
            lead,
            f"  {pad(visible(blame.kind if not index else ''), kinds)}  ",
            SIGNS.get(change.action, change.action),
            f" {named}{what(change.action, change.field, change.old, change.new)}",
        )
    yield (Styled(f"{indent}  {_reasons(blame, zone, interval, wide=wide)}", "dim"),)
    if blame.together:
        yield (Styled(f"{indent}  with it: {_together(blame)}", "dim"),)


def _reasons(blame: Blame, zone: tzinfo, interval: Interval | None, *, wide: bool) -> str:
    head = blame.event
    why = head.reason or (head.message or "").partition("\n")[0]
    parts = [f"reason: {why or '–'}"]
    if head.rollback_of:
        # The revision first, which the event itself names: the answer stays the same when the older event is purged.
        undone = clock(blame.undoes, zone, interval) if blame.undoes else "no longer in the store"
        parts.append(f"rollback of {head.rollback_of[:12]} ({undone})")
    if blame.seen.instances:
        count = len(blame.seen.instances)
        spread = f" in {blame.seen.spread.total_seconds():.1f} s" if count > 1 else ""
        parts.append(f"seen by {plural(count, 'instance')}{spread}")
    parts.append(f"id {head.id if wide else head.id[:SHORT_ID]}")
    if wide:
        parts += [f"env {head.environment}", f"source {head.source}"]
    return "   ".join(parts)


def _together(blame: Blame) -> str:
    shown = ", ".join(map(_brief, blame.together[:TOGETHER_SHOWN]))
    left = blame.together_total - min(len(blame.together), TOGETHER_SHOWN)
    return f"{shown}, and {left} more" if left else shown


def _brief(change: FieldChange) -> str:
    if change.field is None:
        return f"{change.resource} {change.kind or ''} {what(change.action, None, None, None)}".replace("  ", " ")
    return f"{change.resource}.{change.field} {value(change.old)} → {value(change.new)}"


def _nothing_known(unknown: Near) -> str:
    subject = unknown.asked if unknown.what == "resource" else f"the field {unknown.asked}"
    hint = f"; did you mean {' or '.join(map(visible, unknown.known))}?" if unknown.known else ""
    return f"0 changes. No change of {visible(subject)} is known{hint or '.'}"


def _summary(answer: Answer, zone: tzinfo) -> str:
    if answer.unknown is not None:
        return _nothing_known(answer.unknown)
    parts = [plural(len(answer.changes), "change")]
    if answer.rejections:
        parts.append(f"{len(answer.rejections)} refused")
    text = ", ".join(parts) + "."
    if answer.truncated:
        text += " There is more; narrow the window."
    if answer.before is not None:
        head = answer.before.event
        ago = age((answer.interval.start - head.time).total_seconds())
        when = f"{clock(head.time, zone, None)} ({ago} earlier)"
        text += f" The last before: {when}, {author(head)}, id {head.id[:SHORT_ID]}."
    elif not answer.changes and answer.baseline:
        head = answer.baseline[-1].event
        text += f" It stood there when first looked at, {clock(head.time, zone, None)}; who made it is not known here."
    return text
