"""Makes the topics that events need, and tells what differs where they are there already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sentinel_core.audit.kafka import clients
from sentinel_core.audit.kafka.messages import Topics
from sentinel_core.audit.kafka.target import Target, library
from sentinel_core.audit.kafka.troubles import told

MAX_MESSAGE_BYTES = 32 * 2**20
"""A change of 10,000 rules with both lists is 4 MiB; brokers take 1 MiB by default."""
PARTITIONS = 6
CHANGES_KEPT_MS = -1
STATUS_KEPT_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one topic."""

    topic: str
    created: bool
    differs: tuple[str, ...] = ()
    """Settings of a topic that was there, which are not as they would have been made: `name is x, not y`."""


def make_topics(target: Target, topics: Topics, *, partitions: int | None = None, replicas: int = -1) -> list[Made]:
    """Creates what is missing, changes nothing that is there. `partitions` None: PARTITIONS of a new one, any number
    of one that is there; `replicas` -1: the brokers' default.

    Raises PublisherUnavailable.
    """
    kafka = library()
    wanted = _wanted(topics)
    try:
        admin = clients.admin(target)
        try:
            return [_make(admin, topic, settings, partitions, replicas) for topic, settings in wanted.items()]
        finally:
            admin.close()
    except (kafka.errors.KafkaError, OSError) as error:
        raise told(target, error, ", ".join(wanted)) from error


@dataclass(frozen=True, slots=True)
class Seen:
    """How one topic stands."""

    topic: str
    there: bool
    writable: bool = False
    """Whether this user may write to it."""
    differs: tuple[str, ...] = ()
    """As in `Made`; empty too where this user may not look at the settings of topics."""


def look(target: Target, topics: Topics) -> tuple[str | None, list[Seen]]:
    """What answers, and the topics as they are; makes and changes nothing. Raises PublisherUnavailable."""
    kafka = library()
    wanted = _wanted(topics)
    try:
        admin = clients.admin(target)
        try:
            found = {each["name"]: each for each in admin.describe_topics(list(wanted))}
            seen = [_seen(admin, found[topic], settings) for topic, settings in wanted.items()]
            return _server(admin), seen
        finally:
            admin.close()
    except (kafka.errors.KafkaError, OSError) as error:
        raise told(target, error, ", ".join(wanted)) from error


def _server(admin: Any) -> str | None:
    """A broker does not tell its release; what it speaks tells the oldest that it can be. None: it is not shown."""
    try:
        brokers = admin.describe_cluster()["brokers"]
        spoken = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version
        return f"Kafka {'.'.join(map(str, spoken))} or newer"
    except (library().errors.KafkaError, LookupError, AttributeError, TypeError):
        return None


def _seen(admin: Any, found: dict[str, Any], settings: dict[str, str]) -> Seen:
    errors = library().errors
    topic, problem = found["name"], errors.for_code(found["error_code"])
    if problem is errors.UnknownTopicOrPartitionError:
        return Seen(topic, there=False)
    if problem is not errors.NoError:
        raise problem(topic)
    allowed = found.get("authorized_operations") or found.get("topic_authorized_operations") or ()
    try:
        differs = _differs(admin, topic, settings)
    except errors.AuthorizationError:
        differs = ()
    return Seen(topic, there=True, writable="WRITE" in allowed, differs=differs)


def _wanted(topics: Topics) -> dict[str, dict[str, str]]:
    return {topic: _settings(topic, topics) for topic in (topics.changes, topics.status, topics.dead_letters)}


def _settings(topic: str, topics: Topics) -> dict[str, str]:
    kept = STATUS_KEPT_MS if topic == topics.status else CHANGES_KEPT_MS
    return {
        "cleanup.policy": "delete",  # compaction would drop changes
        "retention.ms": str(kept),
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
    }


def _make(admin: Any, topic: str, settings: dict[str, str], partitions: int | None, replicas: int) -> Made:
    errors = library().errors
    plan = {topic: {"num_partitions": partitions or PARTITIONS, "replication_factor": replicas, "configs": settings}}
    try:
        admin.create_topics(plan, wait_for_metadata=True)
    except errors.TopicAlreadyExistsError:
        parted = _partitions_differ(admin, topic, partitions)
        return Made(topic, created=False, differs=(*parted, *_differs(admin, topic, settings)))
    return Made(topic, created=True)


def _partitions_differ(admin: Any, topic: str, partitions: int | None) -> tuple[str, ...]:
    if partitions is None:
        return ()
    (found,) = admin.describe_topics([topic])
    there = len(found["partitions"])
    return () if there == partitions else (f"it has {there} partitions, not {partitions}",)


def _differs(admin: Any, topic: str, settings: dict[str, str]) -> tuple[str, ...]:
    resource = library().admin.ConfigResource("TOPIC", topic)
    found = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    stands = {name: str(found[name]["value"]) for name in settings if name in found}
    return tuple(
        f"{name} is {value}, not {settings[name]}" for name, value in stands.items() if value != settings[name]
    )
