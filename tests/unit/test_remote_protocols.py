"""How services are asked, how much at a time, at which pace, and what their answers mean."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.embedding.http import (
    WINDOW,
    Pacer,
    Reply,
    RequestContext,
    ServiceError,
    broken,
    duration,
    json_in,
    no_answer,
    pause_asked,
    refusal,
)
from memtui.embedding.provider import (
    DEFAULT_LIMIT,
    LOCAL_LIMIT,
    Role,
    batches,
    byte_size,
    split_input,
)
from memtui.embedding.services import SERVICES, WrongAnswer
from memtui.model import Failure
from tests.support.dice import examples
from tests.support.embedding_services import (
    NO_MODEL,
    OVERSIZE,
    Clock,
    choice_at,
    embedding_server,
    impatient,
    remote_provider,
    right,
    rows_of,
    status,
    texts_in,
)
from tests.support.known import cases, load, text_of, utf16_length

TEXTS = ["the router is in the hall", "the gate code changed"]
KNOWN: dict[str, Any] = load("services")
OPENAI, OLLAMA, GEMINI = SERVICES["openai"], SERVICES["ollama"], SERVICES["gemini"]
ADDRESS = OPENAI.address()
LEAKED = "sk-SECRET-3f0a"
ASKED = RequestContext(ADDRESS, "the key of OPENAI_API_KEY", "set OPENAI_API_KEY", "ollama pull x")


@pytest.mark.parametrize("name", KNOWN["requests"])
@pytest.mark.parametrize("role", Role)
def test_requests(name: str, role: Role) -> None:
    known, service, texts = KNOWN["requests"][name], SERVICES[name], TEXTS
    if role is Role.QUERY:
        texts = TEXTS[:1]
    for dimensions in (256, None):
        model = service.wire_model(known["model"], ADDRESS)
        request = service.request(ADDRESS, model, texts, role, dimensions)
        body = json.loads(request.body)
        assert request.url == f"{ADDRESS.url}{known['path']}"
        given = {"model": known["model"].rpartition("/")[2], **known["both"], **known[role]}
        if dimensions is None:
            given = {name: value for name, value in given.items() if "dimension" not in name}
        assert body == {**given, "input": texts}


@pytest.mark.parametrize(("words", "answer"), cases("services", "wrong_answers"))
def test_wrong_answers(words: str, answer: Any) -> None:
    with pytest.raises(WrongAnswer, match=words) as caught:
        OPENAI.vectors_in(answer, 2)
    assert caught.value.failure is Failure.BAD_ANSWER


def test_answers() -> None:
    data = [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]
    usage = {"prompt_tokens": 5, "total_tokens": 7}
    two = {"embeddings": [{"values": [0, 0]}, {"values": [1, 2]}]}
    for service, answer, count, rows, tokens in (
        (OPENAI, {"data": data, "usage": usage}, 2, [[1, 2], [3, 4]], 7),
        (OPENAI, {"data": data[:1], "usage": {"prompt_tokens": 5}}, 1, [[3, 4]], 5),
        (OLLAMA, {"embeddings": [[1, 2]], "prompt_eval_count": 3}, 1, [[1, 2]], 3),
        (GEMINI, two, 2, [[0, 0], [1, 2]], None),
        (GEMINI, {"embedding": {"values": [1, 2]}}, 1, [[1, 2]], None),
    ):
        answered = service.vectors_in(answer, count)
        assert (answered.vectors.tolist(), answered.tokens) == (rows, tokens)
    with pytest.raises(WrongAnswer, match="vectors of 1 and 2 dimensions") as caught:
        OLLAMA.vectors_in({"embeddings": [[1, 2], [1]]}, 2)
    assert caught.value.failure is Failure.DIMENSIONS_DIFFER


FAILURES = [
    *(("too_large", 400, body) for body in OVERSIZE.values()),
    *(("no_model", 400, body) for body in NO_MODEL.values()),
    *(("too_large", status, body) for status, body in KNOWN["too_large"]),
    *map(tuple, KNOWN["failures"]),
]


@pytest.mark.parametrize(("failure", "code", "body"), FAILURES, ids=str)
def test_what_an_answer_means(failure: str, code: int, body: Any) -> None:
    reply = Reply(code, {}, json.dumps(body).encode())
    error = refusal(reply, ASKED)
    assert error.failure == failure
    assert error.message.startswith(f"HTTP {code} from api.openai.com: ")
    assert "SECRET" not in str(error) + repr(error) + repr(reply)


@pytest.mark.parametrize(("code", "body", "message", "hint"), cases("services", "messages"))
def test_messages(code: int, body: Any, message: str, hint: str) -> None:
    error = refusal(Reply(code, {"retry-after": "30"}, json.dumps(body).encode()), ASKED)
    assert error.message == f"HTTP {code} from api.openai.com: {message}"
    assert error.hint.startswith(hint)


def test_what_passes_and_what_does_not() -> None:
    limited = refusal(Reply(429, {"retry-after": "30"}), ASKED)
    assert (limited.is_passing, limited.retry_after) == (True, 30.0)
    spent = refusal(Reply(429, {}, b'{"error": {"code": "insufficient_quota"}}'), ASKED)
    assert (spent.is_passing, spent.failure) == (False, Failure.RATE_LIMITED)
    assert not refusal(Reply(401), ASKED).is_passing
    with pytest.raises(ServiceError, match="a web page") as caught:
        json_in(Reply(200, {}, b" <html>"), ASKED)
    assert caught.value.is_passing


KNOWN_RETRIES = {
    case["message"]: case for case in load("embedding_limits")["retry"]["classification"]
}


@pytest.mark.parametrize("message", KNOWN["retried"])
def test_openclaw_retries_the_same(message: str) -> None:
    """A failure that OpenClaw knows reaches memtui as a status with its words, or an exception."""
    cause, case = KNOWN["retried"][message], KNOWN_RETRIES[message]
    error = no_answer(ADDRESS, 120.0)
    if isinstance(cause, int):
        error = refusal(Reply(cause, {}, message.encode()), RequestContext(ADDRESS))
    elif cause is not None:
        error = broken(getattr(httpx, cause)(""), ADDRESS)
    assert error.is_passing is case.get("retryable", error.is_passing)
    assert error.is_splittable is case.get("splittable", error.is_splittable)


BROKEN = [
    (httpx.ConnectError, socket.gaierror(-2, LEAKED), "the host {} cannot be found"),
    (httpx.ConnectError, ssl.SSLError(LEAKED), "no trusted TLS connection to {}"),
    (httpx.ConnectError, ConnectionRefusedError(LEAKED), "connection refused at {}"),
    (httpx.ConnectError, None, "no connection to {}"),
    (httpx.ProxyError, None, "the proxy does not connect to {}"),
    (httpx.ReadError, None, "{} cut the connection"),
    (httpx.RemoteProtocolError, None, "{} cut the connection"),
    (httpx.DecodingError, None, "{} answers with what cannot be decompressed"),
    (httpx.UnsupportedProtocol, None, "cannot ask {}: UnsupportedProtocol"),
]


@pytest.mark.parametrize(("kind", "cause", "words"), BROKEN, ids=str)
def test_broken_connections(kind: type[Exception], cause: Exception | None, words: str) -> None:
    error = kind(LEAKED)
    error.__cause__ = cause
    told = broken(error, ADDRESS)
    assert told.message == words.format("api.openai.com")
    assert told.hint
    failures = {"cut": Failure.CUT, "decompressed": Failure.BAD_ANSWER}
    failures["Unsupported"] = Failure.BAD_SETTING
    expected = [failure for word, failure in failures.items() if word in words]
    assert [told.failure] == (expected or [Failure.UNREACHABLE])


@pytest.mark.parametrize(("text", "seconds"), cases("services", "durations"))
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(("seconds", "status", "headers", "body"), cases("services", "pauses"))
def test_pauses_that_are_asked_for(
    seconds: float | None, status: int, headers: dict[str, str], body: str
) -> None:
    assert pause_asked(Reply(status, headers, body.encode()), lambda: 1795294800.0) == seconds


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
    pacer = Pacer(0, 100, clock=clock)
    assert [go(pacer, clock, tokens) for tokens in (60, 40, 10, 50)] == [0.0, 0.0, 60.0, 60.0]
    assert go(pacer, clock, 50) == 120.0
    # What is more than a minute's tokens goes alone, and what comes after waits for it.
    assert go(pacer, clock, 500) == 180.0
    assert go(pacer, clock, 1) == 240.0


def test_what_the_service_counts_counts() -> None:
    clock = Clock(0.0)
    pacer = Pacer(0, 100, clock=clock)
    go(pacer, clock, 50)
    pacer.settle(50, 90)
    pacer.settle(50, 10)
    assert go(pacer, clock, 10) == 0.0
    assert go(pacer, clock, 1) == 60.0


@pytest.mark.parametrize(("name", "headers"), cases("services", "limit_headers"))
def test_limits_are_learned(name: str, headers: dict[str, str]) -> None:
    clock = Clock(0.0)
    pacer = Pacer(clock=clock)
    assert [go(pacer, clock, 100) for _ in range(3)] == [0.0] * 3
    pacer.learn(headers)
    assert pacer.most_tokens == 1000
    assert go(pacer, clock, 100) == 60.0
    assert go(pacer, clock, 900) == 60.0
    assert go(pacer, clock, 1) == 120.0


def test_configured_limits_stay() -> None:
    clock = Clock(0.0)
    pacer = Pacer(1, 50, clock=clock)
    pacer.learn(KNOWN["limit_headers"][0][1])
    assert pacer.most_tokens == 50
    assert [go(pacer, clock), go(pacer, clock)] == [0.0, 60.0]


@pytest.mark.parametrize(("until", "headers"), cases("services", "exhausted"))
def test_nothing_goes_while_nothing_is_left(headers: dict[str, str], until: float) -> None:
    clock = Clock(0.0)
    pacer = Pacer(clock=clock)
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
    pacer = Pacer(requests, tokens, clock=clock)
    went: list[tuple[float, int]] = []
    for gap, size in arrivals:
        clock.now += gap
        went.append((go(pacer, clock, size), size))
    for start, _ in went:
        within = [size for at, size in went if start <= at < start + WINDOW]
        assert len(within) <= requests
        assert sum(within) <= tokens or sum(size > 0 for size in within) == 1


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

    def send(self, pacer: Pacer, seconds: float = 120.0, **how: bool) -> None:
        assert asyncio.run(pacer.send(self, seconds, tokens=1, **how)) == "done"


def pacer_of(clock: Clock, requests: int = 0, chance: float = 0.0) -> Pacer:
    return Pacer(requests, clock=clock, sleep=clock.sleep, chance=lambda: chance)


@pytest.mark.parametrize(
    ("failure", "times", "pauses"), [(DOWN, 2, [0.6, 1.2]), (BUSY, 4, [6.0, 12.0, 24.0, 48.0])]
)
def test_chance_makes_pauses_a_fifth_longer(
    failure: ServiceError, times: int, pauses: list[float]
) -> None:
    clock = Clock()
    Attempts(clock, [failure] * times).send(pacer_of(clock, chance=1.0))
    assert clock.pauses == pauses


@pytest.mark.parametrize(
    "failure", [BUSY, ServiceError("busy", Failure.RATE_LIMITED, retry_after=5.0)]
)
def test_a_query_waits_at_most_eight_seconds_in_sum(failure: ServiceError) -> None:
    attempts = Attempts(Clock(), [failure] * 9)
    with pytest.raises(ServiceError, match="busy"):
        attempts.send(pacer_of(attempts.clock), 60.0, is_awaited=True)
    assert (attempts.clock.pauses, len(attempts.timeouts)) == ([5.0], 2)


def test_waits_for_the_pace_and_between_tries_are_one_sum() -> None:
    clock = Clock(0.0)
    pacer = pacer_of(clock, requests=1)
    go(pacer, clock)
    clock.now += 54.0
    attempts = Attempts(clock, [BUSY] * 9)
    with pytest.raises(ServiceError, match="busy"):
        attempts.send(pacer, 60.0, is_awaited=True)
    assert clock.pauses == [6.0]


def test_all_tries_of_a_query_together_have_its_timeout() -> None:
    attempts = Attempts(Clock(), [DOWN, DOWN], takes=4.0)
    attempts.send(pacer_of(attempts.clock), 10.0, is_awaited=True)
    assert attempts.timeouts == [10.0, 5.5, pytest.approx(0.5)]
    attempts = Attempts(Clock(), [DOWN] * 9, takes=9.6)
    with pytest.raises(ServiceError, match="down"):
        attempts.send(pacer_of(attempts.clock), 10.0, is_awaited=True)
    assert len(attempts.timeouts) == 1


def test_a_pause_that_one_request_is_asked_for_holds_the_others() -> None:
    clock = Clock()
    pacer = pacer_of(clock)
    attempts = Attempts(clock, [ServiceError("", Failure.RATE_LIMITED, retry_after=9.0)])
    begun = clock.now
    attempts.send(pacer)
    clock.now = begun
    assert pacer.take(1) == pytest.approx(9.0)


RETRY: dict[str, Any] = load("embedding_limits")["retry"]
TWO_LINES = "\n".join(["😀" * 2100] * 2)


@pytest.mark.parametrize("case", cases("embedding_limits", "split"))
def test_known_parts(case: dict[str, Any]) -> None:
    provider = case["provider"]
    usual = LOCAL_LIMIT if provider["id"] == "local" else DEFAULT_LIMIT
    limit = min(provider.get("maxInputTokens") or usual, case["hard_cap"] or usual)
    text = TWO_LINES if case["name"] == "emoji two lines" else text_of(case["text_recipe"])
    assert case["text_recipe"].endswith(f" {utf16_length(text)}")
    parts = split_input(text, limit)
    assert [byte_size(part) for part in parts] == case["parts_utf8_bytes"]
    assert ("".join(parts) == text) is case["joined_equals_input"]
    # Every part keeps the lines of the chunk it is cut from, so there is one pair for each.
    assert case["lines"] == [[1, 1]] * len(parts)


@pytest.mark.parametrize("case", cases("embedding_limits", "batches"))
def test_known_batches(case: dict[str, Any]) -> None:
    texts = case["texts"] if "texts" in case else ["x" * size for size in case["byte_sizes"]]
    found = list(batches(texts, byte_size, case["max"]))
    assert [len(batch) for batch in found] == case["batch_lengths"]
    assert [text for batch in found for text in batch] == texts


@pytest.mark.parametrize(
    ("texts", "sizes"), [("abcd", RETRY["split_sizes_on_431"]), ("abc", [3, 2, 1, 1, 1])]
)
def test_known_halves(texts: str, sizes: list[int]) -> None:
    """Of an odd number the first half is the larger one."""
    faults = [status(431) if size > 1 else right for size in sizes]
    with embedding_server(*faults) as server, remote_provider(choice_at("openai", server)) as it:
        np.testing.assert_array_equal(it.embed_documents(list(texts)), rows_of(texts))
        assert [len(texts_in(seen)) for seen in server.seen] == sizes


@given(st.text(st.sampled_from("aé中😀")), st.integers(1, 12))
def test_parts_are_as_long_as_they_can_be(text: str, limit: int) -> None:
    parts = split_input(text, limit)
    assert "".join(parts) == text
    assert all(byte_size(part) <= limit or len(part) == 1 for part in parts)
    for part, following in pairwise(parts):
        assert byte_size(part) + byte_size(following[0]) > limit
