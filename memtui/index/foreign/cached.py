"""Vectors that OpenClaw keeps by the hash of their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtui.index.foreign.layout import Layout
from memtui.index.foreign.vectors import parse_vector
from memtui.model.status import Identity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.index.database import Connection


def cached_vector(
    connection: Connection, layout: Layout, identity: Identity, digest: str
) -> NDArray[np.float64] | None:
    """Read the vector of the text whose sha256 is `digest` (hex), made as `identity` says.

    Float64 of shape (dimensions,). Without a provider key in the identity the newest entry of
    its provider and model counts. `None` when there is no such table or entry, when it is
    damaged, and when the index does not say what its vectors were made with.
    """
    if layout.cache is None or not identity.provider or not identity.model:
        return None
    query = (
        f"SELECT embedding FROM {layout.cache} WHERE provider = ? AND model = ? AND hash = ?"
        " AND (?4 IS NULL OR provider_key = ?4) ORDER BY updated_at DESC"
    )
    values = (identity.provider, identity.model, digest, identity.provider_key)
    for (stored,) in connection.execute(query, values).fetchall():
        try:
            vector = parse_vector(stored)
        except ValueError:
            continue
        if vector.size and identity.vector_dims in (None, vector.size):
            return vector
    return None
