"""The engine thread: latest wins, calls are kept, what has time waits, closing is prompt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from memtui.engine.search import EngineThread
from memtui.errors import Cancelled, IndexMissing

WAIT = 20


class Bench:
    """An engine thread whose searches wait for a signal, so that a test decides what overlaps."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.done: list[str] = []
        self.release, self.entered = threading.Event(), threading.Event()
        self.interrupts = 0
        self.thread = EngineThread()
        self.thread.interrupt = self._interrupt
        self._callers = ThreadPoolExecutor()

    def submit(self, text: str) -> int:
        """Submit a search that notes its text as it starts and as it is done."""

        def search(number: int, cancelled: Callable[[], bool]) -> None:
            self.started.append(text)
            self.entered.set()
            self.release.wait(WAIT)
            if not cancelled():
                self.done.append(text)

        return self.thread.submit(search)

    def _interrupt(self) -> None:
        self.interrupts += 1

    def call(self, function: Callable[[], object]) -> Future[object]:
        """Call on the thread, from another one; returns once the call is in."""
        before = len(self.thread._calls)
        future = self._callers.submit(self.thread.call, function)
        while not (future.done() or len(self.thread._calls) > before):
            self.release.wait(0.001)
        return future

    def hold(self) -> None:
        """Keep the thread busy with a search."""
        self.submit("held")
        assert self.entered.wait(WAIT)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.release.set()
    made.thread.close()


def test_only_the_latest_of_many_searches_runs(bench: Bench) -> None:
    bench.hold()
    numbers = [bench.submit("ro" + "u" * n) for n in range(20)]
    bench.release.set()
    assert bench.thread.wait_idle(WAIT)
    assert bench.started == ["held", "ro" + "u" * 19]
    assert bench.done == ["ro" + "u" * 19]
    assert bench.interrupts == 20
    assert numbers == sorted(numbers)


def test_calls_go_before_searches_and_what_has_time_comes_last(bench: Bench) -> None:
    bench.hold()
    later = bench.thread.call_later(lambda gives_way: bench.done.append("later"))
    called = bench.call(lambda: bench.done.append("called"))
    bench.submit("typed")
    bench.release.set()
    later.result(WAIT)
    called.result(WAIT)
    assert bench.done == ["called", "typed", "later"]


def test_a_failing_call_gives_its_error_to_the_caller_and_the_thread_lives(bench: Bench) -> None:
    fail = Mock(side_effect=ValueError("boom"))
    with pytest.raises(ValueError, match="boom"):
        bench.thread.call(fail)
    with pytest.raises(ValueError, match="boom"):
        bench.thread.call_later(fail).result(WAIT)
    assert bench.thread.call(lambda: bench.thread.call(lambda: 1)) == 1


def test_a_failing_search_is_reported_and_the_thread_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    bench.thread.submit(Mock(side_effect=ValueError("boom")))
    assert bench.thread.wait_idle(WAIT)
    assert [(str(one.exc_value), one.thread) for one in reported] == [("boom", bench.thread)]
    assert bench.thread.call(lambda: 1) == 1


def test_closing_stops_a_running_search_and_cancels_what_waits(bench: Bench) -> None:
    bench.hold()
    waiting, later = bench.call(lambda: 1), bench.thread.call_later(lambda gives_way: None)
    closing = threading.Thread(target=bench.thread.close)
    closing.start()
    with pytest.raises(CancelledError):
        later.result(WAIT)
    with pytest.raises(IndexMissing):
        waiting.result(WAIT)
    bench.release.set()
    closing.join(WAIT)
    assert not bench.thread.is_alive()
    with pytest.raises(IndexMissing):
        bench.thread.call(lambda: 1)


def test_only_the_search_that_was_superseded_is_interrupted() -> None:
    entered, late, release = threading.Event(), threading.Event(), threading.Event()
    running: list[int] = []
    struck: list[int] = []

    def search(number: int, cancelled: Callable[[], bool]) -> None:
        running.append(number)
        entered.set()
        while not cancelled():
            release.wait(0.001)
        running.remove(number)

    def interrupt() -> None:
        # Slow on purpose: meanwhile the superseded search ends of itself.
        late.wait(0.1)
        struck.extend(running)

    thread = EngineThread()
    thread.interrupt = interrupt
    thread.submit(search)
    assert entered.wait(WAIT)
    assert thread.submit(search) not in struck
    thread.close()


def test_what_has_time_is_stopped_by_a_search_and_run_again(bench: Bench) -> None:
    started, runs = threading.Event(), []
    seen_by_interrupted: list[bool] = []
    bench.release.set()

    def work(gives_way: Callable[[], bool]) -> str:
        bench.thread.interrupt = lambda: seen_by_interrupted.append(gives_way())
        runs.append(gives_way())
        started.set()
        if len(runs) == 1:
            while not gives_way():
                started.wait(0.001)
            raise Cancelled
        bench.done.append("later")
        return "whole"

    later = bench.thread.call_later(work)
    assert started.wait(WAIT)
    bench.submit("typed")
    assert later.result(WAIT) == "whole"
    assert bench.done == ["typed", "later"]
    assert runs == [False, False]
    assert seen_by_interrupted == [True]


def test_cancelled_work_is_not_begun(bench: Bench) -> None:
    bench.hold()
    never = bench.thread.call_later(lambda gives_way: bench.done.append("never"))
    stopped = bench.thread.call_later(Mock(side_effect=Cancelled))
    assert never.cancel()
    bench.release.set()
    with pytest.raises(Cancelled):
        stopped.result(WAIT)
    assert "never" not in bench.done


def test_closing_ends_work_that_gave_way(bench: Bench) -> None:
    started = threading.Event()

    def work(gives_way: Callable[[], bool]) -> None:
        started.set()
        while not gives_way():
            bench.release.wait(0.001)
        raise Cancelled

    later = bench.thread.call_later(work)
    assert started.wait(WAIT)
    bench.hold()
    threading.Timer(0.1, bench.release.set).start()
    bench.thread.close()
    with pytest.raises(Cancelled):
        later.result(WAIT)
