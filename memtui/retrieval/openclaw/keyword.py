"""The keyword leg of OpenClaw's releases: the query, its keywords, paths, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memtui.model import ScoreMapping
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.body import BodySearch
from memtui.retrieval.openclaw.keyword_hit import (
    KeywordHit,
    best_by_score,
    limited,
    merged_hits,
)
from memtui.retrieval.openclaw.keywords import extract_keywords
from memtui.retrieval.openclaw.paths import PathSearch, exact_path_tier
from memtui.retrieval.openclaw.plan import (
    TRIGRAM,
    match_all,
    searched_part,
    tokens,
    well_formed,
)
from memtui.retrieval.openclaw.refusal import is_refusal
from memtui.retrieval.openclaw.release import Expansion, Release
from memtui.retrieval.openclaw.tables import IndexTables, SearchScope
from memtui.text.ecmascript import trim

MOST_KEYWORDS = 6


@dataclass(frozen=True, slots=True)
class KeywordAnswer:
    """What the keyword leg found, best first, and what it asked."""

    hits: tuple[KeywordHit, ...]
    match: str | None
    substrings: tuple[str, ...]
    keywords: tuple[str, ...]
    """The keywords that were searched one by one; empty when the whole query sufficed."""
    refusal: str = ""
    """What SQLite said of a search that it refused, which then found nothing."""
    shortened: bool = False
    """Whether the query was too long to be searched in full."""


class OpenClawKeywordLeg:
    """Searches the keyword leg of one index as one release does; the connection's thread."""

    def __init__(
        self,
        connection: Connection,
        tables: IndexTables,
        release: Release,
        mapping: ScoreMapping,
    ) -> None:
        self._tables = tables
        self._release = release
        self._mapping = mapping
        self._refusal = ""
        self._body = BodySearch(connection, tables, release)
        self._paths = PathSearch(connection, tables, mapping) if release.has_paths else None

    def search(self, query: str, limit: int, scope: SearchScope) -> KeywordAnswer:
        """Find the candidates of a query; `limit` is the release's candidate count.

        Raises what SQLite raises, but for a search that it refuses.
        """
        self._refusal = ""
        whole = trim(well_formed(query))
        cleaned = searched_part(whole)
        plan = self._body.plan(cleaned)
        hits, keywords = self._expanded(cleaned, limit, scope)
        return KeywordAnswer(
            tuple(hits),
            plan.match,
            plan.substrings,
            tuple(keywords),
            self._refusal,
            shortened=cleaned != whole,
        )

    def _expanded(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        if self._paths is not None:
            return self._when_thin(query, limit, scope)
        match self._release.expansion:
            case Expansion.WITHOUT_PROVIDER_ALWAYS:
                return self._instead(query, limit, scope)
            case Expansion.WITHOUT_PROVIDER if scope.model is not None:
                return self._once(query, limit, scope), []
            case _:
                return self._when_empty(query, limit, scope)

    def _instead(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        if scope.model is not None:
            return self._once(query, limit, scope), []
        keywords = extract_keywords(query, trigram=False) or [query]
        return best_by_score(self._once(word, limit, scope) for word in keywords), keywords

    def _when_empty(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        hits = self._once(query, limit, scope)
        if hits:
            return hits, []
        keywords = extract_keywords(query, trigram=self._tables.tokenizer == TRIGRAM)
        if self._release.expansion is Expansion.WITHOUT_PROVIDER:
            keywords = keywords or [query]
            return best_by_score(self._once(word, limit, scope) for word in keywords), keywords
        keywords = [word for word in keywords if word != query][:MOST_KEYWORDS]
        found = [self._once(word, limit, scope) for word in keywords]
        return _by_text_score(found), keywords

    def _once(self, query: str, limit: int, scope: SearchScope) -> list[KeywordHit]:
        return self._softly(lambda: self._body.search(query, limit, scope, mapping=self._mapping))

    def _softly(self, search: Callable[[], list[KeywordHit]]) -> list[KeywordHit]:
        """What a search finds; nothing when SQLite refuses it, as in the program."""
        try:
            return search()
        except Exception as error:
            if not is_refusal(error):
                raise
            self._refusal = self._refusal or str(error)
            return []

    def _when_thin(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        exact = self._paths.exact(query, scope) if self._paths and limit > 0 else []
        whole = self._both(query, query, limit, scope, exact)
        if sum(1 for hit in whole if not hit.tier) >= limit:
            return whole, []
        keywords = [
            word
            for word in extract_keywords(query, trigram=self._tables.tokenizer == TRIGRAM)
            if word != query.lower()
        ][:MOST_KEYWORDS]
        if not keywords or (whole and self._same_match(query, keywords)):
            return whole, []
        found = [whole, *(self._both(word, query, limit, scope, exact) for word in keywords)]
        return limited(merged_hits(found, _tiers(query, found)), limit), keywords

    def _both(
        self, words: str, query: str, limit: int, scope: SearchScope, exact: list[KeywordHit]
    ) -> list[KeywordHit]:
        """Body and path hits of `words`, ranked by the whole query; `exact` is named by it."""
        return self._softly(lambda: self._body_and_paths(words, query, limit, scope, exact))

    def _body_and_paths(
        self, words: str, query: str, limit: int, scope: SearchScope, exact: list[KeywordHit]
    ) -> list[KeywordHit]:
        body = self._body.search(words, limit, scope, ranking_query=query, mapping=self._mapping)
        paths = self._paths.search(words, query, limit, scope, exact) if self._paths else []
        found = [body, paths]
        return limited(merged_hits(found, _tiers(query, found)), limit)

    def _same_match(self, query: str, keywords: list[str]) -> bool:
        """Whether the keywords ask for what the whole query asked."""
        asked = match_all(tokens(query, self._release.token_rule))
        again = match_all(tokens(" ".join(keywords), self._release.token_rule))
        return (asked or "").lower() == (again or "").lower()


def merge_keyword_hits(
    found: list[list[KeywordHit]], release: Release, *, has_provider: bool
) -> list[KeywordHit]:
    """One list of the whole query's hits and its keywords', as releases up to 2026.7 merge them."""
    if len(found) == 1 and found[0]:
        return found[0]
    if release.expansion is Expansion.WHEN_EMPTY:
        return _by_text_score(found)
    return best_by_score(found) if not has_provider else [hit for hits in found for hit in hits]


def _tiers(query: str, found: list[list[KeywordHit]]) -> dict[str, int]:
    paths = dict.fromkeys(hit.path for hits in found for hit in hits)
    return {path: exact_path_tier(query, path) for path in paths}


def _by_text_score(found: list[list[KeywordHit]]) -> list[KeywordHit]:
    """Each chunk once, with its best text score, then its best score (2026.6 to 2026.7)."""
    best: dict[str, KeywordHit] = {}
    for hits in found:
        for hit in hits:
            known = best.get(hit.id)
            if known is None or (hit.text_score, hit.score) > (known.text_score, known.score):
                best[hit.id] = hit
    return list(best.values())
