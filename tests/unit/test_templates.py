"""The prefixes of embedding models, by the names that hosts and files give them."""

from __future__ import annotations

import pytest

from memtui.embedding.payloads import query_prefix
from memtui.embedding.services import SERVICES
from memtui.embedding.templates import templates_of

SENTENCE = "Represent this sentence for searching relevant passages: "
WEB = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)
NOTES = "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:"
GEMMA = ("task: search result | query: ", "title: none | text: ")
NOMIC = ("search_query: ", "search_document: ")
E5 = ("query: ", "passage: ")
NONE = ("", "")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("embeddinggemma", GEMMA),
        ("embeddinggemma:300m", GEMMA),
        ("/models/embeddinggemma-300m-qat-Q8_0.gguf", GEMMA),
        ("C:\\models\\EmbeddingGemma-300M-Q8_0.gguf", GEMMA),
        ("google/embedding-gemma-300m", GEMMA),
        ("nomic-embed-text", NOMIC),
        ("nomic-embed-text:latest", NOMIC),
        ("text-embedding-nomic-embed-text-v1.5@q8_0", NOMIC),
        ("nomic-ai/nomic-embed-text-v2-moe", NOMIC),
        ("nomic-embed-code", ("Represent this query for searching relevant code: ", "")),
        ("mxbai-embed-large", (SENTENCE, "")),
        ("mixedbread-ai/mxbai-embed-large-v1", (SENTENCE, "")),
        ("intfloat/e5-small-v2", E5),
        ("multilingual-e5-large", E5),
        ("multilingual_e5_base.gguf", E5),
        ("intfloat/multilingual-e5-large-instruct", (WEB, "")),
        ("e5-mistral-7b-instruct", (WEB, "")),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", (WEB, "")),
        ("BAAI/bge-small-en-v1.5", (SENTENCE, "")),
        ("bge-large", (SENTENCE, "")),
        ("BAAI/bge-base-zh-v1.5", ("为这个句子生成表示以用于检索相关文章：", "")),
        ("bge-m3", NONE),
        ("hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0", (NOTES, "")),
        ("qwen3-embedding:4b", (NOTES, "")),
        ("snowflake-arctic-embed:22m", (SENTENCE, "")),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", (SENTENCE, "")),
        ("snowflake-arctic-embed2", ("query: ", "")),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", ("query: ", "")),
        ("jina-embeddings-v4-text-retrieval", ("Query: ", "Passage: ")),
        ("all-minilm", NONE),
        ("text-embedding-3-small", NONE),
        ("granite-embedding:278m", NONE),
        ("phase5-model", NONE),
        ("some-nomic", NONE),
        ("", NONE),
    ],
)
def test_families(model: str, expected: tuple[str, str]) -> None:
    found = templates_of(model)
    assert (found.query, found.document) == expected


@pytest.mark.parametrize(
    ("model", "prefix"),
    [
        ("nomic-embed-text", NOMIC[0]),
        ("mxbai-embed-large:latest", SENTENCE),
        ("library/qwen3-embedding:0.6b", NOTES),
        # OpenClaw knows three families, and its indexes were asked without any other prefix.
        ("embeddinggemma", ""),
        ("snowflake-arctic-embed", ""),
        ("text-embedding-nomic-embed-text-v1.5", ""),
    ],
)
def test_openclaw_puts_less_before_a_query(model: str, prefix: str) -> None:
    assert query_prefix(SERVICES["ollama"], model) == prefix
    assert query_prefix(SERVICES["openai"], model) == ""
