"""`sentinelctl config get-contexts`, `current-context` and `view`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.config.known import known_contexts
from sentinel_core.cli.exits import BadSettings
from sentinel_core.cli.output import View, table
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.cli.text import Span, Styled
from sentinel_core.masking import MASK, mask_uri
from sentinel_core.settings import Settings, load_settings, set_by_somebody
from sentinel_core.settings_contexts import Context
from sentinel_core.settings_sources import dotted, leaves

SECRETS = {("audit", "signing_key"), ("audit", "redact_key")}
COMMAS = ", "


@click.command()
@output_options
@pass_app
def get_contexts(app: App) -> None:
    """Every context, and which one is in use.

    The one in use has a *. What a context does not set is as it stands in the settings file without it.

    \b
    sentinelctl config get-contexts
    sentinelctl config get-contexts -o name
    """
    known = known_contexts(app)
    used = app.context.name
    if used and used not in known:
        app.out.say(f"note: {app.context.origin} names the context {app.context.shown}, and there is none of that name")
    items = [_item(each, used=each.name == used) for each in known.values()]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        headers = ["", "NAME", "ENVIRONMENT", "STORES", "PRODUCTION"] + (["FILE"] if wide else [])
        yield from table(headers, [_row(item, wide=wide) for item in items])

    app.out.show(
        View(
            document={"current": app.context.shown or None, "contexts": items},
            items=items,
            names=list(known),
            lines=lines,
        )
    )
    if not known:
        app.out.say("There are no contexts. sentinelctl config set-context --help shows how one is made.")


def _item(context: Context, *, used: bool) -> dict[str, Any]:
    """As it is written; a context that is not in use is not checked."""
    data = context.data
    stores = data.get("stores")
    return {
        "name": context.name,
        "current": used,
        "environment": _text(data.get("environment")),
        "stores": [mask_uri(str(each)) for each in stores] if isinstance(stores, list) else [],
        "production": data.get("production") is True,
        "settings": sorted(map(str, data)),
        "file": str(context.file),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _row(item: dict[str, Any], *, wide: bool) -> list[Span]:
    return [
        "*" if item["current"] else "",
        Styled(item["name"], "bold") if item["current"] else item["name"],
        item["environment"] or "–",
        COMMAS.join(item["stores"]) or "–",
        Styled("yes", "yellow") if item["production"] else "–",
        *([item["file"]] if wide else []),
    ]


@click.command()
@output_options
@pass_app
def current_context(app: App) -> None:
    """The name of the context in use.

    Ends with 78 where there is none.

    \b
    sentinelctl config current-context
    SENTINEL_CONTEXT=staging sentinelctl config current-context
    """
    used = app.context
    if not used.name:
        raise BadSettings("no context is in use", next_step="sentinelctl config use-context NAME")
    item = {"name": used.shown, "from": used.origin}

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        yield (used.shown, *((f"   from {used.origin}",) if wide else ()))

    app.out.show(View(document=item, items=[item], names=[used.shown], lines=lines))


@click.command()
@output_options
@pass_app
def view(app: App) -> None:
    """Every setting, its value, and where it comes from.

    The value is the one that counts: of a flag, the context in use, the environment, the files, or the default.
    Credentials are masked.

    \b
    sentinelctl config view
    sentinelctl config view --context prod -o json
    """
    settings = load_settings(app.config, context=app.context.name)
    origins = set_by_somebody(app.config, app.context.name)
    items: list[dict[str, Any]] = [
        {"setting": dotted(location), "value": _value(settings, location), "from": origins.get(location, "default")}
        for location, _ in leaves(Settings)
    ]

    def lines(_: bool) -> Iterator[Sequence[Span]]:
        if app.context.name:
            yield (f"context {app.context.name}, from {app.context.origin}",)
        yield from table(["SETTING", "VALUE", "FROM"], [_line(item) for item in items])

    document = {"context": app.context.name or None, "settings": items}
    app.out.show(View(document=document, items=items, names=[str(item["setting"]) for item in items], lines=lines))


def _line(item: dict[str, Any]) -> list[Span]:
    value = item["value"]
    text = "–" if value is None or value == [] else COMMAS.join(value) if isinstance(value, list) else str(value)
    is_default = item["from"] == "default"
    return [item["setting"], text, Styled("default", "dim") if is_default else _origin(str(item["from"]))]


def _origin(text: str) -> str:
    """A file as it is called from here."""
    from pathlib import Path

    path, colon, position = text.partition(":")
    return f"{shown(Path(path))}{colon}{position}"


def _value(settings: Settings, location: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in location:
        value = getattr(value, name, None)
    if value is None:
        return None
    if location in SECRETS:
        return MASK
    if isinstance(value, tuple):
        return [mask_uri(str(each)) for each in value]
    return mask_uri(value) if isinstance(value, str) else value
