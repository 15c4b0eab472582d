"""`sentinelctl config set-context` and `delete-context`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import WORDS, App, pass_app
from sentinel_core.cli.config.edit import difference, edited
from sentinel_core.cli.config.known import context_named, known_contexts
from sentinel_core.cli.exits import BadSettings, Exit, UsageProblem
from sentinel_core.cli.rules.inputs import shown
from sentinel_core.datasources.contract import SourceMisconfigured
from sentinel_core.masking import mask_text
from sentinel_core.settings import Settings, SettingsError, load_settings
from sentinel_core.settings_contexts import choice_file
from sentinel_core.settings_sources import (
    CONTEXTS,
    dotted,
    is_context_name,
    leaves,
    near,
    parse_settings_text,
    settings_file,
    user_file,
)


@click.command()
@click.argument("name", type=WORDS)
@click.argument("settings", nargs=-1, type=WORDS, metavar="[SETTING=VALUE]...")
@click.option("--unset", multiple=True, type=WORDS, metavar="SETTING", help="Leave this one out again.")
@click.option("--user", is_flag=True, help="Write into the settings of this user, for every project.")
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@pass_app
def set_context(
    app: App, name: str, settings: tuple[str, ...], unset: tuple[str, ...], user: bool, dry_run: bool
) -> int:
    """Write a context into a settings file: a new one, or settings of one that is there.

    It goes where a context of that name stands, else into the project file, else into the settings of this user. What
    else stands in the file is kept, comments too. Nothing is written where the context could not be used. Several
    stores are separated by blanks; any list may be given as YAML has it, '[first, second]'.

    \b
    sentinelctl config set-context staging environment=staging stores=etcd://127.0.0.1:2379/sentinel
    sentinelctl config set-context prod environment=prod production=true guards.maxJump=3
    sentinelctl config set-context prod --unset guards.maxJump
    """
    if not is_context_name(name):
        raise UsageProblem(
            "a context's name is letters, digits and . _ @ + - without blanks", next_step="name it prod, or staging-eu"
        )
    values = dict(_pair(each) for each in settings)
    if both := values.keys() & set(map(_setting, unset)):
        raise UsageProblem(f"{min(both)} is set and unset at once", next_step="do one of them")
    path = _file_of(app, name, user=user)

    def change(tree: Any) -> None:
        context = _below(tree, CONTEXTS, name)
        for setting, value in values.items():
            *above, last = setting.split(".")
            _below(context, *above)[last] = value
        for setting in map(_setting, unset):
            _remove(context, setting.split("."))

    try:
        if dry_run:
            return _show(app, difference(path, change, check=lambda written: _check(written, name)))
        edited(path, change, check=lambda written: _check(written, name))
    except SettingsError as error:
        raise _blaming(error, path, values) from error
    app.out.say(f"Context {name} stands in {shown(path)}.")
    return Exit.DONE


@click.command()
@click.argument("name", type=WORDS)
@click.option("--dry-run", is_flag=True, help="Show what would change and write nothing.")
@pass_app
def delete_context(app: App, name: str, dry_run: bool) -> int:
    """Remove a context from its settings file.

    The stores that it names are left as they are.

    \b
    sentinelctl config delete-context staging
    """
    path = context_named(app, name).file

    def change(tree: Any) -> None:
        left = tree.get(CONTEXTS) or {}
        left.pop(name, None)  # somebody else may have removed it meanwhile
        if not left:
            tree.pop(CONTEXTS, None)

    if dry_run:
        return _show(app, difference(path, change))
    edited(path, change)
    with suppress(OSError):
        choice = choice_file(app.config)
        if name not in known_contexts(app) and choice.read_text(encoding="utf-8").strip() == name:
            choice.unlink()
            app.out.say("It was the one in use; no context is in use now.")
    app.out.say(f"Context {name} was removed from {shown(path)}.")
    return Exit.DONE


def _show(app: App, lines: Sequence[str]) -> int:
    for line in lines:
        app.out.line(mask_text(line))
    app.out.say("Dry run: nothing was written. The same without --dry-run does it." if lines else "Nothing to do.")
    return Exit.DONE


def _file_of(app: App, name: str, *, user: bool) -> Path:
    if user:
        return user_file()
    if name in (known := known_contexts(app)):
        return known[name].file
    return settings_file(app.config) or user_file()


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageProblem("a setting is given as SETTING=VALUE", next_step="for example: environment=prod")
    setting = _setting(name)
    default = _SETTINGS[setting]
    if isinstance(default, tuple):
        return setting, _list(setting, value)
    return setting, _scalar(value, default)


def _list(setting: str, text: str) -> list[Any]:
    """Separated by blanks, or as YAML has it: nobody's URI begins with a bracket."""
    if not text.lstrip().startswith("["):
        return text.split()
    try:
        found, _ = parse_settings_text(f"list: {text}".encode(), setting)
    except ValueError:
        found = {}
    if not isinstance(found.get("list"), list) or len(found) > 1:
        raise UsageProblem(
            f"what is given for {setting} begins with a bracket and is no list of YAML",
            next_step=f"write '{setting}=[first, second]', or {setting}='first second'",
        )
    return list(found["list"])


def _scalar(text: str, default: object) -> Any:
    """A number or a truth value as YAML has it, where the setting is one."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, (int, float)):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(text)
    return text


_SETTINGS = {dotted(location): default for location, default in leaves(Settings)}


def _setting(name: str) -> str:
    if name in _SETTINGS:
        return name
    if name.endswith("File") and name.removesuffix("File") in _SETTINGS:
        _SETTINGS[name] = None  # a path
        return name
    close = near(name, _SETTINGS) if len(name) <= 40 else ""
    raise UsageProblem(
        f"there is no setting {name}{close.partition('; known here')[0]}", next_step="sentinelctl config view -o name"
    )


def _below(tree: Any, *names: str) -> Any:
    """The mapping there; made where it is not."""
    for name in names:
        if not isinstance(tree.get(name), Mapping):
            tree[name] = {}
        tree = tree[name]
    return tree


def _remove(tree: Any, names: list[str]) -> None:
    """Takes a setting out, and what is empty without it."""
    name, *rest = names
    if rest and isinstance(tree.get(name), Mapping):
        _remove(tree[name], rest)
        if not tree[name]:
            del tree[name]
    elif not rest:
        tree.pop(name, None)


_GIVE = "give what is asked for there, then run the command again"


def _check(written: Path, name: str) -> None:
    """Raises SettingsError or BadSettings where the context could not be used."""
    from sentinel_core.service import open_stores

    settings = load_settings(written, context=name)
    with ExitStack() as undo:
        try:
            open_stores(settings, undo)
        except SourceMisconfigured as error:
            raise BadSettings(f"the context could not be used: {error}", next_step=_GIVE) from error


def _blaming(error: SettingsError, path: Path, given: Mapping[str, Any]) -> SettingsError | BadSettings:
    """What was given is wrong where it was given: the line that it would have had in the file is none yet."""
    place = re.compile(re.escape(str(path)) + r":\d+:\d+: (?P<setting>[\w.]+?)(?P<item>\.\d[\w.]*)?: ")
    problems = []
    for problem in error.problems:
        found = place.match(problem)
        is_given = found is not None and found["setting"] in given
        problems.append(problem[found.start("setting") :] if found and is_given else problem)
    if problems == list(error.problems):
        return error
    return BadSettings("\n".join(problems), next_step=_GIVE)
