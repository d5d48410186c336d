"""What a remote provider sends for its own index, and what it makes of the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memtui.embedding.services import SERVICES, address_of, request_limits
from memtui.errors import ProviderError
from memtui.model import Failure, Usage
from tests.support.embedding_services import (
    embedding_server,
    fixed,
    right,
    rows_of,
    status,
    texts_in,
)
from tests.support.loopback import Seen, as_json
from tests.support.remote_embedding import (
    KEY,
    MODEL,
    PROVIDERS,
    choice_at,
    impatient,
    remote_provider,
)

TEXTS = ["the router is in the hall", "the gate code changed"]


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
        assert "taskType" not in server.seen[0].body


def test_configured_prefixes_win() -> None:
    with embedding_server() as server:
        choice = choice_at(
            "openai", server, model="bge-small-en", query_prefix="q> ", document_prefix=""
        )
        with remote_provider(choice) as it:
            it.embed_query("router")
            it.embed_documents(["hall"])
    assert [texts_in(seen) for seen in server.seen] == [["q> router"], ["hall"]]


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


# --- requests at once


def test_batches_by_bytes_and_count_in_order() -> None:
    texts = [f"{number} " + "x" * (700 * (number % 7)) for number in range(100)]
    with embedding_server() as server, remote_provider(choice_at("openai", server)) as it:
        np.testing.assert_array_equal(it.embed_documents(texts), rows_of(texts))
        sizes = [len(texts_in(seen)) for seen in server.seen]
        assert sum(sizes) == 100
        assert max(sizes) <= 32
        assert max(sum(map(len, texts_in(seen))) for seen in server.seen) <= 8000
        assert it.usage() == Usage(len(sizes), 100, sum(map(len, texts)))


@pytest.mark.parametrize(
    ("provider", "limits", "elsewhere"),
    [
        ("openai", (64_000, 100), (8000, 32)),
        ("gemini", (64_000, 100), (8000, 32)),
        ("voyage", (24_000, 100), (8000, 32)),
        ("mistral", (16_000, 100), (8000, 32)),
        ("ollama", (8000, 32), (8000, 32)),
    ],
)
def test_limits_of_a_request(
    provider: str, limits: tuple[int, int], elsewhere: tuple[int, int]
) -> None:
    service = SERVICES[provider]
    assert request_limits(service, address_of(service)) == limits
    assert request_limits(service, address_of(service, "https://example.org/v1")) == elsewhere


def test_one_failure_of_many_requests_is_the_failure() -> None:
    def fault(seen: Seen) -> Any:
        return status(400)(seen) if "note 5 " in texts_in(seen)[0] else right(seen)

    texts = [f"note {number} " + "x" * 7000 for number in range(9)]
    with (
        embedding_server(fault, stays=True) as server,
        remote_provider(choice_at("openai", server)) as it,
    ):
        with pytest.raises(ProviderError) as caught:
            it.embed_documents(texts)
        assert caught.value.failure is Failure.BAD_REQUEST
        np.testing.assert_array_equal(it.embed_documents(texts[:5]), rows_of(texts[:5]))


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


def test_the_same_text_is_sent_once() -> None:
    with embedding_server() as server, remote_provider(choice_at("openai", server)) as it:
        texts = ["hall", "gate", "hall"]
        np.testing.assert_array_equal(it.embed_documents(texts), rows_of(texts))
        assert texts_in(server.seen[0]) == ["hall", "gate"]
        assert it.usage().texts == 2


# --- dimensions


def test_dimensions_are_learned_and_stay() -> None:
    with embedding_server() as server, remote_provider(choice_at("mistral", server)) as it:
        assert it.dimensions is None
        it.embed_documents(TEXTS)
        assert it.dimensions == 16
        server.faults, server.stays = (
            [lambda seen: as_json({"data": [{"embedding": [1.0] * 15}]})],
            True,
        )
        with pytest.raises(ProviderError, match="15 dimensions, not of 16") as caught:
            it.embed_query("router")
        assert caught.value.failure is Failure.DIMENSIONS_DIFFER
        assert it.dimensions == 16


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dimensions_that_are_asked_for(provider: str) -> None:
    with embedding_server() as server:
        choice = choice_at(provider, server, dimensions=8)
        with remote_provider(choice) as it:
            assert it.dimensions == 8
            assert it.embed_documents(TEXTS).shape == (2, 8)
            assert it.embed_query("router").shape == (8,)
            server.faults = [fixed(right(replace(server.seen[0], body=whole(server.seen[0].body))))]
            with pytest.raises(ProviderError, match="16 dimensions, not of 8"):
                it.embed_documents(TEXTS)


def whole(body: Any) -> Any:
    """The same request without a number of dimensions."""
    if "requests" in body:
        return {"requests": [whole(entry) for entry in body["requests"]]}
    return {name: value for name, value in body.items() if "dimension" not in name.lower()}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tokens(provider: str) -> None:
    """As the service counts them; Gemini does not say, so they are a quarter of the letters."""
    with embedding_server() as server, remote_provider(choice_at(provider, server)) as it:
        it.embed_documents(["x" * 40, "y" * 40])
        is_estimated = provider == "gemini"
        assert it.usage() == Usage(1, 2, 20 if is_estimated else 80, is_estimated)
        server.faults = [status(503)]
        it.embed_query("x" * 40)
        assert it.usage().requests == 3
        assert it.usage().texts == 3
