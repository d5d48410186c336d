"""What embedding models want to be put before a query and before a document."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from memtui.settings.schema import EmbeddingSettings


@dataclass(frozen=True, slots=True)
class Templates:
    """The prefixes of one model; either may be empty."""

    query: str = ""
    document: str = ""

    def overridden(self, choice: EmbeddingSettings) -> Templates:
        """Return the same, but for the prefixes that the settings give."""
        return Templates(
            self.query if choice.query_prefix is None else choice.query_prefix,
            self.document if choice.document_prefix is None else choice.document_prefix,
        )


@cache
def _families() -> list[dict[str, str]]:
    text = resources.files("memtui.data").joinpath("model_families.toml").read_text("utf-8")
    families: list[dict[str, str]] = tomllib.loads(text)["family"]
    return families


def templates_of(model: str) -> Templates:
    """Return the prefixes of a model by its family, none for one that is not known.

    Takes the name as hosts and files spell it: `nomic-embed-text:latest`,
    `text-embedding-nomic-embed-text-v1.5`, `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0`,
    `embeddinggemma-300m-qat-Q8_0.gguf`.
    """
    name = re.split(r"[/\\]", model.strip())[-1].lower().replace("_", "-")
    for family in _families():
        if re.search(rf"(?<![a-z0-9]){family['name']}", name):
            return Templates(family["query"], family.get("document", ""))
    return Templates()
