"""Chunks that a model would not take whole, cut into parts that it takes."""

from __future__ import annotations

from collections.abc import Sequence

from memtui.embedding.limits import byte_size, split_input
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan


def within_limit(spans: Sequence[ChunkSpan], limit: int | None) -> list[ChunkSpan]:
    """Split every chunk of more than `limit` UTF-8 bytes; `None` leaves all as they are.

    Each part keeps the lines of its chunk and has a hash of its own (OPENCLAW.md, section 3).
    Blank parts are left out, and of parts with the same lines and text all but the first, as
    they would have one id.
    """
    if limit is None or all(byte_size(span.text) <= limit for span in spans):
        return list(spans)
    kept: dict[tuple[int, int, str], ChunkSpan] = {}
    for span in spans:
        for part in _parts(span, limit):
            kept.setdefault((part.start_line, part.end_line, part.hash), part)
    return list(kept.values())


def _parts(span: ChunkSpan, limit: int) -> list[ChunkSpan]:
    if byte_size(span.text) <= limit:
        return [span]
    texts = [text for text in split_input(span.text, limit) if text.strip()]
    return [ChunkSpan(span.start_line, span.end_line, text, text_hash(text)) for text in texts]
