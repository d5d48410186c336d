"""Why a chunk, a line or a file is in a list or not: what it passed, and where it was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memtui.model.documents import Chunk, citation
from memtui.model.kinds import Station
from memtui.model.reasons import Leg, Numbers, Reason, Stage
from memtui.model.terms import KeywordExplanation, LegPlace, Passage


class Outcome(StrEnum):
    """What became of a chunk at a station or a stage."""

    PASSED = "passed"
    PUSHED_OUT = "pushed_out"
    """Ranked within k before, beyond k after."""
    MISSED = "missed"
    """Not given here, and yet not lost: by one leg, where the other still may give it; by a file
    that is no longer as the index has it, where the index still has the chunk."""
    LOST = "lost"
    """Here it was lost for good: behind this nothing could save it."""
    SKIPPED = "skipped"
    """The stage is off, or the leg was not asked."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One station or stage; `numbers` say what was compared, by name.

    Leg: `bm25`, `cosine`, `terms`, `pruned`. Pool: `limit`; `bm25_rank` or `cosine_rank` where a
    release ranks otherwise. Stage: `before`, `after`, `operand`, `k`, and the stage's own
    (`similarity`, `lambda`, `age_days`, `half_life_days`, `score`, `min_score`, …). File: `bytes`,
    `limit_bytes`, `line`, `last_line`, `chunks`, `start_line`, `end_line`.
    """

    at: Station | Stage
    outcome: Outcome
    reason: Reason = Reason.OK
    numbers: Numbers = field(default_factory=dict)
    rank: int | None = None
    """1-based: among all rows for a leg, after the stage for a stage."""
    of: int | None = None
    """Among how many."""
    words: tuple[str, ...] = ()
    """Query words that matter here: the missing ones, or those that found it."""
    other: str = ""
    """Citation of the chunk that MMR or the duplicate filter preferred; a model; a path; a line
    that says more. From outside: not safe for a terminal as it is."""

    @property
    def is_within(self) -> bool:
        """Whether a stage leaves it among the first k."""
        k = self.numbers.get("k")
        return isinstance(k, int) and self.rank is not None and self.rank <= k


@dataclass(frozen=True, slots=True)
class Place:
    """What was asked about: a file, or a line of it."""

    path: str
    line: int | None = None
    """1-based; `None` for the whole file."""

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Everything that is known about why one place is shown or not for one search."""

    query: str
    place: Place
    chunk: Chunk | None
    """The chunk of the index there; `None` when the index holds none."""
    steps: tuple[TraceStep, ...]
    """In the order in which they are passed, up to where it was lost."""
    rank: int | None
    """1-based rank in the list; `None` when it is not shown."""
    terms: KeywordExplanation | None = None
    leg_places: Mapping[Leg, LegPlace] = field(default_factory=dict)

    @property
    def shown(self) -> bool:
        """Whether it is in the list."""
        return self.rank is not None

    @property
    def in_pool(self) -> bool:
        """Whether it was a candidate: the stages of the ranking say more about it."""
        return any(isinstance(step.at, Stage) for step in self.steps)

    @property
    def first_failure(self) -> TraceStep | None:
        """What cost it its place: where it was pushed beyond k for good, else where it was lost.

        A stage that pushed it out does not count when a later one brought it back.
        """
        failure = None
        for step in self.steps if not self.shown else ():
            if step.outcome in (Outcome.PUSHED_OUT, Outcome.LOST):
                failure = failure or step
            elif step.is_within:
                failure = None
        return failure

    @property
    def citation(self) -> str:
        """`path#L12-L31` of the chunk, else the place as it was asked for."""
        if self.chunk is None:
            return str(self.place)
        return citation(self.chunk.path, self.chunk.start_line, self.chunk.end_line)


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of a chunk nearest to the query, best first: an illustration, not a score.

    The embedding model compares sentence by sentence; what ranks is the vector of the whole chunk.
    """

    text: str
    found: tuple[Passage, ...]
    reason: Reason = Reason.OK
    """Why there are none."""
    model: str = ""


@dataclass(frozen=True, slots=True)
class WordChange:
    """Words added to a query or removed from it, tried: the search then shows the chunk."""

    query: str
    """The changed query as it was searched."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rank_after: int


@dataclass(frozen=True, slots=True)
class WordChanges:
    """What was tried with the words of a query; the fewest words first, then the best rank."""

    changes: tuple[WordChange, ...]
    tried: int
    """How many changed queries were searched."""
    reason: Reason = Reason.OK
    """Why nothing could be tried."""
