"""The deep check: every text, vector and word of an index read back and compared."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from msgspec import DecodeError

from memtui.index.database import Connection, DatabaseError, made_by, number, read_meta
from memtui.index.index_rows import known_files
from memtui.index.transcripts.reading import transcript_rows
from memtui.retrieval.connection import tokens, whole_vector
from memtui.retrieval.pool import fetch_chunks
from memtui.text.tokens import index_text

_ROWS: Final = """
SELECT c.id, c.embedded, f.path, c.start_line, c.text, v.*
FROM chunks c LEFT JOIN files f ON f.id = c.file_id LEFT JOIN vectors v ON v.id = c.id ORDER BY c.id
"""
_WORDS: Final = "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, chunks_fts, instance)"
_TOLD_EVERY: Final = 1000


def differences(connection: Connection, tell: Callable[[int, int], None]) -> Iterator[str]:
    """Compare every chunk with its hash, its vector with the checksum, its words with the text.

    Yield the place, `path:line`, and the part of what is not as it was written. `tell` hears how
    many of how many chunks are done. The connection is used for nothing else. Raises what SQLite
    raises, and `DecodeError` for what is wrong with files and conversations.
    """
    known_files(connection)
    transcript_rows(connection)
    maker = made_by(read_meta(connection))
    width = 4 * ((maker.dimensions if maker is not None else None) or 0)
    total = number(connection, "SELECT count(*) FROM chunks")
    places, sums, lengths = dict[int, str](), dict[int, int](), dict[int, int]()
    for done, (rowid, embedded, path, line, text, _, *vector) in enumerate(
        connection.execute(_ROWS)
    ):
        if done % _TOLD_EVERY == 0:
            tell(done, total)
        places[rowid] = place = f"{path}:{line}" if path is not None else f"row {rowid}"
        try:
            fetch_chunks(connection, [rowid])[rowid]
            words = tokens(index_text(text))
            sums[rowid], lengths[rowid] = sum(map(_word, words, count())), len(words)
        except (DatabaseError, DecodeError, KeyError):
            yield f"{place} (text)"
        try:
            if embedded:
                whole_vector(width, rowid, *vector)
        except DatabaseError:
            yield f"{place} (vector)"
    tell(total, total)
    connection.execute(_WORDS)
    for word, rowid, at in connection.execute("SELECT term, doc, offset FROM temp.words"):
        # Those of a text that cannot be read are compared with nothing.
        if rowid in sums or rowid not in places:
            sums[rowid] = sums.get(rowid, 0) - _word(word, at)
    sizes = dict(connection.execute("SELECT id, sz FROM chunks_fts_docsize"))
    for rowid, left in sums.items():
        if left or sizes.get(rowid) != _varint(lengths.get(rowid, 0)):
            yield f"{places.get(rowid, f'row {rowid}')} (words)"
    means = connection.execute("SELECT block FROM chunks_fts_data WHERE id = 1").get
    right = _varint(total) + _varint(sum(lengths.values()))
    if total == len(lengths) > 0 and means != right:
        yield "all chunks (mean length)"


def _word(word: str, at: int) -> int:
    """Return a number that stands for a word at its place, to be added in any order."""
    return zlib.crc32(f"{at} {word}".encode("utf-8", "replace"))


def _varint(value: int) -> bytes:
    """Write a number as FTS5 does: seven bits a byte, all but the last byte marked."""
    last, *others = (value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7))
    return bytes([*(0x80 | bits for bits in reversed(others)), last])
