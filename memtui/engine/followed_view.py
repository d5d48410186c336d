"""The vectors of the live index in memory, following what is committed to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.index.database import number
from memtui.index.reader import LiveIndex, Stamp
from memtui.index.schema import has_vector_table, read_meta

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.retrieval.vector_view import Mask, RowIds, VectorView

REFRESH_SECONDS = 0.75
"""While an index is being filled, its vectors are looked at again so often at most."""

_RELOAD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class _Rows:
    """What tells at the next look which chunks are other ones."""

    last: int
    """The highest row number."""
    count: int
    """How many chunks there are."""
    pending: RowIds
    """Those without a vector."""
    missing: RowIds
    """Those whose vector was neither in the index nor in the cache: it is looked for again."""


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
        self._rows: _Rows | None = None
        self._at = 0.0

    def begin(self, connection: Connection) -> None:
        """Follow another connection; nothing of the former one is kept."""
        self._connection = connection
        self.view = self._stamp = self._noted = self._rows = None

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector of the index has, as the index says itself."""
        if self._noted is None and self._connection is not None:
            noted = read_meta(self._connection).get("dimensions", "")
            self._noted = int(noted) if noted.isdecimal() else None
        return self._noted

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
        from memtui.retrieval.connection import snapshot
        from memtui.retrieval.vector_view import load_view

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
        with snapshot(self._connection):
            rows = self._rows_now(self._connection)
            changed = self._changed(identity, rows) if same else None
            if changed is not None:
                view, missing = changed
            else:
                view = load_view(
                    self._connection,
                    self._cache,
                    identity,
                    dims,
                    generation=stamp.generation,
                    undisturbed=self._undisturbed,
                    gives_way=gives_way,
                )
                missing = self._not_in(view, rows)
        self.view, self._rows = view, replace(rows, missing=missing)
        self._stamp, self._at = stamp, monotonic()

    def _stamp_now(self, connection: Connection) -> Stamp:
        # Not `LiveIndex.stamp`: that follows a swap, and a search keeps to one generation.
        return Stamp(self._live.generation, number(connection, "PRAGMA data_version"))

    def _changed(self, identity: ProviderIdentity, rows: _Rows) -> tuple[VectorView, RowIds] | None:
        """The view with what was added and removed, and the chunks whose vector is nowhere.

        `None` when loading all of it is cheaper.
        """
        import numpy as np

        view, before = self.view, self._rows
        if view is None or before is None:
            return None
        added, removed = self._differences(view, before, rows)
        if len(added) > max(2000, _RELOAD_SHARE * rows.count):
            return None
        found: list[int] = []
        vectors: list[bytes] = []
        for rowid, vector in self._vectors_of(added.tolist(), identity):
            found.append(rowid)
            vectors.append(vector)
        matrix = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(-1, view.dims)
        followed = view.with_changes(found, matrix, removed, pending=len(rows.pending))
        return followed, added[~_among(added, np.array(found, dtype=np.int64))]

    def _differences(self, view: VectorView, before: _Rows, rows: _Rows) -> tuple[RowIds, RowIds]:
        """The rows that got a vector since the last look, and those that have none any more."""
        import numpy as np

        assert self._connection is not None
        present = view.rowids[view.live]
        new = _listed(self._connection, f"id > {before.last}")
        if before.count + len(new) == rows.count:
            # Numbers are never used twice: nothing was removed, and only these rows are other ones.
            could = np.concatenate([before.pending, before.missing, new])
            added = could[~_among(could, rows.pending)]
            return added, present[_among(present, rows.pending)]
        wanted = _listed(self._connection, "embedded = 1")
        return wanted[~_among(wanted, present)], present[~_among(present, wanted)]

    def _rows_now(self, connection: Connection) -> _Rows:
        import numpy as np

        return _Rows(
            number(connection, "SELECT ifnull(max(id), 0) FROM chunks"),
            number(connection, "SELECT count(*) FROM chunks"),
            _listed(connection, "embedded = 0"),
            np.empty(0, dtype=np.int64),
        )

    def _not_in(self, view: VectorView, rows: _Rows) -> RowIds:
        """The chunks whose vector a view lacks, though the index says that they have one."""
        assert self._connection is not None
        if view.count + len(rows.pending) == rows.count:
            # As a rule: listing them would read the texts of all chunks.
            return rows.missing
        embedded = _listed(self._connection, "embedded = 1")
        return embedded[~_among(embedded, view.rowids)]

    def _vectors_of(
        self, rowids: Sequence[int], identity: ProviderIdentity
    ) -> Iterator[tuple[int, bytes]]:
        """The stored vectors of chunks, from the vector table or else from the cache."""
        assert self._connection is not None
        has_table = has_vector_table(self._connection)
        for rowid in rowids:
            vector = self._in_table(rowid) if has_table else None
            if vector is None:
                vector = self._in_cache(rowid, identity)
            if vector is not None:
                yield rowid, vector

    def _in_table(self, rowid: int) -> bytes | None:
        assert self._connection is not None
        with self._undisturbed():
            rows = self._connection.execute(
                "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
            ).fetchall()
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None

    def _in_cache(self, rowid: int, identity: ProviderIdentity) -> bytes | None:
        assert self._connection is not None
        hashes = self._connection.execute(
            "SELECT hash FROM chunks WHERE id = ?", (rowid,)
        ).fetchall()
        known = self._cache.get_many(identity, [str(row[0]) for row in hashes])
        return next((vector.tobytes() for vector in known.values()), None)


def _listed(connection: Connection, condition: str) -> RowIds:
    """The rows of the chunks that meet a condition."""
    import numpy as np

    rows = connection.execute(f"SELECT group_concat(id) FROM chunks WHERE {condition}").fetchall()
    listed = rows[0][0]
    if not listed:
        return np.empty(0, dtype=np.int64)
    return np.fromstring(str(listed), dtype=np.int64, sep=",")


def _among(rows: RowIds, others: RowIds) -> Mask:
    """Whether each row is one of the others; by a table, as numpy's own way sorts them all."""
    import numpy as np

    if not len(rows) or not len(others):
        return np.zeros(len(rows), dtype=np.bool_)
    table = np.zeros(max(int(rows.max()), int(others.max())) + 1, dtype=np.bool_)
    table[others] = True
    return table[rows]
