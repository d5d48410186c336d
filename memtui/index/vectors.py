"""The second phase of a sync: a vector for every chunk, from the cache or the provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from memtui.data import DATA_FOLDER, DEMO_ROOT, read_table
from memtui.embedding.provider import (
    MOST_FAILURES,
    OF_THE_SERVICE,
    PROBE_TEXT,
    BatchOutcome,
    Provider,
    ProviderIdentity,
    TextsRefused,
    Vector,
    is_for_good,
)
from memtui.embedding.registry import registration_of
from memtui.errors import ProviderError, SettingsError
from memtui.index.database import Connection, made_by, number, read_meta, transaction, write_meta
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.index_rows import pages_of_chunks, pass_over, write_vectors
from memtui.index.job import VECTORS, Job, Refusal, VectorProblem
from memtui.index.pieces import PiecesPhase
from memtui.model import Failure, Reason, SkippedFile
from memtui.text.redact import credential_line
from memtui.text.sanitize import safe_line

STORE_NAME: Final = "batches.json"
"""The file of the index folder that keeps what is under way."""

_SQL: Final = read_table("queries.toml")["rows"]
_WITHOUT_VECTOR: Final = "embedded = 0"
_EVERY: Final = "true"
_BATCH: Final = 16
_NAMED: Final = 3


def embed_by_batches(
    job: Job,
    connection: Connection,
    provider: Provider,
    identity: ProviderIdentity,
    *,
    every: bool = False,
) -> BatchOutcome:
    """Put the vectors of missing texts into the cache by batches, where the provider has them.

    Nothing here is a failure of the sync: what has no vector afterwards is left to the caller,
    and `job.note` is told why. The wait ends when `job.is_interrupted`; with `every` the
    texts are those of all chunks. Raises `Cancelled`.
    """
    rows: dict[str, int] = {}
    try:
        interface = provider.batches(job.cancelled)
        if interface is None:
            return BatchOutcome()
        if every:
            _withhold(job, connection, provider, ())
        # Local models need none of it, and the start of the program is faster without.
        from memtui.embedding.batch import BatchRun, BatchStore

        for page in pages_of_chunks(connection, _EVERY if every else _WITHOUT_VECTOR):
            job.check()
            cached = job.cache.get_many(identity, page.values())
            rows |= {
                text_hash: row
                for row, text_hash in page.items()
                if text_hash not in cached
                and not _final_refusal(job, identity, text_hash)
                and not _is_withheld(job, provider, text_hash)
            }
        outcome = BatchRun(
            interface,
            identity,
            rows,
            lambda text_hash: _text(connection, rows[text_hash]),
            BatchStore(job.folder.folder / STORE_NAME),
            job.cache,
            cancelled=job.cancelled,
            interrupted=lambda: job.is_interrupted,
            progress=job.progress.reach,
        ).run()
    except ProviderError as error:
        job.note(f"batch: {error}")
        return BatchOutcome()
    except OSError as error:
        job.note(f"batch: {STORE_NAME} cannot be read or written: {error.strerror}")
        return BatchOutcome()
    if outcome.note:
        job.note(outcome.note)
    return outcome


def _final_refusal(job: Job, identity: ProviderIdentity, text_hash: str) -> Refusal | None:
    """Return why a text is not sent any more; `None` for one that may be."""
    refusal = job.refused.get((identity, text_hash))
    return refusal if refusal is not None and refusal.is_final else None


def credential_chunks(
    connection: Connection,
    lines: dict[str, int | None],
    without: Collection[str] | None,
    check: Callable[[], None],
) -> Iterator[SkippedFile]:
    """Yield the place of each chunk that holds a credential.

    Of those that have no vector, or of all whose hash is not in `without`. In a conversation it is
    one that the release does not mask. `lines` keeps the first line with a credential, from 0, of
    every text that was looked at, so that none is looked at twice. `check` is called now and then,
    and may raise.
    """
    for page in pages_of_chunks(connection, _EVERY if without is not None else _WITHOUT_VECTOR):
        for row, text_hash in page.items():
            check()
            if text_hash in (without or ()) or lines.get(text_hash, 0) is None:
                continue
            places: list[Any] = connection.execute(_SQL["place"], (row,)).fetchall()
            for path, start, end, text in places:
                if text_hash not in lines:
                    lines[text_hash] = credential_line(text)
                if (line := lines[text_hash]) is not None:
                    yield SkippedFile(f"{path}:{min(start + line, end)}", Reason.HOLDS_CREDENTIAL)


def _withhold(
    job: Job, connection: Connection, provider: Provider, without: Collection[str] | None = None
) -> None:
    """Look for credentials in what a service would be sent, and tell the job what is not sent."""
    places = credential_chunks(connection, job.credentials, without, job.check)
    job.withhold(tuple(places) if provider.withholds else ())


def _is_withheld(job: Job, provider: Provider, text_hash: str) -> bool:
    return provider.withholds and job.credentials.get(text_hash) is not None


def _add_demo_vectors(cache: EmbeddingCache) -> None:
    """Put the vectors of the demo, which come with memtui, beside those that were made here."""
    import numpy as np

    with np.load(DATA_FOLDER / "demo-vectors.npz") as file:
        name, model, fingerprint = file["made_by"].tolist()
        hashes, ends, packed = file["hashes"].tolist(), file["ends"].tolist(), file["pieces"]
        pieces = (packed[start:end].tobytes() for start, end in pairwise([0, *ends]))
        identity = ProviderIdentity(name, model, None, fingerprint)
        cache.put_many(identity, dict(zip(hashes, file["vectors"], strict=True)))
        cache.put_pieces(identity, dict(zip(hashes, pieces, strict=True)))


class VectorsPhase:
    """Fills in the vectors that are missing; keyword search works meanwhile.

    What the cache has comes first, then batches at a service, then requests. A request that fails
    is left out and made again in the end, where the service failed, or else by the next sync.
    Three of them in a row, or a failure for good, end the asking; the job's `problem` says what
    happened. Texts that a working provider refuses are left out, and named; those in a script that
    its model does not read are passed over for good. The chunks of a batch that is not waited for
    are left to the next sync.
    """

    def __init__(self, job: Job, connection: Connection) -> None:
        self._job = job
        self._connection = connection
        self._failed_in_a_row = 0
        self._failures: set[Failure | None] = set()
        self._gave_up = False
        self._refused: dict[int, Refusal] = {}
        self._dims: int | None = None
        self._pieces = PiecesPhase(job, connection)

    def run(self) -> None:
        """Embed every chunk without a vector; raises `Cancelled`, what was made stays."""
        if (identity := self._job.recipe.identity) is not None:
            self._pass_over_unread(identity)
        self._add_vectors()
        self._pieces.run()

    def _add_vectors(self) -> None:
        job, stats = self._job, self._job.stats
        identity, progress, pending = job.recipe.identity, job.progress, self._pending()
        if identity is not None and pending:
            maker = made_by(read_meta(self._connection))
            self._dims = identity.dimensions or (maker.dimensions if maker is not None else None)
            progress.start(VECTORS, pending)
            if job.scope.root == DEMO_ROOT:
                _add_demo_vectors(job.cache)
            for page in pages_of_chunks(self._connection, _WITHOUT_VECTOR):
                stats.cache_hits += len(page) - len(self._from_cache(page, identity))
        if identity is None or not self._pending():
            job.withhold(())
            return
        provider, state = job.provider()
        # Loading a model takes a while; a stop during it counts.
        job.check()
        if provider is None:
            self._fail(state.state, state.detail, state.failure)
            return
        if provider.identity != identity:
            if not job.awaits_batch:
                # Vectors of two models are never mixed; the next run has the recipe of this one.
                detail = f"{provider.identity.name} took over; the next sync makes its vectors"
                self._fail(Reason.FALLBACK, detail, state.failure)
            return
        _withhold(job, self._connection, provider)
        used_before, spent = provider.usage(), stats.usage
        try:
            batched = embed_by_batches(
                job,
                self._connection,
                provider,
                replace(identity, dimensions=self._dims or provider.dimensions),
            )
            if batched.waiting:
                return
            progress.reach(VECTORS, pending - self._pending(), pending)
            for page in pages_of_chunks(self._connection, _WITHOUT_VECTOR) if batched.made else ():
                stats.chunks_embedded += len(page) - len(self._from_cache(page, identity))
            self._from_provider(provider, identity)
            # So a small index, which has no three requests, gets its vectors or another provider,
            # too: requests that failed by no fault of their texts are made again.
            while self._failures and not self._gave_up:
                if not self._failures & OF_THE_SERVICE and provider.usage().texts:
                    break
                job.problem = None
                self._from_provider(provider, identity)
            if job.problem is None and self._refused:
                job.problem = self._problem_of_texts()
        finally:
            stats.usage = spent.plus(provider.usage()).plus(used_before, -1)

    def _pass_over_unread(self, identity: ProviderIdentity) -> None:
        """Mark what the model does not read: a cache of before may have a vector of it."""
        try:
            reads = registration_of(identity.name).reads
        except SettingsError:
            return
        for page in pages_of_chunks(self._connection, _WITHOUT_VECTOR):
            self._job.check()
            if unread := [row for row in page if not reads(_text(self._connection, row))]:
                with transaction(self._connection):
                    pass_over(self._connection, unread)

    def _pending(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks WHERE embedded = 0")

    def _from_cache(self, page: Mapping[int, str], identity: ProviderIdentity) -> dict[int, str]:
        """Write the vectors of a page that the cache has; return the rest of it."""
        self._job.check()
        cached = self._job.cache.get_many(identity, page.values())
        if cached and self._dims is None:
            self._dims = next(iter(cached.values())).shape[0]
            # What the cache holds may be of before: the provider tells how many numbers it gives.
            provider, _ = self._job.provider()
            self._job.check()
            if provider is not None and provider.identity == identity:
                with suppress(ProviderError):
                    vector = provider.embed_query(PROBE_TEXT, cancelled=self._job.cancelled)
                    self._dims = int(vector.shape[-1])
                self._job.check()
        hits = {
            row: cached[text_hash]
            for row, text_hash in page.items()
            if text_hash in cached and cached[text_hash].shape[0] == self._dims
        }
        if hits:
            self._write(hits)
        return {row: text_hash for row, text_hash in page.items() if row not in hits}

    def _from_provider(self, provider: Provider, identity: ProviderIdentity) -> None:
        """Go through the chunks without a vector once."""
        self._failures.clear()
        for page in pages_of_chunks(self._connection, _WITHOUT_VECTOR):
            rows: dict[str, list[int]] = {}
            # A text of an earlier page may come again.
            for row, text_hash in self._from_cache(page, identity).items():
                if refusal := _final_refusal(self._job, identity, text_hash):
                    self._refused.setdefault(row, refusal)
                if row not in self._refused and not _is_withheld(self._job, provider, text_hash):
                    rows.setdefault(text_hash, []).append(row)
            texts = {name: _text(self._connection, places[0]) for name, places in rows.items()}
            # Texts of like length share a batch, because a model pads all to the longest.
            order = sorted(rows, key=lambda name: len(texts[name]))
            size = max(1, provider.batch_size or _BATCH)
            for start in range(0, len(order), size):
                self._job.check()
                hashes = order[start : start + size]
                made = self._embed(provider, identity, {name: texts[name] for name in hashes}, rows)
                if self._gave_up:
                    return
                if made:
                    self._job.cache.put_many(identity, made)
                    vectors = {row: vector for name, vector in made.items() for row in rows[name]}
                    self._write(vectors)
                    self._job.stats.chunks_embedded += len(vectors)
                    # At once: they come out of the same run of the model.
                    self._pieces.add({row: name for name in made for row in rows[name]})
                if self._job.is_interrupted:
                    # A note that was saved meanwhile is found by its words at once.
                    self._gave_up = True
                    return

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
            vectors = dict(zip(hashes, answer, strict=True))
        except TextsRefused as error:
            vectors = {hashes[place]: vector for place, vector in error.made.items()}
            for place, refused in error.refused.items():
                key = identity, hashes[place]
                before = self._job.refused.get(key)
                tries = 1 + (before.tries if before is not None else 0)
                refusal = Refusal(str(refused), refused.failure, tries)
                self._job.refused[key] = refusal
                self._refused |= dict.fromkeys(rows[hashes[place]], refusal)
        except ProviderError as error:
            self._fail(Reason.PROVIDER_FAILED, str(error), error.failure)
            return {}
        lengths = {vector.shape[0] for vector in vectors.values()}
        dims = self._dims or provider.dimensions or min(lengths, default=0)
        if other := lengths - {dims}:
            cause = f"{provider.identity.name} gave vectors of {min(other)} numbers, not of {dims}"
            detail = f"{cause} (a rebuild makes all of them anew)"
            self._fail(Reason.DIMENSIONS_DIFFER, detail, Failure.DIMENSIONS_DIFFER)
            return {}
        self._failed_in_a_row = 0
        return vectors

    def _problem_of_texts(self) -> VectorProblem:
        """Return which chunks have no vector because the provider refuses their text, and why."""
        places = []
        for row in list(self._refused)[:_NAMED]:
            path, start, end, _ = self._connection.execute(_SQL["place"], (row,)).get
            places.append(safe_line(f"{path}:{start}-{end}"))
        more = len(self._refused) - len(places)
        named = f"{', '.join(places)}{f' and {more} more' if more else ''}"
        first = next(iter(self._refused.values()))
        return VectorProblem(
            Reason.PROVIDER_FAILED,
            f"no vector for {named}: {first.message}",
            is_of_texts=True,
            passes=not all(refusal.is_final for refusal in self._refused.values()),
        )

    def _fail(self, reason: Reason, detail: str, failure: Failure | None) -> None:
        # Another provider may have taken over: its run begins anew.
        self._job.check()
        self._job.problem = VectorProblem(reason, detail)
        self._failures.add(failure)
        self._failed_in_a_row += 1
        for_good = failure is not None and is_for_good(failure)
        self._gave_up = for_good or self._failed_in_a_row >= MOST_FAILURES

    def _write(self, vectors: Mapping[int, Vector]) -> None:
        with transaction(self._connection):
            write_vectors(self._connection, vectors)
            # A provider need not tell before its first answer.
            self._dims = next(iter(vectors.values())).shape[0]
            write_meta(self._connection, {"dimensions": str(self._dims)})
        self._job.progress.advance(len(vectors))


def _text(connection: Connection, row: int) -> str:
    rows = connection.execute("SELECT text FROM chunks WHERE id = ?", (row,)).fetchall()
    return str(rows[0][0])
