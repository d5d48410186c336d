"""How services are asked, and what is read out of their answers: the recorded shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memtui.embedding.payloads import (
    WrongAnswer,
    embed_request,
    vectors_in,
)
from memtui.embedding.provider import Role
from memtui.embedding.services import SERVICES, address_of
from memtui.model import Failure
from tests.support.remote_embedding import (
    KEY,
)

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


@pytest.mark.parametrize(
    ("provider", "model", "path", "query", "documents"),
    [
        (
            "openai",
            "openai/text-embedding-3-small",
            "/embeddings",
            {
                "model": "text-embedding-3-small",
                "input": TEXTS[:1],
                "encoding_format": "float",
                "dimensions": 256,
            },
            {
                "model": "text-embedding-3-small",
                "input": TEXTS,
                "encoding_format": "float",
                "dimensions": 256,
            },
        ),
        (
            "mistral",
            "codestral-embed",
            "/embeddings",
            {
                "model": "codestral-embed",
                "input": TEXTS[:1],
                "encoding_format": "float",
                "output_dimension": 256,
            },
            {
                "model": "codestral-embed",
                "input": TEXTS,
                "encoding_format": "float",
                "output_dimension": 256,
            },
        ),
        (
            "voyage",
            "voyage/voyage-4-large",
            "/embeddings",
            {
                "model": "voyage-4-large",
                "input": TEXTS[:1],
                "input_type": "query",
                "output_dimension": 256,
            },
            {
                "model": "voyage-4-large",
                "input": TEXTS,
                "input_type": "document",
                "output_dimension": 256,
            },
        ),
        (
            "ollama",
            "ollama/nomic-embed-text",
            "/api/embed",
            {"model": "nomic-embed-text", "input": TEXTS[:1], "dimensions": 256},
            {"model": "nomic-embed-text", "input": TEXTS, "dimensions": 256},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
def test_requests(provider: str, model: str, path: str, query: Any, documents: Any) -> None:
    assert body_of(provider, Role.QUERY, model, 256) == (path, query)
    assert body_of(provider, Role.DOCUMENT, model, 256) == (path, documents)
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
