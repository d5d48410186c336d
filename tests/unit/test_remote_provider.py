"""What a remote provider sends for its own index, and what it makes of the answers."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from memtui.embedding import http as client_module
from memtui.embedding.api_keys import FoundKey
from memtui.embedding.registry import registration_of, resolve
from memtui.embedding.remote import REGISTRATIONS, plan_of
from memtui.embedding.services import SERVICES
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, Usage
from memtui.settings.schema import EmbeddingSettings
from tests.support.embedding import created, provider_identity
from tests.support.embedding_services import (
    KEY,
    KEY_VARIABLES,
    MODEL,
    NO_OTHER_KEYS,
    PROVIDERS,
    Answer,
    EmbeddingServer,
    Keys,
    Seen,
    as_json,
    choice_at,
    embedding_server,
    fixed,
    hanging,
    impatient,
    key_in,
    remote_provider,
    repeated_key,
    right,
    rows_of,
    status,
    texts_in,
)
from tests.support.known import cases, load

TEXTS = ["the router is in the hall", "the gate code changed"]


def ask(choice: EmbeddingSettings) -> None:
    """Embed a query."""
    with remote_provider(choice) as it:
        it.embed_query("router")


def refused(said: str, choice: EmbeddingSettings, **given: Any) -> ProviderError:
    """Return the failure of a query, which tells this."""
    with remote_provider(choice, **given) as it, pytest.raises(ProviderError, match=said) as caught:
        it.embed_query("router")
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
def test_keys_and_prefixes_on_the_wire(provider: str) -> None:
    model = {"gemini": "gemini-embedding-2", "ollama": "nomic-embed-text"}.get(provider, MODEL)
    prefixes = {
        "gemini": ("task: search result | query: ", "title: none | text: "),
        "ollama": ("search_query: ", "search_document: "),
    }.get(provider, ("", ""))
    with embedding_server() as server:
        choice = choice_at(provider, server, model=model, dimensions=16)
        with remote_provider(choice) as it:
            query, documents = it.embed_query("router"), it.embed_documents(TEXTS)
    sent = [text for seen in server.seen for text in texts_in(seen)]
    assert sent == [f"{prefixes[0]}router", *(prefixes[1] + text for text in TEXTS)]
    np.testing.assert_array_equal(query, rows_of(sent[:1])[0])
    np.testing.assert_array_equal(documents, rows_of(sent[1:]))
    header = "x-goog-api-key" if provider == "gemini" else "authorization"
    assert {seen.headers[header].removeprefix("Bearer ") for seen in server.seen} == {KEY}
    assert not [seen for seen in server.seen if KEY in seen.path]
    if provider == "gemini":
        assert set(server.seen[0].body) == {"content", "outputDimensionality"}


def test_text_that_services_refuse() -> None:
    """Blank texts have no direction and are not sent; a lone surrogate is no text."""
    with embedding_server() as server, remote_provider(choice_at("openai", server)) as it:
        found = it.embed_documents(["", "hall", " \n", "a\ud800b\U0001f600"])
        assert found.shape == (4, 16)
        assert found.any(axis=1).tolist() == [False, True, False, True]
        assert [texts_in(seen) for seen in server.seen] == [["hall", "a\ufffdb\U0001f600"]]
        assert it.embed_documents([" "]).tolist() == [[0.0] * 16]
        assert it.embed_documents([]).shape == (0, 16)


def test_too_long_a_text_is_not_sent() -> None:
    with embedding_server() as server, remote_provider(choice_at("openai", server)) as it:
        limit = it.plan.input_bytes
        it.embed_documents(["x" * limit])
        with pytest.raises(ProviderError, match="is longer than") as caught:
            it.embed_documents(["short", "é" * (limit // 2 + 1)])
        assert caught.value.failure is Failure.TOO_LARGE
        assert len(server.seen) == 1
        it.embed_query("é" * limit)
        assert texts_in(server.seen[1]) == ["é" * (limit // 2)]


def test_batches_by_bytes_and_count_in_order() -> None:
    texts = [f"{number} " + "x" * (700 * (number % 7) * (number < 60)) for number in range(100)]
    with embedding_server() as server, remote_provider(choice_at("openai", server)) as it:
        np.testing.assert_array_equal(it.embed_documents(texts), rows_of(texts))
        sizes = [len(texts_in(seen)) for seen in server.seen]
        assert sum(sizes) == 100
        assert max(sizes) <= 32
        assert max(sum(map(len, texts_in(seen))) for seen in server.seen) <= 8000
        assert it.usage() == Usage(len(sizes), 100, sum(map(len, texts)))


def test_what_was_answered_before_a_failure_is_not_asked_for_again() -> None:
    bad = "note 5 "

    def fault(seen: Seen) -> Any:
        return status(400)(seen) if bad and bad in texts_in(seen)[0] else right(seen)

    texts = [f"note {number} " + "x" * 7000 for number in range(9)]
    with embedding_server(fault, stays=True) as server:
        choice = impatient(choice_at("openai", server), 5.0, concurrency=1)
        with remote_provider(choice) as it:
            for _ in range(2):
                with pytest.raises(ProviderError):
                    it.embed_documents(texts)
            assert len(server.seen) == 7
            bad = ""
            np.testing.assert_array_equal(it.embed_documents(texts), rows_of(texts))
            assert len(server.seen) == 11
            # What was handed over is not kept.
            it.embed_documents(texts[:1])
            assert len(server.seen) == 12


def test_dimensions_are_learned_and_stay() -> None:
    with embedding_server() as server, remote_provider(choice_at("mistral", server)) as it:
        assert it.dimensions is None
        it.embed_documents(TEXTS)
        assert it.dimensions == 16
        server.faults = [lambda seen: as_json({"data": [{"embedding": [1.0] * 15}]})]
        server.stays = True
        with pytest.raises(ProviderError, match="15 dimensions, not of 16") as caught:
            it.embed_query("router")
        assert caught.value.failure is Failure.DIMENSIONS_DIFFER
        assert it.dimensions == 16


def test_a_new_key_is_looked_for_once_when_one_is_refused() -> None:
    keys = Keys(["sk-old", "sk-new"])
    with embedding_server(repeated_key(401)) as server:
        with remote_provider(choice_at("openai", server), find=keys.find) as it:
            np.testing.assert_array_equal(it.embed_documents(TEXTS), rows_of(TEXTS))
            it.embed_query("router")
        assert [key_in(seen) for seen in server.seen] == ["sk-old", "sk-new", "sk-new"]
        assert keys.asked == 2


def test_a_refused_key_is_named_by_its_place() -> None:
    with embedding_server(repeated_key(401), stays=True) as server:
        error = refused("the key of OPENAI_API_KEY is not accepted", choice_at("openai", server))
        assert "embedding.key_env" in error.hint
        assert len(server.seen) == 1


def unreadable(*_given: object, **_named: object) -> FoundKey:
    return FoundKey(problem="embedding.key_command (pass) ends with 1")


def test_a_key_that_cannot_be_read_where_the_settings_name_it() -> None:
    with embedding_server() as server:
        choice = choice_at("openai", server, key_command="pass")
        assert refused("key_command", choice, find=unreadable).failure is Failure.NO_KEY
        assert not server.seen


@pytest.mark.parametrize("name", KEY_VARIABLES)
def test_the_service_itself_wants_a_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*KEY_VARIABLES.values(), "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    choice = EmbeddingSettings(provider=name, **NO_OTHER_KEYS)
    for call in (registration_of(name).check, created):
        with pytest.raises(ProviderError, match=KEY_VARIABLES[name]) as caught:
            call(choice)
        assert caught.value.failure is Failure.NO_KEY
    monkeypatch.setenv(KEY_VARIABLES[name], KEY)
    detail = registration_of(name).check(choice)
    assert KEY_VARIABLES[name] in detail
    assert KEY not in detail
    with closing(created(choice)) as provider:
        assert provider.remote
        assert provider.address == SERVICES[name].address().host
        assert provider.reads("any script")


@pytest.mark.parametrize(("names", "allowed", "chosen"), cases("services", "auto"))
def test_auto_takes_the_first_service_with_a_key_where_that_is_allowed(
    names: list[str], allowed: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (*KEY_VARIABLES.values(), "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable in names:
        monkeypatch.setenv(variable, KEY)
    found = resolve(EmbeddingSettings(allow_remote=allowed, **NO_OTHER_KEYS))
    assert found is not None
    assert found.name == chosen


def test_a_key_of_the_environment_goes_to_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for variable in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with embedding_server() as server:
        monkeypatch.setenv("http_proxy", server.url)
        elsewhere = "http://embeddings.invalid/v1"
        choice = choice_at("openai", server, base_url=elsewhere, **NO_OTHER_KEYS)
        named = replace(choice, key_env="OPENAI_API_KEY")
        for one in (choice, replace(named, allow_insecure=True)):
            with closing(created(one)) as provider:
                provider.embed_query("router")
        # Only where the settings name the variable is its key meant for the configured address.
        assert [key_in(seen) for seen in server.seen] == ["", KEY]
        assert REGISTRATIONS["openai"].check(choice).endswith("embeddings.invalid, unencrypted")
        by_command = replace(choice, key_command="print-it")
        for one in (named, by_command):
            with pytest.raises(ProviderError, match="invalid unencrypted") as caught:
                created(one)
            assert caught.value.failure is Failure.BAD_SETTING
            assert "embedding.allow_insecure" in caught.value.hint
        # A key that turns up only when it is asked for is not sent either.
        refused("would go to", choice)
        assert len(server.seen) == 2


def fingerprint(provider: str = "openai", **fields: Any) -> str:
    return plan_of(provider, EmbeddingSettings(provider=provider, **fields)).identity.fingerprint


def test_fingerprints_tell_what_changes_a_vector() -> None:
    different = [
        fingerprint(name, **fields) for name, fields in load("services")["different_vectors"]
    ]
    assert len(set(different)) == len(different)


def test_fingerprints_do_not_tell_the_rest() -> None:
    assert fingerprint() == fingerprint(model="openai/text-embedding-3-small", dimensions=1536)
    assert fingerprint() == fingerprint(base_url="https://api.openai.com/v1/", threads=3, price=1.0)
    secret = fingerprint(
        base_url="http://127.0.0.1:1/v1?key=SECRET", key_env="MY_KEY", key_command="pass"
    )
    assert secret == fingerprint(base_url="http://127.0.0.1:1/v1")
    assert fingerprint("ollama") == fingerprint("ollama", base_url="http://localhost:11434/v1")


@pytest.mark.parametrize(
    ("provider", "model", "dimensions", "input_bytes"), cases("services", "identities")
)
def test_identities(provider: str, model: str, dimensions: int, input_bytes: int) -> None:
    choice = EmbeddingSettings(provider=provider)
    found = provider_identity(choice)
    assert found is not None
    assert (found.name, found.model, found.dimensions) == (provider, model, dimensions)
    assert found.input_bytes == input_bytes
    assert REGISTRATIONS[provider].destination(choice)[1] is (provider != "ollama")


@pytest.mark.parametrize(("fields", "words"), cases("services", "unusable_settings"))
def test_settings_that_cannot_be_followed(fields: dict[str, Any], words: str) -> None:
    choice = EmbeddingSettings(provider="openai", **NO_OTHER_KEYS, **fields)
    for call in (provider_identity, created, registration_of("openai").check):
        with pytest.raises(SettingsError, match=words) as caught:
            call(choice)
        assert "SECRET" not in str(caught.value)


TLS = Path(__file__).parents[1] / "data" / "tls"
PROXY_NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
OPENAI = SERVICES["openai"]


def test_a_hanging_query_stops_at_once() -> None:
    asked = list[float]()

    def cancelled() -> bool:
        if server.arrived.is_set():
            asked.append(time.perf_counter())
        return bool(asked)

    with embedding_server(hanging, stays=True) as server:
        with remote_provider(choice_at("openai", server)) as provider, pytest.raises(Cancelled):
            provider.embed_query("router", cancelled=cancelled)
        assert time.perf_counter() - asked[0] < 5.0
        with remote_provider(choice_at("openai", server)) as other, pytest.raises(Cancelled):
            other.embed_documents(["router"] * 90, cancelled=lambda: True)
        assert len(server.seen) == 1


def test_a_query_has_a_time_of_its_own() -> None:
    with embedding_server(hanging, stays=True) as server:
        choice = choice_at("openai", server, query_timeout=0.2, batch_timeout=60.0)
        refused(r"no answer from .* in 0\.2 s", choice)


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


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 2**20)
    endless = fixed(Answer(b"[" + b" " * 2**20 + b"]"))
    with embedding_server(endless, stays=True) as server:
        assert refused("1 MiB", choice_at("openai", server)).failure is Failure.BAD_ANSWER


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_NAMES, "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def at(base_url: str, **fields: Any) -> EmbeddingSettings:
    """Choose OpenAI's protocol at an address."""
    given = {"base_url": base_url, "model": MODEL, **NO_OTHER_KEYS, **fields}
    return EmbeddingSettings(provider="openai", **given)


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_is_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with embedding_server() as proxy, embedding_server() as server:
        for name in PROXY_NAMES:
            monkeypatch.setenv(name, proxy.url)
        ask(at(f"{server.url}/v1"))
        assert not proxy.seen
        ask(at("http://embeddings.invalid/v1", allow_insecure=True))
    assert proxy.seen[0].path == "http://embeddings.invalid/v1/embeddings"
    assert len(server.seen) == 1


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_NAMES:
        monkeypatch.setenv(name, "strange://user:SECRET@127.0.0.1")
    error = refused("the proxy or certificate settings here", at("https://embeddings.invalid/v1"))
    assert error.failure is Failure.BAD_SETTING
    assert "SECRET" not in str(error)


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
        error = refused("TLS", at(url))
        assert error.failure is Failure.UNREACHABLE
        assert "embedding.ca_file" in error.hint
        ask(at(url, ca_file=str(TLS / "certificate.pem")))
    assert [key_in(seen) for seen in server.seen] == [KEY]


@pytest.mark.parametrize("name", ["absent.pem", "certificate.txt", "empty", "pipe"])
def test_certificates_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "certificate.txt").write_text("no certificate")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    choice = at("https://embeddings.invalid/v1", ca_file=str(path))
    error = refused("cannot read the certificates in", choice)
    assert error.failure is Failure.BAD_SETTING
    assert str(path) in str(error)
    is_read = name in ("certificate.txt", "empty")
    assert ("it holds no certificate" in str(error)) == is_read


def test_certificates_of_the_environment_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    error = refused("certificate settings here", at("https://embeddings.invalid/v1"))
    assert error.failure is Failure.BAD_SETTING
