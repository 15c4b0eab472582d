"""Who is counted: a resource as a whole, and the same resource by origin or by context."""

from __future__ import annotations

from typing import Final

from sentinel_core.window import Window


class Node(Window):
    """A window and the number of calls that are inside now."""

    __slots__ = ("threads",)

    def __init__(self, length: int, size: int, minute: bool) -> None:
        super().__init__(length, size, minute)
        self.threads = 0

    def enter(self, now: int, count: int) -> None:
        """Counts a call that passed: `count` requests, one thread."""
        if now >= self.end:
            self.roll(now)
        self.passed += count
        self.threads += 1

    def block(self, now: int, count: int) -> None:
        """Counts a call that was blocked."""
        if now >= self.end:
            self.roll(now)
        self.blocked += count

    def leave(self, now: int, count: int, rt: int, failed: bool) -> None:
        """Counts the end of a call that had passed; `rt` in ns, once whatever the count."""
        if now >= self.end:
            self.roll(now)
        self.success += count
        self.rt += rt
        if rt < self.min_rt:
            self.min_rt = rt
        self.threads -= 1
        if failed:
            self.errors += count


class Budget:
    """How many callers and contexts may still be counted apart, all resources together."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


NAMED: Final = 1 << 62
"""The limit for callers and contexts that a rule names: they are always counted."""
UNLIMITED: Final = Budget(NAMED)
NOBODY: Final[dict[str, Node]] = {}
"""The parts of every resource that is not counted apart; never changed."""


class ClusterNode(Node):
    """A resource: the counts of all its calls. Lives as long as the engine, across every change of rules."""

    __slots__ = ("blocker", "budget", "contexts", "era", "origins", "others_blocked", "resource")

    def __init__(self, resource: str, length: int, size: int, minute: bool) -> None:
        super().__init__(length, size, minute)
        self.resource = resource
        self.era = 0
        """Goes up with every transition of a breaker of this resource; an entry remembers the one it began in."""
        self.blocker = ""
        """The kind that blocked last. What it blocked is all that was ever blocked, less `others_blocked`: so a block
        costs no look-up as long as the same kind blocks."""
        self.others_blocked: dict[str, int] | None = None
        """Requests blocked by each kind before the last change of `blocker`."""
        self.budget = UNLIMITED
        self.origins: dict[str, Node] = NOBODY
        self.contexts: dict[str, Node] = NOBODY

    def block_by(self, kind: str, now: int, count: int) -> None:
        """Counts a call that a rule of this kind has blocked."""
        if kind is not self.blocker:
            self.others_blocked = self.blocked_by()
            self.blocker = kind
        if now >= self.end:
            self.roll(now)
        self.blocked += count

    def blocked_by(self) -> dict[str, int]:
        """Requests that each kind has blocked since the engine began."""
        counts = dict(self.others_blocked) if self.others_blocked is not None else {}
        last = self.lifetime().blocked - sum(counts.values())
        if last:
            counts[self.blocker] = counts.get(self.blocker, 0) + last
        return counts

    def by_origin(self, origin: str, limit: int) -> Node | None:
        """The node of one caller, made when first asked for; None beyond `limit` callers."""
        if self.origins is NOBODY:
            self.origins = {}
        return self.part(self.origins, origin, limit)

    def by_context(self, context: str, limit: int) -> Node | None:
        """The node of one context, made when first asked for; None beyond `limit` contexts."""
        if self.contexts is NOBODY:
            self.contexts = {}
        return self.part(self.contexts, context, limit)

    def part(self, parts: dict[str, Node], name: str, limit: int) -> Node | None:
        node = parts.get(name)
        if node is None and len(parts) < limit and (self.budget.left > 0 or limit >= NAMED):
            node = self.made(parts, name)
        return node

    def rest(self, parts: dict[str, Node]) -> Node:
        """The node of all callers, or contexts, beyond the limit together; nobody is called ""."""
        node = parts.get("")
        return node if node is not None else self.made(parts, "")

    def made(self, parts: dict[str, Node], name: str) -> Node:
        self.budget.left -= 1
        return parts.setdefault(name, Node(self.length, self.size, self.minute is not None))

    def forgotten(self) -> None:
        """Its parts are free for others."""
        self.budget.left += len(self.origins) + len(self.contexts)
