"""Asking both legs of memtui's own index, on the engine thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Maker, Provider
from memtui.engine.followed_view import FollowedView
from memtui.engine.providers.failover import ProviderFailover
from memtui.engine.search import Partial, SearchRequest
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import DatabaseError, Interrupted, mapped_errors, number
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex, Stamp
from memtui.index.schema import NO_MODEL, read_meta
from memtui.model import (
    CandidatePool,
    Leg,
    LegState,
    LegStatus,
    ProviderState,
    Reason,
)
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.legs import LegAnswer, Stopwatch
from memtui.retrieval.pool import build_pool
from memtui.retrieval.query import Query, parse_query
from memtui.retrieval.vector import VectorLeg

if TYPE_CHECKING:
    from memtui.embedding.provider import ProviderIdentity
    from memtui.index.database import Connection
    from memtui.retrieval.vector_view import VectorView

T = TypeVar("T")

LEAST_DEPTH = 50
"""So many hits are fetched of each leg at least: k and the weights can change without I/O."""

SLOW_LEG_SECONDS = 0.04
"""A leg expected to take longer than this is not waited for: the other leg's hits come first."""

UNKNOWN_SECONDS = 1.0
"""What a leg is expected to take that has to load something before it can answer."""

_PENDING = LegAnswer((), LegState(LegStatus.PENDING, Reason.PENDING))
_NO_INDEX = LegState(LegStatus.SKIPPED, Reason.NO_INDEX, "no index yet")


class OwnLegs:
    """Runs queries against the live generation; belongs to the engine thread.

    `is_filling` tells whether an index run has still something to do.
    """

    def __init__(
        self,
        folder: IndexFolder,
        cache: EmbeddingCache,
        providers: ProviderFailover,
        is_filling: Callable[[], bool],
    ) -> None:
        self.vector_leg: VectorLeg | None = None
        """The vector leg as it searched last; `None` before that."""
        self.folder = folder
        self.cache = cache
        self.providers = providers
        self._live = LiveIndex(folder)
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        self._interruptible: Connection | None = None
        self._maker: Maker | None = None
        self._keyword: KeywordLeg | None = None
        self._filter: RowFilter | None = None
        self._followed = FollowedView(self._live, cache, is_filling, self._undisturbed)
        self._other_view: tuple[Stamp, VectorView] | None = None
        self._expected = {Leg.KEYWORD: 0.0, Leg.VECTOR: 0.0}

    @property
    def made_by(self) -> str:
        """Provider and model of the live index's vectors; empty before it was read."""
        return f"{self._maker.name}/{self._maker.model}" if self._maker is not None else ""

    @property
    def generation(self) -> int:
        """The generation of the last connection."""
        return self._live.generation

    def read(self, function: Callable[[Connection], T]) -> T:
        """Read from the live generation; raises `IndexMissing`, or `IndexUnusable`."""
        connection = self.open()
        try:
            with mapped_errors(self.folder.path(self.generation)):
                return function(connection)
        except Interrupted as error:
            # Only closing stops what is no search.
            raise IndexMissing("the index is closed") from error

    def warm(self, gives_way: Callable[[], bool]) -> None:
        """Load the vectors before somebody asks; raises `Cancelled` when somebody does."""
        try:
            with suppress(IndexMissing):
                self.open()
                with mapped_errors(self.folder.path(self.generation)):
                    self.asked_leg(gives_way)
        except Interrupted as error:
            raise Cancelled from error

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._interruptible = None
        self._connection = None
        self._live.close()

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        """Ask both legs.

        While the user is typing no text is sent to another machine: the leg that needs it is
        pending. When a leg is expected to be slow, `partial` gets a pool with the other leg's
        hits first. Raises `Cancelled` when `cancelled` turns true, `IndexUnusable` when there is
        no reading the index at all.
        """
        query = parse_query(request.text, typing=request.typing)
        limit = max(request.ranking.candidates, LEAST_DEPTH)
        started = perf_counter()
        answers = {Leg.KEYWORD: _PENDING, Leg.VECTOR: _PENDING}
        try:
            connection = self.open()
        except IndexMissing:
            states = dict.fromkeys(answers, _NO_INDEX)
            hits = dict.fromkeys(Leg, ())
            return CandidatePool(query.raw, {}, hits, states, limit, typing=request.typing)

        def pool() -> CandidatePool:
            elapsed = (perf_counter() - started) * 1000
            generation = self._live.generation
            with mapped_errors(self.folder.path(generation)):
                made = build_pool(
                    connection,
                    query.raw,
                    answers,
                    limit=limit,
                    generation=generation,
                    elapsed_ms=elapsed,
                )
            return replace(made, typing=request.typing)

        expected = self._expectations(query, request.typing)
        order = sorted(expected, key=lambda leg: expected[leg])
        for leg in order:
            answers[leg] = self._ask(leg, query, limit, cancelled, request.typing)
            if cancelled():
                raise Cancelled
            is_last = leg is order[-1]
            if partial is not None and not is_last and expected[order[-1]] > SLOW_LEG_SECONDS:
                partial(pool())
        return pool()

    def interrupt(self) -> None:
        with self._guard:
            if self._interruptible is not None:
                self._interruptible.interrupt()

    def view_now(self) -> VectorView | None:
        """The vectors of the index as it is now; `None` before a search, or without any."""
        leg = self.vector_leg
        if leg is None or leg.provider is None:
            return None
        return self.asked_leg(None, while_filling=True).view

    def view_of(self, connection: Connection, identity: ProviderIdentity) -> VectorView:
        """The view that searches use, or else one that is kept until the index changes."""
        from memtui.retrieval.vector_view import load_view

        assert identity.dimensions is not None
        searched = self.view_now()
        if searched is not None and searched.dims == identity.dimensions:
            self._other_view = None
            return searched
        stamp = self.stamp(connection)
        if self._other_view is None or self._other_view[0] != stamp:
            view = load_view(
                connection,
                self.cache,
                identity,
                identity.dimensions,
                undisturbed=self._undisturbed,
            )
            self._other_view = (stamp, view)
        return self._other_view[1]

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Nobody interrupts a statement of this block."""
        with self._guard:
            before, self._interruptible = self._interruptible, None
        try:
            yield
        finally:
            with self._guard:
                self._interruptible = before

    def open(self) -> Connection:
        # A connection that may be closed now must not be interrupted by another thread.
        with self._guard:
            self._interruptible = None
        connection = self._live.connection()
        if connection is not self._connection:
            self._connection = connection
            self._keyword = KeywordLeg(connection)
            self._filter = RowFilter(connection)
            with mapped_errors(self.folder.path(self._live.generation)):
                self._followed.begin(connection)
                self._maker = maker_in(connection)
            if self.providers.identity is not None:
                # Its vectors have to be loaded first, and how long that takes nobody knows.
                self._expected[Leg.VECTOR] = max(self._expected[Leg.VECTOR], UNKNOWN_SECONDS)
        with self._guard:
            self._interruptible = connection
        return connection

    def _expectations(self, query: Query, typing: bool) -> dict[Leg, float]:
        """Seconds each leg is expected to take, from how long it took last."""
        expected = dict(self._expected)
        leg = self.vector_leg
        provider = leg.provider if leg is not None else None
        unknown = self.providers.identity is not None and not self.providers.is_loaded
        if leg is not None and provider is not None and provider.address:
            # A service answers when it does, except where it is not asked.
            asked = leg.remembered(query.text) is None and not (typing and provider.remote)
            unknown = unknown or asked
        if unknown:
            expected[Leg.VECTOR] = max(expected[Leg.VECTOR], UNKNOWN_SECONDS)
        return expected

    def _ask(
        self, leg: Leg, query: Query, limit: int, cancelled: Callable[[], bool], typing: bool
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
                asked = self.asked_leg(cancelled)
                asked.waits = typing
                answer = asked.search(query, limit, allowed, cancelled=cancelled)
        except DatabaseError as error:
            # Each leg fails alone: what one cannot read, the other may.
            if cancelled():
                raise Cancelled from error
            answer = watch.failed(Reason.INDEX_FAILED, str(error) or type(error).__name__)
        self._expected[leg] = perf_counter() - started
        return answer

    def asked_leg(
        self, gives_way: Callable[[], bool] | None, *, while_filling: bool = False
    ) -> VectorLeg:
        provider, state, missing = self._asked_provider()
        leg = self.vector_leg
        if leg is None or leg.provider is not provider:
            self.vector_leg = leg = VectorLeg(None, provider)
        leg.provider_state = state
        if provider is not None and not missing:
            self._followed.refresh(provider, gives_way, while_filling=while_filling)
        leg.view = None if missing else self._followed.view
        leg.missing = missing
        return leg

    def _asked_provider(self) -> tuple[Provider | None, ProviderState, str]:
        """Who embeds a query, and why its vector says nothing about the index, if it does not."""
        maker = self._maker
        if maker is None or self.providers.identity is None:
            return *self.providers.get(), ""
        provider, state = self.providers.made_by(maker, self._followed.dimensions)
        if state is not None:
            return provider, state, ""
        missing = f"the index holds vectors of {maker.name} {maker.model}; a sync makes them anew"
        return *self.providers.get(), missing

    def stamp(self, connection: Connection) -> Stamp:
        return Stamp(self._live.generation, number(connection, "PRAGMA data_version"))


def maker_in(connection: Connection) -> Maker | None:
    """Whose vectors an index holds; `None` when it is to hold none."""
    meta = read_meta(connection)
    maker = Maker(*(meta.get(key, "") for key in ("provider", "model", "fingerprint")))
    return maker if any(maker) and maker.name != NO_MODEL else None
