"""The path search of the keyword leg and exact names (`searchPathKeyword`, 2026.8 on)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from memtui.model import ScoreMapping
from memtui.ranking.collation import collation_key
from memtui.ranking.fusion import bm25_score
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.body import contains_condition
from memtui.retrieval.openclaw.plan import (
    TRIGRAM,
    KeywordPlan,
    match_all,
    plan_keyword,
    tokens_with_marks,
)
from memtui.retrieval.openclaw.release import ShortTerms
from memtui.retrieval.openclaw.tables import (
    DEFAULT_SOURCE,
    EXACT_PATH_LIMIT,
    IndexTables,
    KeywordHit,
    SearchScope,
    is_refusal,
    readable,
    text_of,
    whole,
)
from memtui.text.ecmascript import nfc, trim

TIER_FUNCTION = "memtui_path_tier"
FULL_PATH, FILE_NAME, STEM = 3, 2, 1


def exact_path_tier(query: str, path: str) -> int:
    """How exactly a query names a path: 3 all of it, 2 the file name, 1 its stem, 0 not.

    Without case, composed, backslashes as slashes, one leading `./` dropped; a query with a slash
    only names a whole path (`resolveExactPathSpecificity`).
    """
    wanted, held = _wanted(query), _identifier(path)
    if not wanted or wanted == ".":
        return 0
    if wanted == held:
        return FULL_PATH
    if "/" in wanted:
        return 0
    name = held.rsplit("/", 1)[-1]
    if wanted == name:
        return FILE_NAME
    dot = name.rfind(".")
    return STEM if wanted == (name[:dot] if dot > 0 else name) else 0


class PathSearch:
    """Searches the paths of one index; a path stands for its first chunk."""

    def __init__(self, connection: Connection, tables: IndexTables, mapping: ScoreMapping) -> None:
        self._connection = connection
        self._tables = tables
        self._mapping = mapping
        connection.create_scalar_function(TIER_FUNCTION, _tier_in_sql, 2, deterministic=True)

    def search(
        self,
        words: str,
        query: str,
        limit: int,
        scope: SearchScope,
        exact: Iterable[KeywordHit],
    ) -> list[KeywordHit]:
        """Find paths that hold the words, beside `exact`, which the whole query names."""
        fts = self._tables.paths_fts
        if fts is None or limit <= 0:
            return []
        lexical: dict[str, KeywordHit] = {}
        for plan in self._plans(words):
            for hit in self._lexical(fts, words, plan, query, limit, scope):
                known = lexical.get(hit.id)
                best = hit if known is None else _best(known, hit)
                lexical[hit.id] = best
        return self._together({hit.id: hit for hit in exact}, lexical.values(), limit)

    def exact(self, query: str, scope: SearchScope) -> list[KeywordHit]:
        """Find the paths that a query names exactly; looks at every path."""
        fts = self._tables.paths_fts
        if fts is None or not trim(query) or _wanted(query) == ".":
            return []
        wanted, sources = scope.visible(f"{fts}.source", has_source=self._tables.has_source)
        named, values = self._named(fts, query)
        # The release narrows the paths by patterns of its own, to the same rows.
        sql = (
            f"SELECT {_columns(fts)}, 0 AS score FROM {fts} "
            f"JOIN {self._tables.chunks} c ON c.id = ({self._first_chunk(fts)}) "
            f"WHERE {named}{wanted} "
            f"ORDER BY {_tier(fts)} DESC, {fts}.path ASC, {fts}.source ASC LIMIT ?"
        )
        rows = self._connection.execute(sql, (*values, *sources, query, EXACT_PATH_LIMIT))
        return self._hits(rows.fetchall(), query, ranked=False, unranked=0.0)

    @staticmethod
    def _named(fts: str, query: str) -> tuple[str, tuple[str, str]]:
        """The condition that a query names a path; most paths are told without Python.

        An ASCII path that is named holds the query, without case and with slashes.
        """
        holds = f"instr(replace(lower({fts}.path), '\\', '/'), ?) > 0"
        is_ascii = f"length({fts}.path) = length(CAST({fts}.path AS BLOB))"
        condition = f"({holds} OR NOT {is_ascii}) AND {_tier(fts)} > 0"
        return condition, (_wanted(query), query)

    def _together(
        self, exact: dict[str, KeywordHit], lexical: Iterable[KeywordHit], limit: int
    ) -> list[KeywordHit]:
        found = dict(exact)
        others = 0
        for hit in sorted(lexical, key=_path_order):
            if hit.tier:
                if hit.id in found:
                    found[hit.id] = _best(found[hit.id], hit)
            elif others < limit:
                found[hit.id] = hit
                others += 1
        return sorted(found.values(), key=_path_order)[: EXACT_PATH_LIMIT + limit]

    def _plans(self, words: str) -> list[KeywordPlan]:
        tokenizer = self._tables.tokenizer
        forms = (words,) if tokenizer != TRIGRAM else (nfc(words), _nfd(words))
        plans = [
            plan_keyword(form, tokenizer=tokenizer, short_terms=ShortTerms.ALL, marks=True)
            for form in dict.fromkeys(forms)
        ]
        if tokenizer != TRIGRAM:
            for form in dict.fromkeys((nfc(words), _nfd(words))):
                found = tokens_with_marks(form)
                substrings = tuple(token for token in found if not token.isascii())
                if substrings:
                    ascii_terms = [token for token in found if token.isascii()]
                    plans.append(KeywordPlan(match_all(ascii_terms), substrings))
        return list(dict.fromkeys(plans))

    def _lexical(
        self,
        fts: str,
        words: str,
        plan: KeywordPlan,
        query: str,
        limit: int,
        scope: SearchScope,
    ) -> list[KeywordHit]:
        if plan.is_empty:
            return []
        try:
            rows = self._partitions(fts, plan, query, limit, scope)
        except Exception as error:
            if plan.match is None or not is_refusal(error):
                raise
            terms = dict.fromkeys([*tokens_with_marks(words), *plan.substrings])
            plan = KeywordPlan(None, tuple(terms))
            rows = self._partitions(fts, plan, query, limit, scope)
        return self._hits(rows, query, ranked=plan.match is not None, unranked=1.0)

    def _partitions(
        self, fts: str, plan: KeywordPlan, query: str, limit: int, scope: SearchScope
    ) -> list[tuple[object, ...]]:
        """Exact names and others apart, so that neither can use up the other's places."""
        conditions = f"{fts} MATCH ?" if plan.match is not None else "1=1"
        values: list[str] = [plan.match] if plan.match is not None else []
        for term in plan.substrings:
            condition, terms = contains_condition(f"{fts}.path", term)
            conditions += condition
            values += terms
        wanted, sources = scope.visible(f"{fts}.source", has_source=self._tables.has_source)
        rank = f"bm25({fts})" if plan.match is not None else "0"
        named, of_name = self._named(fts, query)
        rows: list[tuple[object, ...]] = []
        for negated, most in (("", EXACT_PATH_LIMIT), ("NOT ", limit)):
            tier = f" AND {negated}({named})"
            sql = self._select_ranked(fts, rank, conditions + wanted + tier)
            rows += self._connection.execute(sql, (*values, *sources, *of_name, most)).fetchall()
        return rows

    def _select_ranked(self, fts: str, rank: str, condition: str) -> str:
        """The best paths that have a chunk; chunks are read for those alone."""
        chunks = self._tables.chunks
        order = "score ASC, path ASC, source ASC"
        has_chunk = (
            f"EXISTS (SELECT 1 FROM {chunks} d "
            f"WHERE d.path = {fts}.path AND d.source = {fts}.source)"
        )
        best = (
            f"SELECT {fts}.path AS path, {fts}.source AS source, {rank} AS score FROM {fts} "
            f"WHERE {condition} AND {has_chunk} ORDER BY {order} LIMIT ?"
        )
        return (
            f"SELECT {_columns('best')}, best.score "
            f"FROM ({best}) best JOIN {chunks} c ON c.id = ({self._first_chunk('best')}) "
            "ORDER BY best.score ASC, best.path ASC, best.source ASC"
        )

    def _first_chunk(self, file: str) -> str:
        return (
            f"SELECT candidate.id FROM {self._tables.chunks} candidate "
            f"WHERE candidate.path = {file}.path AND candidate.source = {file}.source "
            "ORDER BY candidate.start_line, candidate.end_line, candidate.id LIMIT 1"
        )

    def _hits(
        self, rows: Iterable[tuple[object, ...]], query: str, *, ranked: bool, unranked: float
    ) -> list[KeywordHit]:
        """The hits of rows; one that cannot be a chunk is left out."""
        hits = []
        for *texts, start_line, rank in rows:
            chunk_id, path, source, text = map(text_of, texts)
            if chunk_id is None or path is None or text is None:
                continue
            score = bm25_score(float(str(rank)), self._mapping) if ranked else unranked
            tier = exact_path_tier(query, path)
            place = (chunk_id, path, source or DEFAULT_SOURCE, whole(start_line))
            hits.append(KeywordHit(*place, text, None, 0.0, score, score, tier, has_body=False))
        return hits


def _best(known: KeywordHit, hit: KeywordHit) -> KeywordHit:
    best = max(known.path_score, hit.path_score)
    return replace(known, path_score=best, score=best, tier=max(known.tier, hit.tier))


def _path_order(hit: KeywordHit) -> tuple[object, ...]:
    return (
        -hit.tier,
        0.0 if hit.tier else -hit.path_score,
        collation_key(hit.path),
        hit.start_line,
        hit.id,
    )


def _identifier(text: str) -> str:
    slashes = trim(text).replace("\\", "/").removeprefix("./")
    return nfc(slashes).lower()


@lru_cache(maxsize=8)
def _wanted(query: str) -> str:
    return _identifier(query)


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _tier(fts: str) -> str:
    return f"{TIER_FUNCTION}({readable(f'{fts}.path')}, ?)"


def _columns(file: str) -> str:
    texts = ("c.id", f"{file}.path", f"{file}.source", "c.text")
    return f"{', '.join(map(readable, texts))}, c.start_line"


def _tier_in_sql(path: object, query: object) -> int:
    held = text_of(path)
    if held is None or not isinstance(query, str):
        return 0
    return exact_path_tier(query, held)
