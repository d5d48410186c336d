"""Asking both legs of memtui's own index, on the engine thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Maker, Provider, maker_of
from memtui.engine.followed_view import FollowedView
from memtui.engine.providers.failover import ProviderFailover
from memtui.engine.search import Partial, SearchRequest
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import DatabaseError, Interrupted, mapped_errors, number
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex, Stamp
from memtui.index.schema import made_by, read_meta
from memtui.model import CandidatePool, Leg, LegState, LegStatus, ProviderState, Reason
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
        self.made_by = ""
        """Provider and model of the live index's vectors; empty before it was read."""
        self._folder = folder
        self._cache = cache
        self._providers = providers
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
    def generation(self) -> int:
        """The generation of the last connection."""
        return self._live.generation

    def open(self) -> Connection:
        """Return a connection to the live generation; raises `IndexMissing`, `IndexUnusable`."""
        # A connection that may be closed now must not be interrupted by another thread.
        with self._guard:
            self._interruptible = None
        connection = self._live.connection()
        if connection is not self._connection:
            self._connection = connection
            self._keyword = KeywordLeg(connection)
            self._filter = RowFilter(connection)
            with mapped_errors(self._folder.path(self.generation)):
                self._followed.begin(connection)
                self._maker = maker = maker_in(connection)
            self.made_by = f"{maker.name}/{maker.model}" if maker is not None else ""
            if self._providers.identity is not None:
                # Its vectors have to be loaded first, and how long that takes nobody knows.
                self._expected[Leg.VECTOR] = max(self._expected[Leg.VECTOR], UNKNOWN_SECONDS)
        with self._guard:
            self._interruptible = connection
        return connection

    def read(self, function: Callable[[Connection], T]) -> T | None:
        """Read from the live generation; `None` where there is none. Raises `IndexUnusable`."""
        try:
            connection = self.open()
        except IndexMissing:
            return None
        try:
            with mapped_errors(self._folder.path(self.generation)):
                return function(connection)
        except Interrupted as error:
            # Only closing stops what is no search.
            raise IndexMissing("the index is closed") from error

    def stamp(self, connection: Connection) -> Stamp:
        """Return a value that changes when the index does."""
        return Stamp(self.generation, number(connection, "PRAGMA data_version"))

    def warm(self, gives_way: Callable[[], bool]) -> None:
        """Load the vectors before somebody asks; raises `Cancelled` when somebody does."""
        try:
            with suppress(IndexMissing):
                self.open()
                with mapped_errors(self._folder.path(self.generation)):
                    self._asked_leg(gives_way)
        except Interrupted as error:
            raise Cancelled from error

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""
        with self._guard:
            if self._interruptible is not None:
                self._interruptible.interrupt()

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

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._interruptible = None
        self._connection = None
        self._live.close()

    # --- searching ------------------------------------------------------------------------------

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
            hits, states = dict.fromkeys(Leg, ()), dict.fromkeys(Leg, _NO_INDEX)
            return CandidatePool(query.raw, {}, hits, states, limit, typing=request.typing)

        def pool() -> CandidatePool:
            made = build_pool(
                connection,
                query.raw,
                answers,
                limit=limit,
                generation=self.generation,
                elapsed_ms=(perf_counter() - started) * 1000,
            )
            return replace(made, typing=request.typing)

        expected = self._expectations(query, request.typing)
        first, last = sorted(expected, key=lambda leg: expected[leg])
        for leg in (first, last):
            answers[leg] = self._ask(leg, query, limit, cancelled, request.typing)
            if cancelled():
                raise Cancelled
            with mapped_errors(self._folder.path(self.generation)):
                if leg is last:
                    return pool()
                if partial is not None and expected[last] > SLOW_LEG_SECONDS:
                    partial(pool())
        raise AssertionError("there are two legs")

    def _expectations(self, query: Query, typing: bool) -> dict[Leg, float]:
        """Return the seconds each leg is expected to take, from how long it took last."""
        expected = dict(self._expected)
        leg = self.vector_leg
        provider = leg.provider if leg is not None else None
        if leg is None or provider is None or not provider.address:
            return expected
        # A service answers when it does, except where it is not asked.
        if leg.remembered(query.text) is None and not (typing and provider.remote):
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
                asked = self._asked_leg(cancelled)
                asked.waits = typing
                answer = asked.search(query, limit, allowed, cancelled=cancelled)
        except DatabaseError as error:
            # Each leg fails alone: what one cannot read, the other may.
            if cancelled():
                raise Cancelled from error
            detail = str(error) or type(error).__name__
            answer = watch.answer(LegStatus.FAILED, Reason.INDEX_FAILED, detail)
        self._expected[leg] = perf_counter() - started
        return answer

    # --- vectors --------------------------------------------------------------------------------

    def view_now(self) -> VectorView | None:
        """Return the vectors of the index as it is now; `None` before a search, or without any."""
        leg = self.vector_leg
        if leg is None or leg.provider is None:
            return None
        return self._asked_leg(None, while_filling=True).view

    def view_of(self, connection: Connection, identity: ProviderIdentity) -> VectorView:
        """Return the view that searches use, or one that is kept until the index changes."""
        from memtui.retrieval.vector_view import load_view

        assert identity.dimensions is not None
        searched = self.view_now()
        if searched is not None and searched.dims == identity.dimensions:
            self._other_view = None
            return searched
        stamp = self.stamp(connection)
        if self._other_view is None or self._other_view[0] != stamp:
            dims = identity.dimensions
            undisturbed = self._undisturbed
            view = load_view(connection, self._cache, identity, dims, undisturbed=undisturbed)
            self._other_view = (stamp, view)
        return self._other_view[1]

    def _asked_leg(
        self, gives_way: Callable[[], bool] | None, *, while_filling: bool = False
    ) -> VectorLeg:
        """Return the vector leg with who embeds now and the vectors as they are now."""
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

    def _asked_provider(self) -> tuple[Provider | None, ProviderState | None, str]:
        """Who embeds a query, and why its vector says nothing about the index, if it does not."""
        maker = self._maker
        provider, state = self._providers.made_by(maker, self._followed.dimensions)
        if provider is not None or state is not None or maker is None:
            return provider, state, ""
        missing = f"the index holds vectors of {maker.name} {maker.model}; a sync makes them anew"
        return *self._providers.get(), missing


def maker_in(connection: Connection) -> Maker | None:
    """Return whose vectors an index holds; `None` when it is to hold none."""
    identity = made_by(read_meta(connection))
    return maker_of(identity) if identity is not None else None
