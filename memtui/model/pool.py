"""What the legs return: hits with raw scores, gathered in one pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memtui.model.documents import Chunk
from memtui.model.rankings import SearchMode
from memtui.model.reasons import Leg, Numbers, Reason


@dataclass(frozen=True, slots=True)
class LegHit:
    """A chunk that a leg found.

    `raw` is SQLite's `bm25()` (lower is better, usually negative) for the keyword leg and the
    cosine (-1 to 1) for the vector leg; `position` is 0-based within the leg.
    """

    chunk_id: str
    position: int
    raw: float
    terms: tuple[str, ...] = ()
    """Keyword leg only: the query terms the chunk holds, as the query spells them."""
    path_raw: float | None = None
    """Score of a match on the path, where a profile uses one; 0 to 1."""
    path_tier: int = 0
    """3 full path, 2 file name, 1 stem, 0 none: how exactly the query names the file."""
    score: float | None = None
    """Keyword leg: the text score where there is no BM25 value, as of a substring match."""
    boosted: float | None = None
    """Keyword leg: the text score with the release's lexical boost, the best of all keywords."""
    has_body: bool = True
    """False for a chunk that was found by its path alone."""


class LegStatus(StrEnum):
    """Whether a leg answered."""

    OK = "ok"
    SKIPPED = "skipped"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LegState:
    """How a leg answered one query."""

    status: LegStatus
    reason: Reason = Reason.OK
    detail: str = ""
    elapsed_ms: float = 0.0
    facts: Numbers = field(default_factory=dict)
    """Keyword: `match`, `pruned`, `stop_words`; vector: `backend`, `model`, `searched`."""


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Everything that ranking may look at for one query; fetched once, ranked many times."""

    query: str
    chunks: Mapping[str, Chunk]
    hits: Mapping[Leg, tuple[LegHit, ...]]
    """Best first; `hits[leg][i].position == i`. Both legs are always present as keys."""
    states: Mapping[Leg, LegState]
    limit: int
    """How many hits were asked of each leg."""
    sized: bool = False
    """The legs chose their candidates by a release's own rule for this `limit`: none is cut."""
    search_mode: SearchMode = SearchMode.HYBRID
    """Which legs could search at all, which changes how an OpenClaw release ranks."""
    typing: bool = False
    """The query was asked as one still being typed: its last word finds longer ones, too."""
    generation: int = 0
    elapsed_ms: float = 0.0
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What ranking computed from the pool alone (token overlap, dates), kept for the next time."""
