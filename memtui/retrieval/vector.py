"""The vector leg: the chunks whose meaning is nearest to the query's."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from memtui.embedding.provider import Provider, clean_vectors
from memtui.errors import Cancelled
from memtui.model import ProviderState, Reason
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.legs import LegAnswer, RowHit, Stopwatch, import_numpy
from memtui.retrieval.query import Query

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows
    from memtui.retrieval.vector_view import Floats, VectorView

EXACT_BACKEND = "exact float32"
CODED_BACKEND = "one-bit codes, exact rescoring"

WHEN_ASKED = "asked when you stop typing or press Enter"

_REMEMBERED_QUERIES = 256
_MIN_LETTERS = 2


class VectorLeg:
    """Searches a view with the vector of the query; belongs to one thread.

    `view` may be replaced between searches; a search holds on to the one it began with. The
    vectors of the last 256 queries are kept, so that a changed index costs no new embedding.
    """

    def __init__(
        self,
        view: VectorView | None,
        provider: Provider | None,
        provider_state: ProviderState | None = None,
    ) -> None:
        self.view = view
        self.missing = ""
        """Why there is no view, in words, where that is known."""
        self.waits = False
        """Whether no text is sent to another machine now, because the query is still typed."""
        self.provider_state = provider_state
        """Why there is no provider."""
        self.provider = provider
        """Who embeds the queries."""
        self._vectors: OrderedDict[str, Floats] = OrderedDict()
        # What has nobody to embed a query needs no numpy, which takes longer than a keyword search.
        if provider is not None:
            import_numpy()

    @property
    def backend(self) -> str:
        """How rows are compared, in words."""
        coded = self.view is not None and self.view.codes is not None
        return CODED_BACKEND if coded else EXACT_BACKEND

    def remembered(self, text: str) -> Floats | None:
        """The vector of a query that was searched, shape (dims,); nothing is embedded for it."""
        return self._vectors.get(text)

    def search(
        self,
        query: Query,
        limit: int,
        allowed: AllowedRows | None,
        *,
        cancelled: IsCancelled | None = None,
    ) -> LegAnswer:
        """Find the `limit` nearest chunks among the allowed ones.

        A leg that cannot answer says why in its state; raises only `Cancelled`.
        """
        watch = Stopwatch()
        view, provider = self.view, self.provider
        refusal = self._refusal(query, watch)
        if refusal is not None:
            return refusal
        assert view is not None
        assert provider is not None
        facts: dict[str, float | int | str | None] = {
            "backend": self.backend,
            "provider": provider.name,
            "model": provider.model,
            "searched": view.size,
        }
        if view.pending:
            facts["pending"] = view.pending
        try:
            vector = self._query_vector(query.text, provider, cancelled)
        except Cancelled:
            raise
        except Exception as error:
            # Whatever a provider raises, its failure is its own and the other leg serves.
            detail = str(error) or type(error).__name__
            return watch.failed(Reason.PROVIDER_FAILED, detail, facts)
        if cancelled is not None and cancelled():
            raise Cancelled
        if len(vector) != view.dims:
            detail = (
                f"the index holds vectors of {view.dims} numbers, the model gives {len(vector)}"
            )
            return watch.failed(Reason.DIMENSIONS_DIFFER, detail, facts)
        if not vector.any():
            detail = "the model sees nothing in this query"
            return watch.skipped(Reason.ZERO_QUERY_VECTOR, detail, facts)
        from memtui.retrieval.vector_view import nearest

        rows = None if allowed is None else allowed.rowids
        found = nearest(view, vector, limit, rows)
        return watch.ok(tuple(RowHit(rowid, cosine) for rowid, cosine in found), facts)

    def _refusal(self, query: Query, watch: Stopwatch) -> LegAnswer | None:
        """Say why the leg is not asked; `None` when it is."""
        if not query.text:
            return watch.skipped(Reason.EMPTY_QUERY, "nothing to search for")
        if self.provider is None:
            state = self.provider_state
            reason = Reason.DISABLED if state is None or state.state is Reason.OK else state.state
            detail = state.detail if state is not None and state.detail else "no embedding provider"
            if reason is Reason.DISABLED:
                return watch.skipped(reason, detail)
            return watch.failed(reason, detail)
        if len(query.text) < _MIN_LETTERS and not query.spaceless:
            detail = f"needs {_MIN_LETTERS} characters"
            return watch.skipped(Reason.QUERY_TOO_SHORT, detail)
        if not self.provider.reads(query.text):
            detail = f"{self.provider.model} does not read the script of this query"
            return watch.skipped(Reason.SCRIPT_NOT_SUPPORTED, detail)
        if self.view is None or self.view.size == 0:
            pending = self.view.pending if self.view else 0
            waiting = f"{pending} chunks wait for their vectors" if pending else "no vectors yet"
            return watch.skipped(Reason.NO_VECTORS, self.missing or waiting, {"pending": pending})
        if self.waits and self.provider.remote and query.text not in self._vectors:
            return watch.pending(Reason.PENDING, WHEN_ASKED)
        return None

    def _query_vector(self, text: str, provider: Provider, cancelled: IsCancelled | None) -> Floats:
        import numpy as np

        known = self._vectors.pop(text, None)
        if known is None:
            known = clean_vectors(
                np.asarray(provider.embed_query(text, cancelled=cancelled)).reshape(-1)
            )
        self._vectors[text] = known
        if len(self._vectors) > _REMEMBERED_QUERIES:
            self._vectors.popitem(last=False)
        return known
