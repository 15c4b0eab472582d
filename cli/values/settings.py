"""What stands in the settings and their contexts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from sentinel_core.cli.app import App
from sentinel_core.cli.shells import item
from sentinel_core.cli.values.line import Items, Line


def contexts(line: Line) -> Items:
    from sentinel_core.settings_contexts import contexts as known

    for name, each in known(line.app.config).items():
        yield item(name, str(each.data.get("environment", "")))


def stores(line: Line) -> Items:
    """Of the settings and of every context."""
    from sentinel_core.settings_contexts import contexts as known

    for uri in line.app.settings.stores:
        yield item(uri)
    for name, each in known(line.app.config).items():
        written = each.data.get("stores")
        yield from (item(str(uri), name) for uri in (written if isinstance(written, list) else []))


def ends_of_a_promotion(line: Line) -> Items:
    yield from contexts(line)
    yield from stores(line)


def environments(line: Line) -> Items:
    """Of the settings, of the overlays, of the contexts."""
    from sentinel_core.rules.overlay import FOLDER

    yield item(line.app.settings.environment)
    for path in sorted((Path(line.app.settings.rules) / FOLDER).glob("*.y*ml")):
        yield item(path.stem, "has an overlay")
    yield from (item(each.help, f"context {each.value}") for each in contexts(line) if each.help)


def assignments(line: Line) -> Items:
    """`SETTING=`, and then what may stand there."""
    from sentinel_core.settings import Settings
    from sentinel_core.settings_sources import dotted, leaves

    names = {dotted(location): location for location, _ in leaves(Settings)}
    name, sign, begun = line.incomplete.partition("=")
    if not sign:
        return [item(f"{each}=", _field(location).description) for each, location in names.items()]
    found = _values(line, names[name], begun) if name in names else ()
    return [item(f"{name}={value}", text) for value, text in found]


def set_in_context(line: Line) -> Items:
    """The settings that the named context has."""
    from sentinel_core.settings_contexts import contexts as known

    named = known(line.app.config).get(str(line.given.get("name")))
    return [item(name) for name in _names(named.data)] if named else []


def _names(tree: Any, above: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _names(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _values(line: Line, location: tuple[str, ...], begun: str) -> Iterator[tuple[str, str]]:
    from sentinel_core.cli.values.files import below
    from sentinel_core.settings_sources import PATHS

    if location in (("stores",), ("bootstrap",)):
        yield from ((each.value, each.help or "") for each in stores(line))
    elif location == ("environment",):
        yield from ((each.value, each.help or "") for each in environments(line))
    elif location in PATHS:
        yield from ((each, "") for each in below(begun))
    elif _type(location) is bool:
        yield from (("true", ""), ("false", ""))
    else:
        yield from ((each, "") for each in _choices(_type(location)))
        yield from _in_use(line.app, location)


def _in_use(app: App, location: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A number, or a text that is no list, as it is now."""
    value: Any = app.settings
    for name in location:
        value = getattr(value, name, None)
    if _field(location).repr and isinstance(value, (str, int, float)):
        yield f"{value:g}" if isinstance(value, float) else str(value), "as it is now"


def _choices(kind: Any) -> Iterator[str]:
    """The texts of a Literal, also within `X | None`."""
    for each in get_args(kind):
        if get_origin(kind) is Literal:
            yield str(each)
        else:
            yield from _choices(each)


def _type(location: tuple[str, ...]) -> Any:
    return _model(location).types[location[-1]]


def _field(location: tuple[str, ...]) -> Any:
    return _model(location).fields[location[-1]]


def _model(location: tuple[str, ...]) -> Any:
    from sentinel_core.declared import part_of
    from sentinel_core.settings import Settings

    model: Any = Settings
    for name in location[:-1]:
        model = part_of(model, name)
    return model
