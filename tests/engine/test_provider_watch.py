"""A watched provider: its owner hears how each call ended, and no call outlives the closing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Queue

import numpy as np
import pytest

from memtui.embedding.provider import Vectors
from memtui.engine.providers.slot import WatchedProvider
from memtui.engine.providers.timer import Timer
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from tests.support.embedding import HashedProvider
from tests.support.services import HandClock

WAIT = 10.0


class Odd(HashedProvider):
    """Answers documents as it is told."""

    def __init__(self, answer: Callable[[int], Vectors]) -> None:
        super().__init__(dimensions=8)
        self.give = answer

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        if cancelled is not None and cancelled():
            raise Cancelled
        return self.give(len(texts))


def rows(count: int, dimensions: int = 8) -> Vectors:
    return np.ones((count, dimensions), dtype=np.float32)


def never() -> bool:
    return False


def test_answers_and_failures_are_reported() -> None:
    heard: list[ProviderError | None] = []
    inner = HashedProvider(fail_next=1)
    provider = WatchedProvider(inner, heard.append, never, 64)
    with pytest.raises(ProviderError, match="told to fail"):
        provider.embed_query("one")
    provider.embed_query("two")
    provider.embed_documents(["three"])
    assert [error is None for error in heard] == [False, True, True]
    assert (provider.name, provider.model, provider.dimensions) == (inner.name, inner.model, 64)
    assert provider.usage() == inner.usage()


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (lambda count: rows(count - 1), Failure.BAD_ANSWER),
        (lambda count: rows(count + 1), Failure.BAD_ANSWER),
        (lambda count: rows(0), Failure.BAD_ANSWER),
        (lambda count: rows(count, 7), Failure.DIMENSIONS_DIFFER),
        (lambda count: rows(count)[0], Failure.BAD_ANSWER),
    ],
)
def test_an_answer_of_another_shape_is_a_failure(
    answer: Callable[[int], Vectors], failure: Failure
) -> None:
    heard: list[ProviderError | None] = []
    provider = WatchedProvider(Odd(answer), heard.append, never, 8)
    with pytest.raises(ProviderError) as raised:
        provider.embed_documents(["one", "two", "three"])
    assert raised.value.failure == failure
    assert heard == [raised.value]


def test_a_stop_is_no_failure_and_reaches_the_provider() -> None:
    heard: list[ProviderError | None] = []
    closing = threading.Event()
    provider = WatchedProvider(Odd(rows), heard.append, closing.is_set, 8)
    with pytest.raises(Cancelled):
        provider.embed_documents(["one"], cancelled=lambda: True)
    closing.set()
    with pytest.raises(Cancelled):
        provider.embed_documents(["one"])
    assert heard == []


class TestAlarm:
    def test_it_rings_when_it_is_time_and_only_once(self) -> None:
        rung: Queue[None] = Queue()
        clock = HandClock()
        alarm = Timer(lambda: rung.put(None), name="test", clock=clock)
        assert alarm.left() is None
        alarm.set(30)
        clock.now += 29
        alarm.look()
        assert alarm.left() == 1
        assert rung.empty()
        clock.now += 2
        alarm.look()
        rung.get(timeout=WAIT)
        assert alarm.left() is None
        alarm.close()
        assert rung.empty()

    def test_the_last_time_counts(self) -> None:
        rung: Queue[None] = Queue()
        alarm = Timer(lambda: rung.put(None), name="test", clock=HandClock())
        alarm.set(30)
        alarm.set(0)
        rung.get(timeout=WAIT)
        alarm.set(30)
        alarm.cancel()
        assert alarm.left() is None
        alarm.close()
        assert rung.empty()

    def test_it_may_be_set_from_its_own_action(self) -> None:
        rung: Queue[int] = Queue()

        rings = iter(range(3))

        def ring() -> None:
            number = next(rings)
            rung.put(number)
            if number < 2:
                alarm.set(0)

        alarm = Timer(ring, name="test", clock=HandClock())
        alarm.set(0)
        assert [rung.get(timeout=WAIT) for _ in range(3)] == [0, 1, 2]
        alarm.close()

    def test_after_closing_it_never_rings(self) -> None:
        rung: Queue[None] = Queue()
        alarm = Timer(lambda: rung.put(None), name="test-closed", clock=HandClock())
        alarm.close()
        alarm.set(0)
        assert "test-closed" not in {thread.name for thread in threading.enumerate()}
        assert rung.empty()
