"""`sentinelctl biz`: the table of its commands; each stands in a file of its own."""

from __future__ import annotations

from sentinel_core.cli.app import shared_options
from sentinel_core.cli.lazy import Lazy, LazyGroup

_HERE = "sentinel_core.cli.biz"
COMMANDS = {
    "observe": Lazy(f"{_HERE}.observe:observe", "How a business metric was distributed, as recorded."),
    "suggest": Lazy(f"{_HERE}.suggest:suggest", "A rule for a business metric, drawn from what was recorded."),
}

biz = LazyGroup(
    "biz",
    help="""Watch business metrics, and draw thresholds from what was seen.

    \b
    sentinelctl biz observe PAY_FAIL_RATE
    sentinelctl biz suggest PAY_FAIL_RATE --resource order_create
    """,
    lazy=COMMANDS,
    shared=shared_options,
)
