"""The connection to a service: stopping it, proxies, certificates, keys that stay where they are."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from memtui.embedding.payloads import Request, embed_request
from memtui.embedding.provider import Role
from memtui.embedding.remote import http as client_module
from memtui.embedding.remote.http import ServiceClient
from memtui.embedding.services import SERVICES, address_of
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from tests.support.embedding_services import (
    EmbeddingServer,
    embedding_server,
    fixed,
    hanging,
    key_in,
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


class Client(ServiceClient):
    """A client whose requests are waited for."""

    def send(self, request: Request, timeout: float = 5.0) -> bool:
        return self.run(self.exchange(request, timeout)).is_success


@contextmanager
def client_of(request: Request, ca_file: str = "") -> Iterator[Client]:
    client = Client(address_of(OPENAI, request.url), ca_file)
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


def test_closing_ends_a_request_that_hangs() -> None:
    with embedding_server(hanging, stays=True) as server:
        request = request_to(server.url)
        with client_of(request) as client, ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.send, request, 30.0)
            assert server.arrived.wait(10)
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
            client.send(request)
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


# --- answers


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 2**20)
    with embedding_server(fixed(Answer(b"[" + b" " * 2**20 + b"]"))) as server:
        request = request_to(server.url)
        with client_of(request) as client, pytest.raises(ProviderError, match="1 MiB") as caught:
            client.send(request)
    assert caught.value.failure is Failure.BAD_ANSWER


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
            assert client.send(local)
        assert not proxy.seen
        with client_of(other) as client:
            assert client.send(other)
    assert proxy.seen[0].path == "http://embeddings.invalid/v1/embeddings"
    assert len(server.seen) == 1


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_NAMES:
        monkeypatch.setenv(name, "strange://user:SECRET@127.0.0.1")
    request = request_to("http://embeddings.invalid/v1")
    with client_of(request) as client, pytest.raises(ProviderError) as caught:
        client.send(request)
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
            client.send(request)
        assert caught.value.failure is Failure.UNREACHABLE
        assert "embedding.ca_file" in caught.value.hint
        with client_of(request, ca_file=str(TLS / "certificate.pem")) as client:
            assert client.send(request)
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
        client.send(request)
    assert caught.value.failure is Failure.BAD_SETTING
    assert str(path) in str(caught.value)
