"""What the legs return: hits with raw scores, gathered in one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memtui.model.documents import Chunk, citation
from memtui.model.rankings import Ranking, SearchMode
from memtui.model.reasons import Leg, Numbers, Reason, Stage


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


@dataclass(frozen=True, slots=True)
class LegScore:
    """One leg's part in a fused score: contribution = weight * mapped."""

    raw: float
    mapped: float
    weight: float
    contribution: float
    position: int
    terms: tuple[str, ...] = ()
    text_score: float | None = None
    """Keyword leg: the mapped BM25 value before any lexical boost; `None` where none was added."""


class Operation(StrEnum):
    """What a stage does with a score, so that a reader can repeat it."""

    SUM = "sum"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"
    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class StageScore:
    """What one stage did to one chunk.

    `after` is `before` with `operation` and `operand` applied, to the last bit: `multiply`
    before * operand, `subtract` before - operand, `replace` operand, `keep` before, `sum` the
    sum of the leg contributions in the order vector, keyword. `rank` is 1-based after the stage.
    """

    stage: Stage
    before: float
    after: float
    operation: Operation
    operand: float | None
    rank: int
    reason: Reason = Reason.OK
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk in the result list."""

    chunk: Chunk
    rank: int
    score: float
    """After fusion, decay and rerank; what the profile's own program reports."""
    effective: float
    """`score` less the MMR penalty in the same unit: falls from row to row, drawn by the bar."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]

    @property
    def citation(self) -> str:
        """The place in the source file, as `path#L12-L31`."""
        return citation(self.chunk.path, self.chunk.start_line, self.chunk.end_line)


@dataclass(frozen=True, slots=True)
class Drop:
    """A chunk of the pool that is not in the result list, where it was lost and why."""

    chunk: Chunk
    stage: Stage
    reason: Reason
    score: float
    """Its score when it was lost; 0 when it never had one."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]
    """The stages it went through before it was lost, and the one that lost it."""
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageTrace:
    """What one stage did to the whole list: `order` holds the chunk ids after it, best first."""

    stage: Stage
    active: bool
    order: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """How a result list came about."""

    query: str
    now: datetime
    stages: tuple[StageTrace, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A result list, its near misses and its trace; `drops` best first by stage and score."""

    pool: CandidatePool
    ranking: Ranking
    hits: tuple[Hit, ...]
    drops: Sequence[Drop]
    trace: Trace
    elapsed_ms: float = 0.0
