"""The keyword leg of each release: chunks by their text, files by their path, and how both join."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import NOTES, ScoreMapping
from memtui.ranking.collation import collation_key
from memtui.ranking.stages import bm25_score
from memtui.retrieval.connection import Connection, is_refusal
from memtui.retrieval.openclaw.tables import (
    EXACT_PATH_LIMIT,
    SQL,
    KeywordHit,
    Layout,
    SearchScope,
    readable,
    text_of,
    whole,
)
from memtui.retrieval.openclaw.terms import (
    TRIGRAM,
    KeywordPlan,
    extract_keywords,
    like_pattern,
    match_all,
    plan_keyword,
    searched_part,
    tokens,
    tokens_with_marks,
)
from memtui.settings.openclaw.releases import Expansion, Release
from memtui.text.ecmascript import nfc, simple_fold, trim, utf16_length, well_formed

Rows = TypeVar("Rows")


def boosted_score(query: str, path: str, text: str, score: float, *, normalised: bool) -> float:
    """The text score plus the boost, at most 1 (`scoreFallbackKeywordResult`).

    score + 0.45 * share of the query's words that the text holds + 0.2 * those per different word
    of the text + 0.18 for each that the path holds + min(length / 160, 0.18), length in UTF-16
    units. A query without words leaves the score. `normalised` (2026.9) compares composed text
    without case; before, lower case was compared.
    """
    words, different = words_of(query, normalised), words_of(text, normalised)
    if not words:
        return score
    in_text = frozenset(different)
    overlap = sum(word in in_text for word in words)
    name = simple_fold(nfc(path)) if normalised else path.lower()
    in_path = 0.0
    for word in words:
        in_path += 0.18 if word in name else 0
    length = min(utf16_length(text) / 160, 0.18)
    boost = overlap / len(words) * 0.45 + overlap / max(len(different), 1) * 0.2 + in_path + length
    return min(1.0, score + boost)


@lru_cache(maxsize=4096)
def words_of(text: str, normalised: bool) -> tuple[str, ...]:
    """Return the different words of a text, in order, as they are compared."""
    # Lower case may split a word of other scripts, so each is lowered by itself.
    words = dict.fromkeys(word.lower() for word in tokens(nfc(text) if normalised else text))
    # Words are told apart by lower case, and compared by their simple folding.
    return tuple(map(simple_fold, words)) if normalised else tuple(words)


CONTAINS = "memtui_contains"


def contains(text: object, term: object) -> int:
    """Tell whether a text holds a term, both composed and without case; 1 or 0, for SQL."""
    whole = text_of(text)
    if whole is None or not isinstance(term, str):
        return 0
    return int(simple_fold(nfc(term)) in simple_fold(nfc(whole)))


def contains_conditions(column: str, terms: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """SQL that is ` AND ` and what is true where `contains` is, for each term, and its values.

    Rows of ASCII alone, most of them, are told without Python.
    """
    sql = SQL["contains"].format(column=column, function=CONTAINS)
    return sql * len(terms), tuple(chain(*((simple_fold(nfc(term)), term) for term in terms)))


def _or_substrings(
    search: Callable[[KeywordPlan], Rows], plan: KeywordPlan, words: Sequence[str]
) -> tuple[Rows, KeywordPlan]:
    """Search by a plan, and by `words` as substrings where SQLite refuses its MATCH."""
    try:
        return search(plan), plan
    except Exception as error:
        if plan.match is None or not is_refusal(error):
            raise
    plan = KeywordPlan(None, tuple(dict.fromkeys([*words, *plan.substrings])))
    return search(plan), plan


TIER_FUNCTION = "memtui_path_tier"


def exact_path_tier(query: str, path: str) -> int:
    """Tell how exactly a query names a path: 3 all of it, 2 the file name, 1 its stem, 0 not.

    Without case, composed, backslashes as slashes, one leading `./` dropped; a query with a slash
    only names a whole path (`resolveExactPathSpecificity`).
    """
    query_name, path_name = _identifier(query), _identifier(path)
    if not query_name or query_name == ".":
        return 0
    if query_name == path_name:
        return 3
    name = path_name.rsplit("/", 1)[-1]
    if query_name == name:
        return 2
    dot = name.rfind(".")
    return int(query_name == (name[:dot] if dot > 0 else name))


@lru_cache(maxsize=4096)
def _identifier(text: str) -> str:
    return nfc(trim(text).replace("\\", "/").removeprefix("./")).lower()


def order_key(hit: KeywordHit) -> tuple[Any, ...]:
    """Tell how 2026.9 orders keyword hits (`compareKeywordSearchHits`)."""
    return (
        -hit.tier,
        0 if hit.tier == 0 or hit.has_body else 1,
        -hit.score,
        -hit.text_score,
        -hit.path_score if hit.tier == 0 else 0.0,
        collation_key(hit.path),
        hit.start_line,
        hit.id,
    )


def merged_hits(lists: Iterable[Iterable[KeywordHit]], query: str) -> list[KeywordHit]:
    """Each chunk once, with its best scores of body and path (`mergeKeywordSearchHits`, 2026.9).

    How exactly a path is named is a matter of the whole query: a keyword cannot tell.
    """
    merged: dict[str, KeywordHit] = {}
    for hit in chain.from_iterable(lists):
        first = merged.setdefault(hit.id, hit)
        best = hit if hit.text_score > first.text_score else first
        merged[hit.id] = replace(
            first,
            text=hit.text if hit.has_body and not first.has_body else first.text,
            rank=best.rank if best.rank is not None else first.rank,
            text_score=best.text_score,
            path_score=max(first.path_score, hit.path_score),
            has_body=first.has_body or hit.has_body,
            score=max(one.score if one.has_body else 0.0 for one in (first, hit)),
        )
    settled = []
    for hit in merged.values():
        tier = exact_path_tier(query, hit.path)
        # Without a body match an exact name counts 1, and any other path its path score.
        score = hit.score if hit.has_body else 1.0 if tier else hit.path_score
        settled.append(replace(hit, tier=tier, score=score))
    return sorted(settled, key=order_key)


def limited(hits: list[KeywordHit], limit: int) -> list[KeywordHit]:
    """At most `limit` hits without an exact name, and 200 files with one (2026.9)."""
    exact_body = [hit for hit in hits if hit.tier and hit.has_body][:limit]
    exact_path = [hit for hit in hits if hit.tier and not hit.has_body]
    exact = sorted([*exact_body, *exact_path], key=order_key)
    named = dict.fromkeys((hit.source, hit.path) for hit in exact)
    named_paths = frozenset(list(named)[:EXACT_PATH_LIMIT])
    others = [hit for hit in hits if not hit.tier][:limit]
    return [*(hit for hit in exact if (hit.source, hit.path) in named_paths), *others]


def merge_keyword_hits(
    lists: list[list[KeywordHit]], release: Release, *, has_provider: bool
) -> list[KeywordHit]:
    """One list of the whole query's hits and its keywords', as releases up to 2026.7 merge them."""
    if len(lists) == 1 and lists[0]:
        return lists[0]
    if has_provider and release.expansion != "when_empty":
        return [*chain.from_iterable(lists)]
    return _each_once(lists, release.expansion)


def _each_once(lists: list[list[KeywordHit]], expansion: Expansion) -> list[KeywordHit]:
    """Each chunk once, in the order they came: with its best score up to 2026.5, after that with
    its best text score, then its best score."""

    def worth(hit: KeywordHit) -> tuple[float, float]:
        return (hit.text_score if expansion == "when_empty" else 0.0), hit.score

    best: dict[str, KeywordHit] = {}
    for hit in chain.from_iterable(lists):
        if worth(hit) > worth(best.setdefault(hit.id, hit)):
            best[hit.id] = hit
    return list(best.values())


MOST_KEYWORDS = 6


class KeywordAnswer(Struct, frozen=True):
    """The hits of the keyword leg, best first, and what it asked for the whole query."""

    hits: tuple[KeywordHit, ...]
    plan: KeywordPlan
    keywords: tuple[str, ...]
    """The keywords that were searched one by one; empty when the whole query sufficed."""
    refusal: str = ""
    """The error of SQLite for a search that it refused, which then found nothing."""
    shortened: bool = False
    """True if the query was too long to be searched in full."""


class OpenClawKeywordLeg:
    """One search of the keyword leg of one index, as a release does it; the connection's thread.

    `limit` is the release's candidate count.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        release: Release,
        scope: SearchScope,
        limit: int = 0,
        mapping: ScoreMapping = ScoreMapping.SIGNED,
    ) -> None:
        self._connection, self._layout, self._release = connection, layout, release
        self._scope, self._limit, self._mapping = scope, limit, mapping
        self._refusal = ""
        self._paths = layout.paths_fts if release.has_paths else None
        self._tier = f"{TIER_FUNCTION}({readable(f'{self._paths}.path')}, ?)"
        """SQL for how exactly a query, the one parameter, names the path of a row."""
        functions: dict[str, Any] = {}
        if release.short_terms == "all":
            functions[CONTAINS] = contains
        if self._paths is not None:
            functions[TIER_FUNCTION] = lambda path, query: exact_path_tier(
                query, text_of(path) or ""
            )
        for name, function in functions.items():
            connection.create_scalar_function(name, function, 2, deterministic=True)

    def search(self, query: str) -> KeywordAnswer:
        """Find the candidates of a query; raises what SQLite raises, unless it refuses a search."""
        entire = trim(well_formed(query))
        searched = searched_part(entire)
        expand = self._when_thin if self._release.has_paths else self._expanded
        hits, keywords = expand(searched)
        plan, is_shortened = self._plan(searched), searched != entire
        return KeywordAnswer(tuple(hits), plan, tuple(keywords), self._refusal, is_shortened)

    def _expanded(self, query: str) -> tuple[list[KeywordHit], list[str]]:
        """Search the query, or each of its keywords, as releases up to 2026.7 do."""
        expansion, has_provider = self._release.expansion, self._scope.model is not None
        is_always = expansion == "without_provider_always"
        if has_provider or not is_always:
            hits = self._softly(self.body_hits, query)
            if hits or (has_provider and expansion != "when_empty"):
                return hits, []
        is_trigram = self._layout.tokenizer == TRIGRAM and not is_always
        keywords = extract_keywords(query, trigram=is_trigram)
        if expansion == "when_empty":
            keywords = [word for word in keywords if word != query][:MOST_KEYWORDS]
        else:
            keywords = keywords or [query]
        lists = [self._softly(self.body_hits, word) for word in keywords]
        return _each_once(lists, expansion), keywords

    def _when_thin(self, query: str) -> tuple[list[KeywordHit], list[str]]:
        """Search text and paths, and keywords beside a query that finds too little (2026.9)."""
        limit, exact = self._limit, list[KeywordHit]()
        if self._paths is not None and query:
            # The release narrows the paths by patterns of its own, to the same rows.
            named = f"{self._tier} > 0"
            rows = self._best_paths(f"-{self._tier}", named, (query, query), EXACT_PATH_LIMIT)
            exact = _path_hits(rows, query, lambda rank: 0.0)

        def both(words: str) -> list[KeywordHit]:
            """Body and path hits of `words`, ranked by the whole query."""
            body, paths = self.body_hits(words, query), self._named_paths(words, query, exact)
            return limited(merged_hits([body, paths], query), limit)

        hits = self._softly(both, query)
        if sum(not hit.tier for hit in hits) >= limit:
            return hits, []
        keywords = extract_keywords(query, trigram=self._layout.tokenizer == TRIGRAM)
        keywords = [word for word in keywords if word != query.lower()][:MOST_KEYWORDS]
        by_query, by_keyword = (match_all(tokens(t)) or "" for t in (query, " ".join(keywords)))
        if not keywords or (hits and by_query.lower() == by_keyword.lower()):
            return hits, []
        lists = [hits, *(self._softly(both, word) for word in keywords)]
        return limited(merged_hits(lists, query), limit), keywords

    def _softly(self, search: Callable[[str], list[KeywordHit]], words: str) -> list[KeywordHit]:
        """Return what a search finds; nothing when SQLite refuses it, as in the program."""
        try:
            return search(words)
        except Exception as error:
            if not is_refusal(error):
                raise
            self._refusal = self._refusal or str(error)
            return []

    def body_hits(self, query: str, ranking_query: str | None = None) -> list[KeywordHit]:
        """Find the best chunks, lowest `bm25()` first.

        `ranking_query` is what the boost compares with, where that is not the query itself. For a
        MATCH that SQLite refuses, substrings are searched where the release does so; raises what
        SQLite raises.
        """
        fts, plan, release = self._layout.fts, self._plan(query), self._release
        if fts is None or plan.is_empty:
            return []
        if release.match_failure:
            rows, plan = _or_substrings(self._body_rows, plan, tokens(query))
        else:
            rows = self._body_rows(plan)
        source = readable("source") if self._layout.legs_see_source else "NULL"
        sql = SQL["bodies"].format(source=source, fts=fts)
        stored = self._connection.execute(sql, (json.dumps([rowid for rowid, _ in rows]),))
        row_of = {row[0]: row[1:] for row in stored}
        hits = []
        for rowid, rank in rows:
            if (row := chunk_row(*row_of[rowid])) is None:
                continue
            chunk_id, path, source, line, text = row
            body = text.removeprefix(f"{path}\n")
            score = release.substring_score if rank is None else bm25_score(rank, self._mapping)
            boosted = score
            if release.has_boost:
                boosted = boosted_score(
                    ranking_query or query, path, body, score, normalised=release.has_paths
                )
            hits.append(KeywordHit(chunk_id, path, source, line, body, rank, score, boosted))
        return hits

    def _plan(self, query: str) -> KeywordPlan:
        return plan_keyword(
            query, tokenizer=self._layout.tokenizer, short_terms=self._release.short_terms
        )

    def conditions(self, plan: KeywordPlan) -> tuple[str, tuple[str, ...]]:
        """Return what a row fulfils beside the MATCH: SQL that begins with ` AND `, its values."""
        (substrings, terms), (visible, values) = self._substrings(plan), self._visible()
        return substrings + visible, (*terms, *values)

    def _body_rows(self, plan: KeywordPlan) -> list[tuple[int, float | None]]:
        """Read the rowids of the best rows with their `bm25()`; `None` without a MATCH."""
        fts, limit, execute = self._layout.fts, self._limit, self._connection.execute
        (substrings, terms), (visible, values) = self._substrings(plan), self._visible()
        if plan.match is None:
            sql = f"SELECT rowid, NULL FROM {fts} WHERE 1=1{substrings}{visible} LIMIT ?"
            return list(execute(sql, (*terms, *values, limit)))
        # The alias keeps FTS5 from sorting by itself: equal ranks stay in the order of rows.
        ranked = f"SELECT rowid, bm25({fts}) AS score FROM {fts} WHERE {fts} MATCH ?{substrings}"
        best = "ORDER BY score ASC LIMIT ?"
        rows = list(execute(f"{ranked} {best}", (plan.match, *terms, limit)))
        # What may be seen is read from the text's own row, for the best alone if that suffices.
        sql = f"SELECT rowid FROM {fts} WHERE rowid IN (SELECT value FROM json_each(?)){visible}"
        rowids = json.dumps([rowid for rowid, _ in rows])
        visible_rowids = {row[0] for row in execute(sql, (rowids, *values))}
        if len(visible_rowids) == len(rows) or len(rows) < limit:
            return [row for row in rows if row[0] in visible_rowids]
        return list(execute(f"{ranked}{visible} {best}", (plan.match, *terms, *values, limit)))

    def _substrings(self, plan: KeywordPlan) -> tuple[str, tuple[str, ...]]:
        if self._release.short_terms == "all":
            return contains_conditions("text", plan.substrings)
        patterns = tuple(map(like_pattern, plan.substrings))
        return " AND text LIKE ? ESCAPE '\\'" * len(patterns), patterns

    def _visible(self) -> tuple[str, tuple[str, ...]]:
        """Return the condition that a row belongs to what may be seen."""
        layout, scope = self._layout, self._scope
        sql, values = scope.visible("source", layout)
        if self._release.filters_by_model and scope.model is not None:
            sql, values = f" AND model = ?{sql}", (scope.model, *values)
        if self._release.live_chunks_only:
            alive = f"EXISTS (SELECT 1 FROM {layout.chunks} c WHERE c.id = {layout.fts}.id)"
            sql = f" AND {alive}{sql}"
        return sql, values

    def _named_paths(self, words: str, query: str, exact: list[KeywordHit]) -> list[KeywordHit]:
        """Find paths that hold the words, beside `exact`, which the whole query names."""
        fts = self._paths
        if fts is None:
            return []
        tokenizer = self._layout.tokenizer
        forms = dict.fromkeys((nfc(words), unicodedata.normalize("NFD", words)))
        plans = [
            plan_keyword(form, tokenizer=tokenizer, short_terms="all", marks=True)
            for form in (forms if tokenizer == TRIGRAM else (words,))
        ]
        for form in forms if tokenizer != TRIGRAM else ():
            terms = tokens_with_marks(form)
            matched = match_all([term for term in terms if term.isascii()])
            substrings = tuple(term for term in terms if not term.isascii())
            plans += [KeywordPlan(matched, substrings)] if substrings else []

        def rows_of(plan: KeywordPlan) -> list[tuple[object, ...]]:
            condition, rank, values = "1=1", "0", tuple[str, ...]()
            if plan.match is not None:
                condition, rank, values = f"{fts} MATCH ?", f"bm25({fts})", (plan.match,)
            substrings, terms = contains_conditions(f"{fts}.path", plan.substrings)
            rows: list[tuple[object, ...]] = []
            # Exact names and others apart, so that neither can use up the other's places.
            for comparison, most in (("> 0", EXACT_PATH_LIMIT), ("= 0", self._limit)):
                named = f"{condition}{substrings} AND {self._tier} {comparison}"
                rows += self._best_paths(rank, named, (*values, *terms, query), most)
            return rows

        lists = [exact]
        for plan in dict.fromkeys(plan for plan in plans if not plan.is_empty):
            rows, used = _or_substrings(rows_of, plan, tokens_with_marks(words))
            by_rank = partial(bm25_score, mapping=self._mapping)
            score = by_rank if used.match is not None else lambda rank: 1.0
            lists.append(_path_hits(rows, query, score))
        named = {hit.id for hit in exact}
        hits = merged_hits(lists, query)
        others = [hit for hit in hits if not hit.tier]
        return [*(hit for hit in hits if hit.id in named), *others[: self._limit]]

    def _best_paths(
        self, score: str, condition: str, values: Sequence[str], limit: int
    ) -> list[tuple[object, ...]]:
        """Read the paths with the lowest score that have a chunk, each with its first chunk."""
        fts, chunks = self._paths, self._layout.chunks
        # A path is that of several chunks: the first one that is not excluded stands for it.
        files, chosen = replace(self._scope, excluded=None), replace(self._scope, files=None)
        visible, sources = files.visible(f"{fts}.source", self._layout)
        eligible, excluded = chosen.visible("d.source", self._layout)
        texts = ", ".join(map(readable, ("c.id", "best.path", "best.source", "c.text")))
        parts = {"fts": fts, "chunks": chunks, "texts": texts, "score": score, "eligible": eligible}
        sql = SQL["best_paths"].format(**parts, condition=condition, visible=visible)
        return list(self._connection.execute(sql, (*values, *sources, limit, *excluded)))


def _path_hits(
    rows: Iterable[Sequence[Any]], query: str, score: Callable[[float], float]
) -> list[KeywordHit]:
    hits = []
    for *stored, rank in rows:
        if (row := chunk_row(*stored)) is not None:
            worth, tier = score(rank), exact_path_tier(query, row[1])
            hits.append(KeywordHit(*row, None, 0.0, worth, worth, tier, has_body=False))
    return hits


def chunk_row(
    chunk_id: object, path: object, source: object, text: object, start_line: object
) -> tuple[str, str, str, int, str] | None:
    """Return id, path, source, first line and text of a row; `None` where it can be no chunk."""
    name, place, body = text_of(chunk_id), text_of(path), text_of(text)
    if name is None or place is None or body is None:
        return None
    return name, place, text_of(source) or NOTES, whole(start_line), body
