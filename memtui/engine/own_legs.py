"""Asking both legs of memtui's own index, on the engine thread, over vectors held in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from memtui.embedding.provider import Provider, ProviderIdentity, maker_of
from memtui.engine.ports import Legs, Partial, SearchRequest
from memtui.engine.providers.failover import ProviderFailover
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import Connection, DatabaseError, Interrupted, mapped_errors, number
from memtui.index.generations import IndexFolder, LiveIndex, Stamp
from memtui.index.schema import made_by, read_meta
from memtui.model import CandidatePool, Leg, LegState, LegStatus, Reason
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.pool import LegAnswer, answer, build_pool
from memtui.retrieval.query import allowed_rows, parse_query
from memtui.retrieval.vector import VectorLeg

# They need numpy, which a search that nobody embeds does without.
if TYPE_CHECKING:
    from memtui.retrieval.vector_view import VectorView

T = TypeVar("T")

LEAST_DEPTH = 50
"""So many hits are fetched of each leg at least: k and the weights can change without I/O."""

SLOW_LEG_SECONDS = 0.04
"""A leg expected to take longer than this is not waited for: the other leg's hits come first."""

UNKNOWN_SECONDS = 1.0
"""What a leg is expected to take that has to load something before it can answer."""

REFRESH_SECONDS = 0.75
"""While an index is being filled, its vectors are looked at again so often at most."""

_PENDING = LegAnswer((), LegState(LegStatus.PENDING, Reason.PENDING))


class OwnLegs(Legs):
    """Runs queries against the live generation; belongs to the engine thread.

    `is_filling` tells whether an index run has still something to do.
    """

    def __init__(
        self, folder: IndexFolder, providers: ProviderFailover, is_filling: Callable[[], bool]
    ) -> None:
        self.vector_leg: VectorLeg | None = None
        """The vector leg as it searched last; `None` before that."""
        self.live = LiveIndex(folder)
        self.identity: ProviderIdentity | None = None
        """Who made the live index's vectors; `None` where it holds none, and before it was read."""
        self._folder = folder
        self._providers = providers
        self._is_filling = is_filling
        self._connection: Connection | None = None
        self._guard = threading.Lock()
        self._interruptible: Connection | None = None
        self._keyword: KeywordLeg | None = None
        self._view: VectorView | None = None
        self._view_stamp: Stamp | None = None
        self._viewed_at = 0.0
        self._expected = {Leg.KEYWORD: 0.0, Leg.VECTOR: 0.0}
        """Seconds that each leg is expected to take: what it took last."""

    def open(self) -> Connection:
        """Return a connection to the live generation; raises `IndexMissing`, `IndexUnusable`."""
        # A connection that may be closed now must not be interrupted by another thread.
        with self._guard:
            self._interruptible = None
        connection = self.live.connection()
        if connection is not self._connection:
            self._connection = connection
            self._keyword = KeywordLeg(connection)
            self._view = self._view_stamp = None
            with mapped_errors(self._folder.path(self.live.generation)):
                self.identity = made_by(read_meta(connection))
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
            with mapped_errors(self._folder.path(self.live.generation)):
                return function(connection)
        except Interrupted as error:
            # Only closing stops what is no search.
            raise IndexMissing("the index is closed") from error

    def stamp(self, connection: Connection) -> Stamp:
        """Return a value that changes when the index does."""
        # Not `LiveIndex.stamp`: that follows a swap, and a search keeps to one generation.
        return Stamp(self.live.generation, number(connection, "PRAGMA data_version"))

    def warm(self, gives_way: Callable[[], bool]) -> None:
        """Load the vectors before somebody asks; raises `Cancelled` when somebody does."""
        try:
            with suppress(IndexMissing):
                self.open()
                with mapped_errors(self._folder.path(self.live.generation)):
                    self._current_leg(gives_way)
        except Interrupted as error:
            raise Cancelled from error

    def interrupt(self) -> None:
        with self._guard:
            if self._interruptible is not None:
                self._interruptible.interrupt()

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._interruptible = None
        self._connection = None
        self.live.close()

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        """Ask both legs, the quicker one first.

        While the user is typing no text is sent to another machine: the leg that needs it is
        pending. When a leg is expected to be slow, `partial` gets a pool with the other leg's
        hits first. Raises `Cancelled` when `cancelled` turns true, `IndexUnusable` when there is
        no reading the index at all.
        """
        query, typing = parse_query(request.text, typing=request.typing), request.typing
        limit = max(request.ranking.candidates, LEAST_DEPTH)
        started = perf_counter()
        answers = {Leg.KEYWORD: _PENDING, Leg.VECTOR: _PENDING}
        connection = self.open()
        assert self._keyword is not None
        rows = cache(lambda: allowed_rows(connection, query))

        def pool() -> CandidatePool:
            with mapped_errors(self._folder.path(self.live.generation)):
                made = build_pool(
                    connection,
                    query.raw,
                    answers,
                    limit=limit,
                    generation=self.live.generation,
                    elapsed_ms=(perf_counter() - started) * 1000,
                )
            return replace(made, typing=typing)

        expected, last_leg = dict(self._expected), self.vector_leg
        provider = last_leg.provider if last_leg is not None else None
        is_new = last_leg is None or query.text not in last_leg.vectors
        if provider and provider.address and is_new and not (typing and provider.remote):
            # A service answers when it does, except where it is not asked.
            expected[Leg.VECTOR] = max(expected[Leg.VECTOR], UNKNOWN_SECONDS)
        first, last = sorted(expected, key=expected.__getitem__)
        for leg in (first, last):
            if partial is not None and leg is last and expected[leg] > SLOW_LEG_SECONDS:
                partial(pool())
            began = perf_counter()
            try:
                allowed = rows()
                if leg is Leg.KEYWORD:
                    answers[leg] = self._keyword.search(query, limit, allowed, cancelled=cancelled)
                else:
                    vector_leg = self._current_leg(cancelled)
                    vector_leg.waits = typing
                    answers[leg] = vector_leg.search(query, limit, allowed, cancelled=cancelled)
            except DatabaseError as error:
                # Each leg fails alone: what one cannot read, the other may.
                detail = str(error) or type(error).__name__
                answers[leg] = answer(began, LegStatus.FAILED, Reason.INDEX_FAILED, detail)
            self._expected[leg] = perf_counter() - began
            if cancelled():
                raise Cancelled
        return pool()

    def view(
        self, gives_way: Callable[[], bool] | None = None, provider: Provider | None = None
    ) -> VectorView | None:
        """Return the vectors of the index as it is now; `None` where nobody tells their length.

        `provider` stands for who is to make the vectors of an index that has none yet. While an
        index run goes on, what was loaded a moment ago serves who gives way.
        """
        connection, identity = self._connection, self.identity
        if identity is None and provider is not None:
            identity = ProviderIdentity(provider.name, provider.model, None, provider.fingerprint)
        if identity is not None and identity.dimensions is None and provider is not None:
            identity = identity._replace(dimensions=provider.dimensions)
        if connection is None or identity is None or identity.dimensions is None:
            return None
        stamp = self.stamp(connection)
        is_recent = monotonic() - self._viewed_at < REFRESH_SECONDS
        serves = gives_way is not None and is_recent and self._is_filling()
        if self._view_stamp is None or not (stamp == self._view_stamp or serves):
            from memtui.retrieval.vector_view import VectorView

            if self._view is None or self._view.dims != identity.dimensions:
                self._view = VectorView(identity.dimensions)
            # Who goes on typing must not have a short look begin again and again.
            with self._guard:
                before, self._interruptible = self._interruptible, None
            try:
                self._view.follow(connection, gives_way)
            finally:
                with self._guard:
                    self._interruptible = before
            self._view_stamp, self._viewed_at = stamp, monotonic()
        return self._view

    def _current_leg(self, gives_way: Callable[[], bool]) -> VectorLeg:
        """Return the vector leg with who embeds now and the vectors as they are now."""
        missing, identity = "", self.identity
        maker = maker_of(identity) if identity is not None else None
        dimensions = identity.dimensions if identity is not None else None
        provider, state = self._providers.made_by(maker, dimensions)
        if maker is not None and provider is None and state is None:
            provider, state = self._providers.get()
            vectors = f"vectors of {maker.name} {maker.model}"
            missing = f"the index holds {vectors}; a sync makes them anew"
        leg = self.vector_leg
        if leg is None or leg.provider is not provider:
            self.vector_leg = leg = VectorLeg(None, provider)
        leg.provider_state, leg.missing = state, missing
        # In one step: the status is asked for on other threads meanwhile.
        is_asked = provider is not None and not missing
        leg.view = self.view(gives_way, provider) if is_asked else None
        return leg
