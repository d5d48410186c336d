"""Whose settings mean which provider: those of `[embedding]`, and those of another provider."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from memtui.settings.schema import EmbeddingSettings

AUTO: Final = "auto"
NONE: Final = "none"
EMBEDDED_DEFAULT: Final = "minilm"


def other_of(configured: EmbeddingSettings, name: str) -> EmbeddingSettings:
    """The settings of another provider than the configured one: its own default model.

    A model, an address, the place of a key, a prefix and a price belong to one provider and are
    not handed on; the file of a local model, how much is asked at once and whether batches are
    used are settings of all.
    """
    return replace(
        configured,
        provider=name,
        model=None,
        dimensions=None,
        allow_remote=False,
        base_url=None,
        key_env=None,
        key_command=None,
        query_prefix=None,
        document_prefix=None,
        price=None,
    )


def fallback_of(embedding: EmbeddingSettings) -> EmbeddingSettings:
    """The settings of the provider that takes over when the configured one fails."""
    return other_of(embedding, embedding.fallback)
