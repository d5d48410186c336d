"""The second phase of a sync: a vector for every chunk, from the cache or the provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtui.embedding.provider import Provider, ProviderIdentity, Vector
from memtui.errors import ProviderError
from memtui.index.database import number, transaction, vector_extension
from memtui.index.job import Counts, Job, VectorProblem
from memtui.index.progress import VECTORS
from memtui.index.schema import create_vector_table, has_vector_table, read_meta, write_meta
from memtui.index.writer import IndexWriter
from memtui.model import ProviderState, Reason

if TYPE_CHECKING:
    from memtui.index.database import Connection

_PAGE = 512
_BATCH = 16
# How much larger than its live rows the vector table may grow before it is written anew.
_SLACK_FACTOR = 2
_SLACK_ROWS = 4096

_MARK = "vectors"
_IN_TABLE = "table"
_IN_CACHE = "cache"


@dataclass(frozen=True, slots=True)
class _Pending:
    row: int
    hash: str


class VectorsPhase:
    """Fills in the vectors that are missing; keyword search works meanwhile.

    A provider that fails ends the asking, not the phase: what the cache knows is still filled
    in, `problem` says what happened, and the next sync asks again.
    """

    def __init__(self, job: Job, connection: Connection, counts: Counts) -> None:
        self.problem: VectorProblem | None = None
        self.state: ProviderState | None = None
        self._job = job
        self._connection = connection
        self._counts = counts
        self._writer = IndexWriter(connection, model=job.recipe.model)
        self._provider: Provider | None = None
        self._identity: ProviderIdentity | None = job.recipe.identity
        noted = read_meta(connection).get("dimensions", "")
        self._dims = job.recipe.dimensions or (int(noted) if noted.isdecimal() else None)
        self._dims_noted = bool(noted)

    def run(self) -> None:
        """Embed every chunk without a vector; raises `Cancelled`, what was made stays."""
        identity = self._identity
        if identity is None:
            return
        self._settle_table()
        pending = self._count_pending()
        if not pending:
            return
        self._job.progress.start(VECTORS, pending)
        for page in self._pages():
            self._job.check()
            missing = self._from_cache(page, identity)
            if missing:
                self._counts.cache_misses += len(missing)
                self._from_provider(missing, identity)

    def _settle_table(self) -> None:
        """Bring the vector table back when sqlite-vec was missing while vectors were written."""
        connection = self._connection
        where = read_meta(connection).get(_MARK, _IN_TABLE)
        if vector_extension(connection) is None:
            if where != _IN_CACHE:
                with transaction(connection):
                    write_meta(connection, {_MARK: _IN_CACHE})
        elif where == _IN_CACHE:
            with transaction(connection):
                if has_vector_table(connection):
                    connection.execute("DROP TABLE chunks_vec")
                connection.execute("UPDATE chunks SET embedded = 0 WHERE embedded <> 0")
                write_meta(connection, {_MARK: _IN_TABLE})
            if self._dims is not None:
                create_vector_table(connection, self._dims)
            self._writer = IndexWriter(connection, model=self._job.recipe.model)

    def _count_pending(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks WHERE embedded = 0")

    def _pages(self) -> Iterator[list[_Pending]]:
        last = -1
        while True:
            rows = self._connection.execute(
                "SELECT id, hash FROM chunks WHERE embedded = 0 AND id > ? ORDER BY id LIMIT ?",
                (last, _PAGE),
            ).fetchall()
            if not rows:
                return
            page = [_Pending(int(str(row)), str(text_hash)) for row, text_hash in rows]
            last = page[-1].row
            yield page

    def _from_cache(self, page: list[_Pending], identity: ProviderIdentity) -> list[_Pending]:
        known = self._job.cache.get_many(identity, [pending.hash for pending in page])
        found = {
            pending.row: known[pending.hash]
            for pending in page
            if pending.hash in known and self._fits(known[pending.hash])
        }
        if found:
            self._write(found)
            self._counts.cache_hits += len(found)
            self._job.progress.advance(len(found))
        return [pending for pending in page if pending.row not in found]

    def _from_provider(self, missing: list[_Pending], identity: ProviderIdentity) -> None:
        provider = self._ask_for_provider()
        if provider is None:
            return
        rows: dict[str, list[int]] = {}
        for pending in missing:
            rows.setdefault(pending.hash, []).append(pending.row)
        texts = {text_hash: self._text(some[0]) for text_hash, some in rows.items()}
        # Texts of like length share a batch, because a model pads all to the longest.
        order = sorted(texts, key=lambda text_hash: len(texts[text_hash]))
        size = max(1, provider.batch_size or _BATCH)
        for start in range(0, len(order), size):
            self._job.check()
            hashes = order[start : start + size]
            made = self._embed(provider, {name: texts[name] for name in hashes})
            if made is None:
                return
            self._job.cache.put_many(identity, made)
            self._write({row: made[name] for name in hashes for row in rows[name]})
            count = sum(len(rows[name]) for name in hashes)
            self._counts.embedded += count
            self._job.progress.advance(count)

    def _embed(self, provider: Provider, texts: dict[str, str]) -> dict[str, Vector] | None:
        try:
            vectors = provider.embed_documents(list(texts.values()), cancelled=self._job.cancelled)
        except ProviderError as error:
            self._fail(Reason.PROVIDER_FAILED, str(error))
            return None
        dims = self._dims or provider.dimensions
        if vectors.shape != (len(texts), dims):
            detail = f"{provider.name} gave {vectors.shape[-1]} numbers, expected {dims}"
            self._fail(Reason.DIMENSIONS_DIFFER, detail)
            return None
        return dict(zip(texts, vectors, strict=True))

    def _ask_for_provider(self) -> Provider | None:
        if self._provider is None and self.problem is None:
            self._provider, self.state = self._job.provider()
            # Loading a model takes a while; a stop during it counts.
            self._job.check()
            if self._provider is None:
                self._fail(self.state.state, self.state.detail)
        return self._provider

    def _fail(self, reason: Reason, detail: str) -> None:
        self.problem = VectorProblem(reason, detail)
        self._provider = None

    def _fits(self, vector: Vector) -> bool:
        if self._dims is None:
            self._dims = vector.shape[0]
        return bool(vector.shape[0] == self._dims)

    def _write(self, vectors: dict[int, Vector]) -> None:
        with transaction(self._connection):
            self._writer.write_vectors(vectors)
            if not self._dims_noted:
                # The first answer of a provider that could not tell before.
                self._dims = next(iter(vectors.values())).shape[0]
                write_meta(self._connection, {"dimensions": str(self._dims)})
                self._dims_noted = True

    def _text(self, row: int) -> str:
        rows = self._connection.execute("SELECT text FROM chunks WHERE id = ?", (row,)).fetchall()
        return str(rows[0][0])


def compact_vectors(connection: Connection) -> bool:
    """Write the vector table anew when it is mostly holes, which it does not fill by itself."""
    if not has_vector_table(connection):
        return False
    allocated = number(connection, "SELECT ifnull(sum(size), 0) FROM chunks_vec_chunks")
    live = number(connection, "SELECT count(*) FROM chunks_vec_rowids")
    if allocated <= _SLACK_FACTOR * live + _SLACK_ROWS:
        return False
    recipe = connection.execute(
        "SELECT sql FROM sqlite_master WHERE name = 'chunks_vec'"
    ).fetchall()[0][0]
    with transaction(connection):
        connection.execute(
            "CREATE TEMP TABLE kept AS SELECT rowid AS row, embedding FROM chunks_vec"
        )
        connection.execute("DROP TABLE chunks_vec")
        connection.execute(str(recipe))
        connection.execute(
            "INSERT INTO chunks_vec(rowid, embedding) SELECT row, embedding FROM temp.kept"
        )
        connection.execute("DROP TABLE temp.kept")
    return True
