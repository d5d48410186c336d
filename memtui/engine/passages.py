"""The passages of a chunk nearest to a query, as an illustration of what a model sees in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtui.model import ProviderState, Reason
from memtui.model.inquiry import Passages
from memtui.retrieval.passages import nearest_passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.embedding.provider import Provider


def passages_of(
    text: str,
    query: str,
    vector: NDArray[np.float32] | None,
    provider: Provider | None,
    state: ProviderState,
) -> Passages:
    """Embed a text sentence by sentence and compare with the query; any thread.

    `vector` is the query's by the same provider, shape (dims,); `None` has it embedded too.
    `state` says why there is no provider. Never raises for a provider that fails.
    """
    if provider is None:
        return Passages(text, (), Reason.DISABLED if state.state is Reason.OK else state.state)
    if not query:
        return Passages(text, (), Reason.EMPTY_QUERY, provider.model)
    if not (provider.reads(query) and provider.reads(text)):
        return Passages(text, (), Reason.SCRIPT_NOT_SUPPORTED, provider.model)
    try:
        known = provider.embed_query(query) if vector is None else vector
        if not known.any():
            return Passages(text, (), Reason.ZERO_QUERY_VECTOR, provider.model)
        found = nearest_passages(text, known, provider.embed_documents)
    except Exception:
        # Whatever a provider raises, its failure is its own: the explanation goes on without.
        return Passages(text, (), Reason.PROVIDER_FAILED, provider.model)
    return Passages(text, found, Reason.OK if found else Reason.NO_VECTOR, provider.model)
