"""A hit of the keyword leg while a release puts its candidates together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from memtui.model import ScoreMapping
from memtui.ranking.collation import collation_key
from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.fts_search import BodySearch, PathSearch, exact_path_tier
from memtui.retrieval.openclaw.release import Expansion, Release
from memtui.retrieval.openclaw.tables import (
    EXACT_PATH_LIMIT,
    KeywordHit,
    Layout,
    SearchScope,
    is_refusal,
)
from memtui.retrieval.openclaw.terms import (
    TRIGRAM,
    extract_keywords,
    match_all,
    searched_part,
    tokens,
    well_formed,
)
from memtui.text.ecmascript import trim


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


def merged_hits(found: Iterable[Iterable[KeywordHit]], query: str) -> list[KeywordHit]:
    """Each chunk once, with its best scores of body and path (`mergeKeywordSearchHits`, 2026.9).

    How exactly a path is named is a matter of the whole query: a keyword cannot tell.
    """
    merged: dict[str, KeywordHit] = {}
    for hits in found:
        for hit in hits:
            known = merged.get(hit.id)
            merged[hit.id] = hit if known is None else _together(known, hit)
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
    kept = frozenset(list(named)[:EXACT_PATH_LIMIT])
    others = [hit for hit in hits if not hit.tier][:limit]
    return [*(hit for hit in exact if (hit.source, hit.path) in kept), *others]


def _together(known: KeywordHit, hit: KeywordHit) -> KeywordHit:
    body = max(known.score if known.has_body else 0.0, hit.score if hit.has_body else 0.0)
    path_score = max(known.path_score, hit.path_score)
    better = hit if hit.text_score > known.text_score else known
    return replace(
        known,
        text=hit.text if hit.has_body and not known.has_body else known.text,
        rank=better.rank if better.rank is not None else known.rank,
        text_score=max(known.text_score, hit.text_score),
        path_score=path_score,
        has_body=known.has_body or hit.has_body,
        score=body if body > 0 else path_score,
    )


MOST_KEYWORDS = 6


@dataclass(frozen=True, slots=True)
class KeywordAnswer:
    """The hits of the keyword leg, best first, and the expressions it asked."""

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
        self, connection: Connection, layout: Layout, release: Release, mapping: ScoreMapping
    ) -> None:
        self._layout = layout
        self._release = release
        self._mapping = mapping
        self._refusal = ""
        self._body = BodySearch(connection, layout, release)
        self._paths: PathSearch | None = None
        if release.has_paths and layout.paths_fts is not None:
            self._paths = PathSearch(connection, layout, mapping)

    def search(self, query: str, limit: int, scope: SearchScope) -> KeywordAnswer:
        """Find the candidates of a query; `limit` is the release's candidate count.

        Raises what SQLite raises, but for a search that it refuses.
        """
        self._refusal = ""
        entire = trim(well_formed(query))
        searched = searched_part(entire)
        expand = self._when_thin if self._release.has_paths else self._expanded
        hits, keywords = expand(searched, limit, scope)
        plan = self._body.plan(searched)
        return KeywordAnswer(
            tuple(hits),
            plan.match,
            plan.substrings,
            tuple(keywords),
            self._refusal,
            shortened=searched != entire,
        )

    def _expanded(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        """Search the query, or each of its keywords, as releases up to 2026.7 do."""

        def once(words: str) -> list[KeywordHit]:
            search = partial(self._body.search, words, limit, scope, mapping=self._mapping)
            return self._softly(search)

        expansion, has_provider = self._release.expansion, scope.model is not None
        is_always = expansion is Expansion.WITHOUT_PROVIDER_ALWAYS
        if has_provider or not is_always:
            hits = once(query)
            if hits or (has_provider and expansion is not Expansion.WHEN_EMPTY):
                return hits, []
        is_trigram = self._layout.tokenizer == TRIGRAM and not is_always
        keywords = extract_keywords(query, trigram=is_trigram)
        if expansion is Expansion.WHEN_EMPTY:
            keywords = [word for word in keywords if word != query][:MOST_KEYWORDS]
        else:
            keywords = keywords or [query]
        return _each_once([once(word) for word in keywords], expansion), keywords

    def _when_thin(
        self, query: str, limit: int, scope: SearchScope
    ) -> tuple[list[KeywordHit], list[str]]:
        """Search text and paths, and keywords beside a query that finds too little (2026.9)."""
        exact = self._paths.exact(query, scope) if self._paths and limit > 0 and query else []

        def both(words: str) -> list[KeywordHit]:
            """Body and path hits of `words`, ranked by the whole query."""
            body = self._body.search(
                words, limit, scope, ranking_query=query, mapping=self._mapping
            )
            paths = self._paths.search(words, query, limit, scope, exact) if self._paths else []
            return limited(merged_hits([body, paths], query), limit)

        hits = self._softly(partial(both, query))
        if sum(1 for hit in hits if not hit.tier) >= limit:
            return hits, []
        keywords = extract_keywords(query, trigram=self._layout.tokenizer == TRIGRAM)
        keywords = [word for word in keywords if word != query.lower()][:MOST_KEYWORDS]
        asked, again = (match_all(tokens(text)) or "" for text in (query, " ".join(keywords)))
        if not keywords or (hits and asked.lower() == again.lower()):
            return hits, []
        found = [hits, *(self._softly(partial(both, word)) for word in keywords)]
        return limited(merged_hits(found, query), limit), keywords

    def _softly(self, search: Callable[[], list[KeywordHit]]) -> list[KeywordHit]:
        """Return what a search finds; nothing when SQLite refuses it, as in the program."""
        try:
            return search()
        except Exception as error:
            if not is_refusal(error):
                raise
            self._refusal = self._refusal or str(error)
            return []


def merge_keyword_hits(
    found: list[list[KeywordHit]], release: Release, *, has_provider: bool
) -> list[KeywordHit]:
    """One list of the whole query's hits and its keywords', as releases up to 2026.7 merge them."""
    if len(found) == 1 and found[0]:
        return found[0]
    if has_provider and release.expansion is not Expansion.WHEN_EMPTY:
        return [hit for hits in found for hit in hits]
    return _each_once(found, release.expansion)


def _each_once(found: list[list[KeywordHit]], expansion: Expansion) -> list[KeywordHit]:
    """Each chunk once, in the order they came: with its best score up to 2026.5, after that with
    its best text score, then its best score."""
    is_by_text = expansion is Expansion.WHEN_EMPTY
    best: dict[str, KeywordHit] = {}
    for hits in found:
        for hit in hits:
            known = best.get(hit.id)
            if (
                known is None
                or (is_by_text and (hit.text_score, hit.score) > (known.text_score, known.score))
                or (not is_by_text and hit.score > known.score)
            ):
                best[hit.id] = hit
    return list(best.values())
