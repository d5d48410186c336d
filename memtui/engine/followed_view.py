"""The vectors of the live index in memory, following what is committed to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic
from typing import TYPE_CHECKING

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.index.database import number
from memtui.index.reader import LiveIndex, Stamp
from memtui.index.schema import has_vector_table, read_meta

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.retrieval.vector_view import RowIds, VectorView

REFRESH_SECONDS = 0.75
"""While an index is being filled, its vectors are looked at again so often at most."""

_RELOAD_SHARE = 0.25


class FollowedView:
    """Holds the vector view of one connection after the other; belongs to the engine thread.

    `is_filling` tells whether an index run is going on; no statement is interrupted within
    `undisturbed()`. Methods raise what SQLite raises.
    """

    def __init__(
        self,
        live: LiveIndex,
        cache: EmbeddingCache,
        is_filling: Callable[[], bool],
        undisturbed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.view: VectorView | None = None
        self.dimensions: int | None = None
        """How many numbers a vector of the index has, as the index says itself."""
        self._live = live
        self._cache = cache
        self._is_filling = is_filling
        self._undisturbed = undisturbed
        self._connection: Connection | None = None
        self._stamp: Stamp | None = None
        self._at = 0.0

    def begin(self, connection: Connection) -> None:
        """Follow another connection; nothing of the former one is kept."""
        self._connection = connection
        self.view = self._stamp = None
        noted = read_meta(connection).get("dimensions", "")
        self.dimensions = int(noted) if noted.isdecimal() else None

    def refresh(
        self,
        provider: Provider | ProviderIdentity,
        gives_way: Callable[[], bool] | None,
        *,
        while_filling: bool,
    ) -> None:
        """Follow the index; `while_filling` also where it was looked at a moment ago."""
        from memtui.retrieval.connection import snapshot

        connection = self._connection
        # A model may give other numbers now than it did; the vectors are as they are.
        dims = self.dimensions or provider.dimensions
        if dims is None or connection is None:
            return
        # Not `LiveIndex.stamp`: that follows a swap, and a search keeps to one generation.
        stamp = Stamp(self._live.generation, number(connection, "PRAGMA data_version"))
        waits = monotonic() - self._at < REFRESH_SECONDS and self._is_filling()
        if self.view is not None and (stamp == self._stamp or (waits and not while_filling)):
            return
        identity = ProviderIdentity(provider.name, provider.model, dims, provider.fingerprint)
        with snapshot(connection):
            self.view = self._changed(connection, identity) or self._loaded(
                connection, identity, stamp, gives_way
            )
        self._stamp, self._at = stamp, monotonic()

    def _loaded(
        self,
        connection: Connection,
        identity: ProviderIdentity,
        stamp: Stamp,
        gives_way: Callable[[], bool] | None,
    ) -> VectorView:
        from memtui.retrieval.vector_view import load_view

        assert identity.dimensions is not None
        return load_view(
            connection,
            self._cache,
            identity,
            identity.dimensions,
            undisturbed=self._undisturbed,
            gives_way=gives_way,
        )

    def _changed(self, connection: Connection, identity: ProviderIdentity) -> VectorView | None:
        """The view with what was added and removed; `None` when loading all of it is cheaper."""
        import numpy as np

        view = self.view
        if view is None or view.dims != identity.dimensions:
            return None
        # Each is read from an index of its own, and no text with it.
        rows, pending = _ids(connection, ""), _ids(connection, " WHERE embedded = 0")
        embedded = np.setdiff1d(rows, pending, assume_unique=True)
        present = view.rowids[view.live]
        added = np.setdiff1d(embedded, present, assume_unique=True)
        if len(added) > max(2000, _RELOAD_SHARE * len(rows)):
            return None
        vectors = {
            rowid: vector
            for rowid in added.tolist()
            if (vector := self._vector(connection, rowid, identity)) is not None
        }
        matrix = np.frombuffer(b"".join(vectors.values()), dtype=np.float32)
        removed = np.setdiff1d(present, embedded, assume_unique=True)
        return view.with_changes(
            list(vectors), matrix.reshape(-1, view.dims), removed, pending=len(pending)
        )

    def _vector(
        self, connection: Connection, rowid: int, identity: ProviderIdentity
    ) -> bytes | None:
        """A stored vector, from the vector table or else from the cache."""
        if has_vector_table(connection):
            with self._undisturbed():
                rows = connection.execute(
                    "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
                ).fetchall()
            if rows and isinstance(rows[0][0], bytes):
                return rows[0][0]
        hashes = connection.execute("SELECT hash FROM chunks WHERE id = ?", (rowid,)).fetchall()
        known = self._cache.get_many(identity, [str(row[0]) for row in hashes])
        return next((vector.tobytes() for vector in known.values()), None)


def _ids(connection: Connection, where: str) -> RowIds:
    """The rows of chunks, ascending."""
    import numpy as np

    rows = connection.execute(f"SELECT id FROM chunks{where} ORDER BY id").fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)
