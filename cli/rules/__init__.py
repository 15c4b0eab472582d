"""`sentinelctl rules`: the table of its commands; each stands in a file of its own."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

_HERE = "sentinel_core.cli.rules"
COMMANDS = {
    "validate": Lazy(f"{_HERE}.validate:validate", "Parse, validate and lint rules."),
    "fmt": Lazy(f"{_HERE}.fmt:fmt", "Rewrite rules canonically; comments stay."),
    "schema": Lazy(f"{_HERE}.schema:schema", "Print the JSON Schema of the rules."),
    "explain": Lazy(f"{_HERE}.explain:explain", "What applies to a resource, in which order and why."),
    "show": Lazy(f"{_HERE}.show:show", "What a store holds, with its provenance."),
    "get": Lazy(f"{_HERE}.show:show", "The same as show."),
    "diff": Lazy(f"{_HERE}.diff:diff", "Compare any two sets of rules field by field."),
    "drift": Lazy(f"{_HERE}.drift:drift", "Whether a store still holds what was committed, and who changed it."),
    "import": Lazy(f"{_HERE}.importing:import_", "Write what a store holds back into the YAML of the repository."),
    "plan": Lazy(f"{_HERE}.plan:plan", "What publishing would change, as a file to review and apply."),
    "apply": Lazy(f"{_HERE}.apply:apply", "Carry out a saved plan exactly, or refuse it as stale."),
    "publish": Lazy(f"{_HERE}.publish:publish", "Write rules into a store: plan and apply in one."),
    "promote": Lazy(f"{_HERE}.promote:promote", "Bring the rules of one environment into another."),
    "history": Lazy(f"{_HERE}.history:history", "Revisions of a store: who, when, why."),
    "rollback": Lazy(f"{_HERE}.rollback:rollback", "Bring back the rules of an older revision as a new one."),
    "quarantine": Lazy(f"{_HERE}.quarantine:quarantine", "Rules that were rolled back and may not come back."),
    "release": Lazy(f"{_HERE}.quarantine:release", "Let rules under quarantine be published again."),
}

rules = LazyGroup(
    "rules",
    help="""Validate, compare, publish, explain and roll back rules.

    \b
    sentinelctl rules validate      the rules as code of this folder
    sentinelctl rules diff          what was committed against what is live
    sentinelctl rules plan          what publishing would change
    sentinelctl rules publish       into the store, after a question
    """,
    lazy=COMMANDS,
    shared=shared_options,
)
