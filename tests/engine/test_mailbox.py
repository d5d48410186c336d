"""The engine thread: latest wins, calls are kept, closing is prompt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from memtui.engine.mailbox import EngineThread, SearchRequest
from memtui.model import Ranking

RANKING = Ranking()


class Recorder:
    """Searches that wait for a signal, so that a test decides what overlaps."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.finished: list[str] = []
        self.release = threading.Event()
        self.entered = threading.Event()
        self.interrupts = 0
        self.thread = EngineThread(self.search, self.interrupt)
        self.thread.start()

    def search(self, request: SearchRequest, cancelled: Callable[[], bool]) -> None:
        self.started.append(request.text)
        self.entered.set()
        self.release.wait(10)
        if not cancelled():
            self.finished.append(request.text)

    def interrupt(self) -> None:
        self.interrupts += 1


def test_only_the_latest_of_many_searches_runs() -> None:
    recorder = Recorder()
    recorder.thread.submit("r", RANKING, typing=True)
    assert recorder.entered.wait(10)
    numbers = [recorder.thread.submit("ro" + "u" * n, RANKING, typing=True) for n in range(20)]
    recorder.release.set()
    assert recorder.thread.wait_idle(10)
    assert recorder.started == ["r", "ro" + "u" * 19]
    assert recorder.finished == ["ro" + "u" * 19]
    assert recorder.interrupts == 20
    assert numbers == sorted(numbers)
    recorder.thread.close()


def test_calls_run_even_while_searches_are_superseded() -> None:
    recorder = Recorder()
    recorder.thread.submit("a", RANKING, typing=True)
    assert recorder.entered.wait(10)
    future = recorder.thread.call(lambda: threading.current_thread().name)
    recorder.thread.submit("b", RANKING, typing=True)
    recorder.release.set()
    assert future.result(10) == "memtui-engine"
    recorder.thread.close()


def test_a_failing_call_gives_its_error_to_the_caller_and_the_thread_lives() -> None:
    recorder = Recorder()

    def fail() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        recorder.thread.call(fail).result(10)
    assert recorder.thread.call(lambda: 1).result(10) == 1
    recorder.thread.close()


def test_closing_stops_a_running_search_and_cancels_what_waits() -> None:
    recorder = Recorder()
    recorder.thread.submit("a", RANKING, typing=True)
    assert recorder.entered.wait(10)
    waiting = recorder.thread.call(lambda: 1)
    recorder.release.set()
    recorder.thread.close()
    assert not recorder.thread.is_alive()
    if not waiting.done() or waiting.cancelled():
        with pytest.raises(CancelledError):
            waiting.result(0)
    assert recorder.thread.call(lambda: 1).cancelled()


def test_only_the_search_that_was_superseded_is_interrupted() -> None:
    entered = threading.Event()
    running: list[str] = []
    struck: list[str] = []

    def search(request: SearchRequest, cancelled: Callable[[], bool]) -> None:
        running.append(request.text)
        entered.set()
        while not cancelled():
            release.wait(0.001)
        running.remove(request.text)

    def interrupt() -> None:
        # Slow on purpose: meanwhile the superseded search ends of itself.
        late.wait(0.1)
        struck.extend(running)

    late, release = threading.Event(), threading.Event()
    thread = EngineThread(search, interrupt)
    thread.start()
    thread.submit("old", RANKING, typing=True)
    assert entered.wait(10)
    thread.submit("new", RANKING, typing=True)
    assert "new" not in struck
    thread.close()


def test_cancel_forgets_the_waiting_search() -> None:
    recorder = Recorder()
    recorder.thread.submit("a", RANKING, typing=True)
    assert recorder.entered.wait(10)
    recorder.thread.submit("b", RANKING, typing=True)
    recorder.thread.cancel()
    recorder.release.set()
    assert recorder.thread.wait_idle(10)
    assert recorder.started == ["a"]
    assert recorder.finished == []
    recorder.thread.close()
