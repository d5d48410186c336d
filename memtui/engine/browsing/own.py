"""Browsing a memory folder with memtui's own index of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from memtui.engine.browsing.door import Browsing
from memtui.model import IndexStatus

if TYPE_CHECKING:
    from memtui.embedding.cache import EmbeddingCache
    from memtui.engine.browsing.own_shelf import OwnShelf
    from memtui.engine.conversations.stores import OwnTranscripts
    from memtui.engine.retriever import Retriever
    from memtui.memory.discover import Scope
    from memtui.settings import Settings


class OwnBrowsing(Browsing):
    """The part of `Engine` that is looked at without a query."""

    settings: Settings
    _scope: Scope
    transcripts: OwnTranscripts
    _retriever: Retriever
    _cache: EmbeddingCache

    @abstractmethod
    def status(self) -> IndexStatus:
        """A snapshot of the index."""

    def _new_shelf(self) -> OwnShelf:
        """The notes of the folder, its transcripts and the live index."""
        from memtui.engine.browsing.own_shelf import OwnShelf

        return OwnShelf(
            self._scope,
            # Asked each time: the sources can be chosen while the memory is open.
            lambda: self.transcripts.scope,
            self._loop,
            self._retriever,
            self._cache,
            self.status,
            chunk_tokens=self.settings.chunking.tokens,
        )
