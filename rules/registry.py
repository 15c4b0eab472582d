"""Finds the rule kinds: every module of `rules/kinds/`, and the entry-point group `sentinel.kinds`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType

from sentinel_core.rules import kinds
from sentinel_core.rules.errors import UnknownKind
from sentinel_core.rules.revision import Kind
from sentinel_core.rules.rule import Rule

ENTRY_POINTS = "sentinel.kinds"


def _models_of(module: ModuleType) -> list[type[Rule]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.kind and value.__module__ == module.__name__
    ]


def _discover() -> dict[Kind, type[Rule]]:
    modules = [
        importlib.import_module(f"{kinds.__name__}.{info.name}") for info in pkgutil.iter_modules(kinds.__path__)
    ]
    modules += [importlib.import_module(point.module) for point in entry_points(group=ENTRY_POINTS)]
    models = [model for module in modules for model in _models_of(module)]
    return {model.kind: model for model in sorted(models, key=lambda model: (model.rank, model.kind))}


MODELS: dict[Kind, type[Rule]] = _discover()
KINDS: tuple[Kind, ...] = tuple(MODELS)
BY_DOCUMENT_KEY: dict[str, type[Rule]] = {model.document_key: model for model in MODELS.values()}


def model_of(kind: Kind) -> type[Rule]:
    """The class of a kind's rules. Raises UnknownKind, which names the near ones."""
    try:
        return MODELS[kind]
    except (KeyError, TypeError):
        close = difflib.get_close_matches(str(kind), KINDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known kinds: {', '.join(KINDS)}"
        raise UnknownKind(f"there is no rule kind {kind!r}; {hint}") from None


def build_kinds() -> None:
    """Makes now what validates and writes each kind, instead of where it is first used: for a process whose threads
    would do so at once, or in a call."""
    for model in MODELS.values():
        for shape in (*model.nested.values(), model):
            shape.model_rebuild()
