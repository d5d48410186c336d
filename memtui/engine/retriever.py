"""Asking both legs: the part of the engine that touches the index, on the engine thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Maker, Provider, ProviderIdentity, maker_of
from memtui.engine.followed_view import FollowedView
from memtui.engine.providers.failover import ProviderHolder
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import DatabaseError, Interrupted, mapped_errors
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex
from memtui.index.schema import NO_MODEL, read_meta
from memtui.model import CandidatePool, Leg, LegState, LegStatus, ProviderState, Reason
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.legs import LegAnswer, Stopwatch
from memtui.retrieval.pool import build_pool
from memtui.retrieval.query import Query
from memtui.retrieval.vector import VectorLeg

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.retrieval.vector_view import VectorView

T = TypeVar("T")

SLOW_LEG_SECONDS = 0.04
"""A leg expected to take longer than this is not waited for: the other leg's hits come first."""

UNKNOWN_SECONDS = 1.0
"""What a leg is expected to take that has to load something before it can answer."""

_PENDING = LegAnswer((), LegState(LegStatus.PENDING, Reason.PENDING))
_NO_INDEX = LegAnswer((), LegState(LegStatus.SKIPPED, Reason.NO_INDEX, "no index yet"))

Partial = Callable[[CandidatePool], None]


class Retriever:
    """Runs queries against the live generation; belongs to the engine thread.

    `is_filling` tells whether an index run is going on.
    """

    def __init__(
        self,
        folder: IndexFolder,
        cache: EmbeddingCache,
        provider: ProviderHolder,
        is_filling: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._live = LiveIndex(folder)
        self._holder = provider
        self._is_filling = is_filling
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        self._interruptible: Connection | None = None
        self._maker: Maker | None = None
        self._keyword: KeywordLeg | None = None
        self._filter: RowFilter | None = None
        self._vector: VectorLeg | None = None
        self._followed = FollowedView(self._live, cache, is_filling, self.undisturbed)
        self._expected = {Leg.KEYWORD: 0.0, Leg.VECTOR: 0.0}

    @property
    def made_by(self) -> str:
        """Provider and model of the live index's vectors; empty before it was read."""
        maker = self._maker
        return f"{maker.name}/{maker.model}" if maker is not None else ""

    @property
    def backend(self) -> str:
        """How vectors are compared, in words."""
        vector = self._vector
        return vector.backend if vector is not None and vector.view is not None else "not loaded"

    @property
    def vector_leg(self) -> VectorLeg | None:
        """The vector leg as it searched last; `None` before that."""
        return self._vector

    def view_now(self) -> VectorView | None:
        """The vectors of the index as it is now; `None` before a search, or without any."""
        leg = self._vector
        if leg is None or leg.provider is None:
            return None
        return self._vector_leg(None, while_filling=True).view

    @property
    def generation(self) -> int:
        """The generation of the last connection."""
        return self._live.generation

    def retrieve(
        self,
        query: Query,
        limit: int,
        cancelled: Callable[[], bool],
        partial: Partial | None,
        *,
        typing: bool = False,
    ) -> CandidatePool:
        """Ask both legs for `limit` hits each.

        While the user is `typing` no text is sent to another machine: the leg that needs it is
        pending. When a leg is expected to be slow, `partial` gets a pool with the other leg's
        hits first. Raises `Cancelled` when `cancelled` turns true, `IndexUnusable` when there is
        no reading the index at all.
        """
        started = perf_counter()
        answers = {Leg.KEYWORD: _PENDING, Leg.VECTOR: _PENDING}
        try:
            connection = self._open()
        except IndexMissing:
            answers = dict.fromkeys(answers, _NO_INDEX)
            states = {leg: answer.state for leg, answer in answers.items()}
            return CandidatePool(
                query.raw, {}, dict.fromkeys(Leg, ()), states, limit, typing=typing
            )

        def found() -> CandidatePool:
            pool = self._pool(connection, query, answers, limit, started)
            return replace(pool, typing=typing)

        expected = self._expectations(query, typing)
        order = sorted(expected, key=lambda leg: expected[leg])
        for place, leg in enumerate(order):
            answers[leg] = self._ask(leg, query, limit, cancelled, typing)
            if cancelled():
                raise Cancelled
            is_last = place == len(order) - 1
            if partial is not None and not is_last and expected[order[-1]] > SLOW_LEG_SECONDS:
                partial(found())
        return found()

    def read(self, function: Callable[[Connection], T]) -> T:
        """Read from the live generation; raises `IndexMissing`, or `IndexUnusable`."""
        connection = self._open()
        try:
            with mapped_errors(self._folder.path(self._live.generation)):
                return function(connection)
        except Interrupted as error:
            # Only closing stops what is no search.
            raise IndexMissing("the index is closed") from error

    def load_vectors(self, made_by: ProviderIdentity) -> None:
        """Load the vectors of a provider that need not be loaded itself; may raise SQLite's errors.

        Does nothing where another one made those of the index. Raises what `read` raises.
        """
        self._open()
        if self._maker == maker_of(made_by):
            self._followed.refresh(made_by, None, while_filling=True)

    def interrupt(self) -> None:
        """Stop a running statement; may be called from any thread."""
        with self._guard:
            if self._interruptible is not None:
                self._interruptible.interrupt()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nobody interrupts a statement of this block."""
        with self._guard:
            before, self._interruptible = self._interruptible, None
        try:
            yield
        finally:
            with self._guard:
                self._interruptible = before

    def warm(self, gives_way: Callable[[], bool]) -> None:
        """Load the vectors of the live index, before somebody asks; may raise `Cancelled`."""
        try:
            self._open()
        except IndexMissing:
            return
        with mapped_errors(self._folder.path(self._live.generation)):
            self._vector_leg(gives_way)

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._interruptible = None
        self._connection = None
        self._live.close()

    def _open(self) -> Connection:
        # A connection that may be closed now must not be interrupted by another thread.
        with self._guard:
            self._interruptible = None
        connection = self._live.connection()
        if connection is not self._connection:
            self._connection = connection
            self._keyword = KeywordLeg(connection)
            self._filter = RowFilter(connection)
            self._followed.begin(connection)
            self._maker = self._made_by(connection)
            if self._holder.identity is not None:
                # Its vectors have to be loaded first, and how long that takes nobody knows.
                self._expected[Leg.VECTOR] = max(self._expected[Leg.VECTOR], UNKNOWN_SECONDS)
        with self._guard:
            self._interruptible = connection
        return connection

    def _made_by(self, connection: Connection) -> Maker | None:
        """Whose vectors the index holds; `None` when it is to hold none."""
        with mapped_errors(self._folder.path(self._live.generation)):
            meta = read_meta(connection)
        maker = Maker(*(meta.get(key, "") for key in ("provider", "model", "fingerprint")))
        return maker if any(maker) and maker.name != NO_MODEL else None

    def _expectations(self, query: Query, typing: bool) -> dict[Leg, float]:
        """Seconds each leg is expected to take, from how long it took last."""
        expected = dict(self._expected)
        leg = self._vector
        provider = leg.provider if leg is not None else None
        unknown = self._holder.identity is not None and not self._holder.is_loaded
        if leg is not None and provider is not None and provider.address:
            # A service answers when it does, except where it is not asked.
            asked = leg.remembered(query.text) is None and not (typing and provider.remote)
            unknown = unknown or asked
        if unknown:
            expected[Leg.VECTOR] = max(expected[Leg.VECTOR], UNKNOWN_SECONDS)
        return expected

    def _ask(
        self,
        leg: Leg,
        query: Query,
        limit: int,
        cancelled: Callable[[], bool],
        typing: bool = False,
    ) -> LegAnswer:
        assert self._keyword is not None
        assert self._filter is not None
        watch = Stopwatch()
        started = perf_counter()
        try:
            allowed = self._filter.allowed(query)
            if leg is Leg.KEYWORD:
                answer = self._keyword.search(query, limit, allowed, cancelled=cancelled)
            else:
                asked = self._vector_leg(cancelled)
                asked.waits = typing
                answer = asked.search(query, limit, allowed, cancelled=cancelled)
        except DatabaseError as error:
            # Each leg fails alone: what one cannot read, the other may.
            if cancelled():
                raise Cancelled from error
            answer = watch.failed(Reason.INDEX_FAILED, str(error) or type(error).__name__)
        self._expected[leg] = perf_counter() - started
        return answer

    def _vector_leg(
        self, gives_way: Callable[[], bool] | None, *, while_filling: bool = False
    ) -> VectorLeg:
        provider, state, missing = self._asked_provider()
        leg = self._vector
        if leg is None or leg.provider is not provider:
            self._vector = leg = VectorLeg(None, provider)
        leg.provider_state = state
        if provider is not None and not missing:
            self._followed.refresh(provider, gives_way, while_filling=while_filling)
        leg.view = None if missing else self._followed.view
        leg.missing = missing
        return leg

    def _asked_provider(self) -> tuple[Provider | None, ProviderState, str]:
        """Who embeds a query, and why its vector says nothing about the index, if it does not."""
        maker = self._maker
        if maker is None or self._holder.identity is None:
            return *self._holder.get(), ""
        provider, state = self._holder.made_by(maker, self._followed.dimensions)
        if state is not None:
            return provider, state, ""
        missing = f"the index holds vectors of {maker.name} {maker.model}; a sync makes them anew"
        return *self._holder.get(), missing

    def _pool(
        self,
        connection: Connection,
        query: Query,
        answers: dict[Leg, LegAnswer],
        limit: int,
        started: float,
    ) -> CandidatePool:
        elapsed = (perf_counter() - started) * 1000
        generation = self._live.generation
        with mapped_errors(self._folder.path(generation)):
            return build_pool(
                connection,
                query.raw,
                answers,
                limit=limit,
                generation=generation,
                elapsed_ms=elapsed,
            )
