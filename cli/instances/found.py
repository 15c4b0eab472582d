"""Running services as the commands see them: what their files say, and how far that can be believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sentinel_core.cli.app import App
from sentinel_core.cli.exits import BadSettings
from sentinel_core.cli.moments import age, utc_now
from sentinel_core.cli.text import Span, Styled
from sentinel_core.settings import Settings
from sentinel_core.status_file import EVERY_S, Status, read

DEAD: Final = "dead"
"""Its process has ended without removing the file."""
SILENT: Final = "silent"
"""It has not written for three times as long as it should: stopped, hung, or on another host and gone."""
ALONE: Final = "alone"
"""It follows no store."""
_WORST_FIRST = ("error", "stale", "init", "ready")
_COLOURS = {DEAD: "red", SILENT: "red", "error": "red", "stale": "yellow", "init": "yellow", "ready": "green"}
SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Instance:
    """One file, read at `now` (aware UTC)."""

    status: Status
    now: datetime

    @property
    def age_s(self) -> float:
        """How old its words are."""
        return max(0.0, (self.now - self.status.written_at).total_seconds())

    @property
    def state(self) -> str:
        """`dead`, `silent`, `alone`, or the worst state of its stores."""
        if self.status.ended:
            return DEAD
        if self.age_s > 3 * EVERY_S:
            return SILENT
        return worst(self.stores)

    @property
    def stores(self) -> list[Mapping[str, Any]]:
        """Those whose state counts; a bootstrap's does not."""
        return [each for each in self.status.subscriptions if each.get("role") != "bootstrap"]

    @property
    def lag_s(self) -> float | None:
        """For how long its rules may be behind a store; 0 where all are ready, None where it follows none. Kinds that a
        store never had (`init` beside others) are behind nothing."""
        if not self.stores:
            return None
        behind = [
            item.get("since")
            for each in self.stores
            for item in items(each)
            if item.get("state") not in ("ready", None if each.get("state") == "init" else "init")
        ]
        return max((since_s(each, self.now) for each in behind), default=0.0)

    def runs(self, revision: str) -> bool:
        """Whether a kind or a store stands at a version, or a commit or digest, of which the beginning will do."""
        found = [*self.status.kinds.values(), *(item for each in self.stores for item in items(each))]
        for each in found:
            if revision == each.get("version"):
                return True
            hashes = (each.get("digest"), each.get("commit"))
            if len(revision) >= SHORTEST_PREFIX and any(str(text or "").startswith(revision) for text in hashes):
                return True
        return False

    def to_json(self) -> dict[str, Any]:
        """Its facts in short."""
        status = self.status
        return {
            "instance": status.instance,
            "app": status.app,
            "environment": status.environment,
            "host": status.document.get("host"),
            "pid": status.document.get("pid"),
            "state": self.state,
            "lagSeconds": None if self.lag_s is None else round(self.lag_s, 3),
            "ageSeconds": round(self.age_s, 3),
            "kinds": {
                kind: {name: each.get(name) for name in ("rules", "digest", "version", "commit", "source", "sources")}
                for kind, each in status.kinds.items()
            },
            "stores": list(status.subscriptions),
        }


def found(app: App) -> tuple[Path, list[Instance]]:
    """The folder of the settings, and who writes there. Raises BadSettings where services tell nothing."""
    if app.settings.status is None:
        raise BadSettings(
            "services with these settings tell nothing of themselves (status: null)",
            next_step="leave `status` out of sentinel.yaml, or name a folder, and start the services anew",
        )
    return Path(app.settings.status), running(app.settings)


def running(settings: Settings) -> list[Instance]:
    """Who writes into the folder of these settings, the dead included; nobody where services tell nothing."""
    now = utc_now()
    return [Instance(status, now) for status in read(Path(settings.status))] if settings.status else []


def say_whose(app: App, folder: Path, number: int) -> None:
    """What is seen here and what is not."""
    if not number:
        app.out.say(f"No service writes to {folder}: none runs on this machine with these settings.")
    else:
        app.out.say(f"These write to {folder}. Services on other machines, or with another folder, are not seen here.")


def items(store: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The items of a store, as far as they are objects."""
    listed = store.get("items")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def worst(stores: Sequence[Mapping[str, Any]]) -> str:
    """Of the states of some stores."""
    states = {str(each.get("state")) for each in stores}
    return next((state for state in _WORST_FIRST if state in states), ALONE)


def since_s(moment: object, now: datetime) -> float:
    """Seconds since a time as the files hold it; 0 for what is none."""
    try:
        return max(0.0, (now - datetime.fromisoformat(str(moment))).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def coloured(state: str) -> Styled:
    """A state as a table has it."""
    return Styled(state, _COLOURS.get(state, "dim"))


def seconds(value: float | None) -> str:
    """`0 s`, `4 min`; a dash for what cannot be said."""
    return "–" if value is None else age(value)


def believed(instance: Instance) -> Iterator[Sequence[Span]]:
    """A line of warning where the words of an instance are not the present."""
    if instance.state == DEAD:
        yield (
            Styled(f"  its process {instance.status.document.get('pid')} has ended; this is what it said last", "red"),
        )
    elif instance.state == SILENT:
        words = f"  it has said nothing for {age(instance.age_s)}: stopped, hung, or gone with its host"
        yield (Styled(words, "red"),)
