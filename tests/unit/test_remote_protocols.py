"""How services are asked, what is read out of their answers, and what their refusals mean."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import httpx
import pytest

from memtui.embedding.http import (
    Reply,
    RequestContext,
    ServiceError,
    broken,
    duration,
    failure_in,
    json_in,
    no_answer,
    pause_asked,
    refusal,
)
from memtui.embedding.payloads import WrongAnswer, embed_request, vectors_in
from memtui.embedding.provider import Role
from memtui.embedding.services import SERVICES, address_of
from memtui.model import Failure
from tests.support.embedding_services import NO_MODEL, OVERSIZE
from tests.support.known import cases, load

TEXTS = ["the router is in the hall", "the gate code changed"]
KNOWN: dict[str, Any] = load("services")
OPENAI, OLLAMA, GEMINI = SERVICES["openai"], SERVICES["ollama"], SERVICES["gemini"]
ADDRESS = address_of(OPENAI)
LEAKED = "sk-SECRET-3f0a"
ASKED = RequestContext(ADDRESS, "the key of OPENAI_API_KEY", "set OPENAI_API_KEY", "ollama pull x")


@pytest.mark.parametrize("name", KNOWN["requests"])
@pytest.mark.parametrize("role", Role)
def test_requests(name: str, role: Role) -> None:
    known, service, texts = KNOWN["requests"][name], SERVICES[name], TEXTS
    if role is Role.QUERY:
        texts = TEXTS[:1]
    for dimensions in (256, None):
        request = embed_request(
            service, ADDRESS, known["model"], texts, role, key="k", dimensions=dimensions
        )
        body = json.loads(request.body)
        assert request.url == f"{ADDRESS.url}{known['path']}"
        given = {"model": known["model"].rpartition("/")[2], **known["both"], **known[role]}
        if dimensions is None:
            given = {name: value for name, value in given.items() if "dimension" not in name}
        assert body == {**given, "input": texts}


@pytest.mark.parametrize(("words", "answer"), cases("services", "wrong_answers"))
def test_wrong_answers(words: str, answer: Any) -> None:
    with pytest.raises(WrongAnswer, match=words) as caught:
        vectors_in(OPENAI, answer, 2)
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
        answered = vectors_in(service, answer, count)
        assert (answered.vectors.tolist(), answered.tokens) == (rows, tokens)
    with pytest.raises(WrongAnswer, match="vectors of 1 and 2 dimensions") as caught:
        vectors_in(OLLAMA, {"embeddings": [[1, 2], [1]]}, 2)
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
    assert failure_in(reply) == error.failure == failure
    assert error.message.startswith(f"HTTP {code} from api.openai.com: ")
    assert "SECRET" not in str(error) + repr(error) + repr(reply)


QUOTA = {"error": {"code": "insufficient_quota"}}
MESSAGES = [
    (401, {}, "the key of OPENAI_API_KEY is not accepted", "set OPENAI_API_KEY"),
    (404, {}, "no such model or path", "ollama pull x"),
    (400, {}, "the request is not accepted", "check embedding.model and embedding.dimensions"),
    (503, {}, "the service fails, again in 30 s", None),
    (429, QUOTA, "the account's quota is used up", "see plan and billing"),
]


@pytest.mark.parametrize(("code", "body", "message", "hint"), MESSAGES, ids=str)
def test_messages(code: int, body: Any, message: str, hint: str | None) -> None:
    error = refusal(Reply(code, {"retry-after": "30"}, json.dumps(body).encode()), ASKED)
    assert error.message == f"HTTP {code} from api.openai.com: {message}"
    assert error.hint.startswith(hint or "")


def test_what_passes_and_what_does_not() -> None:
    limited = refusal(Reply(429, {"retry-after": "30"}), ASKED)
    assert (limited.is_passing, limited.retry_after) == (True, 30.0)
    spent = refusal(Reply(429, {}, json.dumps(QUOTA).encode()), ASKED)
    assert (spent.is_passing, spent.failure) == (False, Failure.RATE_LIMITED)
    assert not refusal(Reply(401), ASKED).is_passing
    with pytest.raises(ServiceError, match="a web page") as caught:
        json_in(Reply(200, {}, b" <html>"), ASKED)
    assert caught.value.is_passing


KNOWN_RETRIES = {
    case["message"]: case for case in load("embedding_limits")["retry"]["classification"]
}
RETRIED: dict[str, int | Exception | None] = {
    "openai embeddings failed: 429 rate limit": 429,
    "openai embeddings failed: 502 Bad Gateway (cloudflare)": 502,
    "undici error: UND_ERR_SOCKET": httpx.ReadError(""),
    "read ECONNRESET": httpx.ReadError(""),
    "socket hang up": httpx.RemoteProtocolError(""),
    "EHOSTUNREACH": httpx.ConnectError(""),
    "memory embeddings batch timed out": None,
    "431 request_headers_too_large": 431,
    "embeddings max input length is 16": 400,
    "HTTP 400: request id fixture-000597000": 400,
    "HTTP 503: service unavailable": 503,
}
"""How a failure that OpenClaw knows reaches memtui: a status with its words, or an exception."""


@pytest.mark.parametrize("message", RETRIED)
def test_openclaw_retries_the_same(message: str) -> None:
    cause, case = RETRIED[message], KNOWN_RETRIES[message]
    error = no_answer(ADDRESS, 120.0)
    if isinstance(cause, int):
        error = refusal(Reply(cause, {}, message.encode()), RequestContext(ADDRESS))
    elif cause is not None:
        error = broken(cause, ADDRESS)
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
