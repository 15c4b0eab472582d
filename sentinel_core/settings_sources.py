"""Where settings come from: files and environment, merged, each value with its origin for messages."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sentinel_core.declared import Declared, part_of
from sentinel_core.masking import MASK, mask_uri

PROJECT_FILE = "sentinel.yaml"
ENV_PREFIX = "SENTINEL_"
CONTEXTS = "contexts"
"""What holds settings by name in a file; it is no setting itself."""
NOT_SETTINGS = {"SENTINEL_CONFIG", "SENTINEL_CONTEXT", "SENTINEL_PAGER", "SENTINEL_PURE", "SENTINEL_TRACES"}
"""Variables with our prefix that other parts read."""
_CONTEXT_NAME = re.compile(r"\w[\w.@+-]*")

Location = tuple[str, ...]
PATHS: tuple[Location, ...] = (
    ("rules",),
    ("last_known_good",),
    ("status",),
    ("metric_log", "folder"),
    ("audit", "outbox"),
    ("audit", "checkpoints"),
    ("observe", "file"),
)
_OBJECTS: tuple[Location, ...] = (("guards", "freeze"), ("owners",))
"""Lists of objects; in a variable they are JSON."""
_LISTS: tuple[Location, ...] = (("stores",), ("collectors",), ("audit", "redact"))
_URIS: tuple[Location, ...] = (("stores",), ("bootstrap",), ("audit", "store"))
_KEYS: tuple[Location, ...] = (("audit", "signing_key"), ("audit", "redact_key"))


@dataclass(slots=True)
class Found:
    """Merged values by field name, what is wrong already, and the origin of every value."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    origins: dict[Location, str] = field(default_factory=dict)
    """`sentinel.yaml:7:3` or `SENTINEL_AUDIT__OUTBOX`, by field names."""
    contexts: dict[str, ContextText] = field(default_factory=dict)

    def merge(self, location: Location, value: object, origin: str) -> None:
        """Sets one leaf; later calls win."""
        target = self.values
        for name in location[:-1]:
            inner = target.get(name)
            target = target.setdefault(name, {}) if isinstance(inner, dict) or inner is None else target
        target[location[-1]] = value
        self.origins[location] = origin

    def describe(self, location: Location, words: str) -> str:
        """One problem as `origin: setting: what is wrong and what to write`."""
        ends = range(len(location), 0, -1)
        origin = next((self.origins[location[:end]] for end in ends if location[:end] in self.origins), None)
        text = f"{dotted(location)}: {words}"
        return f"{origin}: {text}" if origin else text


@dataclass(frozen=True, slots=True)
class ContextText:
    """One context, with the file that it stands in."""

    data: Mapping[str, Any]
    base: Path
    origins: Mapping[Location, str]


def gather(model: type[Declared], config: Path | None, flags: Mapping[str, Any], context: str = "") -> Found:
    """Reads all sources from the weakest to the strongest. `context`: the one in use, empty for none."""
    found = Found()
    project = settings_file(config)
    base = project.absolute().parent if project is not None else Path.cwd()
    for location, value in leaves(model):
        if location in (*PATHS, *_URIS):
            found.merge(location, anchored(location, value, base), "default")
    if user_file().is_file():
        _read_file(model, user_file(), found)
    if project is not None:
        _read_file(model, project, found)
    _read_environment(model, found)
    _read_contexts(model, context, found)
    for name, value in flags.items():
        found.merge((name,), anchored((name,), value, Path.cwd()), f"--{name.replace('_', '-')}")
    return found


def settings_file(config: Path | None) -> Path | None:
    """The project file: the one named, else `SENTINEL_CONFIG`, else the one found; None where there is none."""
    named = os.environ.get("SENTINEL_CONFIG")
    return config or (Path(named) if named else find_project_file(Path.cwd()))


def find_project_file(start: Path) -> Path | None:
    """`sentinel.yaml` here or in a folder above, up to the top of the Git repository."""
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
        if (folder / ".git").exists():
            return None
    return None


def user_file() -> Path:
    """The settings of this user, after the XDG convention."""
    home = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(home) if home else Path(os.path.expanduser("~")) / ".config"  # noqa: PTH111 -- Path.home() raises without a home
    return folder / "sentinel" / PROJECT_FILE


def anchored(location: Location, value: object, base: Path) -> object:
    """Relative paths and relative file URIs made absolute at `base`; everything else as it is."""
    if isinstance(value, (list, tuple)):
        return tuple(anchored(location, each, base) for each in value)
    if not isinstance(value, str):
        return value
    if location in PATHS and value:
        return str(base / Path(value).expanduser())
    return anchored_uri(value, base) if location in _URIS else value


def anchored_uri(uri: str, base: Path) -> str:
    """`sqlite:///a.db`, `git:rules` and bare paths may be relative; `file://` and `git+file://` URIs are absolute."""
    for lead in ("sqlite:///", "git:"):
        if uri.startswith(lead) and not uri.startswith("git://"):
            return lead + str(base / uri.removeprefix(lead))
    return uri if "://" in uri or not uri else str(base / uri)


def _read_file(model: type[Declared], path: Path, found: Found) -> None:
    try:
        data, origins = parse_settings_text(path.read_bytes(), str(path))
    except OSError as error:
        found.problems.append(f"{path}: cannot be read: {error.strerror}; name another file with --config")
    except ValueError as error:
        found.problems.append(str(error))
    else:
        base = path.absolute().parent
        _take_contexts(data, base, origins, found)
        _FileWalk(base, origins, found).walk(model, data, (), ())


def _take_contexts(data: dict[str, Any], base: Path, origins: Mapping[Location, str], found: Found) -> None:
    """Takes them out of the tree; one of the project's stands for one of the user's with the same name."""
    written = data.pop(CONTEXTS, None)
    if written is not None and not isinstance(written, dict):
        found.problems.append(f"{origins[(CONTEXTS,)]}: {CONTEXTS}: write `name: {{setting: value}}` lines below it")
        return
    for name, settings in (written or {}).items():
        origin = origins[(CONTEXTS, name)]
        if not is_context_name(name):
            found.problems.append(f"{origin}: {CONTEXTS}: a name is letters, digits and . _ @ + - without blanks")
        elif settings is not None and not isinstance(settings, dict):
            found.problems.append(f"{origin}: {CONTEXTS}.{name}: write `name: value` lines below it")
        else:
            found.contexts[name] = ContextText(settings or {}, base, origins)


def _read_contexts(model: type[Declared], used: str, found: Found) -> None:
    """Merges the one in use; the others are looked at for mistakes, and no file that they name is read."""
    for name, each in found.contexts.items():
        into = found if name == used else Found(problems=found.problems)
        _FileWalk(each.base, each.origins, into, reads=name == used).walk(model, each.data, (CONTEXTS, name), ())
    if used and used not in found.contexts:
        known = near(used, found.contexts) if found.contexts else "; no settings file has contexts"
        name = used if is_context_name(used) else MASK
        found.problems.append(f"there is no context {name}{known} (sentinelctl config get-contexts lists them)")


def is_context_name(name: str) -> bool:
    """What can be told apart from a store's URI and from an option, and needs no quotes in a shell."""
    return len(name) <= 100 and _CONTEXT_NAME.fullmatch(name) is not None


def parse_settings_text(content: bytes, name: str) -> tuple[dict[str, Any], dict[Location, str]]:
    """YAML 1.2 → plain values, and `file:line:column` of every key. Raises ValueError with the position."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = YAML(typ="rt", pure=True).load(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        if isinstance(error, DuplicateKeyError):  # its own words hold the key and both values
            raise ValueError(f"{place}: this name stands here twice; keep one") from error  # noqa: TRY004 -- as below
        raise ValueError(f"{place}: not valid YAML: {error.problem or error.context}") from error
    except (YAMLError, RecursionError) as error:
        raise ValueError(f"{name}: not valid YAML: {error}") from error
    if tree is None:
        return {}, {}
    if not isinstance(tree, dict):
        raise ValueError(  # noqa: TRY004 -- what is wrong is the text, not a caller's type
            f"{name}:1:1: settings are `name: value` lines; "
            f"{'a list' if isinstance(tree, list) else 'one value'} stands here"
        )
    origins: dict[Location, str] = {}
    try:
        return _plain(tree, (), name, origins), origins
    except RecursionError as error:
        raise ValueError(f"{name}: an alias contains itself; write the values out") from error


def _plain(node: Any, above: Location, name: str, origins: dict[Location, str]) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(node, CommentedMap):
        for key in node:
            line, column = node.lc.key(key)
            origins[(*above, str(key))] = f"{name}:{line + 1}:{column + 1}"
        return {str(key): _plain(value, (*above, str(key)), name, origins) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            line, column = node.lc.item(index)
            origins[(*above, str(index))] = f"{name}:{line + 1}:{column + 1}"
        return [_plain(value, (*above, str(index)), name, origins) for index, value in enumerate(node)]
    for kind in (bool, int, float, str):  # ruamel's own scalar classes carry formatting along
        if isinstance(node, kind):
            return kind(node)
    return node


@dataclass(slots=True)
class _FileWalk:
    """Takes one file's tree into `found`, key by key."""

    base: Path
    origins: Mapping[Location, str]
    found: Found
    reads: bool = True
    """Whether files that hold one value are read."""

    def walk(self, model: type[Declared], data: Mapping[str, Any], keys: Location, above: Location) -> None:
        """`keys` as written lead to `data`, `above` are the field names they stand for."""
        names = {camel(name): name for name in model.fields}
        for key, value in data.items():
            origin = self.origins[(*keys, key)]
            name = names.get(key)
            stem = names.get(key.removesuffix("File")) if key.endswith("File") else None
            part = part_of(model, name) if name else None
            if name is None and stem is None:
                text = f"{origin}: {'.'.join((*map(camel, above), _shown(key)))}: unknown setting{near(key, names)}"
                self.found.problems.append(text)
            elif stem is not None:
                if self.reads:
                    _take_from_file((*above, stem), self.base / str(value), origin, self.found)
            elif part is not None and isinstance(value, dict):
                self.walk(part, value, (*keys, key), (*above, str(name)))
            else:
                self._leaf((*above, str(name)), value, origin)
                self._within((*keys, key), (*above, str(name)))

    def _within(self, keys: Location, location: Location) -> None:
        """Where the items of a list stand, and what is in them."""
        for place, origin in self.origins.items():
            if len(place) > len(keys) and place[: len(keys)] == keys:
                self.found.origins[(*location, *place[len(keys) :])] = origin

    def _leaf(self, location: Location, value: object, origin: str) -> None:
        if _holds_password(value) or (location in _KEYS and value is not None):
            what = "a key" if location in _KEYS else "a password"
            self.found.problems.append(
                f"{origin}: {dotted(location)}: {what} stands in the file; set {variable(location)} in the "
                f"environment, or put the value into a file of its own and write {camel(location[-1])}File: <path>"
            )
        self.found.merge(location, anchored(location, value, self.base), origin)


def _shown(key: str) -> str:
    """A key that is none of ours, as far as it can be no credential: those are long, or hold digits and signs."""
    return key if re.fullmatch(r"[A-Za-z]+([_-][A-Za-z]+)*", key) and len(key) <= 20 else MASK


def _holds_password(value: object) -> bool:
    texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    texts += [text.partition("=")[2] for text in texts]  # `METRIC=URI`
    return any(mask_uri(text) != text for text in texts)


def _take_from_file(location: Location, path: Path, origin: str, found: Found) -> None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        found.problems.append(f"{origin}: {dotted(location)}: {path} cannot be read: {reason}")
        return
    found.merge(location, anchored(location, _from_text(location, text), path.absolute().parent), f"{origin} ({path})")


def _from_text(location: Location, text: str) -> object:
    """A list stands on lines or separated by blanks; one of objects is JSON; everything else is one value."""
    if location in _OBJECTS:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text  # which is no list: the validation says so
    return tuple(text.split()) if location in _LISTS else text


def _read_environment(model: type[Declared], found: Found) -> None:
    known = {variable(location): location for location, _ in leaves(model)}
    for name in sorted(os.environ):
        value = os.environ[name]
        if not name.startswith(ENV_PREFIX) or name in NOT_SETTINGS:
            continue
        if name in known:
            location = known[name]
            found.merge(location, anchored(location, _from_text(location, value), Path.cwd()), name)
        elif name.removesuffix("_FILE") in known:
            _take_from_file(known[name.removesuffix("_FILE")], Path(value), name, found)
        elif _is_meant(name, known):
            found.problems.append(f"{name}: unknown setting{near(name, known)}")


def _is_meant(name: str, known: Iterable[str]) -> bool:
    """Whether an unknown variable is a misspelt setting, and not another program's (Kubernetes sets
    `SENTINEL_SERVICE_HOST` wherever a service of that name exists)."""
    parts = {other.split("__")[0] for other in known if "__" in other}
    is_nested = "__" in name and name.partition("__")[0] in parts
    return is_nested or bool(difflib.get_close_matches(name, known, 1, 0.85))


def leaves(model: type[Declared], above: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every setting that holds a value, with its default (None where it has to be given)."""
    for name, info in model.fields.items():
        part = part_of(model, name)
        if part is not None:
            yield from leaves(part, (*above, name))
        else:
            yield (*above, name), None if info.is_required else info.default


def camel(name: str) -> str:
    """The spelling in a file."""
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def dotted(location: Iterable[str]) -> str:
    """The setting as messages call it: `audit.kafka.bootstrap`."""
    return ".".join(camel(name) for name in location)


def variable(location: Location) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + "__".join(name.upper() for name in location)


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` or the list of what is known here."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(names)}"
