"""The settings of services and of `sentinelctl`: one file, environment variables, one precedence.

    SettingsError     every problem found, each with the file and line, or the variable, that it comes from

Precedence: flag > context in use > environment > project file (`sentinel.yaml`) > user file
(`~/.config/sentinel/sentinel.yaml`) > default. Names are camelCase in the file (`lastKnownGood`) and
`SENTINEL_LAST_KNOWN_GOOD` in the environment, with `__` between levels (`SENTINEL_AUDIT__OUTBOX`). A value may be read
from a file: `SENTINEL_STORES_FILE=/run/secrets/stores` or `storesFile: …`; a credential is taken from the environment
or from such a file, and refused in a settings file. Relative paths are relative to the file they stand in, those of the
environment and of flags to the working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from sentinel_core.declared import Declared, Field, Invalid
from sentinel_core.freeze import Freeze
from sentinel_core.settings_sources import gather

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_DURATIONS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


NOT_ACTED_ON = ("namespace",)
"""Settings, or groups of them, that are read and checked for later versions; nothing does what they say yet."""


class SettingsError(ValueError):
    """The settings cannot be used. Messages never hold the value of a credential."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def parse_size(value: object) -> object:
    """`10MiB`, `512 kB` or a number → bytes. Raises ValueError that says what to write."""
    return _scaled(value, _SIZES, "a size such as 10MiB, 512kB or 1048576", whole=True)


def parse_duration(value: object) -> object:
    """`250ms`, `5s`, `2m`, `1h`, `1d` or a number of seconds → seconds."""
    return _scaled(value, _DURATIONS, "a duration such as 250ms, 5s, 2m or 1h", whole=False)


def _scaled(value: object, units: Mapping[str, float], wanted: str, *, whole: bool) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-zA-Z]*)\s*", value)
    if match is None or match[2].lower() not in units:
        raise ValueError(f"write {wanted}")
    scaled = float(match[1]) * units[match[2].lower()]
    return int(scaled) if whole else scaled


Size = Annotated[int, parse_size, Field(gt=0)]
Duration = Annotated[float, parse_duration, Field(gt=0, allow_inf_nan=False)]


class Kafka(Declared):
    """Where events are published, and read by `sentinelctl audit ingest`."""

    bootstrap: str = Field(min_length=1, description="Addresses of brokers, `host:port`, separated by commas.")
    changes: str = Field(
        default="sentinel.rule-changes",
        min_length=1,
        description="Topic of changed and refused rules, keyed by source.",
    )
    status: str = Field(
        default="sentinel.rule-status",
        min_length=1,
        description="Topic of what instances run and of their breakers, keyed by instance.",
    )
    group: str = Field(default="sentinel-audit", min_length=1, description="Consumer group of `audit ingest`.")
    tls: bool = Field(default=False, description="TLS; any of the files below implies it.")
    ca: str | None = Field(default=None, description="PEM file of the CA; none: that of the system.")
    cert: str | None = Field(default=None, description="PEM file of a client's certificate.")
    key: str | None = Field(default=None, description="PEM file of its key.")
    user: str | None = Field(default=None, description="SASL user; the password stands in SENTINEL_KAFKA_PASSWORD.")
    password_file: str | None = Field(default=None, description="File that holds the password instead.")
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism."
    )


class AuditSettings(Declared):
    """Evidence: the local outbox, and where it is forwarded to."""

    outbox: str = Field(
        default=".sentinel/outbox.db", min_length=1, description="SQLite file in which an event is durable first."
    )
    store: str = Field(
        default="sqlite:///.sentinel/audit.db", repr=False, min_length=1, description="Audit store that is asked."
    )
    checkpoints: str | None = Field(
        default=None,
        min_length=1,
        description="File to which signed checkpoints are appended; it belongs on another machine than the store.",
    )
    signing_key: str | None = Field(
        default=None, repr=False, min_length=1, description="Ed25519 private key in PEM that signs checkpoints."
    )
    verify_key: str | None = Field(
        default=None, min_length=1, description="Its public half in PEM, with which checkpoints are verified."
    )
    redact: tuple[str, ...] = Field(
        default=(), description="Fields of rules that no event shows, e.g. limitApp; their values are keyed hashes."
    )
    redact_key: str | None = Field(
        default=None, repr=False, min_length=1, description="Key of those hashes, 16 characters or more."
    )
    kafka: Kafka | None = Field(
        default=None, description="Kafka between outbox and store; without it the outbox feeds the store."
    )


class Observe(Declared):
    """Recording of business metrics, for thresholds that are drawn from what was seen."""

    file: str | None = Field(
        default=None,
        min_length=1,
        description="SQLite file in which business metrics are recorded; none: they are not.",
    )
    every: Duration = Field(default=10.0, ge=1, description="How often a reading is written, 1s or more.")
    keep: Duration = Field(default=30 * 86400.0, ge=3600, description="Older readings are removed, 1h or more.")
    max_size: Size = Field(
        default=256 * 2**20, ge=2**20, description="Where the file holds more, the oldest readings are removed early."
    )


class MetricLogSettings(Declared):
    """Sentinel's metric log and block log."""

    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of Sentinel's metric log and block log; without it none is written.",
    )


class Guards(Declared):
    """Limits on one publish; what exceeds them is refused unless it is allowed by name."""

    max_removed_percent: float = Field(
        default=30, ge=0, le=100, description="Share of a kind's rules that may disappear."
    )
    max_jump: float = Field(
        default=10, gt=1, allow_inf_nan=False, description="Factor by which a threshold may change."
    )
    forbid_zero: bool = Field(
        default=True, description="Whether a threshold of 0, which blocks everything, is refused."
    )
    max_rules: int = Field(default=100_000, gt=0, description="Rules in one kind.")
    max_bytes: Size = Field(default=10 * 2**20, description="Size of one text, e.g. 10MiB.")
    freeze: tuple[Freeze, ...] = Field(default=(), description="When nothing is published; see docs/guards.md.")


class Owner(Declared):
    """Which resources are whose."""

    team: str = Field(min_length=1, description="Name of the team.")
    resources: tuple[str, ...] = Field(default=(), description="Globs of its resources.")
    paths: tuple[str, ...] = Field(default=(), description="Globs of its rule files, relative to the rules' folder.")
    actors: tuple[str, ...] = Field(
        default=(), description="Globs of the authors who may change its resources; none: everybody."
    )


class Settings(Declared):
    """All settings, validated; made by `load_settings`. The constructor takes keyword arguments and reads nothing."""

    app: str = Field(default="app", min_length=1, description="Name of this service; part of every event.")
    environment: str = Field(
        default="default", min_length=1, description="prod, staging, …; part of every event's source."
    )
    namespace: str = Field(default="public", min_length=1, description="Namespace in Nacos or etcd.")
    instance: str | None = Field(default=None, description="Name of this process; default: host name and process id.")
    rules: str = Field(
        default="sentinel-rules.yaml", min_length=1, description="Rules as code: a file or folder under Git."
    )
    stores: tuple[str, ...] = Field(
        default=(),
        repr=False,
        description="URIs of the stores that hold the live rules, the one with the last word first.",
    )
    bootstrap: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="URI of rules that are in force for each kind that no store has delivered so far.",
    )
    last_known_good: str = Field(
        default=".sentinel/last-good",
        min_length=1,
        description="Folder with the last rules that were active, for a cold start.",
    )
    status: str | None = Field(
        default=".sentinel/status",
        min_length=1,
        description="Folder in which running services tell `sentinelctl` of themselves; null: they do not.",
    )
    workers: int | None = Field(
        default=None, gt=0, description="Threads that serve in one process; remarks on rules that queue count with it."
    )
    request_timeout: Duration | None = Field(
        default=None,
        description="How long callers wait for an answer, e.g. 3s; remarks on rules that queue look at it.",
    )
    collectors: tuple[str, ...] = Field(
        default=(), repr=False, description="Where gauges of business metrics come from, each METRIC=URI."
    )
    compat: Literal["sentinel-1.8.9"] | None = Field(
        default=None, description="Decide as this version of Java Sentinel does, faults included."
    )
    metric_log: MetricLogSettings = Field(default_factory=MetricLogSettings, description="Sentinel's own logs.")
    audit: AuditSettings = Field(default_factory=AuditSettings, description="Outbox and audit store.")
    observe: Observe = Field(default_factory=Observe, description="Recording of business metrics.")
    guards: Guards = Field(default_factory=Guards, description="Limits on one publish.")
    owners: tuple[Owner, ...] = Field(default=(), description="Which team's resources are which; the first one counts.")
    production: bool = Field(
        default=False, description="Whether a publish is confirmed by typing the name of the context."
    )
    timeout: Duration = Field(default=5.0, description="Longest wait for one store or for a clean close, e.g. 5s.")


def set_by_somebody(config: Path | None = None, context: str | None = None) -> Mapping[tuple[str, ...], str]:
    """What stands in a file or in the environment: the names of the fields, with file and line or the variable."""
    origins = gather(Settings, config, {}, _used(context)).origins
    return {location: origin for location, origin in origins.items() if origin != "default"}


def _used(context: str | None) -> str:
    return os.environ.get("SENTINEL_CONTEXT", "") if context is None else context


def load_settings(
    config: Path | None = None, *, flags: Mapping[str, Any] | None = None, context: str | None = None
) -> Settings:
    """Finds, reads, merges and validates. `config` replaces the project file; `flags` are fields by name; `context` is
    the one in use: empty for none, None for that of `SENTINEL_CONTEXT`.

    Raises SettingsError with all problems, not the first one.
    """
    found = gather(Settings, config, flags or {}, _used(context))
    problems = list(found.problems)
    try:
        settings = Settings(**found.values)
    except Invalid as error:
        problems += [found.describe(where, words) for where, words in error.problems]
    if problems:
        raise SettingsError(problems)
    return settings
