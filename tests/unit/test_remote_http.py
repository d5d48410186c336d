"""The connection to a service: stopping it, proxies, certificates, keys that stay where they are."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from memtui.embedding.payloads import Request, embed_request
from memtui.embedding.provider import Role
from memtui.embedding.remote import http as client_module
from memtui.embedding.remote.http import (
    Asked,
    Reply,
    ServiceClient,
    ServiceError,
    broken,
    failure_in,
    refusal,
    unparsed,
)
from memtui.embedding.remote.pacing import sleep
from memtui.embedding.remote.provider import in_order
from memtui.embedding.services import SERVICES, address_of
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from tests.support.embedding_services import (
    NO_MODEL,
    OVERSIZE,
    EmbeddingServer,
    embedding_server,
    fixed,
    hanging,
    key_in,
    slow,
)
from tests.support.loopback import Answer, Seen
from tests.support.remote_embedding import KEY, choice_at, impatient, remote_provider

TLS = Path(__file__).parents[1] / "data" / "tls"
PROXY_NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
OPENAI = SERVICES["openai"]
AT_ONCE = 0.1
"""Seconds in which everything ends that is cancelled; the best of five is measured."""


def request_to(url: str, texts: tuple[str, ...] = ("router",)) -> Request:
    address = address_of(OPENAI, url)
    return embed_request(OPENAI, address, "m", texts, Role.DOCUMENT, key=KEY)


@contextmanager
def client_of(request: Request, **more: object) -> Iterator[ServiceClient]:
    client = ServiceClient(address_of(OPENAI, request.url), **more)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        client.close()


def seconds_until_cancelled(
    run: Callable[[Callable[[], bool]], object], begun: threading.Event
) -> float:
    """How long a call goes on after it is asked to stop, in the best of five."""
    taken = []
    for _ in range(5):
        begun.clear()
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(run, stop.is_set)
            assert begun.wait(10)
            start = time.perf_counter()
            stop.set()
            with pytest.raises(Cancelled):
                call.result(10)
            taken.append(time.perf_counter() - start)
    return min(taken)


# --- stopping


def test_a_hanging_query_stops_at_once() -> None:
    with (
        embedding_server(hanging, stays=True) as server,
        remote_provider(choice_at("openai", server)) as provider,
    ):
        run = lambda stopped: provider.embed_query("router", cancelled=stopped)  # noqa: E731
        assert seconds_until_cancelled(run, server.arrived) < AT_ONCE


def test_a_pause_stops_at_once() -> None:
    begun = threading.Event()

    def run(stopped: Callable[[], bool]) -> None:
        begun.set()
        sleep(60.0, stopped)

    assert seconds_until_cancelled(run, begun) < AT_ONCE


def test_waiting_for_a_place_stops_at_once() -> None:
    with embedding_server(hanging, stays=True) as server:
        request = request_to(server.url)
        with client_of(request, concurrency=1) as client, ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.exchange, request, timeout=30.0)
            assert server.arrived.wait(10)
            begun = threading.Event()

            def run(stopped: Callable[[], bool]) -> None:
                begun.set()
                client.exchange(request, timeout=30.0, cancelled=stopped)

            assert seconds_until_cancelled(run, begun) < AT_ONCE
            assert len(server.seen) == 1
            client.close()
            with pytest.raises(ProviderError) as caught:
                first.result(10)
            assert caught.value.failure is Failure.CLOSED


def test_nothing_is_asked_once_stopped() -> None:
    with embedding_server() as server, remote_provider(choice_at("ollama", server)) as provider:
        with pytest.raises(Cancelled):
            provider.embed_query("router", cancelled=lambda: True)
        with pytest.raises(Cancelled):
            provider.embed_documents(["router"] * 90, cancelled=lambda: True)
        assert not server.seen


def test_closed() -> None:
    with embedding_server() as server, remote_provider(choice_at("ollama", server)) as provider:
        provider.embed_query("router")
        provider.close()
        provider.close()
        for texts in ([], ["router"], ["router"] * 90):
            with pytest.raises(ProviderError) as caught:
                provider.embed_documents(texts) if texts else provider.embed_query("router")
            assert caught.value.failure is Failure.CLOSED
        assert len(server.seen) == 1


def test_the_thread_ends_with_the_client() -> None:
    before = set(threading.enumerate())
    with embedding_server() as server:
        request = request_to(server.url)
        with client_of(request) as client:
            client.exchange(request, timeout=5.0)
            begun = set(threading.enumerate()) - before
            (thread,) = [t for t in begun if t.name == "memtui-embedding"]
        thread.join(5)
        assert not thread.is_alive()


# --- several at once


def test_no_more_requests_at_once_than_allowed_but_a_query_goes_by() -> None:
    most = now = 0
    lock, full, go_on = threading.Lock(), threading.Event(), threading.Event()

    def counted(seen: Seen) -> Answer:
        nonlocal most, now
        if "query" in seen.body["input"]:
            return Answer(b'{"data": [{"embedding": [1.0, 0.0]}]}')
        with lock:
            now += 1
            most = max(most, now)
        if now == 3:
            full.set()
        assert go_on.wait(10)
        with lock:
            now -= 1
        return Answer(b'{"data": [{"embedding": [1.0, 0.0]}]}')

    texts = [f"note {number} " + 7000 * "x" for number in range(7)]
    with embedding_server(counted, stays=True) as server:
        choice = impatient(choice_at("openai", server), 30.0)
        with remote_provider(choice) as provider, ThreadPoolExecutor(1) as pool:
            indexing = pool.submit(provider.embed_documents, texts)
            assert full.wait(10)
            assert provider.embed_query("query").tolist() == [1.0, 0.0]
            assert (most, now) == (3, 3)
            go_on.set()
            assert indexing.result(10).shape == (7, 2)
        assert most == 3


def test_connections_are_kept() -> None:
    with embedding_server() as server:
        request = request_to(server.url)
        ports = set()
        inner = server.get_request

        def counted() -> object:
            connection, peer = inner()
            ports.add(peer)
            return connection, peer

        server.get_request = counted  # type: ignore[assignment, method-assign]
        with client_of(request) as client:
            for _ in range(5):
                assert client.exchange(request, timeout=5.0).is_success
        assert len(server.seen) == 5
        assert len(ports) == 1


def test_results_in_order_and_the_first_failure_stops_the_others() -> None:
    def run(number: int, stopped: Callable[[], bool]) -> int:
        sleep(0.002 * (number % 3), stopped)
        return number * number

    never = lambda: False  # noqa: E731
    assert in_order(range(20), run, workers=4, stopped=never) == [n * n for n in range(20)]
    begun: list[int] = []

    def fail(number: int, stopped: Callable[[], bool]) -> int:
        begun.append(number)
        if number == 2:
            raise ProviderError("the third")
        sleep(10.0, stopped)
        return number

    with pytest.raises(ProviderError, match="the third"):
        in_order(range(20), fail, workers=4, stopped=never)
    assert len(begun) <= 4
    for thread in threading.enumerate():
        if thread.name.startswith("memtui-embedding-"):
            thread.join(5)
            assert not thread.is_alive()


# --- answers


def test_an_answer_in_time_and_one_too_late() -> None:
    with embedding_server(slow(0.05), slow(5.0)) as server:
        request = request_to(server.url)
        with client_of(request) as client:
            assert client.exchange(request, timeout=2.0).is_success
            with pytest.raises(ProviderError, match=r"no answer from \S+ in 0.05 s") as caught:
                client.exchange(request, timeout=0.05)
    assert caught.value.failure is Failure.TIMEOUT


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 2**20)
    with embedding_server(fixed(Answer(b"[" + b" " * 2**20 + b"]"))) as server:
        request = request_to(server.url)
        with client_of(request) as client, pytest.raises(ProviderError, match="1 MiB") as caught:
            client.exchange(request, timeout=5.0)
    assert caught.value.failure is Failure.BAD_ANSWER


def test_nobody_there() -> None:
    with embedding_server() as server:
        request = request_to(server.url)
    with client_of(request) as client, pytest.raises(ProviderError, match="refused") as caught:
        client.exchange(request, timeout=5.0)
    assert caught.value.failure is Failure.UNREACHABLE
    assert caught.value.hint == "is the server running?"


# --- proxies and certificates


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_NAMES, "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_is_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with embedding_server() as proxy, embedding_server() as server:
        for name in PROXY_NAMES:
            monkeypatch.setenv(name, proxy.url)
        local, other = request_to(server.url), request_to("http://embeddings.invalid/v1")
        with client_of(local) as client:
            assert client.exchange(local, timeout=5.0).is_success
        assert not proxy.seen
        with client_of(other) as client:
            assert client.exchange(other, timeout=5.0).is_success
    assert proxy.seen[0].path == "http://embeddings.invalid/v1/embeddings"
    assert len(server.seen) == 1


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_NAMES:
        monkeypatch.setenv(name, "strange://user:SECRET@127.0.0.1")
    request = request_to("http://embeddings.invalid/v1")
    with client_of(request) as client, pytest.raises(ProviderError) as caught:
        client.exchange(request, timeout=5.0)
    assert caught.value.failure is Failure.BAD_SETTING
    assert "SECRET" not in str(caught.value)


@contextmanager
def tls_server() -> Iterator[EmbeddingServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with embedding_server() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        # A client that does not trust it ends the handshake, which the server would print.
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
        yield server


def test_a_certificate_of_ones_own_is_trusted_where_it_is_named() -> None:
    with tls_server() as server:
        url = server.url.replace("http:", "https:") + "/v1"
        request = request_to(url)
        with client_of(request) as client, pytest.raises(ProviderError, match="TLS") as caught:
            client.exchange(request, timeout=5.0)
        assert caught.value.failure is Failure.UNREACHABLE
        assert "embedding.ca_file" in caught.value.hint
        with client_of(request, ca_file=str(TLS / "certificate.pem")) as client:
            assert client.exchange(request, timeout=5.0).is_success
    assert [key_in(seen) for seen in server.seen] == [KEY]


@pytest.mark.parametrize("name", ["absent.pem", "certificate.txt", "pipe"])
def test_certificates_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "certificate.txt").write_text("no certificate")
    os.mkfifo(tmp_path / "pipe")
    request = request_to("https://embeddings.invalid/v1")
    path = tmp_path / name
    with (
        client_of(request, ca_file=str(path)) as client,
        pytest.raises(ProviderError, match="cannot read the certificates in") as caught,
    ):
        client.exchange(request, timeout=5.0)
    assert caught.value.failure is Failure.BAD_SETTING
    assert str(path) in str(caught.value)


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
