"""Asking a remote embedding service for the vector of one query, and stopping at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from memtui.embedding.payloads import RETRY_PAUSE, TIMEOUT, Request
from memtui.embedding.remote.http import (
    LONG_PAUSE,
    Asked,
    Reply,
    ServiceClient,
    ServiceError,
    no_answer,
    pause_asked,
    refusal,
    unparsed,
)
from memtui.embedding.remote.pacing import sleep
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure

_SHORTEST: Final = 0.001


def ask(
    request: Request,
    *,
    stopped: Callable[[], bool],
    key_name: str = "",
    timeout: float = TIMEOUT,
    pause: float = RETRY_PAUSE,
) -> object:
    """Send a request and return its parsed JSON answer.

    Tries a second time on 429 and 5xx, unless the answer asks for a pause of more than 2 s.
    Redirects are not followed, so a key reaches one host only; a loopback address is asked
    without a proxy. `key_name` says where the key came from, for the message when it is refused.
    Raises `Cancelled` within 0.2 s once `stopped()`, and `ProviderError` of one line that holds
    neither keys nor text of the answer. Not to be called from a thread that runs an event loop.
    """
    if stopped():
        raise Cancelled
    asked = Asked(request.address, key_name)
    client = ServiceClient(request.address, concurrency=1)
    try:
        reply = _reply(client, request, stopped, timeout, pause)
        if not reply.is_success:
            raise refusal(reply, asked)
        return _parsed(reply, asked)
    except ServiceError as error:
        # The hints name settings of memtui, and the index that is asked for is an agent's.
        if error.kind is Failure.TIMEOUT:
            error = no_answer(request.address, timeout)
        raise ProviderError(error.message, failure=error.kind) from None
    finally:
        client.close()


def _reply(
    client: ServiceClient,
    request: Request,
    stopped: Callable[[], bool],
    timeout: float,
    pause: float,
) -> Reply:
    end = time.monotonic() + timeout
    reply = client.exchange(request, timeout=timeout, cancelled=stopped)
    if reply.status != 429 and reply.status < 500:
        return reply
    asked = pause_asked(reply)
    wait = pause if asked is None else asked
    if wait > LONG_PAUSE:
        return reply
    sleep(min(wait, max(0.0, end - time.monotonic())), stopped)
    left = max(_SHORTEST, end - time.monotonic())
    return client.exchange(request, timeout=left, cancelled=stopped)


def _parsed(reply: Reply, asked: Asked) -> object:
    try:
        return reply.parsed()
    except (ValueError, RecursionError):
        raise unparsed(reply, asked) from None
