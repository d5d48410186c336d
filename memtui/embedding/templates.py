"""What embedding models want to be put before a query and before a document.

The words are those of the model cards. A model that was trained with them finds worse without
them, and one that was trained without them finds worse with them, so an unknown model gets none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from memtui.settings.schema import EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Templates:
    """The prefixes of one model; either may be empty."""

    query: str = ""
    document: str = ""

    def overridden(self, choice: EmbeddingSettings) -> Templates:
        """The same, but for the prefixes that the settings give."""
        return Templates(
            self.query if choice.query_prefix is None else choice.query_prefix,
            self.document if choice.document_prefix is None else choice.document_prefix,
        )


_WEB_TASK: Final = "Given a web search query, retrieve relevant passages that answer the query"
_SENTENCE: Final = Templates("Represent this sentence for searching relevant passages: ")
_E5: Final = Templates("query: ", "passage: ")
_E5_INSTRUCT: Final = Templates(f"Instruct: {_WEB_TASK}\nQuery: ")
# The card asks for an instruction of one's own task; this is the one that OpenClaw gives.
_QWEN3: Final = Templates(
    "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:"
)

_FAMILIES: Final = tuple(
    (re.compile(rf"(?<![a-z0-9]){pattern}"), templates)
    for pattern, templates in (
        ("embedding-?gemma", Templates("task: search result | query: ", "title: none | text: ")),
        ("nomic-embed-code", Templates("Represent this query for searching relevant code: ")),
        ("nomic-embed-text", Templates("search_query: ", "search_document: ")),
        ("mxbai-embed-de", _E5),
        ("mxbai-embed", _SENTENCE),
        ("snowflake-arctic-embed(?:2|-[a-z]+-v2)", Templates("query: ")),
        ("snowflake-arctic-embed", _SENTENCE),
        ("qwen3-embedding", _QWEN3),
        ("gte-qwen2-.*instruct", _E5_INSTRUCT),
        ("e5-mistral", _E5_INSTRUCT),
        ("e5-.*instruct", _E5_INSTRUCT),
        ("e5-", _E5),
        ("bge-(?:multilingual-gemma2|en-icl)", Templates(f"<instruct>{_WEB_TASK}.\n<query>")),
        ("bge-(?:[a-z]+-)?zh", Templates("为这个句子生成表示以用于检索相关文章：")),
        ("bge-(?:[a-z]+-)?en", _SENTENCE),
        # Ollama's names of the English ones leave the language out.
        ("bge-(?:small|base|large)", _SENTENCE),
        ("jina-embeddings-v4", Templates("Query: ", "Passage: ")),
    )
)
"""In the order in which they are tried; what none matches (bge-m3, all-MiniLM) wants nothing."""


def templates_of(model: str) -> Templates:
    """The prefixes of a model by its family, none for one that is not known.

    Takes the name as hosts and files spell it: `nomic-embed-text:latest`,
    `text-embedding-nomic-embed-text-v1.5`, `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0`,
    `embeddinggemma-300m-qat-Q8_0.gguf`.
    """
    name = re.split(r"[/\\]", model.strip())[-1].lower().replace("_", "-")
    return next((templates for family, templates in _FAMILIES if family.search(name)), Templates())
