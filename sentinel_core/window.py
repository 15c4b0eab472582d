"""Counting over the last second, exact and cheap to write.

A window of `size` buckets keeps the newest bucket in its own slots and the sum of the older ones beside it, so that a
call adds to one place and a check adds two numbers. Older buckets exist as objects only until they leave.

Buckets are aligned to multiples of their length on the injected monotonic clock. A bucket's counts come back at once
when it leaves, so with two buckets of 500 ms up to twice the limit can pass within 1000 ms around a border (and
never more): the bound of Sentinel, which `tests/engine/test_window.py` asserts.

Nothing here calls into Python code, and no method is safe without the engine's lock where there is one
(see `sentinel_core.gate`). But making an object may: CPython 3.11 collects garbage there, and what a collection calls
(a finalizer, then a signal handler) may enter the engine. So objects are made before anything is read (see `roll`).
"""

from __future__ import annotations

from typing import Final

from sentinel_core.clock import MS, SECOND
from sentinel_core.product import product

NO_RT: Final = 1 << 62
MINUTE: Final = 60


class Bucket:
    """The counts of one span of time: `start` in ns, the rest in requests, `rt` in ns."""

    __slots__ = ("blocked", "errors", "min_rt", "occupied", "passed", "rt", "start", "success")

    def __init__(self, start: int) -> None:
        self.start = start
        self.passed = 0
        self.occupied = 0
        """What of `passed` went ahead of its time, at the expense of a later bucket."""
        self.blocked = 0
        self.success = 0
        self.errors = 0
        self.rt = 0
        self.min_rt = NO_RT

    def add(self, other: Bucket) -> None:
        """Takes over the counts of another span."""
        self.passed += other.passed
        self.occupied += other.occupied
        self.blocked += other.blocked
        self.success += other.success
        self.errors += other.errors
        self.rt += other.rt
        self.min_rt = min(self.min_rt, other.min_rt)


class Window:
    """A sliding window. `end` is the first instant (ns) that the newest bucket does not hold any more:
    whoever reads or writes calls `roll(now)` first when `now >= end`."""

    __slots__ = (
        "base_blocked",
        "base_errors",
        "base_passed",
        "base_rt",
        "base_success",
        "blocked",
        "borrowed",
        "carried",
        "end",
        "errors",
        "folds",
        "history",
        "length",
        "min_rt",
        "minute",
        "passed",
        "previous",
        "rt",
        "second",
        "size",
        "success",
        "total",
    )

    def __init__(self, length: int = 500 * MS, size: int = 2, minute: bool = False) -> None:
        """`length` in ns; `minute` keeps the last 60 seconds as well (7 KB: only for those who read them)."""
        self.length = length
        self.size = size
        self.end = 0
        self.passed = 0
        self.blocked = 0
        self.success = 0
        self.errors = 0
        self.rt = 0
        self.min_rt = NO_RT
        self.base_passed = 0
        self.base_blocked = 0
        self.base_success = 0
        self.base_errors = 0
        self.base_rt = 0
        self.carried = 0
        """What was passed into the newest bucket ahead of its time; its second has counted it already."""
        self.borrowed: dict[int, int] | None = None
        """Requests passed ahead of their time, by the start of the bucket that will pay for them."""
        self.history: list[Bucket] = []
        self.folds = minute
        """Whole seconds are kept: from the first time that somebody asks for one (a warm-up), or always."""
        self.second: Bucket | None = None
        """The second that is being folded; complete once the newest bucket belongs to a later one."""
        self.previous: Bucket | None = None
        self.minute: list[Bucket] | None = [] if minute else None
        self.total = Bucket(0)
        """Everything since the window was made, but for the newest bucket (see `lifetime`)."""

    def roll(self, now: int) -> None:
        """Starts the bucket that holds `now` and forgets those that left. A `now` before `end` changes nothing.

        Interpreted, a signal handler or a finalizer of this thread may come here in the middle: wherever a call begins
        or ends and a loop jumps back. So everything is made ready first, then nothing is called from the look at `end`
        on until the counts have left the newest bucket, in which the handler would count and which it would close, too.
        """
        if now < self.end:
            return
        bucket, spare, base = Bucket(0), Bucket(0), Bucket(0)
        start = now - now % self.length
        first = start - product(self.size - 1, self.length)
        history = self.since(first, base)
        if now < self.end:
            return  # somebody came meanwhile
        total, borrowed, carried = self.total, self.borrowed, self.carried
        bucket.start = self.end - self.length
        bucket.passed = self.passed
        bucket.blocked = self.blocked
        bucket.success = self.success
        bucket.errors = self.errors
        bucket.rt = self.rt
        bucket.min_rt = self.min_rt
        total.passed += bucket.passed - carried
        total.blocked += bucket.blocked
        total.success += bucket.success
        total.errors += bucket.errors
        total.rt += bucket.rt
        if bucket.start >= first:
            base.passed += bucket.passed
            base.blocked += bucket.blocked
            base.success += bucket.success
            base.errors += bucket.errors
            base.rt += bucket.rt
        self.end = start + self.length
        self.carried = self.passed = borrowed[start] if borrowed is not None and start in borrowed else 0
        self.blocked = self.success = self.errors = self.rt = 0
        self.min_rt = NO_RT
        self.base_passed = base.passed
        self.base_blocked = base.blocked
        self.base_success = base.success
        self.base_errors = base.errors
        self.base_rt = base.rt
        self.history = history
        if bucket.passed or bucket.blocked or bucket.success or bucket.errors:
            self.keep(bucket, spare, carried, first)
        if borrowed is not None:
            self.forgive(start)

    def since(self, first: int, total: Bucket) -> list[Bucket]:
        """The closed buckets from the one that begins at `first` on, oldest first, added to `total`."""
        held: list[Bucket] = []
        for bucket in self.history:
            if bucket.start >= first:
                held.append(bucket)
                total.add(bucket)
        return held

    def keep(self, bucket: Bucket, spare: Bucket, carried: int, first: int) -> None:
        """Puts a closed bucket where it is read until it leaves; an empty one for its second is handed in."""
        if bucket.start >= first:
            self.history.append(bucket)
        if self.folds:
            second = self.second_of(bucket.start, spare)
            second.add(bucket)
            second.passed -= carried

    def newest(self, bucket: Bucket) -> Bucket:
        """The bucket that is being written, copied into an empty one."""
        bucket.start = self.end - self.length
        bucket.passed = self.passed
        bucket.blocked = self.blocked
        bucket.success = self.success
        bucket.errors = self.errors
        bucket.rt = self.rt
        bucket.min_rt = self.min_rt
        return bucket

    def second_of(self, instant: int, spare: Bucket) -> Bucket:
        """The bucket of the whole second that holds an instant, the newest there is; an empty one to begin it with is
        handed in."""
        start = instant - instant % SECOND
        second = self.second
        if second is None or second.start != start:
            self.previous = second
            second = spare
            second.start = start
            self.second = second
            minute = self.minute
            if minute is not None:
                minute.append(second)
                if len(minute) > MINUTE:
                    del minute[0]
        return second

    def borrow(self, now: int, wait: int, count: int) -> None:
        """Passes `count` requests now that the bucket `wait` ns ahead will pay for."""
        spare, borrowed = Bucket(0), dict[int, int]()
        instant = now + wait
        start = instant - instant % self.length
        if self.borrowed is None:
            self.borrowed = borrowed
        self.borrowed[start] = self.borrowed.get(start, 0) + count
        self.total.passed += count
        self.total.occupied += count
        if self.folds:
            second = self.second_of(now, spare)
            second.passed += count
            second.occupied += count

    def forgive(self, start: int) -> None:
        """Forgets what the buckets up to the one that begins at `start` owe: it has paid, the others were skipped."""
        borrowed = self.borrowed
        if borrowed is None:
            return
        for due in list(borrowed):
            if due <= start:
                borrowed.pop(due, None)
        if not borrowed:
            self.borrowed = None

    def borrowed_ahead(self, now: int) -> int:
        """Requests that buckets after `now` owe."""
        if self.borrowed is None:
            return 0
        return sum([count for start, count in list(self.borrowed.items()) if start > now])

    def passed_at(self, start: int) -> int:
        """Requests passed in the bucket that begins at `start`, 0 where there is none."""
        if start == self.end - self.length:
            return self.passed
        for bucket in self.history:
            if bucket.start == start:
                return bucket.passed
        return 0

    def pass_sum(self) -> int:
        """Requests passed in the window; the caller has rolled it."""
        return self.base_passed + self.passed

    def average_rt(self) -> int:
        """Mean response time in ns over the window, 0 without completions; the caller has rolled it."""
        success = self.base_success + self.success
        return (self.base_rt + self.rt) // success if success else 0

    def shortest_rt(self, most: int) -> int:
        """The shortest response time in the window in ns, at least 1 ms, at most and without completions `most`."""
        shortest = min(self.min_rt, most)
        for bucket in self.history:
            shortest = min(shortest, bucket.min_rt)
        return max(shortest, MS)

    def busiest_success(self) -> int:
        """Completions of the busiest bucket, at least 1."""
        busiest = max(self.success, 1)
        for bucket in self.history:
            busiest = max(busiest, bucket.success)
        return busiest

    def previous_second(self, now: int) -> Bucket | None:
        """The counts of the full second before the one of `now`, None when there were none or nobody asked before."""
        self.folds = True
        wanted = now - now % SECOND - SECOND
        if self.second is not None and self.second.start == wanted:
            return self.second
        if self.previous is not None and self.previous.start == wanted:
            return self.previous
        return None

    def lifetime(self) -> Bucket:
        """The counts since the window was made; what was passed ahead of its time is in from the start."""
        while True:
            end, total = self.end, Bucket(0)
            total.add(self.total)
            total.add(self.newest(Bucket(0)))
            total.passed -= self.carried
            if end == self.end:  # else a bucket was closed in between
                return total

    def seconds(self, now: int, after: int) -> list[Bucket]:
        """The seconds that are over and began after `after` (ns), oldest first, for windows that keep a minute."""
        self.roll(now)
        current = now - now % SECOND
        return [second for second in self.minute or () if after < second.start < current]

    def last_minute(self, now: int) -> Bucket:
        """The sum of the last 60 seconds with the current one, for windows that keep them."""
        total, newest = Bucket(now - now % SECOND - (MINUTE - 1) * SECOND), Bucket(0)
        for second in self.minute or ():
            if second.start >= total.start:
                total.add(second)
        total.add(self.newest(newest))
        total.passed -= self.carried
        return total
