"""Which vectors of the cache the live index needs, when the cache is to become smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity
from memtui.errors import IndexMissing
from memtui.index.recipe import NO_MODEL
from memtui.index.schema import read_meta

if TYPE_CHECKING:
    from memtui.index.database import Connection


def _nobody() -> ProviderIdentity | None:
    return None


@dataclass(frozen=True, slots=True)
class CacheBound:
    """How large the cache may become on disk, in bytes, and whose vectors go last."""

    limit: int
    spared: Callable[[], ProviderIdentity | None] = _nobody

    def keep(
        self,
        cache: EmbeddingCache,
        live: Callable[[], Connection],
        wanted: ProviderIdentity | None,
        cancelled: Callable[[], bool],
    ) -> int:
        """Evict down to the bound; by how many bytes live vectors alone exceed it.

        Live are the vectors that the index at `live` holds, and those of the same chunks by
        `wanted`, whose index may be in the making.
        """
        cache.note_uses()
        if not cache.is_above(self.limit):
            return 0
        try:
            connection = live()
        except IndexMissing:
            return cache.trim(self.limit, {}, cancelled=cancelled).excess
        hashes = [str(row[0]) for row in connection.execute("SELECT hash FROM chunks").fetchall()]
        makers = [who for who in (_made_by(connection), wanted) if who is not None]
        spared = self.spared()
        last = {spared: hashes} if spared is not None else {}
        trimmed = cache.trim(self.limit, dict.fromkeys(makers, hashes), last, cancelled=cancelled)
        return trimmed.excess


def _made_by(connection: Connection) -> ProviderIdentity | None:
    meta = read_meta(connection)
    if meta.get("provider", NO_MODEL) == NO_MODEL:
        return None
    return ProviderIdentity(meta["provider"], meta["model"], None, meta["fingerprint"])
