"""What the engine reads from the index besides search: a note's indexed text, a rebuild's cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from memtui.embedding.prices import cost, price_of
from memtui.embedding.provider import estimated_tokens
from memtui.engine.source import RebuildCost
from memtui.index.database import number
from memtui.index.files import within_limit
from memtui.index.reader import file_row
from memtui.model import Chunk, ChunkSpan
from memtui.retrieval.pool import fetch_chunks

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice
    from memtui.embedding.provider import ProviderIdentity
    from memtui.index.database import Connection


def indexed_note(connection: Connection, path: str) -> tuple[str | None, str]:
    """The hash and the text of a note as the index holds it; (`None`, "") when it does not.

    Lines that no chunk holds (blank ones between chunks) are empty.
    """
    row = file_row(connection, path)
    if row is None:
        return None, ""
    lines: dict[int, str] = {}
    parts: dict[tuple[int, int], str] = {}
    for chunk in _chunks_of(connection, path).values():
        place = chunk.start_line, chunk.end_line
        # Parts of one chunk have its lines; pieces of one long line overlap, and are no parts.
        earlier = parts.get(place, "") if chunk.start_line < chunk.end_line else ""
        parts[place] = earlier + chunk.text
    for (start, _), text in parts.items():
        lines.update(enumerate(text.split("\n"), start=start))
    text = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    return row.hash, text


def file_count(connection: Connection) -> int:
    """How many files the index holds."""
    return number(connection, "SELECT count(*) FROM files")


def chunk_lengths(connection: Connection, input_bytes: int | None = None) -> list[tuple[str, int]]:
    """The text hash and the length in characters of every chunk, split above `input_bytes`."""
    if input_bytes is None:
        rows = connection.execute("SELECT hash, length(text) FROM chunks").fetchall()
        return [(str(text_hash), int(str(length))) for text_hash, length in rows]
    # No character takes more than four bytes.
    rows = connection.execute(
        "SELECT hash, length(text), CASE WHEN length(text) * 4 > ? THEN text END FROM chunks",
        (input_bytes,),
    ).fetchall()
    found: list[tuple[str, int]] = []
    for text_hash, length, text in rows:
        if text is None:
            found.append((str(text_hash), int(str(length))))
            continue
        span = ChunkSpan(1, 1, str(text), str(text_hash))
        found += [(part.hash, len(part.text)) for part in within_limit([span], input_bytes)]
    return found


def cost_of(
    chunks: Sequence[tuple[str, int]],
    known: Collection[str],
    *,
    files: int,
    identity: ProviderIdentity | None,
    choice: EmbeddingChoice,
) -> RebuildCost:
    """What a rebuild takes: `known` are the text hashes whose vector is in the cache.

    Where text would be sent is for the caller to say.
    """
    new = {text_hash: length for text_hash, length in chunks if text_hash not in known}
    cached = sum(1 for text_hash, _ in chunks if text_hash in known)
    if identity is None:
        return RebuildCost(files, len(chunks), cached, 0, False, price=0.0)
    tokens = sum(estimated_tokens(length) for length in new.values())
    price = price_of(choice, identity.name, identity.model)
    batch = choice.batch.enabled and len(new) >= choice.batch.minimum
    return RebuildCost(
        files,
        len(chunks),
        cached,
        tokens,
        False,
        price=cost(tokens, price, batch=batch) if price is not None else None,
        currency=price.currency if price is not None else "",
        as_of=price.as_of if price is not None else "",
        provider=identity.name,
        model=identity.model,
    )


def _chunks_of(connection: Connection, path: str) -> dict[int, Chunk]:
    rows = connection.execute(
        "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ?", (path,)
    ).fetchall()
    return fetch_chunks(connection, [int(str(row[0])) for row in rows])
