"""Vectors that were made before, kept in one database file within a bound."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar

from memtui.data import DATA_FOLDER, read_table
from memtui.embedding.provider import ProviderIdentity, Vector
from memtui.errors import IndexUnusable, IsCancelled, never
from memtui.index.database import Connection, checkpoint, is_damage, number, open_database
from memtui.settings.files import NO_FILE, file_stamp, make_private

T = TypeVar("T")

_SQL: Final = read_table("queries.toml")["cache"]


@dataclass(eq=False)
class EmbeddingCache:
    """Vectors by (provider, model, fingerprint, text hash), in one database file.

    Usable from any thread, by one at a time. A damaged file is moved aside and a fresh one
    started, because everything in it can be made again; `recovered` then holds one line that says
    so. Other database errors pass through. One that is not `writable` changes no file, and is
    empty while there is none.
    """

    path: Path
    writable: bool = True
    now: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.recovered: str | None = None
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._file = NO_FILE
        self._closed = False

    def get_many(self, identity: ProviderIdentity, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors that are known, by text hash; each is read-only, shape (dimensions,).

        A vector of other dimensions than `identity` has, or that is no longer one of length 1 or
        0, counts as unknown.
        """
        import numpy as np

        vectors: dict[str, Vector] = {
            text_hash: np.frombuffer(blob, dtype="<f4")
            for text_hash, dims, blob in self._fetch("vectors", identity, hashes)
            if isinstance(blob, bytes) and dims == (identity.dimensions or dims) == len(blob) / 4
        }
        squares = {name: np.square(one, dtype=float).sum() for name, one in vectors.items()}
        return {name: vectors[name] for name, one in squares.items() if round(one, 3) in (0, 1)}

    def get_pieces(self, identity: ProviderIdentity, hashes: Iterable[str]) -> dict[str, bytes]:
        """Return what was stored as word pieces behind vectors, by text hash."""
        rows = self._fetch("pieces", identity, hashes)
        return {text_hash: packed for text_hash, packed in rows if packed and type(packed) is bytes}

    def _fetch(self, name: str, identity: ProviderIdentity, hashes: Iterable[str]) -> list[Any]:
        bindings = _bindings(identity, hashes)
        return self._run(lambda file: file.execute(_SQL[name], bindings).fetchall(), [])

    def put_pieces(self, identity: ProviderIdentity, pieces: Mapping[str, bytes]) -> None:
        """Store packed word pieces behind the vectors of their texts, where those are there."""
        self._put(
            "put_pieces",
            [(packed, *_bindings(identity, [name])) for name, packed in pieces.items()],
        )

    def put_many(self, identity: ProviderIdentity, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by text hash, all or none; raises `ValueError` for other dimensions.

        When it returns they outlive a loss of power.
        """
        import numpy as np

        maker = identity.name, identity.model, identity.fingerprint
        rows: list[tuple[str | int | bytes, ...]] = []
        for text_hash, vector in vectors.items():
            if vector.shape != (identity.dimensions or vector.size,):
                raise ValueError(f"shape {vector.shape} does not fit {identity.dimensions} numbers")
            blob = np.ascontiguousarray(vector, dtype="<f4").tobytes()
            rows.append((*maker, text_hash, vector.size, blob, int(self.now())))

        self._put("put_vectors", rows)

    def _put(self, name: str, rows: Sequence[tuple[str | int | bytes, ...]]) -> None:
        def store(connection: Connection) -> None:
            with connection:
                connection.executemany(_SQL[name], rows)

        if rows:
            self._run(store, None)

    def trim(
        self,
        limit: int,
        live: Callable[[], Mapping[ProviderIdentity, Iterable[str]]],
        *,
        cancelled: IsCancelled = never,
    ) -> int:
        """Evict what was stored longest ago until the vectors take at most `limit` bytes on disk.

        Returns by how many bytes they are still above it, as live vectors alone may be. The text
        hashes that `live` gives, which is only called where they are above it, are never evicted.
        The file shrinks; who reads it is not kept waiting. Without effect where nothing may be
        written.
        """
        if not self.writable or not self.path.exists() or self._run(_used_bytes, 0) <= limit:
            return 0
        # Here, since what is wrong with an index is not wrong with this file.
        live_hashes = live()

        def evict(connection: Connection) -> int:
            excess = _used_bytes(connection) - limit
            connection.execute(_SQL["before_evicting"])
            for identity, hashes in live_hashes.items():
                connection.execute(_SQL["live"], _bindings(identity, hashes))
            # Some rows at a time, by the mean size of one.
            row_bytes = 1 + (limit + excess) // max(1, number(connection, _SQL["count"]))
            while excess > 0 and not cancelled():
                connection.execute(_SQL["evict"], (min(500, 1 + excess // row_bytes),))
                if not connection.changes():
                    break
                excess = _used_bytes(connection) - limit
            # The write-ahead log is emptied another time where a reader needs it.
            patience = number(connection, "PRAGMA busy_timeout")
            connection.set_busy_timeout(0)
            try:
                checkpoint(connection)
            finally:
                connection.set_busy_timeout(patience)
            return max(0, excess)

        return self._run(evict, 0)

    def count(self) -> int:
        """Return how many vectors it holds, of all providers."""
        return self._run(lambda connection: number(connection, _SQL["count"]), 0)

    def size_bytes(self) -> int:
        """Return how much room the file and its journal take on disk, in bytes."""
        return file_stamp(self.path).size + file_stamp(self._journal("-wal")).size

    def close(self) -> None:
        """Close the file; later calls raise `ValueError`."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _journal(self, suffix: str) -> Path:
        return Path(os.fspath(self.path) + suffix)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._file = NO_FILE

    def _run(self, action: Callable[[Connection], T], empty: T) -> T:
        """Do something with the file; `empty` where there is none and none may be made."""
        if not self.writable and not self.path.exists():
            return empty
        with self._lock:
            # The second time the file is opened anew: another process may have put a fresh one
            # in the place of a damaged one.
            for is_certain in (False, True):
                try:
                    return action(self._opened())
                except Exception as error:
                    if not self.writable or not is_damage(error):
                        raise
                    self._disconnect()
                    if is_certain:
                        self._move_aside()
            return action(self._opened())

    def _opened(self) -> Connection:
        if self._closed:
            raise ValueError("the embedding cache is closed")
        file = file_stamp(self.path)
        # One that was removed, replaced or cut: read as it is mapped, that kills.
        if self._connection is not None and not file.continues(self._file):
            if file == NO_FILE and self.writable:
                self.recovered = "the embedding cache was deleted and starts anew"
            self._disconnect()
        if self._connection is None:
            if self.writable:
                make_private(self.path.parent)
            self._connection = connection = open_database(self.path, readonly=not self.writable)
            if self.writable:
                # An index is made again from the notes; vectors may have cost money.
                connection.execute("PRAGMA synchronous = FULL")
                if number(connection, "SELECT count(*) FROM sqlite_master") == 0:
                    # The file shrinks with each commit that frees pages of it.
                    connection.execute("PRAGMA auto_vacuum = FULL").fetchall()
                    # Only writing the file anew changes it, even one without tables.
                    connection.execute("VACUUM")
                connection.execute((DATA_FOLDER / "embedding_cache.sql").read_text("utf-8"))
            file = file_stamp(self.path)
        self._file = file
        return self._connection

    def _move_aside(self) -> None:
        names = (self.path.with_name(f"{self.path.name}.corrupt-{n}") for n in count(1))
        aside = next(path for path in names if not path.exists())
        try:
            self.path.replace(aside)
            for suffix in ("-wal", "-shm"):
                if self._journal(suffix).exists():
                    self._journal(suffix).replace(f"{aside}{suffix}")
        except OSError as error:
            message = f"the embedding cache {self.path} is damaged and cannot be moved: {error}"
            raise IndexUnusable(message, hint="delete it; memtui makes it again") from error
        note = f"it was kept as {aside.name}"
        self.recovered = f"the embedding cache was damaged and starts anew; {note}"


def _bindings(identity: ProviderIdentity, hashes: Iterable[str]) -> tuple[str, ...]:
    return identity.name, identity.model, identity.fingerprint, json.dumps(list(hashes))


def _used_bytes(connection: Connection) -> int:
    """Return how much of the file holds something, in bytes."""
    pages = number(connection, "PRAGMA page_count") - number(connection, "PRAGMA freelist_count")
    return pages * number(connection, "PRAGMA page_size")
