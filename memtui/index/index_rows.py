"""Rows of an index file: files, chunks and vectors, read, compared with a scan, and written.

Who writes begins and ends the transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from memtui.data import read_table
from memtui.embedding.provider import byte_size, split_input
from memtui.errors import IsCancelled, stop_if
from memtui.index.database import Connection, Recipe, number, transaction, write_meta
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan, Document, Reason, SkippedFile, SourceCount, SourceFile
from memtui.retrieval.connection import vector_checksum
from memtui.retrieval.passages import has_pieces, pack_passages
from memtui.text.languages import stemmed_by

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Within this time of a scan, a second write may leave size and modification time as they were.
RACY_NS = 2 * 10**9

_SQL = read_table("queries.toml")["rows"]


class KnownFile(NamedTuple):
    """A file as the index holds it: the stat it had, and when it was seen."""

    path: str
    source: str
    hash: str
    size: int
    mtime_ns: int
    inode: int
    seen_ns: int
    lines: int = 0
    day: date | None = None
    warnings: tuple[str, ...] = ()
    """The problems with it, one line each."""

    @property
    def no_text(self) -> str:
        """Say why a note holds no text; empty for one that does, and for a transcript."""
        return "" if self.hash else "".join(self.warnings)


_FILES = f"SELECT {', '.join(KnownFile._fields)} FROM files"


def known_files(
    connection: Connection, where: str = "", *values: str | int
) -> dict[str, KnownFile]:
    """Read what the index knows about its files, or those that `where` chooses, by path.

    Raises `DecodeError` for a row of other types, which is damage.
    """
    rows = [
        (*columns, msgspec.json.decode(str(warnings)))
        for *columns, warnings in connection.execute(f"{_FILES} {where}", values).fetchall()
    ]
    return {row.path: row for row in convert(rows, list[KnownFile])}


def known_file(connection: Connection, path: str) -> KnownFile | None:
    """Read what the index knows about one file; `None` when it does not hold it."""
    return known_files(connection, "WHERE path = ?", path).get(path)


def skipped_when_read(connection: Connection) -> list[SkippedFile]:
    """Return the transcripts that gave no chunk and the notes that held no text when read."""
    rows = connection.execute(_SQL["skipped"], (Reason.NOT_TEXT,)).fetchall()
    return [
        SkippedFile(str(path), Reason(str(reason)), str(detail)) for path, reason, detail in rows
    ]


class Plan(Struct, frozen=True):
    """The work that a scan asks for."""

    read: tuple[SourceFile, ...]
    """New files, files with another stat, and files written too close to the last scan."""
    changed: tuple[str, ...]
    """The paths in `read` that are new or have another stat."""
    removed: tuple[str, ...]


def plan_changes(
    files: Sequence[SourceFile], rows: Mapping[str, KnownFile], unread: tuple[str, ...] = ()
) -> Plan:
    """Compare a scan with the index by stat alone; nothing is read.

    `unread` are beginnings of paths below which the scan could not look: nothing there is gone.
    """
    read = []
    changed = []
    for file in files:
        row = rows.get(file.path)
        stat = (file.size, file.mtime_ns, file.inode, file.source)
        if row is None or stat != (row.size, row.mtime_ns, row.inode, row.source):
            read.append(file)
            changed.append(file.path)
        elif file.mtime_ns >= row.seen_ns - RACY_NS:
            read.append(file)
    here = {file.path for file in files}
    removed = sorted(path for path in rows if path not in here and not path.startswith(unread))
    return Plan(tuple(read), tuple(changed), tuple(removed))


def sources_of(connection: Connection) -> tuple[SourceCount, ...]:
    """Count the files and chunks of each source."""
    return tuple(starmap(SourceCount, connection.execute(_SQL["sources"])))


def counts(connection: Connection) -> dict[str, Any]:
    """Count what the index holds, by the names of an `IndexStatus`."""
    sources = sources_of(connection)
    replaced = known_files(connection, _SQL["with_warnings"])
    chunks = sum(source.chunks for source in sources)
    pending = number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
    unread = number(connection, "SELECT count(*) FROM chunks WHERE embedded = 2")
    pieces = connection.execute(_SQL["pieces"]).get if has_pieces(connection) else (0, 0)
    return {
        "sources": sources,
        "conversations": tuple(starmap(SourceCount, connection.execute(_SQL["conversations"]))),
        "files": sum(source.files for source in sources),
        "chunks": chunks,
        "vectors": chunks - pending - unread,
        "unread": unread,
        "pieces": pieces[0],
        "piece_bytes": pieces[1],
        "warnings": tuple(f"{row.path}: {'; '.join(row.warnings)}" for row in replaced.values()),
    }


def write_file(
    connection: Connection,
    file: SourceFile,
    content_hash: str,
    lines: int,
    seen_ns: int,
    document: Document | None = None,
    no_text: str = "",
) -> int:
    """Make the row of a file, dated as its document says; return its number.

    `seen_ns` is the time of the scan that found the file.
    """
    dated: tuple[str | float | None, ...] = (None, None, None)
    warnings: Sequence[str] = [no_text] if no_text else []
    if document is not None:
        day, warnings = document.day, document.warnings
        dated = day.isoformat() if day else None, document.day_from, document.importance
    stat, listed = (file.size, file.mtime_ns, file.inode), json.dumps(warnings)
    values = (file.source, content_hash, *stat, *dated, lines, listed, seen_ns, file.path)
    connection.execute(_SQL["write_file"], values)
    return number(connection, "SELECT id FROM files WHERE path = ?", file.path)


def chunks_of(connection: Connection, path: str) -> dict[str, int]:
    """Return the rows of a file's chunks, by id."""
    rows = connection.execute(_SQL["chunks_of"], (path,)).fetchall()
    return {str(name): int(str(row)) for name, row in rows}


def write_chunks(
    connection: Connection,
    file: SourceFile,
    file_id: int,
    spans: Iterable[ChunkSpan],
    model: str,
    stale: dict[str, int],
    cancelled: IsCancelled,
) -> tuple[list[str], int]:
    """Add the chunks that are not there, each in a row that never had another one.

    Parts of one chunk, which have its lines, are in the order of their rows.
    Those that the spans confirm are taken out of `stale`, which are rows by id. Return the ids of
    the chunks that were added or confirmed, and how many were added. Raises `Cancelled` in
    mid-work: roll back.
    """
    names, added, last, place = [], 0, 0, (0, 0)
    for span in spans:
        stop_if(cancelled)
        start, end = span.start_line, span.end_line
        name = chunk_id(file.source, file.path, start, end, span.hash, model)
        row = stale.pop(name, None)
        if row is not None and (start, end) == place and row < last:
            delete_chunks(connection, [row])
            row = None
        if row is None:
            words, packed = pack_passages(span.text)
            values = (name, file_id, start, end, span.text, span.hash, model, packed)
            connection.execute(_SQL["write_chunk"], values)
            if not connection.changes():
                continue
            row = connection.last_insert_rowid()
            write_words(connection, row, words)
            added += 1
        last, place = row, (start, end)
        names.append(name)
    return names, added


def take_model(connection: Connection, recipe: Recipe) -> None:
    """Make an index of words alone one that waits for the vectors of the recipe's model."""
    function: Any = chunk_id
    connection.create_scalar_function("chunk_id", function)
    with transaction(connection):
        connection.execute(_SQL["take_model"], (recipe.model,))
        write_meta(connection, recipe.meta())


def write_words(connection: Connection, row: int, words: str) -> None:
    """Add the words of a chunk, and the language in which those of a query are to be stemmed."""
    connection.execute(_SQL["write_words"], (row, words))
    if language := stemmed_by(words):
        connection.execute(_SQL["write_language"], (language,))


def delete_chunks(connection: Connection, rows: Iterable[int]) -> None:
    """Remove chunks by their rows, with their words and vectors."""
    values = [(row,) for row in rows]
    connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", values)
    connection.executemany("DELETE FROM chunks WHERE id = ?", values)


def remove_files(connection: Connection, paths: Iterable[str]) -> None:
    """Remove files with everything that came from them."""
    for path in paths:
        delete_chunks(connection, chunks_of(connection, path).values())
        connection.execute("DELETE FROM files WHERE path = ?", (path,))


def write_vectors(connection: Connection, vectors: Mapping[int, NDArray[np.float32]]) -> None:
    """Store unit vectors, or zeros, by chunk row and mark the chunks as embedded."""
    blobs = {row: vector.tobytes() for row, vector in vectors.items()}
    values = [(row, blob, vector_checksum(row, blob)) for row, blob in blobs.items()]
    connection.executemany(_SQL["write_vector"], values)
    connection.executemany(_SQL["mark"], [(1, row) for row in vectors])


def pass_over(connection: Connection, rows: Iterable[int]) -> None:
    """Mark chunks that have no vector, because the model does not read their script."""
    connection.executemany(_SQL["mark"], [(2, row) for row in rows])


def pages_of_chunks(
    connection: Connection, where: str, limit: int = 512
) -> Iterator[dict[int, str]]:
    """Read the text hashes of the chunks that `where` chooses, by row, so many at a time."""
    query = f"SELECT id, hash FROM chunks WHERE {where} AND id > ? ORDER BY id LIMIT ?"
    last = -1
    while page := {int(row): str(name) for row, name in connection.execute(query, (last, limit))}:
        yield page
        last = max(page)


def write_pieces(connection: Connection, pieces: Mapping[int, bytes]) -> None:
    """Store packed word pieces by chunk row."""
    values = [(row, packed, vector_checksum(row, packed)) for row, packed in pieces.items()]
    connection.executemany(_SQL["write_pieces"], values)


def within_limit(spans: Sequence[ChunkSpan], limit: int | None) -> list[ChunkSpan]:
    """Split every chunk of more than `limit` UTF-8 bytes; `None` leaves all as they are.

    Each part keeps the lines of its chunk and has a hash of its own (OPENCLAW.md, section 3).
    Blank parts are left out, and of parts with the same lines and text all but the first, as
    they would have one id.
    """
    if limit is None:
        return list(spans)
    parts: dict[ChunkSpan, None] = {}
    for span in spans:
        pieces = [span]
        if byte_size(span.text) > limit:
            texts = [text for text in split_input(span.text, limit) if text.strip()]
            pieces = [replace(span, text=text, hash=text_hash(text)) for text in texts]
        parts |= dict.fromkeys(pieces)
    return list(parts)
