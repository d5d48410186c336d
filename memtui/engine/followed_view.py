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
    from memtui.retrieval.vector_view import VectorView

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
        self._live = live
        self._cache = cache
        self._is_filling = is_filling
        self._undisturbed = undisturbed
        self._connection: Connection | None = None
        self._noted: int | None = None
        self._stamp: Stamp | None = None
        self._at = 0.0

    def begin(self, connection: Connection) -> None:
        """Follow another connection; nothing of the former one is kept."""
        self._connection = connection
        self.view = self._stamp = self._noted = None

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector of the index has, as the index says itself."""
        if self._noted is None and self._connection is not None:
            noted = read_meta(self._connection).get("dimensions", "")
            self._noted = int(noted) if noted.isdecimal() else None
        return self._noted

    @property
    def is_current(self) -> bool:
        """Whether there is a view that `refresh` would leave as it is."""
        if self.view is None or self._connection is None:
            return False
        return self._stamp_now(self._connection) == self._stamp or self._waits_a_moment

    @property
    def _waits_a_moment(self) -> bool:
        """Whether the index is being filled and was looked at a moment ago."""
        return monotonic() - self._at < REFRESH_SECONDS and self._is_filling()

    def refresh(
        self,
        provider: Provider | ProviderIdentity,
        gives_way: Callable[[], bool] | None,
        *,
        while_filling: bool,
    ) -> None:
        """Follow the index; `while_filling` also where it was looked at a moment ago."""
        from memtui.retrieval.vector_load import load_view

        # A model may give other numbers now than it did; the vectors are as they are.
        dims = self.dimensions or provider.dimensions
        if dims is None or self._connection is None:
            return
        stamp = self._stamp_now(self._connection)
        unchanged = stamp == self._stamp or (self._waits_a_moment and not while_filling)
        if self.view is not None and unchanged:
            return
        identity = ProviderIdentity(provider.name, provider.model, dims, provider.fingerprint)
        same = self.view is not None and self.view.dims == dims
        changed = self._changed(identity) if same else None
        self.view = changed or load_view(
            self._connection,
            self._cache,
            identity,
            dims,
            generation=stamp.generation,
            undisturbed=self._undisturbed,
            gives_way=gives_way,
        )
        self._stamp, self._at = stamp, monotonic()

    def _stamp_now(self, connection: Connection) -> Stamp:
        # Not `LiveIndex.stamp`: that follows a swap, and a search keeps to one generation.
        return Stamp(self._live.generation, number(connection, "PRAGMA data_version"))

    def _changed(self, identity: ProviderIdentity) -> VectorView | None:
        """The view with what was added and removed; `None` when loading all of it is cheaper."""
        import numpy as np

        assert self.view is not None
        assert self._connection is not None
        view = self.view
        rows = self._connection.execute("SELECT id FROM chunks WHERE embedded = 1").fetchall()
        wanted = np.array([row[0] for row in rows], dtype=np.int64)
        present = view.rowids[view.live]
        added = np.setdiff1d(wanted, present)
        removed = np.setdiff1d(present, wanted)
        if len(added) > max(2000, _RELOAD_SHARE * len(wanted)):
            return None
        found: list[int] = []
        vectors: list[bytes] = []
        for rowid in added.tolist():
            vector = self._vector_of(rowid, identity)
            if vector is not None:
                found.append(rowid)
                vectors.append(vector)
        matrix = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(-1, view.dims)
        pending = number(self._connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
        return view.with_changes(found, matrix, removed, pending=pending)

    def _vector_of(self, rowid: int, identity: ProviderIdentity) -> bytes | None:
        """The stored vector of a chunk, from the vector table or else from the cache."""
        assert self._connection is not None
        if has_vector_table(self._connection):
            with self._undisturbed():
                rows = self._connection.execute(
                    "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
                ).fetchall()
            if rows and isinstance(rows[0][0], bytes):
                return rows[0][0]
        hashes = self._connection.execute(
            "SELECT hash FROM chunks WHERE id = ?", (rowid,)
        ).fetchall()
        known = self._cache.get_many(identity, [str(row[0]) for row in hashes])
        return next((vector.tobytes() for vector in known.values()), None)
