"""What opens a leg up: terms with their share of a BM25 score, passages, ranks among all rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memtui.model.reasons import Reason


class FoundBy(StrEnum):
    """What of the keyword leg finds a row."""

    MATCH = "match"
    """The MATCH expression, and every substring that was asked for beside it."""
    SUBSTRINGS = "substrings"
    """Substrings alone: no BM25 score."""
    KEYWORDS = "keywords"
    """A keyword of the query that was searched by itself, not the whole query."""
    PATH = "path"
    """The path of its file alone: no BM25 score."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class PhraseScore:
    """What one phrase of a MATCH expression adds to the score of one row.

    A phrase is a word, several words in a row, or the beginning of a word.
    """

    match: str
    """FTS5 expression of the phrase alone."""
    tokens: tuple[str, ...]
    """What the tokenizer makes of it (stems, trigrams); empty where it drops everything."""
    tf: int
    """How often it counts in the row."""
    df: int
    """How many rows hold it."""
    idf: float
    """ln((N - df + 0.5) / (df + 0.5)), 1e-6 where that is not above 0: in half of the rows."""
    share: float
    """What it adds to the score, at least 0: idf * tf * 2.2 / (tf + 1.2 * length factor)."""


@dataclass(frozen=True, slots=True)
class TermScore:
    """What one term of a query adds to the score of one row."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    match: str
    """FTS5 expression that stands for it."""
    required: bool
    """A row without it is not found."""
    held: bool
    """Whether the row holds it."""
    share: float
    """The sum of its phrases' shares."""
    phrases: tuple[PhraseScore, ...]
    """One, or the alternatives that stand for a word still being typed."""


@dataclass(frozen=True, slots=True)
class PrunedTerm:
    """A word of the query that was not looked up because it is too frequent."""

    text: str
    df: int
    """In how many rows it occurs, at most."""
    held: bool
    """Whether the row holds it."""


@dataclass(frozen=True, slots=True)
class SubstringTerm:
    """A term that was looked for as a substring of the text, without a BM25 score."""

    text: str
    held: bool


@dataclass(frozen=True, slots=True)
class KeywordExplanation:
    """Why the keyword leg gives one row the score it gives, or does not find it.

    `score` is SQLite's own `bm25()`: minus the sum of the terms' shares.
    """

    rowid: int
    match: str | None
    """The MATCH expression as it was sent; `None` when only substrings were asked for."""
    tokenizer: str
    """FTS5's `tokenize` option of the table."""
    indexed: bool
    """Whether the full-text table has the row at all."""
    found: bool
    """Whether the row is an answer: matches, and holds everything that is required."""
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
    """What is required and the row lacks, as the query spells it."""
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


@dataclass(frozen=True, slots=True)
class LegRank:
    """Where a row stands among all rows that a leg could give, not only those in the pool."""

    position: int
    """0-based: how many rows are better."""
    total: int
    """How many rows there are to rank."""
    raw: float | None
    """`bm25()` or cosine; `None` for a substring match, which has no score."""


@dataclass(frozen=True, slots=True)
class LegPlace:
    """Where a chunk stands in one leg among all chunks, or why that is not known."""

    rank: LegRank | None
    reason: Reason = Reason.OK
    asked: str = ""
    """Keyword leg: the query, or the keyword of it, whose MATCH ranks."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a text and how near it is to the query."""

    start: int
    end: int
    """In characters of the text, the end exclusive."""
    cosine: float
