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
    pause_asked,
    refusal,
)
from memtui.embedding.payloads import (
    WrongAnswer,
    embed_request,
    vectors_in,
)
from memtui.embedding.provider import Role
from memtui.embedding.services import SERVICES, address_of
from memtui.model import Failure
from tests.support.embedding_services import NO_MODEL, OVERSIZE
from tests.support.remote_embedding import KEY

TEXTS = ["the router is in the hall", "the gate code changed"]


def body_of(
    provider: str, role: Role, model: str, dimensions: int | None = None
) -> tuple[str, Any]:
    """Path and body of a request to the service's own address."""
    service = SERVICES[provider]
    request = embed_request(
        service,
        address_of(service),
        model,
        TEXTS[:1] if role is Role.QUERY else TEXTS,
        role,
        key=KEY,
        dimensions=dimensions,
    )
    return request.url.removeprefix(service.base_url), json.loads(request.body)


# --- requests


FLOATS: dict[str, object] = {"encoding_format": "float"}
SHORTER: dict[str, object] = {"dimensions": 256}
TYPED: dict[str, object] = {"output_dimension": 256}
REQUESTS: dict[str, tuple[str, str, dict[str, object], dict[str, str], dict[str, str]]] = {
    "openai": ("openai/text-embedding-3-small", "/embeddings", FLOATS | SHORTER, {}, {}),
    "mistral": ("codestral-embed", "/embeddings", FLOATS | TYPED, {}, {}),
    "voyage": (
        "voyage/voyage-4-large",
        "/embeddings",
        TYPED,
        {"input_type": "query"},
        {"input_type": "document"},
    ),
    "ollama": ("ollama/nomic-embed-text", "/api/embed", SHORTER, {}, {}),
}


@pytest.mark.parametrize("provider", REQUESTS)
def test_requests(provider: str) -> None:
    model, path, both, query, documents = REQUESTS[provider]
    named = {"model": model.rpartition("/")[2], **both}
    context = {**named, **query, "input": TEXTS[:1]}
    assert body_of(provider, Role.QUERY, model, 256) == (path, context)
    context = {**named, **documents, "input": TEXTS}
    assert body_of(provider, Role.DOCUMENT, model, 256) == (path, context)
    _, plain = body_of(provider, Role.DOCUMENT, model)
    assert not [name for name in plain if "dimension" in name.lower()]


# --- answers


OPENAI, OLLAMA, GEMINI = SERVICES["openai"], SERVICES["ollama"], SERVICES["gemini"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "0 vectors for 2 texts"),
        ({"data": [{"embedding": [1.0]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 3}, "3 vectors for 2 texts"),
        ({"data": [{"embedding": [1.0]}] * 2}, "which vector belongs to which text"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 2}, "which vector belongs to which text"),
        (
            {"data": [{"index": True, "embedding": [1]}, {"index": 0, "embedding": [1]}]},
            "which vector",
        ),
        (
            {"data": [{"index": 1, "embedding": [1]}, {"index": 2, "embedding": [1]}]},
            "which vector",
        ),
        (
            {"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1]}]},
            "holds no vector",
        ),
        (
            {"data": [{"index": 0, "embedding": "AACAPw=="}, {"index": 1, "embedding": [1]}]},
            "no vector",
        ),
        (
            {"data": [{"index": 0, "embedding": [None]}, {"index": 1, "embedding": [1]}]},
            "not a number",
        ),
        (
            {"data": [{"index": 0, "embedding": [10**400]}, {"index": 1, "embedding": [1]}]},
            "too large",
        ),
        (
            {"data": [{"index": 0, "embedding": [float("nan")]}, {"index": 1, "embedding": [1]}]},
            "not finite",
        ),
    ],
    ids=str,
)
def test_wrong_answers(answer: Any, words: str) -> None:
    with pytest.raises(WrongAnswer, match=words) as caught:
        vectors_in(OPENAI, answer, 2)
    assert caught.value.failure is Failure.BAD_ANSWER


def test_answers() -> None:
    data = [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]
    usage = {"prompt_tokens": 5, "total_tokens": 7}
    found = vectors_in(OPENAI, {"data": data, "usage": usage}, 2)
    assert (found.vectors.tolist(), found.tokens) == ([[1, 2], [3, 4]], 7)
    found = vectors_in(OPENAI, {"data": data[:1], "usage": {"prompt_tokens": 5}}, 1)
    assert (found.vectors.tolist(), found.tokens) == ([[3, 4]], 5)
    found = vectors_in(OLLAMA, {"embeddings": [[1, 2]], "prompt_eval_count": 3}, 1)
    assert (found.vectors.tolist(), found.tokens) == ([[1, 2]], 3)
    found = vectors_in(GEMINI, {"embeddings": [{"values": [0, 0]}, {"values": [1, 2]}]}, 2)
    assert (found.vectors.tolist(), found.tokens) == ([[0, 0], [1, 2]], None)
    found = vectors_in(GEMINI, {"embedding": {"values": [1, 2]}}, 1)
    assert found.vectors.tolist() == [[1, 2]]
    with pytest.raises(WrongAnswer, match="vectors of 1 and 2 dimensions") as caught:
        vectors_in(OLLAMA, {"embeddings": [[1, 2], [1]]}, 2)
    assert caught.value.failure is Failure.DIMENSIONS_DIFFER


# --- refusals


ADDRESS = address_of(SERVICES["openai"])
LEAKED = "sk-SECRET-3f0a"
ASKED = RequestContext(ADDRESS, "the key of OPENAI_API_KEY", "set OPENAI_API_KEY", "ollama pull x")

TPM = "Request too large for m on tokens per min (TPM): Limit 10000, Requested 16000."
TOO_LARGE: list[tuple[int, Any]] = [
    *((400, body) for body in OVERSIZE.values()),
    (400, {"message": "Too many inputs in request, split into more batches."}),
    (400, {"message": "Too many tokens in batch. Max is 16384 got 33635"}),
    (400, {"error": {"message": "Requested 310000 tokens; the maximum allowed is 300000."}}),
    (400, {"message": "This model's maximum context length is 512 tokens"}),
    (422, {"error": "batch size 65 > maximum allowed batch size 32", "error_type": "Validation"}),
    (413, {"error": "Input validation error: `inputs` must have less than 512 tokens."}),
    (500, {"error": {"message": "input is too large. increase the physical batch size"}}),
    (400, {"error": "embeddings max input length is 16"}),
    (431, {}),
    (429, {"error": {"message": TPM, "code": "rate_limit_exceeded"}}),
]
OTHERS: list[tuple[Failure, int, Any]] = [
    *((Failure.NO_MODEL, 400, body) for body in NO_MODEL.values()),
    (Failure.NO_MODEL, 404, {}),
    (Failure.KEY_REFUSED, 400, {"error": {"message": "API key not valid. Please pass a valid."}}),
    (Failure.KEY_REFUSED, 400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}),
    (Failure.KEY_REFUSED, 401, {"error": {"message": f"Incorrect API key provided: {LEAKED}"}}),
    (Failure.FORBIDDEN, 403, {"error": {"message": "Your API key was reported as leaked."}}),
    (Failure.BAD_REQUEST, 400, {"error": {"message": "'input' cannot be an empty string"}}),
    (Failure.BAD_REQUEST, 402, {}),
    (Failure.TIMEOUT, 408, {}),
    (Failure.RATE_LIMITED, 429, {"message": "Requests rate limit exceeded"}),
    (Failure.SERVICE_DOWN, 500, {"error": "the model took too long"}),
    (Failure.SERVICE_DOWN, 502, {"error": "input is too large"}),
    (Failure.REDIRECTED, 302, {}),
    (Failure.BAD_ANSWER, 204, {}),
]


@pytest.mark.parametrize(("code", "body"), TOO_LARGE, ids=str)
def test_too_large(code: int, body: Any) -> None:
    assert failure_in(Reply(code, {}, json.dumps(body).encode())) is Failure.TOO_LARGE


@pytest.mark.parametrize(("failure", "code", "body"), OTHERS, ids=str)
def test_other_failures(failure: Failure, code: int, body: Any) -> None:
    reply = Reply(code, {}, json.dumps(body).encode())
    assert failure_in(reply) is failure
    error = refusal(reply, ASKED)
    assert error.failure is failure
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
    spent = refusal(Reply(429, {}, b'{"error": {"code": "insufficient_quota"}}'), ASKED)
    assert (spent.is_passing, spent.failure) == (False, Failure.RATE_LIMITED)
    assert not refusal(Reply(401), ASKED).is_passing
    assert refusal(Reply(413), ASKED).is_splittable
    assert not refusal(Reply(500), ASKED).is_splittable
    with pytest.raises(ServiceError, match="a web page") as caught:
        json_in(Reply(200, {}, b" <html>"), ASKED)
    assert caught.value.is_passing


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
    is_cut, is_odd = "cut" in words, "decompressed" in words
    other = Failure.BAD_SETTING if "Unsupported" in words else Failure.UNREACHABLE
    assert told.failure is (Failure.CUT if is_cut else Failure.BAD_ANSWER if is_odd else other)


# --- pauses that are asked for


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
