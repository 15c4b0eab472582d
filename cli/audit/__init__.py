"""`sentinelctl audit`: the table of its commands; each stands in a file of its own."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

_HERE = "sentinel_core.cli.audit"
COMMANDS = {
    "query": Lazy(f"{_HERE}.query:query", "Search the changes of rules."),
    "who": Lazy(f"{_HERE}.who:who", "Who changed the rules of a resource, when and why."),
    "ingest": Lazy(f"{_HERE}.ingest:ingest", "Take events from Kafka into the audit store."),
    "init": Lazy(f"{_HERE}.init:init", "Make the topics that events need in Kafka."),
    "show": Lazy(f"{_HERE}.show:show", "One change whole, as a patch, and what would undo it."),
    "tail": Lazy(f"{_HERE}.tail:tail", "The newest changes, and those that arrive."),
    "export": Lazy(f"{_HERE}.export:export", "Write events as NDJSON, CSV or Parquet."),
    "verify": Lazy(f"{_HERE}.verify:verify", "Whether the events are as they were written."),
    "checkpoint": Lazy(f"{_HERE}.checkpoint:checkpoint", "Sign how far each chain has come."),
    "purge": Lazy(f"{_HERE}.purge:purge", "Move old events into a sealed segment."),
    "hash": Lazy(f"{_HERE}.hash:hash_value", "What stands in events for a value that is redacted."),
}

audit = LazyGroup(
    "audit",
    help="""Who changed which rule, when and why.

    \b
    sentinelctl audit who payment_invoke --field count --since 2h
    sentinelctl audit query "kind:flow author:chen" --since yesterday
    sentinelctl audit tail -f
    """,
    lazy=COMMANDS,
    shared=shared_options,
)
