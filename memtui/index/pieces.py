"""The word pieces of chunks that have a vector: of all, by a sync, or of the best for a query."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from memtui.data import read_table
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import IsCancelled, ProviderError
from memtui.index.database import Connection, number, transaction
from memtui.index.index_rows import pages_of_chunks, write_pieces
from memtui.index.job import PIECES, Job
from memtui.retrieval.passages import pack_pieces, unpack_passages, unpack_pieces

if TYPE_CHECKING:
    from memtui.retrieval.maxsim import Pieces

MOST_READ: Final = 20
"""So many of the best chunks of a query are read word by word: recall at 5 and MRR of LoCoMo are
then within 0.5 of reading the whole pool, and 400 tokens take 60 to 100 ms on two cores."""
AT_ONCE: Final = 5
"""So many are read before others get their turn."""
MOST_KEPT: Final = 2_000
"""The chunks whose pieces are kept for the next queries: of 400 tokens each, some 20 MB."""

_AT_ONCE: Final = 16
_SQL: Final = read_table("queries.toml")["rows"]
_MISSING: Final = "embedded = 1 AND id NOT IN (SELECT id FROM pieces)"


class PiecesPhase:
    """The third phase of a sync: keeps those of all, from the cache or made by the provider."""

    def __init__(self, job: Job, connection: Connection) -> None:
        self._job = job
        self._connection = connection
        identity = job.recipe.identity
        self._identity = identity
        chunks = number(connection, "SELECT count(*) FROM chunks")
        most = identity.piece_chunks if identity is not None and identity.word_pieces else -1
        self._is_on = chunks <= most

    def run(self) -> None:
        """Add those that are missing, or remove all; raises `Cancelled`, what was made stays."""
        connection, identity = self._connection, self._identity
        if identity is None or identity.word_pieces is None:
            return
        piece_count = number(connection, "SELECT count(*) FROM pieces")
        missing = number(connection, _SQL["vectors"]) - piece_count
        if not self._is_on and piece_count:
            with transaction(connection):
                connection.execute("DELETE FROM pieces")
        elif self._is_on and missing:
            self._job.progress.start(PIECES, missing)
            for page in pages_of_chunks(connection, _MISSING, _AT_ONCE):
                if not self.add(page) or self._job.is_interrupted:
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
        try:
            pieces = _make(provider, text, passages, job.is_stopped)
        except ProviderError as error:
            job.note(f"word pieces: {error}")
            return b""
        return _sealed(pieces, passages) if pieces is not None else b""


class PieceMemory:
    """The word pieces that were made last for queries, by model, text and passages; one thread."""

    def __init__(self) -> None:
        self._packed: dict[tuple[ProviderIdentity, str, bytes], bytes] = {}

    def read(
        self, chunks: Iterable[Any], provider: Provider, most: int, cancelled: IsCancelled
    ) -> tuple[Mapping[int, Sequence[Pieces]], int]:
        """Return those of chunks by row number, `most` of them made now, and how many are due.

        Of each chunk its row, hash, text and passages as the index keeps them. What was made
        stays. Raises as `Provider.word_pieces` does.
        """
        pieces, due = {}, 0
        for row, text_hash, text, passages in chunks:
            key = provider.identity, text_hash, passages
            if (packed := self._packed.pop(key, None)) is None:
                if not most:
                    due += 1
                    continue
                packed, most = _make(provider, text, passages, cancelled) or b"", most - 1
            self._packed[key] = packed
            pieces[row] = unpack_pieces(packed, len(unpack_passages(passages, len(text))))
        while len(self._packed) > MOST_KEPT:
            del self._packed[next(iter(self._packed))]
        return pieces, due


def _make(provider: Provider, text: str, passages: bytes, cancelled: IsCancelled) -> bytes | None:
    starts = [one.start for one in unpack_passages(passages, len(text))]
    pieces = provider.word_pieces(text, starts, cancelled=cancelled)
    return pack_pieces([one.vectors for one in pieces]) if pieces is not None else None


def _sealed(pieces: bytes, passages: bytes) -> bytes:
    """Put a checksum before the word pieces that tells whose passages they are, too."""
    return zlib.crc32(pieces, zlib.crc32(passages)).to_bytes(4, "little") + pieces
