"""Everything that was found out about one place of one search: what reports are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from memtui.model import Ranked, Ranking
from memtui.model.inquiry import Inquiry, Passages, WordChanges

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges
    from memtui.ranking.trace import Explanation


@dataclass(frozen=True)
class Explained:
    """What a report is made of; a part is `None` where nobody looked for it."""

    ranked: Ranked
    ranking: Ranking
    """What `ranked` was asked with: least changes are changes of this."""
    inquiry: Inquiry
    least: LeastChanges | None = None
    words: WordChanges | None = None
    passages: Passages | None = None

    @cached_property
    def told(self) -> Explanation | None:
        """What the ranking says; `None` for a chunk that is not in the pool."""
        from memtui.ranking.trace import explain

        chunk = self.inquiry.chunk
        if chunk is None or chunk.id not in self.ranked.pool.chunks:
            return None
        return explain(self.ranked, chunk.id)
