"""The inside of a leg: terms with their share of a BM25 score, passages, ranks among all rows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from memtui.model.chunks import Chunk
from memtui.model.reasons import Leg, Numbers, Reason, Stage


class FoundBy(StrEnum):
    """The part of the keyword leg that finds a row."""

    MATCH = "match"
    """The MATCH expression, and every substring that was asked for beside it."""
    SUBSTRINGS = "substrings"
    """Substrings alone: no BM25 score."""
    KEYWORDS = "keywords"
    """A keyword of the query that was searched by itself, not the whole query."""
    PATH = "path"
    """The path of its file alone: no BM25 score."""
    NOTHING = "nothing"


class PhraseScore(Struct, frozen=True):
    """The share of one phrase of a MATCH expression in the score of one row.

    A phrase is a word, several words in a row, or the beginning of a word.
    """

    match: str
    """FTS5 expression of the phrase alone."""
    tokens: tuple[str, ...]
    """Its tokens (stems, trigrams); empty where the tokenizer drops everything."""
    tf: int
    """Occurrences that count in the row."""
    df: int
    """Number of rows that hold it."""
    idf: float
    """ln((N - df + 0.5) / (df + 0.5)), 1e-6 where that is not above 0: in half of the rows."""
    share: float
    """Its part of the score, at least 0: idf * tf * 2.2 / (tf + 1.2 * length factor)."""


class TermScore(Struct, frozen=True):
    """The share of one term of a query in the score of one row."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    match: str
    """FTS5 expression that stands for it."""
    required: bool
    """A row without it is not found."""
    held: bool
    """True if the row holds it."""
    share: float
    """The sum of its phrases' shares."""
    phrases: tuple[PhraseScore, ...]
    """One, or the alternatives that stand for a word still being typed."""


class PrunedTerm(Struct, frozen=True):
    """A word of the query that was not looked up because it is too frequent."""

    text: str
    df: int
    """In how many rows it occurs, at most."""
    held: bool
    """True if the row holds it."""


class SubstringTerm(Struct, frozen=True):
    """A term that was looked for as a substring of the text, without a BM25 score."""

    text: str
    held: bool


class KeywordExplanation(Struct, frozen=True):
    """The reasons for the score of one row in the keyword leg, or for its absence.

    `score` is SQLite's own `bm25()`: minus the sum of the terms' shares.
    """

    rowid: int
    match: str | None
    """The MATCH expression as it was sent; `None` when only substrings were asked for."""
    tokenizer: str
    """FTS5's `tokenize` option of the table."""
    indexed: bool
    """True if the full-text table has the row at all."""
    found: bool
    """True if the row is an answer: it matches, and holds everything that is required."""
    score: float | None
    """`None` for a row that does not match."""
    terms: tuple[TermScore, ...]
    """In the order of the expression."""
    rows: int
    """N: how many rows the table has."""
    length: int
    """Tokens of the row, of all indexed columns; 0 for a row that is not indexed."""
    average_length: float
    """Tokens of a row on average."""
    pruned: tuple[PrunedTerm, ...] = ()
    stop_words: tuple[str, ...] = ()
    substrings: tuple[SubstringTerm, ...] = ()
    missing: tuple[str, ...] = ()
    """The required terms that the row lacks, as the query spells them."""
    nowhere: tuple[str, ...] = ()
    """Terms that match no row at all."""
    dropped: tuple[str, ...] = ()
    """Terms of which the tokenizer leaves nothing, as of two letters under trigram."""
    asked: str = ""
    """The query, or the keyword of it, that this explains."""
    sent: bool = True
    """False where a release asks for the query's keywords instead."""
    found_by: FoundBy = FoundBy.NOTHING
    keywords: tuple[KeywordExplanation, ...] = ()
    """The keywords that an OpenClaw release searched one by one, each explained by itself."""


class LegRank(Struct, frozen=True):
    """The rank of a row among all rows that a leg could give, not only those in the pool."""

    position: int
    """0-based: how many rows are better."""
    total: int
    """Number of rows that are ranked."""
    raw: float | None
    """`bm25()` or cosine; `None` for a substring match, which has no score."""


class LegPlace(Struct, frozen=True):
    """The rank of a chunk in one leg among all chunks, or the reason why it is not known."""

    rank: LegRank | None
    reason: Reason = Reason.OK
    asked: str = ""
    """Keyword leg: the query, or the keyword of it, whose MATCH ranks."""


class Passage(Struct, frozen=True):
    """A piece of a text and how near it is to the query."""

    start: int
    end: int
    """In characters of the text, the end exclusive."""
    cosine: float


class WordMatch(Struct, frozen=True):
    """The share of a word of a query in how near the words of a passage come to it."""

    word: str
    nearest: tuple[str, ...]
    """The words of the passage that its pieces are nearest to; none where nothing is near."""
    weight: float
    """Its rarity by that of all words of the query, 0 to 1."""
    cosine: float
    """The mean of its pieces, 0 to 1."""
    share: float
    """weight * cosine."""


WordTable: TypeAlias = tuple[WordMatch, ...] | Reason
"""The words of a query beside those of a passage, or the reason why that is not known."""


class Station(StrEnum):
    """A step that a chunk passes before it is ranked, in order; the stages of ranking follow."""

    DISCOVERED = "discovered"
    """Its file belongs to the memory."""
    INDEXED = "indexed"
    """The index holds the file as it is now, and a chunk at the line."""
    KEYWORD_LEG = "keyword_leg"
    """The keyword leg finds it."""
    VECTOR_LEG = "vector_leg"
    """It has a vector that the query's can be compared with."""
    KEYWORD_POOL = "keyword_pool"
    """The keyword leg ranks it among its candidates."""
    VECTOR_POOL = "vector_pool"
    """The vector leg ranks it among its candidates."""


class Outcome(StrEnum):
    """The fate of a chunk at a station or a stage."""

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


class TraceStep(Struct, frozen=True):
    """One station or stage; `numbers` say what was compared, by name.

    Leg: `bm25`, `cosine`, `terms`, `pruned`. Pool: `limit`; `bm25_rank` or `cosine_rank` where a
    release ranks otherwise. Stage: `before`, `after`, `operand`, `k`, and the stage's own
    (`similarity`, `lambda`, `age_days`, `half_life_days`, `score`, `min_score`, …). File: `bytes`,
    `limit_bytes`, `line`, `last_line`, `chunks`, `start_line`, `end_line`.
    """

    at: Station | Stage
    outcome: Outcome
    reason: Reason = Reason.OK
    numbers: Numbers = {}
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
        """True if a stage leaves it among the first k."""
        k = self.numbers.get("k")
        return isinstance(k, int) and self.rank is not None and self.rank <= k


class Place(Struct, frozen=True):
    """The subject of an inquiry: a file, or a line of it."""

    path: str
    line: int | None = None
    """1-based; `None` for the whole file."""

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class Inquiry(Struct, frozen=True):
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
    leg_places: Mapping[Leg, LegPlace] = {}
    filters: tuple[str, ...] = ()
    """The filters of the query that leave it out, as they are typed."""

    @property
    def shown(self) -> bool:
        return self.rank is not None

    @property
    def first_failure(self) -> TraceStep | None:
        """The step that cost it its place: pushed beyond k for good, else lost.

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
        return str(self.place) if self.chunk is None else self.chunk.citation


class Passages(Struct, frozen=True):
    """The passages of a chunk nearest to the query, best first: an illustration, not a score.

    The embedding model compares sentence by sentence; what ranks is the vector of the whole chunk.
    """

    text: str
    found: tuple[Passage, ...]
    reason: Reason = Reason.OK
    """The reason why there are none."""
    model: str = ""


class WordChange(Struct, frozen=True):
    """Words added to a query or removed from it, tried: the search then shows the chunk."""

    query: str
    """The changed query as it was searched."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rank_after: int
    filters: tuple[str, ...] = ()
    """The filters that left it out, taken out as well; of these alone it may be a near miss."""


class WordChanges(Struct, frozen=True):
    """Changes of the words of a query that were tried; fewest words first, then best rank."""

    changes: tuple[WordChange, ...]
    tried: int
    """Number of changed queries that were searched."""
    reason: Reason = Reason.OK
    """The reason why nothing could be tried."""
