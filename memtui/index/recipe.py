"""What decides the content of an index besides the files: model, chunking, tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memtui.embedding.provider import ProviderIdentity
from memtui.index.schema import SCHEMA_VERSION
from memtui.text.tokens import FTS5_TOKENIZE

CHUNKING_RULES = "2026.9"
NO_MODEL = "none"
INPUT_BYTES = "input_bytes"


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

    @property
    def input_bytes(self) -> int | None:
        """The most UTF-8 bytes of a chunk, which is split above; `None`: never split."""
        return self.identity.input_bytes if self.identity else None

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
            INPUT_BYTES: str(self.input_bytes or ""),
        }

    def of_model_in(self, meta: Mapping[str, str]) -> Recipe | None:
        """The recipe of an index that differs from this one by its model alone; else `None`."""
        dimensions, limit = meta.get("dimensions", ""), meta.get(INPUT_BYTES, "")
        identity = ProviderIdentity(
            meta.get("provider", NO_MODEL),
            meta.get("model", NO_MODEL),
            int(dimensions) if dimensions.isdecimal() else None,
            meta.get("fingerprint", ""),
            int(limit) if limit.isdecimal() else None,
        )
        found = replace(self, identity=identity)
        return found if identity.name != NO_MODEL and found.matches(meta) else None

    def equals(self, other: Recipe) -> bool:
        """Whether both make the same index, though one may not know the dimensions yet."""
        ours, theirs = self.meta(), other.meta()
        if not (ours["dimensions"] and theirs["dimensions"]):
            ours["dimensions"] = theirs["dimensions"]
        return ours == theirs

    def matches(self, meta: Mapping[str, str]) -> bool:
        """Whether an index that says `meta` about itself was made by this recipe."""
        return not self.differences(meta)

    def differences(self, meta: Mapping[str, str]) -> tuple[str, ...]:
        """Name the keys in which an index differs from this recipe."""
        wanted = self.meta()
        if not wanted["dimensions"]:
            del wanted["dimensions"]
        # An index that says nothing of it is of a time when no chunk was split.
        found = {INPUT_BYTES: "", **meta}
        return tuple(key for key, value in wanted.items() if found.get(key) != value)
