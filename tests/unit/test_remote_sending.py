"""Tries and pauses: how often, how long, and when it is enough."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memtui.embedding.remote.http import ServiceError
from memtui.embedding.remote.pacing import Pacer, Patience, Sender, hurried, patient
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from tests.support.remote_embedding import Clock

BUSY = ServiceError("busy", Failure.RATE_LIMITED)
DOWN = ServiceError("down", Failure.SERVICE_DOWN)


class Attempts:
    """Fails in turn with `failures`, then gives what it was allowed in seconds."""

    def __init__(self, clock: Clock, failures: list[Exception], takes: float = 0.0) -> None:
        self.clock = clock
        self.failures = failures
        self.takes = takes
        self.timeouts: list[float] = []

    def __call__(self, timeout: float) -> str:
        self.timeouts.append(timeout)
        self.clock.now += min(timeout, self.takes)
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def sender(clock: Clock, chance: float = 0.0) -> Sender:
    pacer = Pacer(clock=clock.time)
    return Sender(pacer, pause=clock.pause, chance=lambda: chance, clock=clock.time)


def send(
    clock: Clock,
    failures: list[Exception],
    patience: Patience,
    *,
    chance: float = 0.0,
    takes: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Attempts:
    attempts = Attempts(clock, failures, takes)
    result = sender(clock, chance).send(attempts, tokens=1, patience=patience, stopped=stopped)
    assert result == "done"
    return attempts


def test_chance_makes_pauses_a_fifth_longer() -> None:
    clock = Clock()
    send(clock, [DOWN, DOWN], patient(120.0), chance=1.0)
    assert clock.pauses == [0.6, 1.2]
    clock = Clock()
    send(clock, [BUSY] * 4, patient(120.0), chance=1.0)
    assert clock.pauses == [6.0, 12.0, 24.0, 48.0]


@pytest.mark.parametrize(
    ("failures", "tries"),
    [
        ([DOWN] * 9, 3),
        ([BUSY] * 9, 5),
        ([ServiceError("", Failure.RATE_LIMITED, retry_after=61.0)], 1),
        ([ServiceError("", Failure.RATE_LIMITED, is_final=True)], 1),
        ([ServiceError("", Failure.KEY_REFUSED)], 1),
        ([ServiceError("", Failure.TOO_LARGE)], 1),
        ([ProviderError("", failure=Failure.NO_KEY)], 1),
        ([ProviderError("", failure=Failure.CLOSED)], 1),
        ([Cancelled()], 1),
    ],
    ids=str,
)
def test_when_it_is_enough(failures: list[Exception], tries: int) -> None:
    clock = Clock()
    attempts, last = Attempts(clock, list(failures)), failures[-1]
    with pytest.raises(type(last)) as caught:
        sender(clock).send(attempts, tokens=1, patience=patient(9.0), stopped=lambda: False)
    assert caught.value is last
    assert len(attempts.timeouts) == tries


def test_a_query_waits_at_most_eight_seconds_in_sum() -> None:
    clock = Clock()
    attempts = Attempts(clock, [BUSY] * 9)
    with pytest.raises(ServiceError, match="busy"):
        sender(clock).send(attempts, tokens=1, patience=hurried(60.0), stopped=lambda: False)
    assert clock.pauses == [5.0]
    assert len(attempts.timeouts) == 2


def test_all_tries_of_a_query_together_have_its_timeout() -> None:
    clock = Clock()
    attempts = send(clock, [DOWN, DOWN], hurried(10.0), takes=4.0)
    assert attempts.timeouts == [10.0, 5.5, pytest.approx(0.5)]
    clock = Clock()
    attempts = Attempts(clock, [DOWN] * 9, takes=9.6)
    with pytest.raises(ServiceError, match="down"):
        sender(clock).send(attempts, tokens=1, patience=hurried(10.0), stopped=lambda: False)
    assert len(attempts.timeouts) == 1


def test_a_pause_that_one_request_is_asked_for_holds_the_others() -> None:
    clock = Clock()
    limited = sender(clock)
    attempts = Attempts(clock, [ServiceError("", Failure.RATE_LIMITED, retry_after=9.0)])

    def pause(seconds: float, stopped: Callable[[], bool]) -> None:
        raise Cancelled

    limited._pause = pause
    with pytest.raises(Cancelled):
        limited.send(attempts, tokens=1, patience=patient(9.0), stopped=lambda: False)
    assert limited.pacer.take(1) == pytest.approx(9.0)
