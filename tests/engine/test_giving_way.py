"""Work of the engine thread that has time: behind every search, again after it, never lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError

import pytest

from memtui.engine.mailbox import EngineThread, SearchRequest
from memtui.errors import Cancelled
from memtui.model import Ranking

RANKING = Ranking()
WAIT = 20


class Bench:
    """An engine thread that writes down what it does; `gate` holds its first call."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.interrupts = 0
        self.gate = threading.Event()
        self.thread = EngineThread(self._search, self._interrupt)

    def _search(self, request: SearchRequest, cancelled: Callable[[], bool]) -> None:
        self.done.append(request.text)

    def _interrupt(self) -> None:
        self.interrupts += 1

    def hold(self) -> None:
        """Keep the thread busy until the gate opens."""
        started = threading.Event()

        def held() -> None:
            started.set()
            assert self.gate.wait(WAIT)

        self.thread.call(held)
        assert started.wait(WAIT)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.thread.start()
    yield made
    made.gate.set()
    made.thread.close()


def test_calls_and_searches_go_before_it(bench: Bench) -> None:
    bench.hold()
    later = bench.thread.call_later(lambda gives_way: bench.done.append("later"))
    bench.thread.submit("typed", RANKING, typing=True)
    bench.thread.call(lambda: bench.done.append("called"))
    bench.gate.set()
    later.result(WAIT)
    assert bench.done == ["called", "typed", "later"]


def test_it_is_stopped_by_a_search_and_run_again(bench: Bench) -> None:
    started, runs = threading.Event(), []

    def work(gives_way: Callable[[], bool]) -> str:
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
    bench.thread.submit("typed", RANKING, typing=True)
    assert later.result(WAIT) == "whole"
    assert bench.done == ["typed", "later"]
    assert runs == [False, False]
    assert bench.interrupts == 1


def test_what_it_raises_is_raised_and_cancelled_work_is_not_begun(bench: Bench) -> None:
    def fail(gives_way: Callable[[], bool]) -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        bench.thread.call_later(fail).result(WAIT)

    def stop(gives_way: Callable[[], bool]) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        bench.thread.call_later(stop).result(WAIT)
    bench.hold()
    never = bench.thread.call_later(lambda gives_way: bench.done.append("never"))
    assert never.cancel()
    bench.gate.set()
    assert bench.thread.wait_idle(WAIT)
    assert bench.done == []


def test_closing_cancels_what_waits(bench: Bench) -> None:
    bench.hold()
    waits = bench.thread.call_later(lambda gives_way: None)
    threading.Thread(target=bench.thread.close).start()
    with pytest.raises(CancelledError):
        waits.result(WAIT)
    bench.gate.set()
    assert bench.thread.call_later(lambda gives_way: None).cancelled()
