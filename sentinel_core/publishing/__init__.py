"""From rules as code to a store: a plan says what would change, and carrying it out does exactly that or nothing."""

from sentinel_core.publishing.carry_out import Outcome, PlanStale, carry_out, examine
from sentinel_core.publishing.checks import CheckContext, Finding
from sentinel_core.publishing.make import make_plan
from sentinel_core.publishing.plan import Plan, PlanInvalid, Step, read_plan, write_plan

__all__ = [
    "CheckContext",
    "Finding",
    "Outcome",
    "Plan",
    "PlanInvalid",
    "PlanStale",
    "Step",
    "carry_out",
    "examine",
    "make_plan",
    "read_plan",
    "write_plan",
]
