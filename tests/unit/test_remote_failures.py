"""What the answers of services mean, told by their own words and said in ours."""

from __future__ import annotations

import json
import re
import socket
import ssl
from typing import Any

import httpx
import pytest

from memtui.embedding.remote.http import (
    Asked,
    Reply,
    ServiceError,
    broken,
    failure_in,
    refusal,
    unparsed,
)
from memtui.embedding.services import SERVICES, address_of
from memtui.model import Failure
from tests.support.embedding_services import NO_MODEL, OVERSIZE

ADDRESS = address_of(SERVICES["openai"])
KEY = "sk-SECRET-3f0a"
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
    (Failure.KEY_REFUSED, 401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
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


def test_no_words_of_an_answer_are_shown() -> None:
    body = json.dumps({"error": {"message": "Zebra\x1b[31m \u202e quux", "code": "Zebra"}}).encode()
    for code in range(300, 600):
        error = refusal(Reply(code, {"retry-after": "Zebra"}, body), ASKED)
        assert not re.search(r"Zebra|quux|\x1b|\u202e|\n", str(error))
        assert len(str(error)) < 200


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
    assert unparsed(Reply(200, {}, b" <html>"), ASKED).message.endswith("a web page")
    assert unparsed(Reply(200, {}, b"<3"), ASKED).is_passing


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "failure", "words"),
    [
        (
            caused(httpx.ConnectError(KEY), socket.gaierror(-2, KEY)),
            Failure.UNREACHABLE,
            "the host api.openai.com cannot be found",
        ),
        (
            caused(httpx.ConnectError(KEY), ssl.SSLError(KEY)),
            Failure.UNREACHABLE,
            "no trusted TLS connection to api.openai.com",
        ),
        (
            caused(httpx.ConnectError(KEY), ConnectionRefusedError(KEY)),
            Failure.UNREACHABLE,
            "connection refused at api.openai.com",
        ),
        (httpx.ConnectError(KEY), Failure.UNREACHABLE, "no connection to api.openai.com"),
        (
            httpx.ProxyError(KEY),
            Failure.UNREACHABLE,
            "the proxy does not connect to api.openai.com",
        ),
        (httpx.ReadError(KEY), Failure.CUT, "api.openai.com cut the connection"),
        (httpx.RemoteProtocolError(KEY), Failure.CUT, "api.openai.com cut the connection"),
        (
            httpx.DecodingError(KEY),
            Failure.BAD_ANSWER,
            "api.openai.com answers with what cannot be decompressed",
        ),
        (
            httpx.UnsupportedProtocol(KEY),
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
