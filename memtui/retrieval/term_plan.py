"""Which words of a query are looked up, so that a query of frequent words stays quick."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from memtui.retrieval.beginnings import completions, word_with_stem
from memtui.retrieval.connection import Connection
from memtui.retrieval.phrases import phrase_match, phrase_segments
from memtui.retrieval.porter import stem
from memtui.retrieval.query import Query
from memtui.text.stopwords import STOP_WORDS
from memtui.text.tokens import FTS5_TOKENIZE, QueryTerm, index_text, quote

MIN_BUDGET = 20_000
BUDGET_SHARE = 0.03
MIN_KEPT = 2
MAX_KEPT = 64
"""BM25 looks at every term for every row: a pasted page would take minutes."""

_FOR_A_QUERY = 1  # FTS5_TOKENIZE_QUERY in fts5.h
_END_OF_RANGE = "\U0010ffff"
_EXPANSIONS = 32
_GROWTH = 0.02


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase of the query as it is looked up."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    match: str
    """FTS5 expression."""
    postings: int
    """In how many chunks it occurs: what looking it up costs."""
    place: int
    """Where it stands in the query."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is looked up for one query."""

    match: str
    phrases: tuple[Term, ...]
    kept: tuple[Term, ...]
    """Words, in the order of the query."""
    pruned: tuple[Term, ...]
    """Words that are not looked up, in the order of the query."""

    @property
    def postings(self) -> int:
        """How many postings the expression reads, about."""
        return sum(term.postings for term in (*self.phrases, *self.kept))


class TermPlanner:
    """Plans queries by how frequent their words are; belongs to one connection.

    Frequencies are remembered until the index has grown or shrunk by 2 %.
    """

    def __init__(self, connection: Connection, budget: int | None = None) -> None:
        name, *options = shlex.split(FTS5_TOKENIZE)
        self._connection = connection
        self._stemming = connection.fts5_tokenizer(name, options)
        # The same without the stemmer, which comes first and hands on to the rest.
        self._folding = connection.fts5_tokenizer(options[0], options[1:])
        self._fixed_budget = budget
        self._known: dict[tuple[str, str], int] = {}
        self._size = -1

    def plan(self, query: Query, *, times: int = 1) -> Plan:
        """Choose the words of a query within `times` the budget of postings."""
        self._notice_growth()
        budget = times * self._budget
        phrases = tuple(self._phrases(query.phrases))
        terms = list(self._terms(query, len(phrases), budget))
        rarest_first = sorted(terms, key=lambda term: (term.postings, term.place))
        kept: list[Term] = []
        spent = 0
        for term in rarest_first[:MAX_KEPT]:
            spent += term.postings
            if len(kept) < MIN_KEPT or spent <= budget:
                kept.append(term)
        pruned = [term for term in terms if term not in kept]
        in_order = tuple(sorted(kept, key=lambda term: term.place))
        return Plan(_expression(query, phrases, in_order), phrases, in_order, tuple(pruned))

    @property
    def _budget(self) -> int:
        if self._fixed_budget is not None:
            return self._fixed_budget
        return max(MIN_BUDGET, int(BUDGET_SHARE * self._size))

    def _notice_growth(self) -> None:
        # The highest row number stands for the count, which would be read row by row.
        rows = self._connection.execute("SELECT max(id) FROM chunks").fetchall()
        size = int(rows[0][0] or 0)
        if abs(size - self._size) > _GROWTH * max(self._size, 0):
            self._known.clear()
            self._size = size

    def _phrases(self, phrases: Sequence[str]) -> Iterator[Term]:
        for place, phrase in enumerate(phrases):
            segments = phrase_segments(phrase)
            postings = min((self._segment_postings(segment) for segment in segments), default=0)
            yield Term(phrase, phrase_match((phrase,)) or '""', postings, place)

    def _terms(self, query: Query, first_place: int, budget: int) -> Iterator[Term]:
        terms = query.terms.terms
        if query.phrases and only_stop_words(query):
            return
        for place, term in enumerate(terms, first_place):
            if term.kind == "prefix":
                yield self._beginning(term, place, budget)
            else:
                yield Term(term.text, term.fts, self._segment_postings(term.fts), place)

    def _beginning(self, term: QueryTerm, place: int, budget: int) -> Term:
        """Look up a word that is still being typed.

        The index holds stems, and a stem may be shorter than what is typed (`runni`) or another
        word's beginning (`bus` has the stem `bu`), so a plain FTS5 prefix is not enough.
        """
        typed = term.text.rstrip("*")
        text = index_text(typed)
        whole, stems = self._tokens(self._folding, text), self._tokens(self._stemming, text)
        if len(whole) != 1 or len(stems) != 1:
            return Term(term.text, term.fts, self._segment_postings(quote(text)), place)
        as_word = Term(typed, quote(text), self._postings(stems[0]), place)
        begun = self._beginning_postings(whole[0], budget)
        if begun > budget:
            return as_word
        if whole == stems:
            alternatives = [f"{quote(text)} *"]
        else:
            alternatives = [quote(text), *map(quote, self._expansions(whole[0]))]
            begun += as_word.postings
        for word in completions(whole[0]):
            postings = self._postings(stem(word))
            if postings and begun + postings <= budget:
                alternatives.append(quote(word))
                begun += postings
        match = " OR ".join(alternatives)
        return Term(f"{typed}*", f"({match})" if len(alternatives) > 1 else match, begun, place)

    def _expansions(self, beginning: str) -> list[str]:
        """Find words for the stems that begin so, the most frequent first."""
        rows = self._connection.execute(
            "SELECT term FROM chunks_terms WHERE term >= ? AND term < ? ORDER BY doc DESC LIMIT ?",
            (beginning, beginning + _END_OF_RANGE, _EXPANSIONS),
        ).fetchall()
        words = (word_with_stem(str(own)) for (own,) in rows)
        return [word for word in words if word is not None]

    def _beginning_postings(self, beginning: str, budget: int) -> int:
        key = ("beginning", beginning)
        if key not in self._known:
            total = 0
            for (count,) in self._connection.execute(
                "SELECT doc FROM chunks_terms WHERE term >= ? AND term < ?",
                (beginning, beginning + _END_OF_RANGE),
            ):
                total += count
                if total > budget:
                    break
            self._known[key] = total
        return self._known[key]

    def _segment_postings(self, segment: str) -> int:
        """Bound the rows of a quoted FTS5 phrase by its rarest word."""
        tokens = self._tokens(self._stemming, segment.replace('"', " "))
        return min((self._postings(token) for token in tokens), default=0)

    def _postings(self, token: str) -> int:
        key = ("word", token)
        if key not in self._known:
            rows = self._connection.execute(
                "SELECT doc FROM chunks_terms WHERE term = ?", (token,)
            ).fetchall()
            self._known[key] = int(rows[0][0]) if rows else 0
        return self._known[key]

    @staticmethod
    def _tokens(tokenizer: Callable[..., Any], text: str) -> list[str]:
        found = tokenizer(
            text.encode("utf-8", "replace"),
            _FOR_A_QUERY,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return [str(token) for token in found]


def only_stop_words(query: Query) -> bool:
    """Tell whether the words of a query are all stop words, which count for want of others."""
    terms = query.terms.terms
    return bool(terms) and all(
        term.kind == "word" and term.text.lower() in STOP_WORDS for term in terms
    )


def _expression(query: Query, phrases: Sequence[Term], kept: Sequence[Term]) -> str:
    if not kept:
        return phrase_match(query.phrases) or '""'
    segments = [segment for phrase in query.phrases for segment in phrase_segments(phrase)]
    return " OR ".join(dict.fromkeys([*segments, *(term.match for term in kept)]))
