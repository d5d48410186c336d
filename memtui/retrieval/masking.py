"""Chunks of conversations as they may be shown, ranked all the same by what the index holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from memtui.model import Chunk
from memtui.ranking.mmr import snippet_text

CONVERSATIONS: Final = "sessions"
"""The source that conversations have in every index."""
UNMASKED: Final = ("transcript_redaction", "openclaw")
"""In the meta table of an index with credentials that only the wide list masks."""


def with_mask(chunk: Chunk) -> Chunk:
    """The chunk of a conversation with its credentials masked by the wide list.

    What MMR compares stays what the index holds, as `snippet`.
    """
    if chunk.source != CONVERSATIONS:
        return chunk
    from memtui.text.redact_spoken import redact_spoken

    text = redact_spoken(chunk.text)
    return chunk if text == chunk.text else replace(chunk, text=text, snippet=snippet_text(chunk))
