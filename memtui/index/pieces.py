"""The third phase of a sync: the word pieces of every chunk that has a vector."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from memtui.data import read_table
from memtui.errors import ProviderError
from memtui.index.database import Connection, number, transaction
from memtui.index.index_rows import pages_of_chunks, write_pieces
from memtui.index.job import PIECES, Job
from memtui.retrieval.passages import pack_pieces, unpack_passages

MOST_CHUNKS: Final = 50_000
"""An index of more chunks keeps no word pieces: they take most of its room."""

_AT_ONCE: Final = 16
_SQL: Final = read_table("queries.toml")["rows"]
_MISSING: Final = "embedded = 1 AND id NOT IN (SELECT id FROM pieces)"


class PiecesPhase:
    """Keeps word pieces, from the cache or the provider, where its model gives them."""

    def __init__(self, job: Job, connection: Connection) -> None:
        self._job = job
        self._connection = connection
        identity = job.recipe.identity
        self._identity = identity
        chunks = number(connection, "SELECT count(*) FROM chunks")
        self._is_on = identity is not None and bool(identity.word_pieces) and chunks <= MOST_CHUNKS

    def run(self) -> None:
        """Add those that are missing, or remove all; raises `Cancelled`, what was made stays."""
        connection, identity = self._connection, self._identity
        if identity is None or identity.word_pieces is None:
            return
        kept = number(connection, "SELECT count(*) FROM pieces")
        missing = number(connection, _SQL["vectors"]) - kept
        if not self._is_on and kept:
            with transaction(connection):
                connection.execute("DELETE FROM pieces")
        elif self._is_on and missing:
            self._job.progress.start(PIECES, missing)
            for page in pages_of_chunks(connection, _MISSING, _AT_ONCE):
                if not self.add(page):
                    return
                self._job.progress.advance(len(page))

    def add(self, page: Mapping[int, str]) -> bool:
        """Add those of chunks by the hashes of their texts; False where nobody makes them."""
        job, identity, packed = self._job, self._identity, dict[int, bytes]()
        if identity is None or not self._is_on:
            return False
        pieces, made = job.cache.get_pieces(identity, page.values()), dict[str, bytes]()
        for row, text_hash in page.items():
            job.check()
            text, passages = self._connection.execute(_SQL["passages_of"], (row,)).get
            sealed = pieces.get(text_hash, b"")
            if sealed != _sealed(sealed[4:], passages):
                sealed = self._make(text, passages)
                if not sealed:
                    break
                pieces[text_hash] = made[text_hash] = sealed
            packed[row] = sealed[4:]
        job.cache.put_pieces(identity, made)
        with transaction(self._connection):
            write_pieces(self._connection, packed)
        return len(packed) == len(page)

    def _make(self, text: str, passages: bytes) -> bytes:
        job = self._job
        provider, _ = job.provider()
        # Loading a model takes a while; a stop during it counts.
        job.check()
        if provider is None or provider.identity != self._identity:
            return b""
        starts = [one.start for one in unpack_passages(passages, len(text))]
        try:
            pieces = provider.word_pieces(text, starts, cancelled=job.is_stopped)
        except ProviderError as error:
            job.note(f"word pieces: {error}")
            return b""
        if pieces is None:
            return b""
        return _sealed(pack_pieces([one.vectors for one in pieces]), passages)


def _sealed(pieces: bytes, passages: bytes) -> bytes:
    """Put a checksum before the word pieces that tells whose passages they are, too."""
    return zlib.crc32(pieces, zlib.crc32(passages)).to_bytes(4, "little") + pieces
