"""The body search of the keyword leg: one MATCH over the chunks' text, or substrings."""

from __future__ import annotations

import json
from functools import lru_cache

from memtui.model import ScoreMapping
from memtui.ranking.fusion import bm25_score
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.plan import KeywordPlan, like_pattern, plan_keyword, tokens
from memtui.retrieval.openclaw.release import Release, ShortTerms
from memtui.retrieval.openclaw.tables import (
    DEFAULT_SOURCE,
    IndexTables,
    KeywordHit,
    SearchScope,
    is_refusal,
    readable,
    text_of,
    whole,
)
from memtui.text.ecmascript import nfc, simple_fold, trim, utf16_length

OVERLAP_WEIGHT = 0.45
DENSITY_WEIGHT = 0.2
PATH_WEIGHT = 0.18
LENGTH_CEILING = 0.18
LENGTH_UNITS = 160


def boosted_score(query: str, path: str, text: str, score: float, *, normalised: bool) -> float:
    """The text score plus the boost, at most 1 (`scoreFallbackKeywordResult`).

    score + 0.45 * share of the query's words that the text holds + 0.2 * those per different word
    of the text + 0.18 for each that the path holds + min(length / 160, 0.18), length in UTF-16
    units. A query without words leaves the score. `normalised` (2026.9) compares composed text
    without case; before, lower case was compared.
    """
    words = query_words(query, normalised)
    if not words:
        return score
    text_held, different = text_words(text, normalised)
    overlap = sum(1 for word in words if word in text_held)
    share = overlap / len(words)
    density = overlap / max(different, 1)
    name = simple_fold(nfc(path)) if normalised else path.lower()
    in_path = 0.0
    for word in words:
        in_path += PATH_WEIGHT if word in name else 0
    length = min(utf16_length(text) / LENGTH_UNITS, LENGTH_CEILING)
    boost = share * OVERLAP_WEIGHT + density * DENSITY_WEIGHT + in_path + length
    return min(1.0, score + boost)


@lru_cache(maxsize=256)
def query_words(query: str, normalised: bool) -> tuple[str, ...]:
    """The different words of a query, in order, as they are compared."""
    source = nfc(query) if normalised else query
    different = dict.fromkeys(trim(token).lower() for token in tokens(source))
    # Words are told apart by lower case, and compared by their simple folding.
    return tuple(map(simple_fold, different)) if normalised else tuple(different)


@lru_cache(maxsize=4096)
def text_words(text: str, normalised: bool) -> tuple[frozenset[str], int]:
    """Return the words of a text as they are compared, and how many different ones there are."""
    if text.isascii():
        words = frozenset(tokens(text.lower()))
        return words, len(words)
    # Lower case may split a word of other scripts, so each is lowered by itself.
    source = nfc(text) if normalised else text
    lowered = frozenset(token.lower() for token in frozenset(tokens(source)))
    folded = frozenset(map(simple_fold, lowered)) if normalised else lowered
    return folded, len(lowered)


CONTAINS = "memtui_contains"
_FOLDED_TO_ASCII = {"\u212a": "k", "\u017f": "s"}
"""The letters beyond ASCII that folding makes ASCII letters: Kelvin's sign and the long s."""


class BodySearch:
    """Searches the full-text table of one index as one release does; the connection's thread."""

    def __init__(self, connection: Connection, tables: IndexTables, release: Release) -> None:
        self._connection = connection
        self._tables = tables
        self._release = release
        if release.short_terms is ShortTerms.ALL:
            connection.create_scalar_function(CONTAINS, contains, 2, deterministic=True)

    def search(
        self,
        query: str,
        limit: int,
        scope: SearchScope,
        *,
        ranking_query: str | None = None,
        mapping: ScoreMapping,
    ) -> list[KeywordHit]:
        """Find the best `limit` chunks, lowest `bm25()` first.

        `ranking_query` is what the boost compares with, where that is not the query itself. For a
        MATCH that SQLite refuses, substrings are searched where the release does so; raises what
        SQLite raises.
        """
        fts = self._tables.fts
        if limit <= 0 or fts is None:
            return []
        plan = self.plan(query)
        if plan.is_empty:
            return []
        try:
            rows = self._rows(fts, plan, limit, scope)
        except Exception as error:
            falls_back = self._release.match_failure and plan.match is not None
            if not falls_back or not is_refusal(error):
                raise
            terms = dict.fromkeys([*tokens(query, self._release.token_rule), *plan.substrings])
            plan = KeywordPlan(None, tuple(terms))
            rows = self._rows(fts, plan, limit, scope)
        return self._hits(fts, rows, ranking_query or query, mapping)

    def plan(self, query: str) -> KeywordPlan:
        """What a query asks of the full-text table."""
        return plan_keyword(
            query,
            tokenizer=self._tables.tokenizer,
            rule=self._release.token_rule,
            short_terms=self._release.short_terms,
        )

    def conditions(self, plan: KeywordPlan, scope: SearchScope) -> tuple[str, tuple[str, ...]]:
        """What a row has to fulfil beside the MATCH: SQL that begins with ` AND `, its values.

        Raises ValueError for an index without a full-text table.
        """
        if self._tables.fts is None:
            raise ValueError("the index has no full-text table")
        substrings, terms = self._substrings(plan)
        visible, values = self._visible(self._tables.fts, scope)
        return substrings + visible, (*terms, *values)

    def _rows(
        self, fts: str, plan: KeywordPlan, limit: int, scope: SearchScope
    ) -> list[tuple[int, float | None]]:
        substrings, terms = self._substrings(plan)
        visible, values = self._visible(fts, scope)
        if plan.match is None:
            sql = f"SELECT rowid, NULL FROM {fts} WHERE 1=1{substrings}{visible} LIMIT ?"
            return list(self._connection.execute(sql, (*terms, *values, limit)))
        # The alias keeps FTS5 from sorting by itself: equal ranks stay in the order of rows.
        ranked = f"SELECT rowid, bm25({fts}) AS score FROM {fts} WHERE {fts} MATCH ?{substrings}"
        best = "ORDER BY score ASC LIMIT ?"
        found = list(self._connection.execute(f"{ranked} {best}", (plan.match, *terms, limit)))
        # What may be seen is read from the text's own row, for the best alone if that suffices.
        sql = f"SELECT rowid FROM {fts} WHERE rowid IN (SELECT value FROM json_each(?)){visible}"
        rowids = json.dumps([rowid for rowid, _ in found])
        kept = {row[0] for row in self._connection.execute(sql, (rowids, *values))}
        if len(kept) == len(found) or len(found) < limit:
            return [row for row in found if row[0] in kept]
        sql = f"{ranked}{visible} {best}"
        return list(self._connection.execute(sql, (plan.match, *terms, *values, limit)))

    def _substrings(self, plan: KeywordPlan) -> tuple[str, list[str]]:
        if self._release.short_terms is ShortTerms.ALL:
            found = [contains_condition("text", term) for term in plan.substrings]
            return "".join(sql for sql, _ in found), [
                value for _, terms in found for value in terms
            ]
        patterns = [like_pattern(term) for term in plan.substrings]
        return " AND text LIKE ? ESCAPE '\\'" * len(patterns), patterns

    def _visible(self, fts: str, scope: SearchScope) -> tuple[str, list[str]]:
        """The condition that a row belongs to what may be seen."""
        conditions, values = "", []
        if self._release.live_chunks_only:
            chunks = self._tables.chunks
            conditions += f" AND EXISTS (SELECT 1 FROM {chunks} c WHERE c.id = {fts}.id)"
        if self._release.filters_by_model and scope.model is not None:
            conditions += " AND model = ?"
            values.append(scope.model)
        wanted, sources = scope.visible("source", has_source=self._tables.has_source)
        return conditions + wanted, [*values, *sources]

    def _hits(
        self,
        fts: str,
        rows: list[tuple[int, float | None]],
        ranking_query: str,
        mapping: ScoreMapping,
    ) -> list[KeywordHit]:
        source = readable("source") if self._tables.has_source else "NULL"
        columns = f"{readable('id')}, {readable('path')}, {source}, start_line, {readable('text')}"
        sql = f"SELECT rowid, {columns} FROM {fts} WHERE rowid IN (SELECT value FROM json_each(?))"
        found = self._connection.execute(sql, (json.dumps([rowid for rowid, _ in rows]),))
        held = {row[0]: row[1:] for row in found.fetchall()}
        hits = []
        for rowid, rank in rows:
            *texts, start_line, stored = held[rowid]
            chunk_id, path, origin = map(text_of, texts)
            text = text_of(stored)
            if chunk_id is None or path is None or text is None:
                continue
            body = text.removeprefix(f"{path}\n")
            score = self._release.substring_score if rank is None else bm25_score(rank, mapping)
            boosted = self._boosted(ranking_query, path, body, score)
            place = (chunk_id, path, origin or DEFAULT_SOURCE, whole(start_line))
            hits.append(KeywordHit(*place, body, rank, score, boosted))
        return hits

    def _boosted(self, query: str, path: str, text: str, score: float) -> float:
        if not self._release.has_boost:
            return score
        return boosted_score(query, path, text, score, normalised=self._release.has_paths)


def contains(text: object, term: object) -> int:
    """Whether a text holds a term, both composed and without case; 1 or 0, for SQL."""
    held = text_of(text)
    if held is None or not isinstance(term, str):
        return 0
    return int(simple_fold(nfc(term)) in simple_fold(nfc(held)))


def contains_condition(column: str, term: str) -> tuple[str, tuple[str, ...]]:
    """SQL that begins with ` AND `, true where `contains` is, and its values.

    Most rows are told without Python: a text of ASCII alone, and one that has none of the
    characters that an ASCII term can come from.
    """
    # Of a blob, `length` counts bytes.
    is_ascii = f"(typeof({column}) <> 'blob' AND length({column}) = length({readable(column)}))"
    other = f"{CONTAINS}({readable(column)}, ?) = 1"
    wanted = simple_fold(nfc(term))
    if not wanted.isascii():
        return f" AND CASE WHEN {is_ascii} THEN 0 ELSE {other} END", (term,)
    absent, values = f"instr(lower({column}), ?) = 0", (wanted,)
    for character, folded in _FOLDED_TO_ASCII.items():
        if folded in wanted:
            absent += f" AND instr({column}, '{character}') = 0"
    condition = f"CASE WHEN {absent} THEN 0 WHEN {is_ascii} THEN 1 ELSE {other} END"
    return f" AND {condition}", (*values, term)
