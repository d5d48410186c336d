"""What ranking returns: hits, near misses and the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memtui.model.documents import Chunk, citation
from memtui.model.pool import CandidatePool
from memtui.model.rankings import Ranking
from memtui.model.reasons import Leg, Numbers, Reason, Stage


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
