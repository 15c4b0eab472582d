"""That a breaker moved, as an event: `sentinel.breaker.<state>.v1`, one for each move of one instance."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

from sentinel_core.audit.event import NAMESPACE, Event, storable
from sentinel_core.audit.instants import milliseconds, whole_ms
from sentinel_core.audit.redaction import NONE, Redaction
from sentinel_core.masking import mask_text

BREAKER = "sentinel.breaker."
FORMAT_VERSION = 1


def breaker_moved(
    *,
    environment: str,
    app: str,
    instance: str,
    at: datetime,
    number: int,
    kind: str,
    facts: dict[str, Any],
    redaction: Redaction = NONE,
) -> Event:
    """A move of a breaker of `kind` at `at`, the `number`th that this process tells.

    facts   plain JSON values: resource, rule (path), before, after (CLOSED, OPEN, HALF_OPEN), value, dimension, shadow,
            and what the rule says of itself (metric, threshold); commitHash and rulesDigest of the rules
    """
    source = storable(f"/{environment}/instances/{app}/{instance}")
    kind_of_event = f"{BREAKER}{str(facts['after']).lower()}.v1"
    identity = uuid.uuid5(NAMESPACE, json.dumps((kind_of_event, source, milliseconds(at), number)))
    facts = {**facts, "rule": redaction.path(facts.get("rule"), kind, facts.get("resource"))}
    told = {name: mask_text(value) if isinstance(value, str) else value for name, value in facts.items()}
    data = {
        "formatVersion": FORMAT_VERSION,
        "late": False,
        "environment": environment,
        "app": app,
        "instance": instance,
        "timestamp": milliseconds(at),
        "kind": kind,
        **told,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    subject = storable(mask_text(str(facts["resource"])))
    return Event(
        str(identity), source, kind_of_event, subject, whole_ms(at), text.encode("utf-8", errors="backslashreplace")
    )
