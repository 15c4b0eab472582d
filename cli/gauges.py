"""What `doctor` looks at of business metrics: whether the collectors of the settings read anything."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial

from sentinel_core.cli.bounded import Bounded
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.text import plural
from sentinel_core.collectors.contract import Collector, number_of
from sentinel_core.masking import mask_text
from sentinel_core.service import collectors_of
from sentinel_core.settings import Settings, SettingsError


def collectors(settings: Settings, limit: float) -> Iterator[Check]:
    """Reads each collector once, all at the same time."""
    try:
        made = list(collectors_of(settings))
    except SettingsError as error:
        yield Check("collector", "fail", str(error), "mend `collectors` in the settings", Exit.BAD_SETTINGS)
        return
    running = [(_name(each), Bounded(partial(_read, each))) for each in made]
    deadline = time.monotonic() + limit
    for name, each in running:
        late = Check(
            "collector",
            "fail",
            f"{name}: no answer within {limit:g} s",
            "check the network and the address",
            Exit.UNREACHABLE,
        )
        yield each.result(deadline, late)


def _name(collector: Collector) -> str:
    return f"{collector.metric} from {getattr(collector, 'source', type(collector).__name__)}"


def _read(collector: Collector) -> Check:
    name, began = _name(collector), time.monotonic()
    try:
        values = collector.collect()
    except Exception as error:  # noqa: BLE001 -- clients raise anything; the report goes on with the next
        text = mask_text(str(error).partition("\n")[0])
        return Check("collector", "fail", f"{name}: {text}", "see what it says, then run this again", Exit.UNREACHABLE)
    finally:
        getattr(collector, "close", lambda: None)()
    took = f"{(time.monotonic() - began) * 1000:.0f} ms"
    known = [value for value in values.values() if value is not None]
    if bad := sum(math.isnan(number_of(value)) for value in known):
        text = f"{name}: {took}, {plural(bad, 'value')} that is no number"
        return Check("collector", "warn", text, "such a value changes nothing: look at the source")
    if not known:
        return Check("collector", "warn", f"{name}: {took}, but no value stands there", "check its key, path or query")
    return Check("collector", "ok", f"{name}: {took}, {plural(len(known), 'value')}")
