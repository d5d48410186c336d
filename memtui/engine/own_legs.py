"""Searches memtui's own index: asks both legs, the quicker one first."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from memtui.bus import Bus, StatusChanged
from memtui.data import read_table
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.engine.ports import Legs, Partial, SearchRequest
from memtui.engine.providers.failover import ProviderFailover
from memtui.errors import IndexMissing, IsCancelled, ProviderError, stop_if
from memtui.index import database
from memtui.index.database import Connection, DatabaseError, IndexDamaged, Interrupted
from memtui.index.generations import IndexFolder, LiveIndex
from memtui.index.pieces import AT_ONCE, MOST_READ, PieceMemory
from memtui.model import (
    EPOCH,
    CandidatePool,
    Chunk,
    Evidence,
    Leg,
    LegState,
    LegStatus,
    Ranking,
    Reason,
    SearchMode,
    Stage,
)
from memtui.ranking.pipeline import LEAST_DEPTH, rank, runs
from memtui.retrieval.connection import damaged, snapshot
from memtui.retrieval.features import Similarity, locate_terms, measure_passages
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.maxsim import similarities
from memtui.retrieval.passages import fetch_passages, fetch_pieces
from memtui.retrieval.pool import LegAnswer, Measured, build_pool, import_numpy
from memtui.retrieval.query import NO_FILTERS, Query, narrowed, parse_query
from memtui.retrieval.vector import VectorLeg

# What a search does without is imported when it is asked for, numpy among it.
if TYPE_CHECKING:
    from memtui.retrieval.maxsim import Pieces
    from memtui.retrieval.vector_view import VectorView

T = TypeVar("T")

SLOW_LEG_SECONDS: Final = 0.04
"""A leg expected to take longer than this is not waited for: the other leg's hits come first."""
UNKNOWN_SECONDS: Final = 1.0
"""Expected duration of a leg that has to load something before it can answer."""
REFRESH_SECONDS: Final = 0.75
"""While an index is being filled, its vectors are looked at again so often at most."""
_SQL: Final = read_table("queries.toml")["own"]
_BEST: Final = Ranking(k=MOST_READ)
"""Chooses the chunks that are read word by word, by the same rule whatever a query is ranked by."""
_PENDING: Final = LegAnswer((), LegState(LegStatus.PENDING, Reason.PENDING))


class OwnLegs(Legs):
    """Runs queries against the live generation; belongs to the engine thread.

    `is_filling` tells whether an index run has still something to do.
    """

    def __init__(
        self,
        folder: IndexFolder,
        providers: ProviderFailover,
        is_filling: Callable[[], bool],
        bus: Bus,
    ) -> None:
        self.vector_leg: VectorLeg | None = None
        """The vector leg as it searched last; `None` before that."""
        self.live = LiveIndex(folder)
        self.identity: ProviderIdentity | None = None
        """The maker of the live index's vectors; `None` for none, and before it was read."""
        self.opened = 0
        """The generation whose `identity` that is; set after it, to be read before it."""
        self._providers = providers
        self._is_filling = is_filling
        self._bus = bus
        self._made = PieceMemory()
        self.damage = ""
        """The damage that was met in the open generation, as one line; empty for none."""
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        """Held while `_connection` is interrupted, or taken away because it may be closed."""
        self._is_following = False
        self._keyword: KeywordLeg | None = None
        self._view: VectorView | None = None
        self._view_stamp: tuple[int, int] | None = None
        self._viewed_at = 0.0
        self._expected = {Leg.KEYWORD: 0.0, Leg.VECTOR: 0.0}
        """Seconds that each leg is expected to take: what it took last."""

    def open(self) -> Connection:
        """Return a connection to the live generation; raises `IndexMissing`, `IndexUnusable`."""
        with self._guard:
            before, self._connection = self._connection, None
        with self._noting_damage():
            connection = self.live.connection()
            if connection is not before:
                self._keyword = KeywordLeg(connection)
                self._view = self._view_stamp = None
                self.damage = ""
                self.identity = database.made_by(database.read_meta(connection))
                self.opened = self.live.generation
                if self._providers.identity is not None:
                    # Its vectors have to be loaded first, and how long that takes nobody knows.
                    self._expected[Leg.VECTOR] = max(self._expected[Leg.VECTOR], UNKNOWN_SECONDS)
        # Only now may a search be interrupted: one generation is known whole.
        self._connection = connection
        return connection

    def read(self, function: Callable[[Connection], T]) -> T | None:
        """Read from the live generation; `None` where there is none. Raises `IndexUnusable`."""
        try:
            connection = self.open()
        except IndexMissing:
            return None
        try:
            with self._noting_damage(), snapshot(connection):
                return function(connection)
        except Interrupted as error:
            # Only closing stops what is no search.
            raise IndexMissing("the index is closed") from error

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        """Raise `IndexUnusable` for a file that cannot be read; damage is noted for the status."""
        try:
            with database.mapped_errors(self.live.path):
                yield
        except IndexDamaged as error:
            self.damage = str(error)
            self._bus.publish(StatusChanged())
            raise

    def interrupt(self) -> None:
        with self._guard:
            # Who goes on typing must not have a short look begin again and again.
            if self._connection is not None and not self._is_following:
                self._connection.interrupt()

    def close(self) -> None:
        with self._guard:
            self._connection = None
        self.live.close()

    def retrieve(
        self, request: SearchRequest, cancelled: IsCancelled, partial: Partial | None
    ) -> CandidatePool:
        """Ask both legs, the quicker one first.

        While the user is typing no text is sent to another machine: the leg that needs it is
        pending. When a leg is expected to be slow, `partial` gets a pool with the other leg's
        hits first. Without it some of the word pieces are made that a settled query needs and a
        large index lacks; while any are due it is to be asked again. Raises `Cancelled` when
        `cancelled` turns true, `IndexUnusable` when there is no reading the index at all.
        """
        typing, mode = request.typing, SearchMode.HYBRID
        typed_query = parse_query(request.text, typing=typing, verbatim=request.verbatim)
        if typed_query.filters != NO_FILTERS and not typed_query.text:
            mode = SearchMode.FILTERS_ONLY
        limit = max(request.ranking.candidates, LEAST_DEPTH)
        answers = {Leg.KEYWORD: _PENDING, Leg.VECTOR: _PENDING}
        connection = self.open()
        stamp = self.live.stamp()
        assert self._keyword is not None

        narrow = cache(lambda: narrowed(connection, typed_query))

        def pool(pieces: Mapping[int, Sequence[Pieces]] | None = None) -> CandidatePool:
            with self._noting_damage():
                made = build_pool(
                    connection,
                    request.text,
                    answers,
                    limit=limit,
                    measure=lambda chunks: self._measure(narrow()[0], answers, chunks, pieces),
                    generation=self.live.generation,
                    elapsed_ms=(time.perf_counter() - request.asked_at) * 1000,
                )
                hit_count = sum(min(limit, len(answer.hits)) for answer in answers.values())
                # Who writes may take a chunk away that was just found, or that a view still has.
                is_missing = hit_count > sum(map(len, made.hits.values()))
                if is_missing and stamp == self.live.stamp() == (self._view_stamp or stamp):
                    raise damaged("a chunk that its words or its vector belong to is not there")
            return replace(made, typing=typing, search_mode=mode)

        expected, last_leg = dict(self._expected), self.vector_leg
        provider = last_leg.provider if last_leg is not None else None
        is_new = last_leg is None or typed_query.text not in last_leg.vectors
        if provider and provider.address and is_new and not (typing and provider.remote):
            # A service answers when it does, except where it is not asked.
            expected[Leg.VECTOR] = max(expected[Leg.VECTOR], UNKNOWN_SECONDS)
        first, last = sorted(expected, key=expected.__getitem__)
        for leg in (first, last):
            if partial is not None and leg is last and expected[leg] > SLOW_LEG_SECONDS:
                partial(pool())
            began = started_leg = time.perf_counter()
            try:
                with self._noting_damage():
                    query, allowed = narrow()
                    vector_leg = self._current_leg(cancelled, typing) if leg is Leg.VECTOR else None
                    # What was loaded first is no part of what the leg took.
                    started_leg = time.perf_counter()
                    if vector_leg is None:
                        hits, state = self._keyword.search(query, limit, allowed)
                    else:
                        hits, state = vector_leg.search(query, limit, allowed, cancelled=cancelled)
            except (DatabaseError, IndexDamaged) as error:
                # Each leg fails alone: what one cannot read, the other may.
                detail = str(error) or type(error).__name__
                hits, state = (), LegState(LegStatus.FAILED, Reason.INDEX_FAILED, detail)
            ended = time.perf_counter()
            self._expected[leg] = ended - began
            answers[leg] = LegAnswer(hits, replace(state, elapsed_ms=(ended - started_leg) * 1000))
            stop_if(cancelled)
        answered, wants_pieces = pool(), not typing and runs(request.ranking, Stage.CONTEXT)
        provider = self._piece_maker(connection, answered) if wants_pieces else None
        if provider is None:
            return answered
        best = [hit.chunk.id for hit in rank(answered, _BEST, now=EPOCH).hits]
        most = AT_ONCE if partial is None else 0
        try:
            with self._noting_damage():
                rows = connection.execute(_SQL["best"], (json.dumps(best),)).fetchall()
                pieces, due = self._made.read(rows, provider, most, cancelled)
        except ProviderError as error:
            detail = f"without word pieces: {error}"
            state = replace(answered.states[Leg.VECTOR], reason=Reason.NO_PIECES, detail=detail)
            return replace(answered, states={**answered.states, Leg.VECTOR: state})
        return replace(answered, pieces_due=due) if due else pool(pieces)

    def _piece_maker(self, connection: Connection, answered: CandidatePool) -> Provider | None:
        """Return who makes word pieces for an answer that a large index has none for."""
        provider = self.vector_leg.provider if self.vector_leg is not None else None
        lacks_pieces = answered.passages and answered.evidence is Evidence.VECTORS
        if provider is None or not lacks_pieces or not provider.identity.word_pieces:
            return None
        chunks = database.number(connection, "SELECT count(*) FROM chunks")
        return provider if chunks > provider.identity.piece_chunks else None

    def _measure(
        self,
        query: Query,
        answers: Mapping[Leg, LegAnswer],
        chunks: Mapping[int, Chunk],
        pieces: Mapping[int, Sequence[Pieces]] | None,
    ) -> Measured:
        """Measure what was found, as far as the legs have answered; `pieces` were made for it."""
        connection, leg, vector_leg = self._connection, self._keyword, self.vector_leg
        words, nearest = answers[Leg.KEYWORD], answers[Leg.VECTOR].hits
        evidence = Evidence.VECTORS if nearest else Evidence.WORDS
        if not query.text or not connection or not leg or words.state.status is LegStatus.FAILED:
            return {}, evidence
        # The passages of a masked text are those of the text before.
        lengths = {
            row: len(chunk.text) if chunk.snippet is None else sys.maxsize
            for row, chunk in chunks.items()
        }
        if not (passages := fetch_passages(connection, lengths)):
            return {}, evidence
        plan = leg.used if words.hits else None
        terms = locate_terms(leg, plan or leg.plan(query), chunks, words.hits)
        similar: Mapping[int, Sequence[Similarity]] = {}
        if nearest and vector_leg is not None and vector_leg.provider is not None:
            unread: dict[int, int] = {}
            if pieces is None:
                counts = {row: len(rows) for row, rows in passages.items()}
                embedded = {hit.rowid for hit in nearest} & chunks.keys()
                pieces = fetch_pieces(connection, counts)
                # Chunks without any would rank behind the others.
                pieces = pieces if pieces.keys() >= embedded else {}
                unread = {row: counts[row] for row in counts.keys() - pieces.keys()}
            if pieces:
                similar = similarities(vector_leg.provider, leg, query.text, pieces, unread)
        evidence = Evidence.WORD_PIECES if similar else evidence
        return measure_passages(query.text, terms, chunks, passages, similar), evidence

    def view(
        self, gives_way: Callable[[], bool] | None = None, provider: Provider | None = None
    ) -> VectorView | None:
        """Return the vectors of the index as it is now; `None` where nobody tells their length.

        `provider` stands for who is to make the vectors of an index that has none yet. While an
        index run goes on, what was loaded a moment ago serves who gives way.
        """
        connection, identity = self._connection, self.identity
        dims = identity.dimensions if identity is not None else None
        if dims is None and provider is not None:
            dims = provider.dimensions
        if connection is None or dims is None:
            return None
        stamp = self.live.stamp()
        is_recent = time.monotonic() - self._viewed_at < REFRESH_SECONDS
        serves = gives_way is not None and is_recent and self._is_filling()
        if self._view_stamp is None or not (stamp == self._view_stamp or serves):
            # Without vectors a search needs no numpy, whose import takes longer than it.
            import_numpy()
            from memtui.retrieval.vector_view import VectorView

            if self._view is None or self._view.dims != dims:
                self._view = VectorView(dims)
            with self._guard:
                self._is_following = True
            try:
                self._view.follow(connection, gives_way)
            finally:
                self._is_following = False
            self._view_stamp, self._viewed_at = stamp, time.monotonic()
        return self._view

    def _current_leg(self, gives_way: Callable[[], bool], typing: bool) -> VectorLeg:
        missing, maker = "", self.identity
        provider, state = self._providers.made_by(maker)
        if maker is not None and provider is None and state is None:
            provider, state = self._providers.get()
            holds = f"the index holds vectors of {maker.name} {maker.model}"
            missing = f"{holds}; a sync makes them anew"
        view = None
        if provider is not None and not missing:
            view = self.view(gives_way, provider)
        before = self.vector_leg
        vectors = before.vectors if before is not None and before.provider is provider else {}
        # In one step: the status is asked for on other threads meanwhile.
        self.vector_leg = leg = VectorLeg(view, provider, state, missing, typing, vectors)
        return leg
