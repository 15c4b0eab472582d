"""Many who ask the same at once are answered by one request, and nobody by one that began before he asked."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sentinel_core.datasources import SourceUnavailable
from sentinel_core.datasources.etcd.together import Together
from tests.services.server import wait_until

ASKERS = 20


class Slow:
    """Answers with its number, when it is let go."""

    def __init__(self) -> None:
        self.together = Together[int]()
        self.sent = 0
        self.go = threading.Semaphore(0)
        self._numbers = itertools.count(1)

    def send(self) -> int:
        self.sent += 1
        number = next(self._numbers)
        assert self.go.acquire(timeout=5)
        return number

    def ask(self) -> int:
        return self.together.ask("key", self.send)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ASKERS + 1)


def asked_while_one_is_under_way(slow: Slow, pool: ThreadPoolExecutor) -> tuple[Future[int], list[Future[int]]]:
    first = pool.submit(slow.ask)
    assert wait_until(lambda: slow.sent == 1)
    begun = threading.Semaphore(0)

    def ask() -> int:
        begun.release()
        return slow.ask()

    others = [pool.submit(ask) for _ in range(ASKERS)]
    for _ in others:
        assert begun.acquire(timeout=5)
    return first, others


def test_who_comes_while_a_request_is_under_way_shares_the_next(slow: Slow, pool: ThreadPoolExecutor) -> None:
    first, others = asked_while_one_is_under_way(slow, pool)
    assert slow.sent == 1
    slow.go.release(ASKERS + 1)
    assert first.result(5) == 1
    answers = [each.result(5) for each in others]
    assert min(answers) >= 2, "the answer of the first is older than their questions"
    assert slow.sent < ASKERS / 2
    pool.shutdown()


def test_an_error_is_told_to_all_who_shared_it_and_to_nobody_after() -> None:
    together = Together[int]()

    def refuse() -> int:
        raise SourceUnavailable("down")

    with pytest.raises(SourceUnavailable, match="down"):
        together.ask("key", refuse)
    assert together.ask("key", lambda: 7) == 7


def test_one_that_breaks_off_leaves_nobody_waiting(slow: Slow, pool: ThreadPoolExecutor) -> None:
    def break_off() -> int:
        assert slow.go.acquire(timeout=5)
        raise KeyError

    first, others = asked_while_one_is_under_way(slow, pool)
    slow.go.release()
    assert first.result(5) == 1
    slow.go.release(ASKERS)
    assert all(each.result(5) >= 2 for each in others)
    slow.go.release()
    with pytest.raises(KeyError):
        slow.together.ask("key", break_off)
    slow.go.release()
    assert slow.ask() > 2
    pool.shutdown()


def test_other_questions_are_not_waited_for(slow: Slow, pool: ThreadPoolExecutor) -> None:
    first = pool.submit(slow.ask)
    assert wait_until(lambda: slow.sent == 1)
    assert slow.together.ask("another key", lambda: 9) == 9
    slow.go.release()
    assert first.result(5) == 1
    pool.shutdown()
