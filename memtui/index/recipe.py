"""What decides the content of an index besides the files: model, chunking, tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memtui.embedding.provider import ProviderIdentity
from memtui.index.schema import SCHEMA_VERSION
from memtui.text.tokens import FTS5_TOKENIZE

CHUNKING_RULES = "2026.9"
NO_MODEL = "none"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an index is to be made; two indexes of one folder and one recipe are equal."""

    identity: ProviderIdentity | None
    """Whose vectors; `None` for an index without vectors."""
    chunk_tokens: int = 400
    chunk_overlap: int = 80

    @property
    def model(self) -> str:
        """The model as the chunk ids hold it."""
        return self.identity.model if self.identity else NO_MODEL

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; `None` while only the provider's first answer can tell."""
        return self.identity.dimensions if self.identity else None

    def meta(self) -> dict[str, str]:
        """Write the recipe down as the index file keeps it."""
        identity = self.identity
        return {
            "schema_version": str(SCHEMA_VERSION),
            "provider": identity.name if identity else NO_MODEL,
            "model": self.model,
            "fingerprint": identity.fingerprint if identity else "",
            "dimensions": str(self.dimensions or ""),
            "tokenizer": FTS5_TOKENIZE,
            "chunk_tokens": str(self.chunk_tokens),
            "chunk_overlap": str(self.chunk_overlap),
            "chunking": CHUNKING_RULES,
        }

    def matches(self, meta: Mapping[str, str]) -> bool:
        """Whether an index that says `meta` about itself was made by this recipe."""
        return not self.differences(meta)

    def differences(self, meta: Mapping[str, str]) -> tuple[str, ...]:
        """Name the keys in which an index differs from this recipe."""
        wanted = self.meta()
        if not wanted["dimensions"]:
            del wanted["dimensions"]
        return tuple(key for key, value in wanted.items() if meta.get(key) != value)
