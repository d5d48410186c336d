"""The pace at which a service is asked: never above its limits, configured or learned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.embedding.http import LONGEST_WAIT, WINDOW, Pacer, Patience, Sender, ServiceError
from memtui.model import Failure
from tests.support.embedding_services import embedding_server, rows_of, status, texts_in
from tests.support.examples import examples
from tests.support.remote_embedding import Clock, choice_at, impatient, remote_provider


def go(pacer: Pacer, clock: Clock, tokens: int = 1) -> float:
    """Wait until a request may go; gives the time at which it went."""
    for _ in range(1000):
        wait = pacer.take(tokens)
        if not wait:
            return clock.now
        clock.now += wait
    raise AssertionError("it never goes")


def test_tokens_a_minute() -> None:
    clock = Clock(0.0)
    pacer = Pacer(0, 100, clock=clock.time)
    assert [go(pacer, clock, tokens) for tokens in (60, 40, 10, 50)] == [0.0, 0.0, 60.0, 60.0]
    assert go(pacer, clock, 50) == 120.0
    # What is more than a minute's tokens goes alone, and what comes after waits for it.
    assert go(pacer, clock, 500) == 180.0
    assert go(pacer, clock, 1) == 240.0


def test_what_the_service_counts_counts() -> None:
    clock = Clock(0.0)
    pacer = Pacer(0, 100, clock=clock.time)
    go(pacer, clock, 50)
    pacer.settle(50, 90)
    pacer.settle(50, 10)
    assert go(pacer, clock, 10) == 0.0
    assert go(pacer, clock, 1) == 60.0


OPENAI_HEADERS = {
    "x-ratelimit-limit-requests": "3",
    "x-ratelimit-limit-tokens": "1000",
    "x-ratelimit-remaining-requests": "2",
    "x-ratelimit-remaining-tokens": "900",
    "x-ratelimit-reset-requests": "20s",
    "x-ratelimit-reset-tokens": "6ms",
}
MISTRAL_HEADERS = {
    "x-ratelimit-limit-req-minute": "3",
    "x-ratelimit-limit-tokens-minute": "1000",
    "x-ratelimit-remaining-req-minute": "2",
    "x-ratelimit-remaining-tokens-minute": "900",
}


@pytest.mark.parametrize("headers", [OPENAI_HEADERS, MISTRAL_HEADERS], ids=["openai", "mistral"])
def test_limits_are_learned(headers: dict[str, str]) -> None:
    clock = Clock(0.0)
    pacer = Pacer(clock=clock.time)
    assert [go(pacer, clock, 100) for _ in range(3)] == [0.0] * 3
    pacer.learn(headers)
    assert pacer.most_tokens == 1000
    assert go(pacer, clock, 100) == 60.0
    assert go(pacer, clock, 900) == 60.0
    assert go(pacer, clock, 1) == 120.0


def test_configured_limits_stay() -> None:
    clock = Clock(0.0)
    pacer = Pacer(1, 50, clock=clock.time)
    pacer.learn(OPENAI_HEADERS)
    assert pacer.most_tokens == 50
    assert [go(pacer, clock), go(pacer, clock)] == [0.0, 60.0]


@pytest.mark.parametrize(
    ("headers", "until"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m3s"}, 60.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2.5s"}, 2.5),
        ({"x-ratelimit-remaining-tokens": "0"}, 0.0),
        ({"x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "9s"}, 0.0),
        ({"x-ratelimit-limit-tokens": "-4", "x-ratelimit-limit-requests": "many"}, 0.0),
    ],
    ids=str,
)
def test_nothing_goes_while_nothing_is_left(headers: dict[str, str], until: float) -> None:
    clock = Clock(0.0)
    pacer = Pacer(clock=clock.time)
    pacer.learn(headers)
    assert go(pacer, clock, 10) == until


@settings(max_examples=examples(60))
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0, 70), st.integers(0, 50)), max_size=12),
)
def test_no_minute_holds_more_than_the_limits(
    requests: int, tokens: int, arrivals: list[tuple[float, int]]
) -> None:
    clock = Clock(0.0)
    pacer = Pacer(requests, tokens, clock=clock.time)
    went: list[tuple[float, int]] = []
    for gap, size in arrivals:
        clock.now += gap
        went.append((go(pacer, clock, size), size))
    for start, _ in went:
        within = [size for at, size in went if start <= at < start + WINDOW]
        assert len(within) <= requests
        assert sum(within) <= tokens or sum(size > 0 for size in within) == 1


def test_a_provider_keeps_to_the_limits() -> None:
    texts = [f"note {number} " + 7000 * "x" for number in range(5)]
    clock = Clock()
    with embedding_server() as server:
        choice = impatient(choice_at("openai", server), 5.0, concurrency=1, requests_per_minute=2)
        with remote_provider(choice, clock=clock) as provider:
            assert (provider.embed_documents(texts) == rows_of(texts)).all()
        assert len(server.seen) == 5
    assert clock.pauses == [60.0, 60.0]


def test_a_query_does_not_wait_a_minute_for_its_turn() -> None:
    clock = Clock()
    with embedding_server() as server:
        choice = impatient(choice_at("openai", server), 60.0, requests_per_minute=1)
        with remote_provider(choice, clock=clock) as provider:
            provider.embed_query("one")
            with pytest.raises(Exception, match="limit of requests or tokens a minute"):
                provider.embed_query("two")
            clock.now += 53.0
            provider.embed_query("three")
        assert len(server.seen) == 2
    assert clock.pauses == [pytest.approx(7.0)]


def test_requests_shrink_to_the_tokens_of_a_minute() -> None:
    """A request that alone holds more than a minute's tokens would be refused for ever."""
    learned = {"x_ratelimit_limit_tokens": "1000"}
    texts = [f"{number} " + "x" * 297 for number in range(10, 19)]
    with embedding_server(status(200, {"data": [{"embedding": [1.0] * 16}]}, **learned)) as server:
        with remote_provider(impatient(choice_at("openai", server), 5.0)) as provider:
            provider.embed_query("one")
            provider.embed_documents(texts)
        assert [len(texts_in(seen)) for seen in server.seen] == [1, 3, 3, 3]


BUSY = ServiceError("busy", Failure.RATE_LIMITED)
DOWN = ServiceError("down", Failure.SERVICE_DOWN)
PATIENT = Patience(120.0)


def hurried(seconds: float) -> Patience:
    """As for a query that somebody waits for."""
    return Patience(seconds, seconds, LONGEST_WAIT)


@dataclass
class Attempts:
    """Fails in turn with `failures`, then succeeds; `timeouts` are what it was allowed."""

    clock: Clock
    failures: list[Exception]
    takes: float = 0.0
    timeouts: list[float] = field(default_factory=list)

    async def __call__(self, timeout: float) -> str:
        self.timeouts.append(timeout)
        self.clock.now += min(timeout, self.takes)
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    def send(self, patience: Patience, chance: float = 0.0, pacer: Pacer | None = None) -> None:
        clock = self.clock
        pacer = pacer or Pacer(clock=clock.time)
        sender = Sender(pacer, sleep=clock.sleep, chance=lambda: chance, clock=clock.time)
        assert asyncio.run(sender.send(self, tokens=1, patience=patience)) == "done"


@pytest.mark.parametrize(
    ("failure", "times", "pauses"),
    [(DOWN, 2, [0.6, 1.2]), (BUSY, 4, [6.0, 12.0, 24.0, 48.0])],
)
def test_chance_makes_pauses_a_fifth_longer(
    failure: ServiceError, times: int, pauses: list[float]
) -> None:
    clock = Clock()
    Attempts(clock, [failure] * times).send(PATIENT, chance=1.0)
    assert clock.pauses == pauses


@pytest.mark.parametrize(
    "failure", [BUSY, ServiceError("busy", Failure.RATE_LIMITED, retry_after=5.0)]
)
def test_a_query_waits_at_most_eight_seconds_in_sum(failure: ServiceError) -> None:
    attempts = Attempts(Clock(), [failure] * 9)
    with pytest.raises(ServiceError, match="busy"):
        attempts.send(hurried(60.0))
    assert (attempts.clock.pauses, len(attempts.timeouts)) == ([5.0], 2)


def test_all_tries_of_a_query_together_have_its_timeout() -> None:
    attempts = Attempts(Clock(), [DOWN, DOWN], takes=4.0)
    attempts.send(hurried(10.0))
    assert attempts.timeouts == [10.0, 5.5, pytest.approx(0.5)]
    attempts = Attempts(Clock(), [DOWN] * 9, takes=9.6)
    with pytest.raises(ServiceError, match="down"):
        attempts.send(hurried(10.0))
    assert len(attempts.timeouts) == 1


def test_a_pause_that_one_request_is_asked_for_holds_the_others() -> None:
    clock = Clock()
    pacer = Pacer(clock=clock.time)
    attempts = Attempts(clock, [ServiceError("", Failure.RATE_LIMITED, retry_after=9.0)])
    begun = clock.now
    attempts.send(PATIENT, pacer=pacer)
    clock.now = begun
    assert pacer.take(1) == pytest.approx(9.0)
