"""The second phase of a sync: a vector for every chunk, from the cache or the provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import (
    MOST_FAILURES,
    OF_THE_SERVICE,
    PROBE_TEXT,
    Provider,
    ProviderIdentity,
    TextsRefused,
    Vector,
    is_for_good,
    maker_of,
)
from memtui.errors import ProviderError
from memtui.index.database import Connection, number, transaction
from memtui.index.job import VECTORS, Counts, Job, Refusal
from memtui.index.rows import IndexWriter
from memtui.index.schema import made_by, read_meta, write_meta
from memtui.index.snapshot import VectorProblem
from memtui.model import Failure, ProviderState, Reason, Usage
from memtui.text.sanitize import safe_line

STORE_NAME: Final = "batches.json"
"""The file of the index folder that keeps what is under way."""

_TEXT_PAGE: Final = 2048
_PAGE: Final = 512
_BATCH: Final = 16
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Batched:
    """What became of the texts that were missing."""

    asked: frozenset[str] = frozenset()
    """The hashes that were looked at; those with a vector have it in the cache now."""
    waiting: bool = False
    """Whether a batch is under way, and the wait for it gave way to other work."""
    spent: Usage = field(default_factory=Usage)
    """What the service counted."""


class MissingTexts(Mapping[str, str]):
    """The texts of chunks without a vector by hash, read from the index when they are asked for.

    With `every`, of all chunks that have none of this identity in the cache. Without those that
    `is_refused` says are not sent any more.
    """

    def __init__(
        self,
        connection: Connection,
        cache: EmbeddingCache,
        identity: ProviderIdentity,
        check: Callable[[], None],
        is_refused: Callable[[str], bool] = lambda _: False,
        *,
        every: bool = False,
    ) -> None:
        self._connection = connection
        self._rows: dict[str, int] = {}
        for page in _pages(connection, _TEXT_PAGE, every=every):
            check()
            cached = cache.get_many(identity, [chunk.hash for chunk in page])
            self._rows |= {
                chunk.hash: chunk.row
                for chunk in page
                if chunk.hash not in cached and not is_refused(chunk.hash)
            }

    def __getitem__(self, text_hash: str) -> str:
        return _text(self._connection, self._rows[text_hash])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def embed_by_batches(
    job: Job,
    connection: Connection,
    provider: Provider,
    identity: ProviderIdentity,
    *,
    gives_way: bool,
    every: bool = False,
) -> Batched:
    """Put the vectors of missing texts into the cache by batches, where the provider has them.

    Nothing here is a failure of the sync: what has no vector afterwards is left to the caller,
    and `job.note` is told why. With `gives_way` the wait ends when `job.gives_way()`; with `every`
    the texts are those of all chunks. Raises `Cancelled`.
    """

    def is_refused(text_hash: str) -> bool:
        refusal = job.refused.get((maker_of(identity), text_hash))
        return refusal is not None and refusal.is_final

    try:
        service = provider.batches(job.cancelled)
        if service is None:
            return Batched()
        # Local models need none of it, and the start of the program is faster without.
        from memtui.embedding.batch import BatchRun, BatchStore

        texts = MissingTexts(connection, job.cache, identity, job.check, is_refused, every=every)
        outcome = BatchRun(
            replace(service, identity=identity),
            texts,
            BatchStore(job.folder.folder / STORE_NAME),
            job.cache,
            cancelled=job.cancelled,
            interrupted=job.gives_way if gives_way else lambda: False,
            progress=job.progress.reach,
        ).run()
    except ProviderError as error:
        job.note(f"batch: {error}")
        return Batched()
    except OSError as error:
        job.note(f"batch: {STORE_NAME} cannot be read or written: {error.strerror}")
        return Batched()
    if outcome.note:
        job.note(outcome.note)
    return Batched(frozenset(texts), outcome.waiting, outcome.spent)


class _Pending(NamedTuple):
    """A chunk without a vector."""

    row: int
    hash: str


class VectorsPhase:
    """Fills in the vectors that are missing; keyword search works meanwhile.

    A batch that fails is left out and asked for again in the end, where the service failed, or
    else by the next sync. Three of them in a row, or a failure for good, end the asking, not the
    phase: what the cache knows is still filled in, and `problem` says what happened. With
    `gives_way` the wait for a batch at a service ends when other work is wanted; its chunks wait
    for the sync after that. Texts that a working provider refuses are left out, and named.
    """

    def __init__(
        self, job: Job, connection: Connection, counts: Counts, *, gives_way: bool = False
    ) -> None:
        self.problem: VectorProblem | None = None
        self.state: ProviderState | None = None
        self._job = job
        self._connection = connection
        self._counts = counts
        self._writer = IndexWriter(connection, model=job.recipe.model)
        self._provider: Provider | None = None
        self._used_before = Usage()
        self._failed_in_a_row = 0
        self._failures: set[Failure | None] = set()
        self._gave_up = False
        self._refused: dict[int, Refusal] = {}
        self._gives_way = gives_way
        self._asked_of_batches: frozenset[str] | None = None
        self._dims: int | None = None
        self._are_dims_noted = False

    def run(self) -> None:
        """Embed every chunk without a vector; raises `Cancelled`, what was made stays."""
        identity = self._job.recipe.identity
        pending = number(self._connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
        if identity is None or not pending:
            return
        maker = made_by(read_meta(self._connection))
        noted = maker.dimensions if maker is not None else None
        self._dims, self._are_dims_noted = identity.dimensions or noted, noted is not None
        self._job.progress.start(VECTORS, pending)
        try:
            self._fill(identity)
            # So a small index, which has no three batches, gets its vectors or another provider,
            # too: batches that failed by no fault of their texts are asked for again.
            while self._failures and self._provider is not None and not self._gave_up:
                if not self._failures & OF_THE_SERVICE and self._provider.usage().texts:
                    break
                self.problem = None
                self._fill(identity, again=True)
            self.problem = self.problem or self._problem_of_texts()
        finally:
            if self._provider is not None:
                used = self._provider.usage().since(self._used_before)
                self._counts.usage = self._job.spent.plus(used)

    def _fill(self, identity: ProviderIdentity, *, again: bool = False) -> None:
        """Go through the chunks without a vector once; `again`: those that failed before."""
        self._failures.clear()
        for page in _pages(self._connection, _PAGE):
            self._job.check()
            missing = self._from_cache(page, identity)
            if missing and self._asked_of_batches is None:
                if self._waits_for_batches(identity):
                    return
                missing = self._from_cache(missing, identity)
            for chunk in missing:
                refusal = self._job.refused.get((maker_of(identity), chunk.hash))
                if refusal is not None and refusal.is_final:
                    self._refused.setdefault(chunk.row, refusal)
            missing = [chunk for chunk in missing if chunk.row not in self._refused]
            if missing:
                self._counts.cache_misses += 0 if again else len(missing)
                self._from_provider(missing, identity)

    def _from_cache(self, page: list[_Pending], identity: ProviderIdentity) -> list[_Pending]:
        """Write the vectors of a page that the cache has; return the rest of it."""
        cached = self._job.cache.get_many(identity, [chunk.hash for chunk in page])
        if cached and self._dims is None:
            self._dims = self._probe() or next(iter(cached.values())).shape[0]
        hits = [
            chunk
            for chunk in page
            if chunk.hash in cached and cached[chunk.hash].shape[0] == self._dims
        ]
        if not hits:
            return page
        self._write({chunk.row: cached[chunk.hash] for chunk in hits})
        made = sum(chunk.hash in (self._asked_of_batches or ()) for chunk in hits)
        self._counts.embedded += made
        self._counts.cache_misses += made
        self._counts.cache_hits += len(hits) - made
        self._job.progress.advance(len(hits))
        written = {chunk.row for chunk in hits}
        return [chunk for chunk in page if chunk.row not in written]

    def _probe(self) -> int | None:
        """Ask how many numbers the provider gives now: what the cache holds may be of before.

        `None` when it does not answer.
        """
        provider, _ = self._job.provider()
        self._job.check()
        if provider is None or not self._is_of_recipe(provider):
            return None
        try:
            vector = provider.embed_query(PROBE_TEXT, cancelled=self._job.cancelled)
        except ProviderError:
            self._job.check()
            return None
        return int(vector.shape[-1])

    def _waits_for_batches(self, identity: ProviderIdentity) -> bool:
        """Have missing texts embedded by batches, where possible; tell whether one is under way."""
        self._asked_of_batches = frozenset()
        provider = self._ask_for_provider()
        if provider is None:
            return False
        identity = identity._replace(dimensions=self._dims or provider.dimensions)
        batched = embed_by_batches(
            self._job, self._connection, provider, identity, gives_way=self._gives_way
        )
        self._asked_of_batches = batched.asked
        pending = number(self._connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
        self._job.progress.start(VECTORS, pending)
        return batched.waiting

    def _from_provider(self, missing: list[_Pending], identity: ProviderIdentity) -> None:
        provider = self._ask_for_provider()
        if provider is None:
            return
        rows: dict[str, list[int]] = {}
        for chunk in missing:
            rows.setdefault(chunk.hash, []).append(chunk.row)
        texts = {name: _text(self._connection, places[0]) for name, places in rows.items()}
        # Texts of like length share a batch, because a model pads all to the longest.
        order = sorted(texts, key=lambda name: len(texts[name]))
        size = max(1, provider.batch_size or _BATCH)
        for start in range(0, len(order), size):
            self._job.check()
            hashes = order[start : start + size]
            made = self._embed(provider, identity, {name: texts[name] for name in hashes}, rows)
            if self._gave_up:
                return
            if made:
                self._job.cache.put_many(identity, made)
                self._write({row: vector for name, vector in made.items() for row in rows[name]})
                count = sum(len(rows[name]) for name in made)
                self._counts.embedded += count
                self._job.progress.advance(count)

    def _embed(
        self,
        provider: Provider,
        identity: ProviderIdentity,
        texts: Mapping[str, str],
        rows: Mapping[str, list[int]],
    ) -> dict[str, Vector]:
        """Ask for the vectors of a batch of texts by hash; none when it failed, which is noted.

        Texts that are refused, whose chunks are `rows`, are noted and left out.
        """
        hashes = list(texts)
        # A service answers meanwhile; a model of this machine takes its processors.
        stopped = self._job.cancelled if provider.remote else self._job.is_stopped
        try:
            answer = provider.embed_documents(list(texts.values()), cancelled=stopped)
            vectors = dict(zip(hashes, answer, strict=False))
            if len(answer) != len(texts):
                detail = f"{provider.name} gave {len(answer)} vectors for {len(texts)} texts"
                self._fail(Reason.PROVIDER_FAILED, detail, Failure.BAD_ANSWER)
                return {}
        except TextsRefused as error:
            vectors = {hashes[place]: vector for place, vector in error.made.items()}
            for place, refused in error.refused.items():
                key = maker_of(identity), hashes[place]
                before = self._job.refused.get(key)
                tries = 1 + (before.tries if before is not None else 0)
                refusal = Refusal(str(refused), Failure(refused.failure), tries)
                self._job.refused[key] = refusal
                self._refused |= dict.fromkeys(rows[hashes[place]], refusal)
        except ProviderError as error:
            self._fail(Reason.PROVIDER_FAILED, str(error), Failure(error.failure))
            return {}
        lengths = {vector.shape[0] for vector in vectors.values()}
        dims = self._dims or provider.dimensions or min(lengths, default=0)
        if other := lengths - {dims}:
            given = f"{provider.name} gave vectors of {min(other)} numbers, not of {dims}"
            detail = f"{given} (a rebuild makes all of them anew)"
            self._fail(Reason.DIMENSIONS_DIFFER, detail, Failure.DIMENSIONS_DIFFER)
            return {}
        self._failed_in_a_row = 0
        return vectors

    def _problem_of_texts(self) -> VectorProblem | None:
        """Return which chunks have no vector because the provider refuses their text, and why."""
        if not self._refused:
            return None
        places = []
        for row in list(self._refused)[:_NAMED]:
            rows = self._connection.execute(
                "SELECT f.path, c.start_line, c.end_line FROM chunks c "
                "JOIN files f ON f.id = c.file_id WHERE c.id = ?",
                (row,),
            ).fetchall()
            path, start, end = rows[0]
            places.append(safe_line(f"{path}:{start}-{end}"))
        more = len(self._refused) - len(places)
        named = f"{', '.join(places)}{f' and {more} more' if more else ''}"
        first = next(iter(self._refused.values()))
        return VectorProblem(
            Reason.PROVIDER_FAILED,
            f"no vector for {named}: {first.message}",
            first.failure,
            is_of_texts=True,
            passes=not all(refusal.is_final for refusal in self._refused.values()),
        )

    def _ask_for_provider(self) -> Provider | None:
        if self._provider is None and not self._gave_up:
            provider, self.state = self._job.provider()
            # Loading a model takes a while; a stop during it counts.
            self._job.check()
            if provider is None:
                self._fail(self.state.state, self.state.detail, self.state.failure)
                self._gave_up = True
            elif not self._is_of_recipe(provider):
                # Vectors of two models are never mixed; the next run has the recipe of this one.
                if not self._job.awaits_batch:
                    detail = f"{provider.name} took over; the next sync makes its vectors"
                    self._fail(Reason.FALLBACK, detail, self.state.failure)
                self._gave_up = True
            else:
                self._provider, self._used_before = provider, provider.usage()
        return None if self._gave_up else self._provider

    def _is_of_recipe(self, provider: Provider) -> bool:
        identity = self._job.recipe.identity
        return identity is not None and maker_of(provider) == maker_of(identity)

    def _fail(self, reason: Reason, detail: str, failure: Failure | None) -> None:
        # Another provider may have taken over: its run begins anew.
        self._job.check()
        self.problem = VectorProblem(reason, detail, failure)
        self._failures.add(failure)
        self._failed_in_a_row += 1
        for_good = failure is not None and is_for_good(failure)
        self._gave_up = for_good or self._failed_in_a_row >= MOST_FAILURES

    def _write(self, vectors: dict[int, Vector]) -> None:
        with transaction(self._connection):
            self._writer.write_vectors(vectors)
            if not self._are_dims_noted:
                # The first answer of a provider that could not tell before.
                self._dims = next(iter(vectors.values())).shape[0]
                write_meta(self._connection, {"dimensions": str(self._dims)})
                self._are_dims_noted = True


def _pages(connection: Connection, size: int, *, every: bool = False) -> Iterator[list[_Pending]]:
    """Read the chunks without a vector, or every chunk, by their rows."""
    where = "" if every else "embedded = 0 AND "
    query = f"SELECT id, hash FROM chunks WHERE {where}id > ? ORDER BY id LIMIT ?"
    last = -1
    while rows := connection.execute(query, (last, size)).fetchall():
        page = [_Pending._make(row) for row in rows]
        last = page[-1].row
        yield page


def _text(connection: Connection, row: int) -> str:
    rows = connection.execute("SELECT text FROM chunks WHERE id = ?", (row,)).fetchall()
    return str(rows[0][0])
