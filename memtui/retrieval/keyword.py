"""The keyword leg: BM25 over the chunks that hold any word of the query."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.json import decode, encode

from memtui.data import read_table
from memtui.model import LegState, LegStatus, Reason
from memtui.retrieval.connection import (
    FOLDING,
    Connection,
    begun_words,
    completions,
    query_tokens,
    register_fts5,
    snapshot,
    tokens,
    word_with_stem,
)
from memtui.retrieval.pool import NOTHING_ASKED, LegAnswer, RowHit
from memtui.retrieval.query import Query, phrase_segments, unfit_words
from memtui.text.sanitize import counted
from memtui.text.tokens import QueryTerm, fold_text, quote

Joiner: TypeAlias = Literal["AND", "OR"]

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
_READ = 1_000
"""So many texts are read for a word that is still being typed."""
_MORE = 16
"""Of one word in four some rows equal the last that is asked for; seldom more than these."""
_PLACES = "memtui_places"
_SQL = read_table("queries.toml")["keyword"]


class Operand(Struct, frozen=True):
    """One operand of a MATCH expression: a phrase, or alternatives in parentheses."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    match: str
    """The FTS5 expression."""
    phrases: tuple[str, ...] = ()
    """FTS5 expressions of its phrases, in the order in which FTS5 numbers them; none: it is one."""
    unlike: frozenset[int] = frozenset()
    """Rows that hold the stem of such a word, but no word that begins so."""


class Term(Struct, frozen=True):
    """A word or quoted phrase of the query as it is looked up."""

    text: str
    """As the query spells it; the beginning of a word ends in `*`."""
    operands: tuple[Operand, ...]
    """All of which a row has to hold; one for a word."""
    postings: int
    """In how many chunks it occurs, at most."""
    cost: int
    """Entries of the index that are read for it: function words of languages without a list of stop
    words stand in a chunk many times."""


class Plan(Struct, frozen=True):
    """The terms that are looked up for one query, in the order of the query."""

    match: str
    operands: tuple[Operand, ...]
    """The operands of the expression; each stands in it once."""
    joiner: Joiner
    """The operator between them: OR as soon as there is a word beside the phrases."""
    phrases: tuple[Term, ...]
    """The quoted ones, which are required."""
    words: tuple[Term, ...]
    kept_words: tuple[Term, ...]
    pruned: tuple[Term, ...]
    """Words that are not looked up."""
    outside: frozenset[int]
    """Rows that match without holding any term."""

    @property
    def looked_up(self) -> tuple[Term, ...]:
        """The terms of the expression: the quoted ones, then the words that are kept."""
        return *self.phrases, *self.kept_words

    def by_term(self, rows: Iterable[tuple[int, bytes]]) -> dict[int, list[list[int]]]:
        """Take the places of the phrases of the expression in some rows together for each term."""
        phrases, end = dict[str, slice](), 0
        for operand in self.operands:
            start, end = end, end + max(1, len(operand.phrases))
            phrases[operand.match] = slice(start, end)
        terms = [[phrases[operand.match] for operand in term.operands] for term in self.looked_up]
        return {
            rowid: [list(chain(*({*chain(*places[some])} for some in term))) for term in terms]
            for rowid, places in ((rowid, decode(packed)) for rowid, packed in rows)
        }


def newest_first(passing: int, limit: int) -> LegState:
    """Return the state of filters alone that `passing` chunks pass, of which `limit` are listed."""
    chunks = counted(passing, "chunk")
    listed = f"newest {limit} of {chunks}" if passing > limit else f"{chunks}, newest first"
    detail, facts = f"filters alone: {listed}, undated last", {"passing": passing}
    return LegState(LegStatus.OK, Reason.ONLY_FILTERS, detail, facts=facts)


class KeywordLeg:
    """Searches the full-text index of one connection; belongs to that connection's thread.

    A chunk is found when it holds any of the query's words. Words are taken rarest first until a
    budget of postings is spent, at least the two rarest: that bounds the time, and the words left
    out change the order least. A query that finds too little is asked once more with four times
    the budget.
    """

    def __init__(self, connection: Connection, budget: int | None = None) -> None:
        """`budget`: postings a query may read; `None` is `BUDGET`."""
        self._connection = connection
        self._budget = BUDGET if budget is None else budget
        self._frequencies: dict[str, tuple[int, int]] = {}
        """In how many chunks a token occurs, and how often; until another connection writes."""
        self._counted_at: int | None = None
        """The `data_version` of the connection up to which they count."""
        self.used: Plan | None = None
        """The plan of the last search."""
        self.tokens = 0
        """The tokens of the index; until another connection writes."""
        register_fts5(connection, _PLACES, _phrase_places)

    def search(self, query: Query, limit: int, allowed: Collection[int] | None) -> LegAnswer:
        """Find the `limit` best chunks among the allowed ones, lowest `bm25()` first.

        Beside them there may be more that equal the last; the order of equal ones means nothing.
        `allowed` are the rows of the `narrowed` query: they hold what quoted phrases require. A leg
        that cannot answer says why in its state. Raises what SQLite raises.
        """
        reason, detail = Reason.OK, ""
        if allowed == set():
            reason, detail = Reason.FILTERED, unfit_words(self._connection, query)
        if not query.text and allowed:
            newest = self._connection.execute(_SQL["newest"], (json.dumps([*allowed]), limit))
            listed = tuple(RowHit(rowid, float(place)) for place, (rowid,) in enumerate(newest))
            return LegAnswer(listed, newest_first(len(allowed), limit))
        if not query.text:
            unfit = LegState(LegStatus.OK, reason, detail)
            return LegAnswer((), unfit if detail else NOTHING_ASKED)
        if not query.terms.terms and not query.phrases:
            detail = "no letter or digit in the query"
            return LegAnswer((), LegState(LegStatus.SKIPPED, Reason.NO_TERMS, detail))
        limit, condition = max(limit, 0), "" if allowed is None else _SQL["among"]
        among = () if allowed is None else (json.dumps([*allowed]),)
        ranked, equal = (_SQL[name].format(among=condition) for name in ("ranked", "equal"))
        with snapshot(self._connection):
            plan, rows = None, []
            for times in BUDGETS:
                wider = self.plan(query, times=times)
                if plan is not None and wider.kept_words == plan.kept_words:
                    break
                plan = wider
                matching = (plan.match, json.dumps([*plan.outside]), *among)
                values = (*matching, limit and limit + _MORE)
                rows = list(self._connection.execute(ranked, values))
                if len(rows) >= limit or not plan.pruned:
                    break
            assert plan is not None
            self.used = plan
            if len(rows) > limit:
                last = rows[limit - 1][1]
                if rows[-1][1] == last and len(rows) == limit + _MORE:
                    rows = [row for row in rows if row[1] < last]
                    values = (*matching, last, limit - len(rows))
                    rows += self._connection.execute(equal, values)
                rows = [row for row in rows if row[1] <= last]
            # The terms that each row holds.
            rowids = [rowid for rowid, _, _ in rows]
            holding = {term: set(rowids) for term in plan.phrases}
            for term in plan.pruned if rowids else ():
                holds = (term.operands[0].match, json.dumps(rowids))
                holding[term] = {row for (row,) in self._connection.execute(_SQL["holding"], holds)}
        places = plan.by_term((rowid, packed) for rowid, _, packed in rows)
        for number, term in enumerate(plan.kept_words, start=len(plan.phrases)):
            holders = {rowid for rowid in rowids if places[rowid][number]}
            holding[term] = holders - term.operands[0].unlike
        terms = *plan.phrases, *plan.words
        texts_of = {row: tuple(t.text for t in terms if row in holding[t]) for row in rowids}
        hits = tuple(
            RowHit(rowid, raw, texts_of[rowid], len(texts_of[rowid]) / len(terms), places[rowid])
            for rowid, raw, _ in rows
        )
        facts: dict[str, float | int | str | None] = {
            "match": plan.match,
            "pruned": " ".join(term.text for term in plan.pruned),
            "stop_words": " ".join(query.terms.stop_words),
            "postings": sum(term.postings for term in plan.looked_up),
        }
        if allowed:
            facts["passing"] = len(allowed)
        if query.phrases:
            required = [operand.match for term in plan.phrases for operand in term.operands]
            facts["required"] = " AND ".join(dict.fromkeys(required)) or None
        if query.relaxed and not detail:
            reason, quoted = Reason.PHRASE_RELAXED, " and ".join(map(quote, query.relaxed))
            detail = f"quotes are searched as words: no chunk holds {quoted}"
        elif allowed:
            typed = [" or ".join(some) for _, some in query.filters.fields()]
            typed += map(quote, query.phrases)
            reason, chunks = Reason.NARROWED, counted(len(allowed), "chunk")
            detail = f"searched in {chunks} ({', '.join(typed)})"
        elif allowed is None and plan.kept_words and query.terms.only_stop_words:
            reason, detail = Reason.ONLY_STOP_WORDS, "only stop words, so they are searched"
        return LegAnswer(hits, LegState(LegStatus.OK, reason, detail, facts=facts))

    def plan(self, query: Query, *, times: int = 1) -> Plan:
        """Choose the words of a query, rarest first, within `times` the budget of postings."""
        version = self._connection.execute("PRAGMA data_version").get
        if version != self._counted_at:
            self._frequencies.clear()
            self._counted_at, self.tokens = version, self._count_tokens()
        budget = times * self._budget
        phrases = []
        for phrase in query.phrases:
            operands = tuple(Operand(phrase, segment) for segment in phrase_segments(phrase))
            frequencies = [self.frequency(operand.match)[0] for operand in operands]
            phrases.append(Term(phrase, operands, min(frequencies, default=0), 0))
        terms = []
        words = () if phrases and query.terms.only_stop_words else query.terms.terms
        for word in words:
            if word.kind in {"prefix", "star"}:
                terms.append(self._beginning(word, budget))
            else:
                rows, occurrences = self.frequency(word.fts)
                operands = (Operand(word.text, word.fts),)
                terms.append(Term(word.text, operands, rows, max(rows, occurrences)))
        kept_words: list[Term] = []
        spent = 0
        for term in sorted(terms, key=lambda term: term.postings)[:MAX_KEPT]:
            spent += term.cost
            if len(kept_words) < MIN_KEPT or spent <= budget:
                kept_words.append(term)
        kept_words = [term for term in terms if term in kept_words]
        # Phrases rank as well as words do; that they are required is a matter of the row filter.
        by_match: dict[str, Operand] = {}
        for operand in (operand for term in (*phrases, *kept_words) for operand in term.operands):
            by_match.setdefault(operand.match, operand)
        joiner: Joiner = "OR" if kept_words else "AND"
        return Plan(
            f" {joiner} ".join(by_match) or '""',
            tuple(by_match.values()),
            joiner,
            tuple(phrases),
            tuple(terms),
            tuple(kept_words),
            tuple(term for term in terms if term not in kept_words),
            self._outside(by_match.values()),
        )

    def plan_of(self, query: Query, match: str) -> Plan | None:
        """Return the plan whose expression is `match`; `None` when none of a query's has it."""
        plans = (self.plan(query, times=times) for times in BUDGETS)
        return next((plan for plan in plans if plan.match == match), None)

    def _outside(self, operands: Collection[Operand]) -> frozenset[int]:
        outside = frozenset(row for operand in operands for row in operand.unlike)
        for operand in operands if outside else ():
            values = (operand.match, json.dumps([*outside]))
            holders = {row for (row,) in self._connection.execute(_SQL["holding"], values)}
            outside -= holders - operand.unlike
        return outside

    def _beginning(self, word: QueryTerm, budget: int) -> Term:
        """Look up the beginning of a word.

        The index holds stems, and a stem may be shorter than what is typed (`runni`) or another
        word's beginning (`bus` has the stem `bu`), so a plain FTS5 prefix is not enough. Of such a
        stem the texts tell which words there are.
        """
        typed = word.text
        text = fold_text(typed)
        whole, stems = tokens(text, FOLDING), tokens(text)
        rows = self.frequency(text)[0]
        if len(whole) != 1 or len(stems) != 1:
            return Term(typed, (Operand(typed, word.fts),), rows, rows)
        # The postings of all words that begin so, counted as far as the budget goes.
        begun, limits = 0, (whole[0], whole[0] + _END_OF_RANGE)
        for (count,) in self._connection.execute(_SQL["begun"], limits):
            begun += count
            if begun > budget:
                return Term(typed, (Operand(typed, quote(text)),), rows, rows)
        if whole == stems:
            alternatives = [f"{quote(text)} *"]
        else:
            # A query can only name words: one for each of the most frequent stems that begin so.
            values = *limits, _EXPANSIONS
            stems_begun = list(self._connection.execute(_SQL["stems_begun"], values))
            words = (word_with_stem(stem) for (stem,) in stems_begun)
            alternatives = [quote(text), *(quote(other) for other in words if other is not None)]
            begun += rows
        is_star, unlike = word.kind == "star", frozenset[int]()
        (forms,) = query_tokens(self._connection, text)
        is_shorter = any(not form.startswith(whole[0]) for form in forms)
        shortened = [text] if is_star and is_shorter else []
        for finished in (*shortened, *completions(whole[0])):
            postings = self.frequency(finished)[0]
            if not postings or begun + postings > (budget if is_star else _READ):
                continue
            texts = self._connection.execute(_SQL["texts"], (quote(finished),))
            words_by_row = {row: begun_words(stored, whole[0]) for row, stored in texts}
            stems_there = tokens(" ".join(chain(*words_by_row.values())))
            if finished != text and tokens(finished)[0] in stems_there:
                alternatives.append(quote(finished))
                begun += postings
            if is_star and (finished == text or quote(finished) in alternatives):
                unlike |= {row for row, words in words_by_row.items() if not words}
        match = alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"
        operand = Operand(f"{typed}*", match, tuple(alternatives), unlike)
        return Term(operand.text, (operand,), begun, begun)

    def frequency(self, text: str) -> tuple[int, int]:
        """Bound the chunks that hold a phrase by its rarest word; count all of its words."""
        counts = []
        for forms in query_tokens(self._connection, text):
            for token in forms:
                if token not in self._frequencies:
                    counted = self._connection.execute(_SQL["frequency"], (token,)).get
                    self._frequencies[token] = counted or (0, 0)
            counts.append([self._frequencies[token] for token in forms])
        rows = min((sum(doc for doc, _ in forms) for forms in counts), default=0)
        return rows, sum(cnt for forms in counts for _, cnt in forms)

    def find_places(self, plan: Plan, rowids: Sequence[int]) -> dict[int, list[list[int]]]:
        """Find the token offsets of each term of a plan in some chunks, where they hold any."""
        if not plan.looked_up or not rowids:
            return {}
        values = plan.match, json.dumps(rowids)
        rows = self._connection.execute(_SQL["places"].format(among=_SQL["among"]), values)
        return plan.by_term(rows)

    def _count_tokens(self) -> int:
        """Read the averages record of FTS5: the rows, then the tokens of each column, as varints.

        An index that holds nothing has an empty one.
        """
        numbers, value = list[int](), 0
        for byte in self._connection.execute(_SQL["averages"]).get or b"":
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                numbers.append(value)
                value = 0
        return numbers[1] if numbers else 0


def _phrase_places(api: Any, *_: object) -> bytes:
    """List the token offsets of each phrase in the row at hand, for FTS5."""
    return encode([api.phrase_locations(place)[0] for place in range(api.phrase_count)])
