"""What would be written where, as a value and as a file that people review and that is carried out as it is."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentinel_core.datasources.atomic import replace_file
from sentinel_core.datasources.provenance import decode, encode
from sentinel_core.rules import Kind, Provenance, Revision, RuleRejected, SourceText, parse_revision

FORMAT_VERSION = 1
MAX_BYTES = 256 * 2**20
"""Of a plan file: both a bound for what is read and far beyond what stores take."""


class PlanInvalid(ValueError):
    """A file that is no plan, of another version, or edited after it was made."""


@dataclass(frozen=True, slots=True)
class Step:
    """One item of a store, written as a whole."""

    source: str
    """The item's id, as revisions and events carry it."""
    key: str
    expected: str | None
    """The version that must stand there; None: nothing may."""
    digests: Mapping[Kind, str]
    """Of the rules that are to stand there, by kind: whoever finds them finds the step done."""
    texts: tuple[SourceText, ...]
    changes: Sequence[Mapping[str, Any]]
    """A field each, as change events carry them; hidden values are masked. For people."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps for one store. `id` is computed from what would be done, so the same plan has the same id."""

    id: str
    store: str
    """URI, without credentials: those come from the environment, when it is carried out."""
    environment: str
    title: str
    """What the rules are, e.g. `git main@9f1c2ab34d5e (rules)`."""
    made_at: datetime
    provenance: Provenance
    allowed: tuple[str, ...]
    """Guards that somebody gave leave to overrule, whether or not they had anything against it."""
    steps: tuple[Step, ...]

    @property
    def changes(self) -> list[Mapping[str, Any]]:
        return [change for step in self.steps for change in step.changes]


def plan_id(store: str, steps: Sequence[Step]) -> str:
    """`p-` and twelve digits."""
    told = [store, *([step.source, step.expected, sorted(step.digests.items())] for step in steps)]
    return f"p-{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]}"


def write_plan(plan: Plan, path: Path) -> None:
    """Whole or not at all; readable by its owner only, as rules may hold what is masked elsewhere. Raises OSError."""
    document = _document(plan)
    sealed = document | {"seal": _seal(document)}
    replace_file(path, f"{json.dumps(sealed, ensure_ascii=False, indent=1)}\n".encode(), mode=0o600)


def read_plan(path: Path | str) -> Plan:
    """Raises PlanInvalid, OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 -- see below
        raise PlanInvalid(f"{path} is no file")
    with open(path, "rb") as file:  # noqa: PTH123 -- as it was typed: a Path would change what looks like a URI
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise PlanInvalid(f"{path} is larger than any plan")
        content = file.read()
    try:
        document = json.loads(content)
        if not isinstance(document, dict) or "steps" not in document:
            raise PlanInvalid(f"{path} is no plan; sentinelctl rules plan -o FILE makes one")
        seal = document.pop("seal", None)
        if document.get("formatVersion") != FORMAT_VERSION:
            raise PlanInvalid(f"{path} is a plan of another version of sentinelctl; make it anew")
        if seal != _seal(document):
            raise PlanInvalid(f"{path} was changed after it was made; make the plan anew")
        plan = _plan(document)
        for step in plan.steps:
            _check(step)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, RuleRejected) as error:
        if isinstance(error, PlanInvalid):
            raise
        raise PlanInvalid(f"{path} is no plan; sentinelctl rules plan -o FILE makes one") from error
    return plan


def _check(step: Step) -> None:
    """Raises ValueError for a step that does not do what it says."""
    found = parse_revision(Revision(step.texts, step.source, ""), tuple(step.digests))
    if {kind: rules.digest for kind, rules in found.items()} != dict(step.digests):
        raise ValueError("other rules than its digests")
    for change in step.changes:
        if change["action"] not in ("add", "remove", "change") or not isinstance(change["rule"], str):
            raise ValueError("no change")


def _seal(document: Mapping[str, Any]) -> str:
    """Tells an accidental edit from none; whoever means to can make another plan, too."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _document(plan: Plan) -> dict[str, Any]:
    return {
        "formatVersion": FORMAT_VERSION,
        "plan": plan.id,
        "store": plan.store,
        "environment": plan.environment,
        "rules": plan.title,
        "madeAt": plan.made_at.isoformat(),
        "provenance": json.loads(encode(plan.provenance, None)),
        "allowed": list(plan.allowed),
        "steps": [
            {
                "source": step.source,
                "key": step.key,
                "expected": step.expected,
                "digests": dict(step.digests),
                "texts": [
                    {"name": text.name, "format": text.format, "content": text.content.decode()} for text in step.texts
                ],
                "changes": [dict(change) for change in step.changes],
            }
            for step in plan.steps
        ],
    }


def _plan(document: Mapping[str, Any]) -> Plan:
    provenance = decode(json.dumps(document["provenance"]).encode())
    steps = tuple(
        Step(
            step["source"],
            step["key"],
            step["expected"],
            step["digests"],
            tuple(SourceText(text["name"], text["content"].encode(), text["format"]) for text in step["texts"]),
            step["changes"],
        )
        for step in document["steps"]
    )
    texts = {name: document[name] for name in ("plan", "store", "environment", "rules")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a text is none")
    return Plan(
        id=texts["plan"],
        store=texts["store"],
        environment=texts["environment"],
        title=texts["rules"],
        made_at=datetime.fromisoformat(document["madeAt"]).astimezone(UTC),
        provenance=provenance[0] if provenance else Provenance(),
        allowed=tuple(document["allowed"]),
        steps=steps,
    )
