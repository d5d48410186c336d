"""Many texts at a service whose batch interface is used: before the inline requests of a sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from memtui.embedding.batch.batching import Batching
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import ProviderError
from memtui.model import Usage

if TYPE_CHECKING:
    from memtui.embedding.cache import EmbeddingCache
    from memtui.index.database import Connection
    from memtui.index.job import Job

STORE_NAME: Final = "batches.json"
"""The file of the index folder that keeps what is under way."""
_PAGE: Final = 2048


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
        self._every = every
        self._connection = connection
        self._rows: dict[str, int] = {}
        last = -1
        while page := self._page(last):
            check()
            last = max(page.values())
            known = cache.get_many(identity, page)
            self._rows |= {
                name: row
                for name, row in page.items()
                if name not in known and not is_refused(name)
            }

    def __getitem__(self, text_hash: str) -> str:
        row = self._rows[text_hash]
        found = self._connection.execute("SELECT text FROM chunks WHERE id = ?", (row,))
        return str(found.fetchall()[0][0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _page(self, last: int) -> dict[str, int]:
        rows = self._connection.execute(
            "SELECT hash, id FROM chunks WHERE (embedded = 0 OR ?) AND id > ? ORDER BY id LIMIT ?",
            (self._every, last, _PAGE),
        ).fetchall()
        return {str(text_hash): int(str(row)) for text_hash, row in rows}


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
    and `job.note` is told why. With `gives_way` the wait ends when `job.wanted`; with `every` the
    texts are those of all chunks. Raises `Cancelled`.
    """
    if not isinstance(provider, Batching):
        return Batched()
    try:
        service = provider.batches(job.cancelled)
        if service is None:
            return Batched()
        # Local models need none of it, and the start of the program is faster without.
        from memtui.embedding.batch.run import batch_run
        from memtui.embedding.batch.store import BatchStore

        def is_refused(text_hash: str) -> bool:
            refusal = job.refused.of(identity, text_hash)
            return refusal is not None and refusal.is_final

        texts = MissingTexts(connection, job.cache, identity, job.check, is_refused, every=every)
        outcome = batch_run(
            replace(service, identity=identity),
            texts,
            BatchStore(job.folder.folder / STORE_NAME),
            job.cache,
            cancelled=job.cancelled,
            interrupted=job.wanted if gives_way else _never,
            progress=_Reported(job).tell,
        )
    except ProviderError as error:
        job.note(f"batch: {error}")
        return Batched()
    except OSError as error:
        job.note(f"batch: {STORE_NAME} cannot be read or written: {error.strerror}")
        return Batched()
    if outcome.note:
        job.note(outcome.note)
    return Batched(frozenset(texts), outcome.waiting, outcome.spent)


class _Reported:
    """Turns what batches tell into phases of the progress."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._phase = ""
        self._done = 0

    def tell(self, phase: str, done: int, total: int) -> None:
        """Begin a phase, or go on in it."""
        if phase != self._phase:
            self._phase, self._done = phase, 0
            self._job.progress.start(phase, total)
        self._job.progress.advance(done - self._done)
        self._done = done


def _never() -> bool:
    return False
