"""How services are asked, what is read out of their answers, and what their refusals mean."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import httpx
import pytest

from memtui.embedding.payloads import (
    WrongAnswer,
    embed_request,
    vectors_in,
)
from memtui.embedding.provider import Role
from memtui.embedding.remote.http import (
    Asked,
    Reply,
    ServiceError,
    broken,
    duration,
    failure_in,
    parsed,
    pause_asked,
    refusal,
)
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
    asked = {**named, **query, "input": TEXTS[:1]}
    assert body_of(provider, Role.QUERY, model, 256) == (path, asked)
    asked = {**named, **documents, "input": TEXTS}
    assert body_of(provider, Role.DOCUMENT, model, 256) == (path, asked)
    _, plain = body_of(provider, Role.DOCUMENT, model)
    assert not [name for name in plain if "dimension" in name.lower()]


def test_requests_to_gemini() -> None:
    def entry(text: str, kind: str) -> dict[str, Any]:
        return {
            "content": {"parts": [{"text": text}]},
            "taskType": kind,
            "outputDimensionality": 768,
        }

    path, body = body_of("gemini", Role.QUERY, "google/gemini-embedding-001", 768)
    assert path == "/models/gemini-embedding-001:embedContent"
    assert body == entry(TEXTS[0], "RETRIEVAL_QUERY")
    path, body = body_of("gemini", Role.DOCUMENT, "models/gemini-embedding-001", 768)
    assert path == "/models/gemini-embedding-001:batchEmbedContents"
    named = {"model": "models/gemini-embedding-001"}
    assert body == {"requests": [named | entry(text, "RETRIEVAL_DOCUMENT") for text in TEXTS]}


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
ASKED = Asked(ADDRESS, "the key of OPENAI_API_KEY", "set OPENAI_API_KEY", "ollama pull x")

TOO_LARGE = [
    *((400, body) for body in OVERSIZE.values()),
    (400, {"message": "Too many inputs in request, split into more batches."}),
    (400, {"message": "Too many tokens in batch. Max is 16384 got 33635"}),
    (
        400,
        {
            "error": {
                "message": "Requested 310000 tokens, max 300000 tokens per request. The maximum allowed is"
            }
        },
    ),
    (400, {"message": "This model's maximum context length is 512 tokens"}),
    (422, {"error": "batch size 65 > maximum allowed batch size 32", "error_type": "Validation"}),
    (413, {"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 600"}),
    (
        500,
        {"error": {"message": "input is too large to process. increase the physical batch size"}},
    ),
    (400, {"error": "embeddings max input length is 16"}),
    (431, {}),
    (
        429,
        {
            "error": {
                "message": "Request too large for text-embedding-3-small on tokens per min (TPM): "
                "Limit 10000, Requested 16000.",
                "code": "rate_limit_exceeded",
            }
        },
    ),
]
OTHERS: list[tuple[Failure, int, Any]] = [
    *((Failure.NO_MODEL, 400, body) for body in NO_MODEL.values()),
    (Failure.NO_MODEL, 404, {}),
    (
        Failure.KEY_REFUSED,
        400,
        {"error": {"message": "API key not valid. Please pass a valid API key."}},
    ),
    (Failure.KEY_REFUSED, 400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}),
    (Failure.KEY_REFUSED, 401, {"error": {"message": f"Incorrect API key provided: {LEAKED}"}}),
    (Failure.FORBIDDEN, 403, {"error": {"message": "Your API key was reported as leaked."}}),
    (Failure.BAD_REQUEST, 400, {"error": {"message": "'input' cannot be an empty string"}}),
    (Failure.BAD_REQUEST, 400, {}),
    (Failure.BAD_REQUEST, 405, {}),
    (Failure.BAD_REQUEST, 402, {}),
    (Failure.TIMEOUT, 408, {}),
    (Failure.RATE_LIMITED, 429, {}),
    (Failure.RATE_LIMITED, 429, {"message": "Requests rate limit exceeded"}),
    (Failure.SERVICE_DOWN, 500, {"error": "the model took too long"}),
    (Failure.SERVICE_DOWN, 502, {"error": "input is too large"}),
    (Failure.SERVICE_DOWN, 529, {}),
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


@pytest.mark.parametrize(
    ("code", "body", "message", "hint"),
    [
        (
            401,
            {},
            "HTTP 401 from api.openai.com: the key of OPENAI_API_KEY is not accepted",
            "set OPENAI_API_KEY",
        ),
        (404, {}, "HTTP 404 from api.openai.com: no such model or path", "ollama pull x"),
        (
            400,
            {},
            "HTTP 400 from api.openai.com: the request is not accepted",
            "check embedding.model and embedding.dimensions",
        ),
        (503, {}, "HTTP 503 from api.openai.com: the service fails, again in 30 s", None),
        (
            429,
            {"error": {"code": "insufficient_quota"}},
            "HTTP 429 from api.openai.com: the account's quota is used up",
            "see plan and billing on the service's account page",
        ),
    ],
    ids=str,
)
def test_messages(code: int, body: Any, message: str, hint: str | None) -> None:
    error = refusal(Reply(code, {"retry-after": "30"}, json.dumps(body).encode()), ASKED)
    assert error.message == message
    assert error.hint == hint or (hint is None and error.hint)


def test_what_passes_and_what_does_not() -> None:
    limited = refusal(Reply(429, {"retry-after": "30"}), ASKED)
    assert (limited.is_passing, limited.retry_after) == (True, 30.0)
    spent = refusal(Reply(429, {}, b'{"error": {"code": "insufficient_quota"}}'), ASKED)
    assert (spent.is_passing, spent.failure) == (False, Failure.RATE_LIMITED)
    assert not refusal(Reply(401), ASKED).is_passing
    assert refusal(Reply(413), ASKED).is_splittable
    assert not refusal(Reply(500), ASKED).is_splittable
    with pytest.raises(ServiceError, match="a web page") as caught:
        parsed(Reply(200, {}, b" <html>"), ASKED)
    assert caught.value.is_passing


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "failure", "words"),
    [
        (
            caused(httpx.ConnectError(LEAKED), socket.gaierror(-2, LEAKED)),
            Failure.UNREACHABLE,
            "the host api.openai.com cannot be found",
        ),
        (
            caused(httpx.ConnectError(LEAKED), ssl.SSLError(LEAKED)),
            Failure.UNREACHABLE,
            "no trusted TLS connection to api.openai.com",
        ),
        (
            caused(httpx.ConnectError(LEAKED), ConnectionRefusedError(LEAKED)),
            Failure.UNREACHABLE,
            "connection refused at api.openai.com",
        ),
        (httpx.ConnectError(LEAKED), Failure.UNREACHABLE, "no connection to api.openai.com"),
        (
            httpx.ProxyError(LEAKED),
            Failure.UNREACHABLE,
            "the proxy does not connect to api.openai.com",
        ),
        (httpx.ReadError(LEAKED), Failure.CUT, "api.openai.com cut the connection"),
        (httpx.RemoteProtocolError(LEAKED), Failure.CUT, "api.openai.com cut the connection"),
        (
            httpx.DecodingError(LEAKED),
            Failure.BAD_ANSWER,
            "api.openai.com answers with what cannot be decompressed",
        ),
        (
            httpx.UnsupportedProtocol(LEAKED),
            Failure.BAD_SETTING,
            "cannot ask api.openai.com: UnsupportedProtocol",
        ),
    ],
    ids=str,
)
def test_broken_connections(error: Exception, failure: Failure, words: str) -> None:
    found = broken(error, ADDRESS)
    assert isinstance(found, ServiceError)
    assert (found.failure, found.message) == (failure, words)
    assert found.hint


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
