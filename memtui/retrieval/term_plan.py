"""Which words of a query are looked up, so that a query of frequent words stays quick."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memtui.retrieval.connection import Connection
from memtui.retrieval.match_terms import match_terms
from memtui.retrieval.phrases import phrase_match, phrase_segments
from memtui.retrieval.query import Query
from memtui.retrieval.stems import FOLDING, completions, tokens, word_with_stem
from memtui.text.stopwords import STOP_WORDS
from memtui.text.tokens import QueryTerm, index_text, quote

MIN_BUDGET = 100_000
"""Postings that a query may read in any index. On the generated notes of the bench the first ten
hits are those of all words for every question at 10,000 chunks, and for 86 % at 100,000."""
BUDGET_SHARE = 0.12
"""Postings for each chunk of an index that is larger than that."""
BUDGETS = (1, 4)
"""The multiples of the budget: the larger one for a query that finds too little."""
MIN_KEPT = 2
MAX_KEPT = 64
"""BM25 looks at every term for every row: a pasted page would take minutes."""

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
    """In how many chunks it occurs, at most."""
    place: int
    """Where it stands in the query."""
    places: int = 0
    """How often it occurs in all; function words of languages without a list of stop words stand
    in a chunk many times."""

    @property
    def cost(self) -> int:
        """Entries of the index that are read for it."""
        return max(self.postings, self.places)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is looked up for one query; words are in the order of the query."""

    match: str
    phrases: tuple[Term, ...]
    kept: tuple[Term, ...]
    pruned: tuple[Term, ...]
    """Words that are not looked up."""

    @property
    def postings(self) -> int:
        """How many postings the expression reads, at most."""
        return sum(term.postings for term in (*self.phrases, *self.kept))


class TermPlanner:
    """Plans queries by how frequent their words are; belongs to one connection.

    Frequencies are remembered until the index has grown or shrunk by 2 %.
    """

    def __init__(self, connection: Connection, budget: int | None = None) -> None:
        self._connection = connection
        self._fixed_budget = budget
        self._frequencies: dict[str, tuple[int, int]] = {}
        self._size = -1

    def plan(self, query: Query, *, times: int = 1) -> Plan:
        """Choose the words of a query, rarest first, within `times` the budget of postings."""
        self._notice_growth()
        budget = times * self._budget
        terms = list(self._terms(query, budget))
        kept: list[Term] = []
        spent = 0
        for term in sorted(terms, key=lambda term: (term.postings, term.place))[:MAX_KEPT]:
            spent += term.cost
            if len(kept) < MIN_KEPT or spent <= budget:
                kept.append(term)
        return self._plan(query, terms, kept)

    def plan_of(self, query: Query, match: str) -> Plan | None:
        """Return the plan whose expression is `match`; `None` when none of a query's has it."""
        self._notice_growth()
        operands = {term.match for term in match_terms(match).terms}
        for times in BUDGETS:
            terms = list(self._terms(query, times * self._budget))
            kept = [
                term
                for term in terms
                if operands.issuperset(part.match for part in match_terms(term.match).terms)
            ]
            plan = self._plan(query, terms, kept)
            if plan.match == match:
                return plan
        return None

    def _plan(self, query: Query, terms: Sequence[Term], kept: Iterable[Term]) -> Plan:
        in_order = tuple(sorted(kept, key=lambda term: term.place))
        phrases = tuple(
            Term(
                phrase,
                phrase_match((phrase,)) or '""',
                min(map(self._rows_with, phrase_segments(phrase)), default=0),
                place,
            )
            for place, phrase in enumerate(query.phrases)
        )
        # Phrases rank as well as words do; that they are required is a matter of the row filter.
        segments = [part for phrase in query.phrases for part in phrase_segments(phrase)]
        operands = dict.fromkeys([*segments, *(term.match for term in in_order)])
        match = " OR ".join(operands) if in_order else phrase_match(query.phrases) or '""'
        pruned = tuple(term for term in terms if term not in in_order)
        return Plan(match, phrases, in_order, pruned)

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
            self._frequencies.clear()
            self._size = size

    def _terms(self, query: Query, budget: int) -> Iterator[Term]:
        if query.phrases and only_stop_words(query):
            return
        for place, term in enumerate(query.terms.terms, len(query.phrases)):
            if term.kind == "prefix":
                yield self._beginning(term, place, budget)
                continue
            places = sum(self._frequency(token)[1] for token in tokens(term.fts))
            yield Term(term.text, term.fts, self._rows_with(term.fts), place, places)

    def _beginning(self, term: QueryTerm, place: int, budget: int) -> Term:
        """Look up a word that is still being typed.

        The index holds stems, and a stem may be shorter than what is typed (`runni`) or another
        word's beginning (`bus` has the stem `bu`), so a plain FTS5 prefix is not enough.
        """
        typed = term.text.rstrip("*")
        text = index_text(typed)
        whole, stems = tokens(text, FOLDING), tokens(text)
        if len(whole) != 1 or len(stems) != 1:
            return Term(term.text, term.fts, self._rows_with(quote(text)), place)
        as_word = Term(typed, quote(text), self._rows_with(text), place)
        begun = self._rows_beginning_with(whole[0], budget)
        if begun > budget:
            return as_word
        if whole == stems:
            alternatives = [f"{quote(text)} *"]
        else:
            alternatives = [quote(text), *map(quote, self._expansions(whole[0]))]
            begun += as_word.postings
        for word in completions(whole[0]):
            postings = self._rows_with(word)
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

    def _rows_beginning_with(self, beginning: str, budget: int) -> int:
        """Count the postings of all words that begin so, as far as the budget goes."""
        total = 0
        for (count,) in self._connection.execute(
            "SELECT doc FROM chunks_terms WHERE term >= ? AND term < ?",
            (beginning, beginning + _END_OF_RANGE),
        ):
            total += count
            if total > budget:
                break
        return total

    def _rows_with(self, text: str) -> int:
        """Bound the rows that hold a phrase by its rarest word."""
        return min((self._frequency(token)[0] for token in tokens(text)), default=0)

    def _frequency(self, token: str) -> tuple[int, int]:
        """Count in how many chunks a token of the index occurs, and how often in all."""
        if token not in self._frequencies:
            rows = self._connection.execute(
                "SELECT doc, cnt FROM chunks_terms WHERE term = ?", (token,)
            ).fetchall()
            self._frequencies[token] = (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)
        return self._frequencies[token]


def only_stop_words(query: Query) -> bool:
    """Tell whether the words of a query are all stop words, which count for want of others."""
    terms = query.terms.terms
    return bool(terms) and all(
        term.kind == "word" and term.text.lower() in STOP_WORDS for term in terms
    )
