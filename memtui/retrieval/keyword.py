"""The keyword leg: BM25 over the chunks that hold any word of the query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from memtui.errors import Cancelled
from memtui.model import LegStatus, Reason
from memtui.retrieval.connection import (
    FOLDING,
    Connection,
    completions,
    is_database_error,
    register_fts5,
    snapshot,
    tokens,
    word_with_stem,
)
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.legs import LegAnswer, RowHit, Stopwatch
from memtui.retrieval.query import Query, phrase_match, phrase_segments
from memtui.text.tokens import STOP_WORDS, QueryTerm, index_text, quote

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows


Joiner: TypeAlias = Literal["AND", "OR"]

_TOKEN = re.compile(
    r'\s*(?:(?P<phrase>"(?:[^"]|"")*"(?:\s*\*)?)|(?P<word>AND|OR|NOT)\b'
    r"|(?P<open>(?:NEAR\s*)?\()|(?P<close>\))|(?P<distance>,\s*\d+))"
)


@dataclass(frozen=True, slots=True)
class MatchTerm:
    """One operand of a MATCH expression: a phrase, or something in parentheses."""

    match: str
    phrases: tuple[str, ...]
    """FTS5 expressions of its phrases, in the order in which FTS5 numbers them."""

    @property
    def text(self) -> str:
        """The phrase without its quotes; an operand of several phrases as it is."""
        if self.phrases != (self.match,):
            return self.match
        quoted = self.match.rstrip("* ")
        star = "*" if self.match.endswith("*") else ""
        return quoted[1:-1].replace('""', '"') + star


def match_terms(match: str) -> tuple[Joiner, tuple[MatchTerm, ...]]:
    """Take a MATCH expression apart at its outermost AND or OR; AND where there is one operand.

    Understands what memtui and OpenClaw write: quoted phrases, `*`, AND or OR between operands, and
    anything of these, NOT and NEAR within parentheses. Raises ValueError for anything else.
    """
    joiners: set[str] = set()
    terms: list[MatchTerm] = []
    phrases: list[str] = []
    depth = start = place = 0
    end = len(match.rstrip())
    expects_operand = True
    while place < end:
        token = _TOKEN.match(match, place)
        if token is None:
            raise _unreadable(match, place)
        place = token.end()
        kind, text = token.lastgroup, token[0].strip()
        if depth == 0 and (kind in ("phrase", "open")) != expects_operand:
            raise _unreadable(match, token.start())
        if depth == 0 and kind == "word":
            joiners.add(text)
            expects_operand = True
            continue
        if depth == 0:
            start, phrases = match.index(text, token.start()), []
        depth += {"open": 1, "close": -1}.get(kind or "", 0)
        if kind == "phrase":
            phrases.append(text)
        if depth == 0:
            if not phrases:
                raise _unreadable(match, start)
            terms.append(MatchTerm(match[start:place], tuple(phrases)))
            expects_operand = False
    joiner = joiners.pop() if joiners else "AND"
    if depth or expects_operand or joiners or joiner not in ("AND", "OR"):
        raise _unreadable(match, len(match))
    return ("AND" if joiner == "AND" else "OR"), tuple(terms)


def _unreadable(match: str, place: int) -> ValueError:
    return ValueError(f"not an expression of quoted terms, at character {place}: {match}")


BUDGET = 300_000
"""Postings that a query may read. On the generated notes of the bench the first ten hits are those
of all words for every question at 10,000 chunks, for 98 % of them at 100,000 (16 ms instead of 21
in the slowest twentieth) and for 67 % at 1,000,000 (110 ms instead of 232)."""
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
        self._budget = BUDGET if budget is None else budget
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
        operands = {term.match for term in match_terms(match)[1]}
        for times in BUDGETS:
            terms = list(self._terms(query, times * self._budget))
            kept = [
                term
                for term in terms
                if operands.issuperset(part.match for part in match_terms(term.match)[1])
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


_HOLDS = "memtui_holds"
# With a second key SQLite sorts, and asks which phrases a row holds for the best rows alone.
_RANKED = (
    f"SELECT rowid, rank, {_HOLDS}(chunks_fts) FROM chunks_fts "
    "WHERE chunks_fts MATCH ?{} ORDER BY rank, rowid LIMIT ?"
)
# The sign keeps SQLite from asking FTS5 row by row: the postings are read once, from end to end.
_AMONG = " AND +rowid IN (SELECT value FROM json_each(?))"
_HOLDING = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? "
    "AND rowid IN (SELECT value FROM json_each(?))"
)


class KeywordLeg:
    """Searches the full-text index of one connection; belongs to that connection's thread.

    A chunk is found when it holds any of the query's words. Words are taken rarest first until a
    budget of postings is spent, at least the two rarest: that bounds the time, and the words left
    out change the order least. A query that finds too little is asked once more with four times
    the budget.
    """

    def __init__(self, connection: Connection, *, budget: int | None = None) -> None:
        """`budget`: postings a query may read; `None` is `BUDGET`."""
        self._connection = connection
        self._planner = TermPlanner(connection, budget)
        register_fts5(connection, _HOLDS, _held_phrases)

    def search(
        self,
        query: Query,
        limit: int,
        allowed: AllowedRows | None,
        *,
        cancelled: IsCancelled | None = None,
    ) -> LegAnswer:
        """Find the `limit` best chunks among the allowed ones, lowest `bm25()` first.

        `allowed` is what `RowFilter` says of the query: it holds what quoted phrases require. A leg
        that cannot answer says why in its state. Raises `Cancelled` when SQLite stopped and
        `cancelled` says that nobody waits for the answer.
        """
        watch = Stopwatch()
        if not query.text:
            return watch.answer(LegStatus.SKIPPED, Reason.EMPTY_QUERY, "nothing to search for")
        if not query.terms.terms and not query.phrases:
            detail = "no letter or digit in the query"
            return watch.answer(LegStatus.SKIPPED, Reason.NO_TERMS, detail)
        try:
            with snapshot(self._connection):
                return self._answer(query, limit, allowed, watch)
        except Exception as error:
            if not is_database_error(error):
                raise
            if cancelled is not None and cancelled():
                raise Cancelled from error
            detail = str(error) or type(error).__name__
            return watch.answer(LegStatus.FAILED, Reason.INDEX_FAILED, detail)

    def _answer(
        self, query: Query, limit: int, allowed: AllowedRows | None, watch: Stopwatch
    ) -> LegAnswer:
        plan = self._planner.plan(query)
        rows = self._ranked(plan.match, limit, allowed)
        if len(rows) < limit and plan.pruned:
            relaxed = self._planner.plan(query, times=BUDGETS[-1])
            if relaxed.match != plan.match:
                plan, rows = relaxed, self._ranked(relaxed.match, limit, allowed)
        held = self._held_terms(plan, [(rowid, phrases) for rowid, _, phrases in rows])
        hits = tuple(RowHit(row[0], row[1], terms) for row, terms in zip(rows, held, strict=True))
        facts: dict[str, float | int | str | None] = {
            "match": plan.match,
            "pruned": " ".join(term.text for term in plan.pruned),
            "stop_words": " ".join(query.terms.stop_words),
            "postings": plan.postings,
        }
        if query.phrases:
            facts["required"] = phrase_match(query.phrases)
        reason, detail = Reason.OK, ""
        if plan.kept and only_stop_words(query):
            reason, detail = Reason.ONLY_STOP_WORDS, "only stop words, so they are searched"
        return watch.answer(LegStatus.OK, reason, detail, facts, hits)

    def _ranked(
        self, match: str, limit: int, allowed: AllowedRows | None
    ) -> list[tuple[int, float, str]]:
        if limit <= 0:
            return []
        if allowed is None:
            return self._connection.execute(_RANKED.format(""), (match, limit)).fetchall()
        rowids = json.dumps(allowed.rowids.tolist())
        return self._connection.execute(_RANKED.format(_AMONG), (match, rowids, limit)).fetchall()

    def _held_terms(self, plan: Plan, rows: Sequence[tuple[int, str]]) -> list[tuple[str, ...]]:
        """Tell which terms each row holds, in the order of the query.

        `rows` are row numbers with a `1` for each phrase of the expression that a row holds.
        """
        rowids = [rowid for rowid, _ in rows]
        holding = {term: set(rowids) for term in plan.phrases}
        holding |= {term: self._looked_up(term, rowids) for term in plan.pruned if rowids}
        kept = {term.match: term for term in plan.kept}
        first = 0
        for operand in match_terms(plan.match)[1] if kept else ():
            last = first + len(operand.phrases)
            if operand.match in kept:
                holding[kept[operand.match]] = {
                    rowid for rowid, held in rows if "1" in held[first:last]
                }
            first = last
        in_order = sorted(holding, key=lambda term: term.place)
        return [tuple(term.text for term in in_order if row in holding[term]) for row in rowids]

    def _looked_up(self, term: Term, rowids: Sequence[int]) -> set[int]:
        """Find which of some rows hold a term that the expression leaves out."""
        rows = self._connection.execute(_HOLDING, (term.match, json.dumps(rowids)))
        return {rowid for (rowid,) in rows}


def _held_phrases(api: Any, *_: object) -> str:
    """Tell of each phrase of an expression whether the row at hand holds it, for FTS5."""
    return "".join("1" if api.phrase_columns(place) else "0" for place in range(api.phrase_count))
