"""Values that are seen without a query: files, days, a chunk from every side, and care."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct

from memtui.model.chunks import Chunk, citation
from memtui.model.reasons import Numbers, Reason
from memtui.model.status import FileState


class CareRule(StrEnum):
    """A defect of notes that memtui looks for; each rule's precision is measured."""

    CREDENTIAL = "credential"
    NEAR_DUPLICATE = "near_duplicate"
    UNREACHABLE = "unreachable"
    """No query by its own first words reaches it."""
    NO_TEXT = "no_text"
    """Bytes that are no text: replaced ones, and files that hold nothing else."""
    EMPTY_FILE = "empty_file"
    LONG_FILE = "long_file"
    DATED_FACT = "dated_fact"
    """A fact with a date in a file that has none and never decays."""
    BROKEN_LINK = "broken_link"
    LONG_LINE = "long_line"


class MemoryFile(Struct, frozen=True):
    """A file that discovery or the index knows."""

    path: str
    """Relative to the root, or absolute for files of extra paths."""
    source: str
    """`memory`, `sessions`, or what another program's index says."""
    place: str
    """Its heading in lists: `workspace`, an extra path, an agent, a kind of transcript."""
    state: FileState
    size: int | None
    """Bytes; `None` when unknown."""
    changed: datetime | None
    chunks: int = 0
    lines: int = 0
    day: date | None = None
    """The file's own date, from its name or front matter."""
    reason: Reason = Reason.OK
    """The reason why it is not indexed, or in error."""
    detail: str = ""
    """One line about `state`: a reason in words, warnings of the reading."""


class DayTotals(Struct, frozen=True):
    day: date
    paths: tuple[str, ...]
    size: int
    """Bytes."""
    chunks: int
    recalls: int | None = None
    """The times its chunks come up in the top k for the queries of the history; `None`: not
    counted yet."""


class ChunkTerm(Struct, frozen=True):
    """A term of a chunk as the keyword leg sees it."""

    term: str
    """As it is indexed, stemmed."""
    count: int
    """Occurrences in the chunk."""
    document_frequency: int
    """In how many chunks it stands."""


class ChunkRecord(Struct, frozen=True):
    """Everything that the index holds about one chunk."""

    chunk: Chunk
    rowid: int
    tokens: int
    """Terms of the text as the keyword leg counts them, repetitions included."""
    characters: int
    terms: tuple[ChunkTerm, ...]
    """Rarest first."""
    provider: str
    """The provider that made the vectors of the index; empty when none did."""
    dimensions: int | None
    norm: float | None
    """Length of the stored vector, 1 for a unit vector; `None` without one."""
    vector_state: Reason
    """`ok`, or why there is no vector."""
    changed: datetime | None
    importance: float | None


class Neighbour(Struct, frozen=True):
    chunk: Chunk
    score: float
    """Cosine of the vectors, or the share of weighted words that both have: 0 to 1."""
    shared: tuple[str, ...] = ()
    """The words that both have, rarest first."""


class Neighbours(Struct, frozen=True):
    by_vector: tuple[Neighbour, ...]
    vector_state: Reason
    """`ok`, or why no vectors could be compared."""
    by_words: tuple[Neighbour, ...]
    duplicates: tuple[Neighbour, ...]
    """Near-duplicates: nearly the same words in nearly the same order."""


class AnsweredQuery(Struct, frozen=True):
    """A query of the history that a chunk answers in the top k."""

    query: str
    rank: int
    score: float


class CarePlace(Struct, frozen=True):
    """Some lines of a file; lines are 1-based and inclusive."""

    path: str
    start_line: int
    end_line: int
    text: str
    """The text there, credentials masked."""
    chunk_id: str = ""

    @property
    def citation(self) -> str:
        """The place as `path#L12-L31`."""
        return citation(self.path, self.start_line, self.end_line)


class CareFinding(Struct, frozen=True):
    """A place that needs care, and where it applies the place it is compared with."""

    rule: CareRule
    place: CarePlace
    message: str
    """One line: what it is, and what to do."""
    other: CarePlace | None = None
    numbers: Numbers = {}

    @property
    def places(self) -> tuple[CarePlace, ...]:
        """Return the place, and the other one where there is one."""
        return (self.place,) if self.other is None else (self.place, self.other)


class CareReport(Struct, frozen=True):
    """Everything that was found, and what could not be looked at."""

    findings: tuple[CareFinding, ...]
    """By rule, then by path and line."""
    looked_at: Mapping[CareRule, int]
    """Number of files, chunks or pairs that each rule judged."""
    skipped: Mapping[CareRule, str] = {}
    """The reason why a rule could not be applied, in one line."""


class LinkTarget(Struct, frozen=True):
    """The place that a link in a note leads to, or why it cannot be gone to."""

    path: str = ""
    """Empty with a `problem`."""
    heading: str = ""
    """The heading that is asked for, as it is written in the link."""
    problem: str = ""
