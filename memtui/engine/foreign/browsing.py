"""Browsing an agent's memory by its program's own index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtui.engine.browsing.door import Browsing
from memtui.engine.foreign.shelf import ForeignShelf

if TYPE_CHECKING:
    from memtui.engine.foreign.facts import ForeignFacts
    from memtui.engine.foreign.retriever import ForeignIndex, ForeignRetriever
    from memtui.model.status import Truth


class ForeignBrowsing(Browsing):
    """The part of `ForeignMachine` that is looked at without a query; nothing is written."""

    facts: ForeignFacts
    _index: ForeignIndex
    _retriever: ForeignRetriever
    _truth: Truth | None

    def _new_shelf(self) -> ForeignShelf:
        """The agent's workspace and the index as it is."""
        return ForeignShelf(
            self.facts,
            self._loop,
            self._index,
            self._retriever,
            lambda: self._truth,
            self.ranking.decay,
        )
