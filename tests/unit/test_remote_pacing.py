"""The pace at which a service is asked: never above its limits, configured or learned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.embedding.remote.http import Reply, ServiceError, duration, pause_asked
from memtui.embedding.remote.pacing import WINDOW, Pacer, Patience, Sender, hurried, patient
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from tests.support.embedding_services import embedding_server, rows_of, status
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


def test_requests_a_minute() -> None:
    clock = Clock(0.0)
    pacer = Pacer(3, clock=clock.time)
    went = []
    for _ in range(7):
        went.append(go(pacer, clock))
        clock.now += 1.0
    assert went == [0.0, 1.0, 2.0, 60.0, 61.0, 62.0, 120.0]


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


def test_a_pause_that_is_asked_for_is_for_all() -> None:
    clock = Clock(0.0)
    pacer = Pacer(clock=clock.time)
    pacer.hold(7.0)
    pacer.hold(3.0)
    assert go(pacer, clock) == 7.0


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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("34.074824224s", 34.074824224),
        ("12", 12.0),
        (" 1.5 ", 1.5),
        ("", None),
        ("soon", None),
        ("1s later", None),
        ("nan", None),
        ("-3", 0.0),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


GEMINI_429 = b"""{"error": {"code": 429, "message": "You exceeded your current quota",
 "status": "RESOURCE_EXHAUSTED", "details": [
  {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{}]},
  {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}]}}"""


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(429), None),
        (Reply(429, {"retry-after": "7"}), 7.0),
        (Reply(429, {"retry-after": "0.5"}), 0.5),
        (Reply(429, {"retry-after": "-2"}), 0.0),
        (Reply(429, {"retry-after": "inf"}), None),
        (Reply(429, {"retry-after": "soon"}), None),
        (Reply(503, {"retry-after": "Sat, 21 Nov 2026 21:00:10 GMT"}), 10.0),
        (Reply(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), 0.0),
        (Reply(429, {"retry-after-ms": "250", "retry-after": "1"}), 0.25),
        (Reply(429, {}, GEMINI_429), 34.07),
        (Reply(503, {}, GEMINI_429), None),
        (Reply(429, {}, b'{"error": {"details": [{"retryDelay": 3}, 4]}}'), None),
        (Reply(429, {}, b'{"error": "retryDelay'), None),
        (Reply(429, {}, b'["retryDelay"]'), None),
    ],
    ids=str,
)
def test_pauses_that_are_asked_for(reply: Reply, seconds: float | None) -> None:
    assert pause_asked(reply, lambda: 1795294800.0) == seconds


def test_a_provider_keeps_to_the_limits() -> None:
    texts = [f"note {number} " + 7000 * "x" for number in range(5)]
    clock = Clock()
    with embedding_server() as server:
        choice = impatient(choice_at("openai", server), 5.0, concurrency=1, requests_per_minute=2)
        with remote_provider(choice, clock=clock) as provider:
            assert (provider.embed_documents(texts) == rows_of(texts)).all()
        assert len(server.seen) == 5
    assert clock.pauses == [60.0, 60.0]


def test_tokens_count_as_the_service_counts_them() -> None:
    """The server counts a letter as a token, four times what is expected of it."""
    clock = Clock()
    with embedding_server() as server:
        choice = impatient(choice_at("openai", server), 5.0, tokens_per_minute=100)
        with remote_provider(choice, clock=clock) as provider:
            provider.embed_documents(["x" * 90])
            provider.embed_documents(["y" * 90])
    assert clock.pauses == [60.0]


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
    texts = ["x" * 300 for _ in range(12)]
    with embedding_server(status(200, {"data": [{"embedding": [1.0]}]}, **learned)) as server:
        choice = impatient(choice_at("openai", server), 5.0)
        with remote_provider(choice) as provider:
            provider.embed_query("one")
            server.faults = []
            provider.embed_documents(texts[:0])
            assert [len(batch) for batch in provider._batches(texts)] == [3, 3, 3, 3]


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
