"""What the engine reads from the index besides search: a note's indexed text, a rebuild's cost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from memtui.engine.source import RebuildCost
from memtui.index.reader import file_row
from memtui.model import Chunk
from memtui.retrieval.pool import fetch_chunks

if TYPE_CHECKING:
    from memtui.index.database import Connection

CHARACTERS_A_TOKEN = 4


def indexed_note(connection: Connection, path: str) -> tuple[str | None, str]:
    """The hash and the text of a note as the index holds it; (`None`, "") when it does not.

    Lines that no chunk holds (blank ones between chunks) are empty.
    """
    row = file_row(connection, path)
    if row is None:
        return None, ""
    lines: dict[int, str] = {}
    for chunk in _chunks_of(connection, path).values():
        lines.update(enumerate(chunk.text.split("\n"), start=chunk.start_line))
    text = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    return row.hash, text


def chunk_lengths(connection: Connection) -> list[tuple[str, int]]:
    """The text hash and the length in characters of every chunk."""
    rows = connection.execute("SELECT hash, length(text) FROM chunks").fetchall()
    return [(str(text_hash), int(str(length))) for text_hash, length in rows]


def cost_of(
    chunks: Sequence[tuple[str, int]],
    known: Collection[str],
    *,
    files: int,
    embeds: bool,
    remote: bool,
) -> RebuildCost:
    """What a rebuild takes: `known` are the text hashes whose vector is in the cache."""
    new = {text_hash: length for text_hash, length in chunks if text_hash not in known}
    tokens = sum(new.values()) // CHARACTERS_A_TOKEN if embeds else 0
    cached = sum(1 for text_hash, _ in chunks if text_hash in known)
    return RebuildCost(files, len(chunks), cached, tokens, remote)


def _chunks_of(connection: Connection, path: str) -> dict[int, Chunk]:
    rows = connection.execute(
        "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ?", (path,)
    ).fetchall()
    return fetch_chunks(connection, [int(str(row[0])) for row in rows])
