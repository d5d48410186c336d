"""Which words of a query are looked up, so that a query of frequent words stays quick."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memtui.retrieval.beginnings import completions, word_with_stem
from memtui.retrieval.connection import Connection
from memtui.retrieval.match_terms import match_terms
from memtui.retrieval.phrases import phrase_match, phrase_segments
from memtui.retrieval.porter import stem
from memtui.retrieval.query import Query
from memtui.text.stopwords import STOP_WORDS
from memtui.text.tokens import FTS5_TOKENIZE, QueryTerm, index_text, quote

MIN_BUDGET = 100_000
BUDGET_SHARE = 0.12
BUDGETS = (1, 4)
"""The multiples of the budget: the larger one for a query that finds too little."""
MIN_KEPT = 2
MAX_KEPT = 64
"""BM25 looks at every term for every row: a pasted page would take minutes."""

COUNTED_INDEX = 200_000
"""Up to so many chunks the frequency of every word is counted."""

COUNTED_ROWS = 8192
"""Up to so many of its chunks the frequency of a word is counted in a larger index."""

_WINDOWS = 8
_WINDOWS_SHARE = 32
_COUNTED = "SELECT count(*) FROM (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT ?)"
_SAMPLED = (
    "SELECT count(*) FROM json_each(?) CROSS JOIN chunks_fts "
    "ON chunks_fts MATCH ? AND chunks_fts.rowid BETWEEN value AND value + ?"
)
INSTANCES = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.memtui_instances "
    "USING fts5vocab(main, chunks_fts, 'instance')"
)
"""Makes a table of the connection's own with a row for every place of every token."""

_REPEATED = (
    "SELECT count(DISTINCT doc), count(*) "
    "FROM (SELECT doc FROM temp.memtui_instances WHERE term = ? LIMIT ?)"
)
_REPEATED_PLACES = 2048
_FOR_A_QUERY = 1  # FTS5_TOKENIZE_QUERY in fts5.h
_END_OF_RANGE = "\U0010ffff"
_EXPANSIONS = 32
_GROWTH = 0.02
_MOST_KNOWN_WORDS = 4096


@dataclass(frozen=True, slots=True)
class Words:
    """A phrase as FTS5 compares it: the tokens in their order, the last one perhaps a beginning."""

    tokens: tuple[str, ...]
    match: str = field(compare=False)
    """FTS5 expression of it."""
    beginning: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase of the query as it is looked up."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    match: str
    """FTS5 expression."""
    postings: int
    """In how many chunks it occurs, what looking it up costs; of a frequent word an estimate."""
    place: int
    """Where it stands in the query."""
    places: int = 0
    """How often it occurs in all, about: what reading its list costs. 0 where that is not known."""

    @property
    def cost(self) -> int:
        """Entries of the index that are read for it."""
        return max(self.postings, self.places)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is looked up for one query."""

    match: str
    phrases: tuple[Term, ...]
    kept: tuple[Term, ...]
    """Words, in the order of the query."""
    pruned: tuple[Term, ...]
    """Words that are not looked up, in the order of the query."""
    operands: tuple[str, ...] = ()
    """What the expression joins by OR; empty for another one."""

    @property
    def postings(self) -> int:
        """How many postings the expression reads, about."""
        return sum(term.postings for term in (*self.phrases, *self.kept))


class Lists(Protocol):
    """Where the lists of phrases are kept in memory."""

    def has(self, words: Words, /) -> bool:
        """Whether the list of a phrase is there, so that it costs nothing."""

    def size_of(self, words: Words, /) -> int | None:
        """In how many chunks a phrase occurs, about where its list is long; `None`: not known."""


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
        self._tokens_known: dict[str, tuple[int, int]] = {}
        self._repeated: dict[str, float] = {}
        self._words_known: dict[str, list[Words]] = {}
        self._size = -1
        self.lists: Lists | None = None
        """What keeps lists in memory, where somebody does."""

    @property
    def is_large(self) -> bool:
        """Whether the index was so large, when it was looked at, that frequencies are estimated."""
        return self._size > COUNTED_INDEX

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
            spent += term.cost
            if len(kept) < MIN_KEPT or spent <= budget or self._is_listed(term):
                kept.append(term)
        return _plan(query, phrases, terms, kept)

    def plan_of(self, query: Query, match: str) -> Plan | None:
        """The plan whose expression is `match`; `None` when none of a query's plans has it."""
        asked = {term.match for term in match_terms(match).terms}
        phrases = tuple(self._phrases(query.phrases))
        for budget in (times * self._budget for times in BUDGETS):
            terms = list(self._terms(query, len(phrases), budget))
            kept = [term for term in terms if asked >= self._operands(term)]
            plan = _plan(query, phrases, terms, kept)
            if plan.match == match:
                return plan
        return None

    @staticmethod
    def _operands(term: Term) -> set[str]:
        return {operand.match for operand in match_terms(term.match).terms}

    def _is_listed(self, term: Term) -> bool:
        lists = self.lists
        return lists is not None and all(map(lists.has, self.words(term.match)))

    def words(self, match: str) -> Sequence[Words]:
        """The phrases of a MATCH expression as tokens, in their order; those without any left out.

        Raises ValueError for an expression that `match_terms` cannot read.
        """
        if match not in self._words_known:
            if len(self._words_known) > _MOST_KNOWN_WORDS:
                self._words_known.clear()
            self._words_known[match] = self._words(match)
        return self._words_known[match]

    def words_of_plan(self, plan: Plan) -> Sequence[Words]:
        """The phrases of a plan's expression as tokens."""
        if not plan.operands:
            return self.words(plan.match)
        return [words for operand in plan.operands for words in self.words(operand)]

    def _words(self, match: str) -> list[Words]:
        phrases = [phrase for term in match_terms(match).terms for phrase in term.phrases]
        found = [
            Words(
                tuple(self._tokens(self._stemming, phrase.rstrip("* ")[1:-1].replace('""', '"'))),
                phrase,
                phrase.endswith("*"),
            )
            for phrase in phrases
        ]
        return [words for words in found if words.tokens]

    def words_of(self, token: str) -> Words | None:
        """The phrase that is a token of the index; `None` when no word is known that gives it."""
        word = word_with_stem(token)
        found = self.words(quote(word)) if word is not None else ()
        return found[0] if len(found) == 1 and found[0].tokens == (token,) else None

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
            for known in (self._known, self._tokens_known, self._repeated):
                known.clear()
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
                continue
            words = self.words(term.fts)
            if self.lists is not None and len(words) == 1:
                known = self.lists.size_of(words[0])
                if known is not None:
                    yield Term(term.text, term.fts, known, place)
                    continue
            postings = self._segment_postings(term.fts)
            yield Term(term.text, term.fts, postings, place, self._places(term.fts, postings))

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
        """Bound the rows of a quoted FTS5 phrase by its rarest word, or estimate them."""
        if self._size > COUNTED_INDEX:
            return self._estimated(segment)
        tokens = self._tokens(self._stemming, segment.replace('"', " "))
        return min((self._postings(token) for token in tokens), default=0)

    def _estimated(self, segment: str) -> int:
        """Count the rows of a phrase as far as that is cheap, beyond it a sample of all rows.

        The sample is spread evenly: what was written at one time, one after the other, is alike.
        """
        key = ("segment", segment)
        if key not in self._known:
            counted = self._count(_COUNTED, (segment, COUNTED_ROWS))
            if counted == COUNTED_ROWS:
                step = self._size // _WINDOWS
                starts = json.dumps(list(range(step // 2, self._size, step)))
                width = step // _WINDOWS_SHARE
                sampled = self._count(_SAMPLED, (starts, segment, width - 1))
                counted = max(counted, sampled * _WINDOWS_SHARE)
            self._known[key] = counted
        return self._known[key]

    def _count(self, sql: str, values: tuple[str | int, ...]) -> int:
        return int(self._connection.execute(sql, values).fetchall()[0][0])

    def _postings(self, token: str) -> int:
        return self._counted(token)[0]

    def _counted(self, token: str) -> tuple[int, int]:
        """In how many chunks a token of the index occurs, and how often in all."""
        if token not in self._tokens_known:
            rows = self._connection.execute(
                "SELECT doc, cnt FROM chunks_terms WHERE term = ?", (token,)
            ).fetchall()
            self._tokens_known[token] = (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)
        return self._tokens_known[token]

    def _places(self, segment: str, postings: int) -> int:
        """How often the words of a phrase occur in all, as the first chunks tell where it is large.

        Function words of languages without a list of stop words stand in a chunk many times.
        """
        tokens = self._tokens(self._stemming, segment.replace('"', " "))
        if self._size <= COUNTED_INDEX:
            return sum(self._counted(token)[1] for token in tokens)
        if postings < COUNTED_ROWS:
            return postings
        return sum(int(postings * self._repetition(token)) for token in tokens)

    def _repetition(self, token: str) -> float:
        if token not in self._repeated:
            self._connection.execute(INSTANCES)
            rows, places = self._connection.execute(
                _REPEATED, (token, _REPEATED_PLACES)
            ).fetchall()[0]
            self._repeated[token] = places / rows if rows else 1.0
        return self._repeated[token]

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


def _plan(
    query: Query, phrases: tuple[Term, ...], terms: Sequence[Term], kept: Sequence[Term]
) -> Plan:
    in_order = tuple(sorted(kept, key=lambda term: term.place))
    places = {term.place for term in kept}
    pruned = tuple(term for term in terms if term.place not in places)
    operands = _operands(query, in_order)
    match = " OR ".join(operands) or phrase_match(query.phrases) or '""'
    return Plan(match, phrases, in_order, pruned, operands)


def only_stop_words(query: Query) -> bool:
    """Tell whether the words of a query are all stop words, which count for want of others."""
    terms = query.terms.terms
    return bool(terms) and all(
        term.kind == "word" and term.text.lower() in STOP_WORDS for term in terms
    )


def _operands(query: Query, kept: Sequence[Term]) -> tuple[str, ...]:
    if not kept:
        return ()
    segments = [segment for phrase in query.phrases for segment in phrase_segments(phrase)]
    return tuple(dict.fromkeys([*segments, *(term.match for term in kept)]))
