"""The body search of the keyword leg: one MATCH over the chunks' text, or substrings."""

from __future__ import annotations

import json

from memtui.model import ScoreMapping
from memtui.ranking.scores import bm25_score
from memtui.retrieval.connection import Connection, is_database_error
from memtui.retrieval.openclaw.boost import boosted_score
from memtui.retrieval.openclaw.keyword_hit import KeywordHit
from memtui.retrieval.openclaw.plan import KeywordPlan, like_pattern, plan_keyword, tokens
from memtui.retrieval.openclaw.release import Release, ShortTerms
from memtui.retrieval.openclaw.tables import IndexTables, SearchScope
from memtui.text.ecmascript import nfc, simple_fold

CONTAINS = "memtui_contains"


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

        `ranking_query` is what the boost compares with, where that is not the query itself. A
        MATCH that SQLite refuses finds nothing, or by substrings, as the release has it.
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
            if not is_database_error(error) or plan.match is None:
                raise
            if not self._release.match_failure:
                return []
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
            return f" AND {CONTAINS}(text, ?) = 1" * len(plan.substrings), [*plan.substrings]
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
        wanted, sources = scope.source_filter("source", self._tables)
        return conditions + wanted, [*values, *sources]

    def _hits(
        self,
        fts: str,
        rows: list[tuple[int, float | None]],
        ranking_query: str,
        mapping: ScoreMapping,
    ) -> list[KeywordHit]:
        source = "source" if self._tables.has_source else "'memory'"
        sql = (
            f"SELECT rowid, id, path, {source}, start_line, text FROM {fts} "
            "WHERE rowid IN (SELECT value FROM json_each(?))"
        )
        found = self._connection.execute(sql, (json.dumps([rowid for rowid, _ in rows]),))
        held = {row[0]: row[1:] for row in found.fetchall()}
        hits = []
        for rowid, rank in rows:
            chunk_id, path, origin, start_line, text = held[rowid]
            body = text.removeprefix(f"{path}\n")
            score = self._release.substring_score if rank is None else bm25_score(rank, mapping)
            boosted = self._boosted(ranking_query, path, body, score)
            line = int(start_line or 0)
            hits.append(KeywordHit(chunk_id, path, origin, line, body, rank, score, boosted))
        return hits

    def _boosted(self, query: str, path: str, text: str, score: float) -> float:
        if not self._release.has_boost:
            return score
        return boosted_score(query, path, text, score, normalised=self._release.has_paths)


def contains(text: object, term: object) -> int:
    """Whether a text holds a term, both composed and without case; 1 or 0, for SQL."""
    if not isinstance(text, str) or not isinstance(term, str):
        return 0
    return int(simple_fold(nfc(term)) in simple_fold(nfc(text)))
