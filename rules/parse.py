"""From a store's or a repository's text to rule sets: the two doors that everybody uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sentinel_core.rules.build import MORE, Listing, Options, RuleBuilder, build, paused_gc
from sentinel_core.rules.errors import Problem, RuleRejected
from sentinel_core.rules.json_text import read_json
from sentinel_core.rules.messages import near, show
from sentinel_core.rules.overlay import lay_over, overlays_among
from sentinel_core.rules.queueing import Serving
from sentinel_core.rules.quick import quick_set
from sentinel_core.rules.registry import BY_DOCUMENT_KEY, MODELS, model_of
from sentinel_core.rules.revision import Kind, Revision, SourceText
from sentinel_core.rules.rule import Rule
from sentinel_core.rules.ruleset import RuleSet
from sentinel_core.rules.source import DEFAULT_LIMITS, Limits, Source, nowhere
from sentinel_core.rules.text import BLANK, blank, decode, read_text, says_nothing

EXTENSION = "x-"
"""Top-level keys of a document that begin so are ours to ignore: the place for anchors."""
_REMEMBERED_BYTES = 65_536
"""Larger texts are read anew each time, rather than kept in memory."""


def parse_rules(
    kind: Kind,
    content: str | bytes | Sequence[Mapping[str, Any]],
    *,
    name: str = "<input>",
    strict: bool = False,
    compat: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> RuleSet:
    """A JSON list (text or bytes), or rules as objects, in which the symbolic names of codes may be used.

    `[]` is an explicit empty set. Raises RuleRejected, with code SR001 alone for content that says nothing
    (blank text; null or {}, as text or as an object), and UnknownKind.
    `strict` makes unknown keys errors; `compat` accepts what Java accepts.
    """
    model = model_of(kind)
    options = Options(strict=strict, compat=compat, limits=limits)
    with paused_gc():
        if isinstance(content, str | bytes | bytearray | memoryview):
            text = content if isinstance(content, str) else bytes(content)
            return _parse_list(model, text, name, options)
        source = _objects(content, name)
        if source.data is None or source.data == {}:
            message = says_nothing("null" if source.data is None else "{}")
            raise RuleRejected([source.problem(BLANK, "error", message)])
        return build(model, [Listing(source, (), source.data)], options)


def _parse_list(model: type[Rule], content: str | bytes, name: str, options: Options) -> RuleSet:
    """A JSON list of one kind."""
    text = decode(content, name, options.limits)
    if options.serving is None and (quick := quick_set(model, text, options.limits)) is not None:
        return quick
    source = read_json(text, name, options.limits)
    if source.data is None or source.data == {}:
        raise blank(name, "null" if source.data is None else "{}")
    builder = RuleBuilder(model, options)
    try:
        ruleset = builder.build([Listing(source, (), source.data)])
    except RuleRejected as rejection:
        raise RuleRejected(_together(source.faults, rejection.problems), total=builder.total) from None
    if source.faults:
        raise RuleRejected(_together(source.faults, ruleset.warnings), total=builder.total)
    return ruleset


def _together(faults: Iterable[Problem], problems: Iterable[Problem]) -> list[Problem]:
    """In the order of a text, without what is only said of a value because of its fault."""
    faults = tuple(faults)
    paths = {(fault.file, fault.path) for fault in faults}
    places = {(fault.file, fault.line, fault.column) for fault in faults}
    told = [
        problem
        for problem in problems
        if (problem.file, problem.path) not in paths and (problem.file, problem.line, problem.column) not in places
    ]
    told += faults
    return sorted(told, key=lambda problem: (problem.code == MORE, problem.line or 0, problem.column or 0))


def _objects(content: Any, name: str) -> Source:
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        data: Any = [dict(item) if isinstance(item, Mapping) else item for item in content]
    else:
        data = content
    return Source(name, data, "objects", nowhere)


def parse_revision(
    revision: Revision,
    kinds: Iterable[Kind],
    *,
    strict: bool = False,
    compat: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    serving: Serving | None = None,
) -> dict[Kind, RuleSet]:
    """The kinds that a revision manages, of those asked for.

    A revision is a document, a folder of documents merged by kind, or a bare list where exactly one kind is asked for.
    A text in a folder `environments` beside the others is laid over them (see `overlay.py`); there may be one.
    Every kind of every text must be right, asked for or not. Raises RuleRejected with the problems of all texts.
    With `serving`, which the service is that runs them, there are more remarks.
    """
    wanted = tuple(kinds)
    for kind in wanted:
        model_of(kind)
    options = Options(strict=strict, compat=compat, limits=limits, serving=serving)
    small = sum(len(text.content) for text in revision.texts) <= _REMEMBERED_BYTES
    with paused_gc():
        sets = (_read_again if small else _read_texts)(revision.texts, wanted, options)
    return {kind: ruleset.with_revision(revision) for kind, ruleset in sets.items() if kind in wanted}


@lru_cache(maxsize=8)
def _read_again(texts: tuple[SourceText, ...], wanted: tuple[Kind, ...], options: Options) -> dict[Kind, RuleSet]:
    """The same as `_read_texts`, whose values are immutable: engines of one process that follow one source get the same
    bytes at the same time."""
    return _read_texts(texts, wanted, options)


def _read_texts(texts: Sequence[SourceText], wanted: Sequence[Kind], options: Options) -> dict[Kind, RuleSet]:
    """Every managed kind of the texts. Raises RuleRejected."""
    if len(texts) == len(wanted) == 1 and texts[0].format == "json" and texts[0].content.lstrip()[:1] == b"[":
        return {wanted[0]: _parse_list(model_of(wanted[0]), texts[0].content, texts[0].name, options)}
    listings, faults, problems = collect(texts, wanted, options.limits)
    sets: dict[Kind, RuleSet] = {}
    total = 0
    for kind in (kind for kind in MODELS if kind in listings):
        builder = RuleBuilder(MODELS[kind], options)
        try:
            sets[kind] = builder.build(listings[kind])
        except RuleRejected as rejection:
            problems += rejection.problems
        total += builder.total
    if faults or any(problem.severity == "error" for problem in problems):
        problems += [warning for ruleset in sets.values() for warning in ruleset.warnings]
        raise RuleRejected(_in_order(_together(faults, problems), texts), total=total)
    return sets


def _in_order(problems: list[Problem], texts: Sequence[SourceText]) -> list[Problem]:
    files = {text.name: number for number, text in enumerate(texts)}
    return sorted(problems, key=lambda p: (p.code == MORE, files.get(p.file or "", -1), p.line or 0, p.column or 0))


def collect(
    texts: Sequence[SourceText], wanted: Sequence[Kind], limits: Limits
) -> tuple[dict[Kind, list[Listing]], list[Problem], list[Problem]]:
    """(the lists of every kind, over all texts, lesser faults of the texts, what else is wrong with them)"""
    listings: dict[Kind, list[Listing]] = {}
    faults: list[Problem] = []
    problems: list[Problem] = []
    if not texts:
        raise blank("<revision>", "empty")
    overlays = overlays_among(text.name for text in texts)
    if len(overlays) > 1:
        names = sorted(overlays)
        message = f"{' and '.join(names)} are of different environments; read one with the base"
        problems.append(Problem("SR115", "error", message, file=names[1]))
    for text in sorted(texts, key=lambda text: text.name in overlays):
        try:
            source = read_text(text, limits)
        except RuleRejected as rejection:
            # Comments alone change nothing of the base; a text without a byte may be one that is being written.
            if text.name not in overlays or not rejection.says_nothing or not text.content.strip():
                problems += rejection.problems
            continue
        faults += source.faults
        if isinstance(source.data, list):
            problems += _add_list(source, wanted, listings)
        elif isinstance(source.data, dict) and text.format == "json" and len(wanted) == 1 and text.name not in overlays:
            problems.append(_no_list(source, wanted[0]))
        elif isinstance(source.data, dict):
            problems += _unknown_sections(source)
            if text.name in overlays:
                problems += lay_over(listings, source)
            else:
                _add_document(source, listings)
        else:
            problems.append(
                source.problem("SR010", "error", f"a document with {_keys()} is needed, this is {show(source.data)}")
            )
    return listings, faults, problems


def _add_list(source: Source, wanted: Sequence[Kind], listings: dict[Kind, list[Listing]]) -> list[Problem]:
    if len(wanted) != 1:
        message = f"a bare list does not say of which kind it is; write it under {_keys()}"
        return [source.problem("SR010", "error", message)]
    listings.setdefault(wanted[0], []).append(Listing(source, (), source.data))
    return []


def _no_list(source: Source, kind: Kind) -> Problem:
    """Where a kind has a text of its own, Java Sentinel takes nothing but a list; a document there could clear the
    kind, or say nothing of it, in Python services alone."""
    message = f"a list of {kind} rules is needed, this is {show(source.data)}; write the list alone, from [ to ]"
    return source.problem("SR010", "error", message, kind=kind)


def _add_document(source: Source, listings: dict[Kind, list[Listing]]) -> None:
    for key, value in source.data.items():
        if (model := BY_DOCUMENT_KEY.get(key)) is not None:
            listings.setdefault(model.kind, []).append(Listing(source, (key,), value))


def _unknown_sections(source: Source) -> list[Problem]:
    return [
        source.problem("SR011", "error", _unknown_section(key), (key,), at_key=True, field=key)
        for key in source.data
        if key not in BY_DOCUMENT_KEY and not key.startswith(EXTENSION)
    ]


def _unknown_section(key: str) -> str:
    meant = MODELS[key].document_key if key in MODELS else near(key, BY_DOCUMENT_KEY)
    return f"unknown section {key}; {f'did you mean {meant}?' if meant else f'write {_keys()}'}"


def _keys() -> str:
    return ", ".join(BY_DOCUMENT_KEY)
