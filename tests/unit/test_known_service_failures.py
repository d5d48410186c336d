"""OpenClaw's known failures of services, as they reach memtui: tried again, halved, or neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from memtui.embedding.remote.failures import Asked, ServiceError, broken, no_answer, refusal
from memtui.embedding.remote.replies import Reply
from memtui.embedding.services import SERVICES, address_of
from tests.support.known import load

ADDRESS = address_of(SERVICES["openai"])
KNOWN: Mapping[str, dict[str, Any]] = {
    case["message"]: case for case in load("embedding_limits")["retry"]["classification"]
}


def told(status: int) -> Callable[[str], ServiceError]:
    """A service that answers with the words of the message."""
    return lambda message: refusal(Reply(status, {}, message.encode()), Asked(ADDRESS))


def raised(error: Exception) -> Callable[[str], ServiceError]:
    """A connection that ends as the message says."""
    return lambda _message: broken(error, ADDRESS)


REACHES: Mapping[str, Callable[[str], ServiceError]] = {
    "openai embeddings failed: 429 rate limit": told(429),
    "openai embeddings failed: 502 Bad Gateway (cloudflare)": told(502),
    "undici error: UND_ERR_SOCKET": raised(httpx.ReadError("")),
    "read ECONNRESET": raised(httpx.ReadError("")),
    "socket hang up": raised(httpx.RemoteProtocolError("")),
    "EHOSTUNREACH": raised(httpx.ConnectError("")),
    "memory embeddings batch timed out": lambda _message: no_answer(ADDRESS, 120.0),
    "431 request_headers_too_large": told(431),
    "embeddings max input length is 16": told(400),
    "HTTP 400: request id fixture-000597000": told(400),
    "HTTP 503: service unavailable": told(503),
}
# A worker that the user ends raises `Cancelled`, which is no failure. A single text that is too
# long comes out of the halving as itself, so memtui halves where OpenClaw does not.
ELSEWHERE = {
    "worker terminated by user",
    "embedding input exceeds maximum token length 4096",
}


@pytest.mark.parametrize("message", REACHES)
def test_known_failures_at_a_service(message: str) -> None:
    error, case = REACHES[message](message), KNOWN[message]
    assert error.is_passing is case.get("retryable", error.is_passing)
    assert error.is_splittable is case.get("splittable", error.is_splittable)


def test_every_known_failure_is_looked_at() -> None:
    assert {*REACHES, *ELSEWHERE} == set(KNOWN)
