"""The vector leg: the chunks whose meaning is nearest to the query's."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from memtui.embedding.provider import Provider, clean_vectors
from memtui.errors import Cancelled, IsCancelled, never, stop_if
from memtui.model import LegState, LegStatus, ProviderState, Reason
from memtui.retrieval.pool import NOTHING_ASKED, LegAnswer, RowHit
from memtui.retrieval.query import Query

if TYPE_CHECKING:
    from memtui.retrieval.vector_view import Floats, VectorView

WHEN_ASKED = "asked when you stop typing or press Enter"

_REMEMBERED_QUERIES = 256
_MIN_LETTERS = 2


class VectorLeg(Struct, frozen=True):
    """Searches a view with the vector of the query, on one thread."""

    view: VectorView | None
    provider: Provider | None
    """The provider that embeds the queries."""
    provider_state: ProviderState | None = None
    """The reason why there is no provider."""
    missing: str = ""
    """The reason why there is no view, in words, where that is known."""
    waits: bool = False
    """True while no text is sent to another machine, because the query is still typed."""
    vectors: dict[str, Floats] = {}
    """The vectors, shape (dims,), of the last 256 queries by text: a changed index costs no new
    embedding."""

    def search(
        self,
        query: Query,
        limit: int,
        allowed: Collection[int] | None,
        *,
        cancelled: IsCancelled = never,
    ) -> LegAnswer:
        """Find the `limit` nearest chunks among the allowed ones.

        A leg that cannot answer says why in its state; raises only `Cancelled`.
        """
        view, provider = self.view, self.provider
        if (refusal := self._refusal(query)) is not None:
            return LegAnswer((), refusal)
        from memtui.retrieval.vector_view import nearest

        assert view is not None
        assert provider is not None
        eligible = view.live_among(allowed)
        facts: dict[str, float | int | str | None] = {
            "backend": view.backend,
            "provider": provider.identity.name,
            "model": provider.identity.model,
            "searched": int(eligible.sum()),
        }
        if view.pending:
            facts["pending"] = view.pending
        failed = partial(LegState, LegStatus.FAILED, facts=facts)
        vector = self.vectors.pop(query.text, None)
        if vector is None:
            try:
                embedded = provider.embed_query(query.text, cancelled=cancelled)
            except Cancelled:
                raise
            except Exception as error:
                # Whatever a provider raises, its failure is its own and the other leg serves.
                detail = str(error) or type(error).__name__
                return LegAnswer((), failed(Reason.PROVIDER_FAILED, detail))
            vector = clean_vectors(embedded.reshape(-1))
        self.vectors[query.text] = vector
        if len(self.vectors) > _REMEMBERED_QUERIES:
            del self.vectors[next(iter(self.vectors))]
        stop_if(cancelled)
        if (dims := len(vector)) != view.dims:
            detail = f"the index holds vectors of {view.dims} numbers, the model gives {dims}"
            return LegAnswer((), failed(Reason.DIMENSIONS_DIFFER, detail))
        if not vector.any():
            reason, detail = Reason.ZERO_QUERY_VECTOR, "the model sees nothing in this query"
            return LegAnswer((), LegState(LegStatus.SKIPPED, reason, detail, facts=facts))
        hits = tuple(RowHit(*hit) for hit in nearest(view, vector, limit, eligible))
        return LegAnswer(hits, LegState(LegStatus.OK, facts=facts))

    def _refusal(self, query: Query) -> LegState | None:
        provider, state = self.provider, self.provider_state
        status, facts = LegStatus.SKIPPED, {}
        if not query.text:
            return NOTHING_ASKED
        if provider is None:
            reason = Reason.DISABLED if state is None or state.state is Reason.OK else state.state
            status = LegStatus.SKIPPED if reason is Reason.DISABLED else LegStatus.FAILED
            detail = state.detail if state is not None and state.detail else "no embedding provider"
        elif len(query.text) < _MIN_LETTERS and not query.spaceless:
            reason, detail = Reason.QUERY_TOO_SHORT, f"needs {_MIN_LETTERS} characters"
        elif not provider.reads(query.text):
            reason = Reason.SCRIPT_NOT_SUPPORTED
            detail = f"{provider.identity.model} does not read the script of this query"
        elif self.view is None or self.view.size == 0:
            pending = self.view.pending if self.view else 0
            waiting = f"chunks without a vector yet: {pending}" if pending else "no vectors yet"
            reason, detail, facts = Reason.NO_VECTORS, self.missing or waiting, {"pending": pending}
        elif self.waits and provider.remote and query.text not in self.vectors:
            status, reason, detail = LegStatus.PENDING, Reason.PENDING, WHEN_ASKED
        else:
            return None
        return LegState(status, reason, detail, facts=facts)
