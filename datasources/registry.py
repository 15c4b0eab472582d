"""`open(uri)`: from a URI to a datasource.

A store is a module or package in this folder, or an entry point of the group `sentinel.datasources`, that carries a
`SCHEME`. Nothing else has to be edited to add one.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sentinel_core.datasources.contract import Readable, SourceMisconfigured
from sentinel_core.datasources.uri import SourceUri, mask_uri

ENTRY_POINTS = "sentinel.datasources"
_LONGEST_S = 30 * 86400


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one kind of URI is opened."""

    names: tuple[str, ...]
    open: Callable[..., Readable]
    """Called with the SourceUri and the converted options as keywords."""
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Query parameters, with what turns their text into a value (raises ValueError)."""
    form: str = ""
    """An example, for messages."""


@cache
def schemes() -> Mapping[str, Scheme]:
    """Every scheme that can be opened here, by name; a name of ours is ours."""
    from importlib.metadata import entry_points  # slow to import, and only needed here

    package = importlib.import_module("sentinel_core.datasources")
    modules = (
        importlib.import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)
    )
    found = [point.load() for point in entry_points(group=ENTRY_POINTS)]
    found += [scheme for module in modules if isinstance(scheme := getattr(module, "SCHEME", None), Scheme)]
    return {name: scheme for scheme in found for name in scheme.names}


def open(uri: str, **options: Any) -> Readable:  # noqa: A001 - datasources.open(…) is the public name
    """The datasource that `uri` names; `options` are the same as its query parameters and win over them.

    Does no I/O on the store. Raises SourceMisconfigured for an unknown scheme, parameter or value.
    """
    shown = mask_uri(uri)
    try:
        parsed = SourceUri.parse(uri)
    except ValueError as error:
        raise SourceMisconfigured(f"{shown} is not a datasource URI: {error}") from error
    scheme = _scheme(parsed.scheme, shown)
    values = {name: _convert(scheme, name, text, shown) for name, text in parsed.query.items()}
    for name, value in options.items():
        values[name] = (
            _convert(scheme, name, value, shown) if isinstance(value, str) else _checked(scheme, name, value, shown)
        )
    return scheme.open(parsed, **values)


@cache
def _own(name: str) -> Scheme | None:
    """The scheme of a module here that is called like it, found without loading every other store."""
    package = importlib.import_module("sentinel_core.datasources")
    stem = name.partition("+")[0]
    if stem not in {each.name for each in pkgutil.iter_modules(package.__path__)}:
        return None
    scheme = getattr(importlib.import_module(f"{package.__name__}.{stem}"), "SCHEME", None)
    return scheme if isinstance(scheme, Scheme) and name in scheme.names else None


def _scheme(name: str, shown: str) -> Scheme:
    if (ours := _own(name)) is not None:
        return ours
    known = schemes()
    if name in known:
        return known[name]
    forms = ", ".join(sorted({scheme.form for scheme in known.values()}))
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise SourceMisconfigured(
        f"{shown}: unknown scheme {name}{hint} Supported: {forms}. Others come with packages that declare "
        f"the entry point {ENTRY_POINTS}"
    )


def _convert(scheme: Scheme, name: str, text: str, shown: str) -> Any:
    _checked(scheme, name, text, shown)
    try:
        return scheme.options[name](text)
    except ValueError as error:
        raise SourceMisconfigured(f"{shown}: {name}: {error}") from error


def _checked(scheme: Scheme, name: str, value: Any, shown: str) -> Any:
    if name in scheme.options:
        return value
    near = difflib.get_close_matches(name, scheme.options, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    known = ", ".join(sorted(scheme.options)) or "none"
    raise SourceMisconfigured(f"{shown}: unknown parameter {name}{hint} Known here: {known}")


def flag(text: str) -> bool:
    """`true`/`false`, `1`/`0`, `yes`/`no`."""
    if text.lower() in {"true", "1", "yes"}:
        return True
    if text.lower() in {"false", "0", "no"}:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def milliseconds(text: str) -> float:
    """`250` → 0.25 s."""
    if not text.replace(".", "", 1).isdigit() or float(text) <= 0:
        raise ValueError(f"{text!r} is not a number of milliseconds above zero")
    return float(text) / 1000


def seconds(text: str) -> float:
    """`5`, `5s`, `500ms`, `2m` → seconds; more than zero, and no longer than sockets and locks can wait."""
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("", 1.0)):
        if text.endswith(unit) and text.removesuffix(unit).replace(".", "", 1).isdigit():
            value = float(text.removesuffix(unit)) * factor
            if 0 < value <= _LONGEST_S:
                return value
    raise ValueError(f"{text[:40]!r} is not a duration of up to 30 days; write for example 5s, 500ms or 2m")
