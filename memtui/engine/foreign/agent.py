"""An agent's index: its release and configuration, its database, and a search of both legs."""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from time import perf_counter
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from memtui.engine.foreign.query_vectors import GivenVectors, NoVector, QueryVector, QueryVectors
from memtui.engine.ports import Legs, Partial, SearchRequest
from memtui.errors import Cancelled, IsCancelled, never, stop_if
from memtui.index.database import DatabaseError, Interrupted, fault
from memtui.index.foreign import rows
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.opening import ForeignDatabase, Opened
from memtui.memory.documents import day_of_path
from memtui.model import (
    CONVERSATIONS,
    NOTES,
    CandidatePool,
    Leg,
    LegState,
    LegStatus,
    Numbers,
    Ranking,
    Reason,
    SearchMode,
)
from memtui.model.status import Identity, IndexGeneration
from memtui.ranking.pipeline import for_mode
from memtui.ranking.profiles import PROFILES
from memtui.retrieval.keyword import newest_first
from memtui.retrieval.marks import match_spans
from memtui.retrieval.openclaw import candidates, tables
from memtui.retrieval.openclaw.keyword_leg import OpenClawKeywordLeg, chunk_row
from memtui.retrieval.pool import NOTHING_ASKED
from memtui.retrieval.query import NO_FILTERS, Filters, parse_query
from memtui.settings.openclaw import releases
from memtui.settings.openclaw.read import read_remote
from memtui.settings.openclaw.schema import DEFAULT_AGENT, MemorySearchConfig, OpenClawConfig
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line
from memtui.text.tokens import MAX_QUERY_CHARS

_PATHS_SINCE: Final = 3
"""The chunking version of 2026.8.1, which searches as 2026.9 does."""


def choose_profile(
    layout: tables.Layout,
    identity: Identity,
    app_version: str | None,
    config: OpenClawConfig | None,
) -> tuple[str, str]:
    """Choose the profile of the release that made an index, and say why in a phrase.

    The tables bound the choice; within it the version that the database or the configuration
    names decides, else what the index records about itself.
    """
    for version, where in (
        (app_version, "the database was written by"),
        (config.version if config else None, "the configuration was written by"),
    ):
        release = releases.release_of_version(version) if version else None
        if release is not None and layout.generation in release.generations:
            return releases.PREFIX + release.name, f"{where} {version}"
    if layout.generation is IndexGeneration.AGENT_BLOB:
        return "openclaw-2026.9", "vectors are stored as blobs"
    if layout.generation is IndexGeneration.AGENT:
        if (identity.chunking_version or 0) >= _PATHS_SINCE or layout.paths_fts is not None:
            return "openclaw-2026.9", "the index has a chunking version of 2026.8 or later"
        return "openclaw-2026.7", "the index is inside the agent's database, as text"
    if identity.fts_tokenizer is not None or identity.scope_hash is not None:
        return "openclaw-2026.4", "a separate index file, format 2026.3 to 2026.5"
    return "openclaw-2026.2", "a separate index file, format up to 2026.2"


class AgentFacts(Struct, frozen=True):
    """An index, its release, and how its agent searches it."""

    target: ForeignTarget
    profile: str
    because: str
    """The reason why it is that profile, as a phrase."""
    identity: Identity
    search: MemorySearchConfig | None
    """The configuration as the release acts on it."""
    mode: SearchMode
    """The legs that the agent searches with."""
    scope: tables.SearchScope

    @property
    def ranking(self) -> Ranking:
        """The ranking of the release with what the agent's configuration sets."""
        values = asdict(self.search) if self.search is not None else {}
        return releases.with_fields(PROFILES[self.profile], values)


def read_facts(opened: Opened, target: ForeignTarget, named: str | None) -> AgentFacts:
    """Find out about an open index; a `named` profile replaces the one that is chosen.

    Raises `SettingsError` for a profile that is no release of the agent's program.
    """
    layout, identity = opened.layout, rows.identity(opened)
    _, app_version = rows.versions(opened)
    name, because = choose_profile(layout, identity, app_version, target.config)
    if named is not None:
        name, because = named, "chosen by --profile"
    releases.release_named(name)
    search = releases.effective(target.search.search, name) if target.search is not None else None
    provider = search.provider if search is not None else identity.provider
    if identity.model == releases.KEYWORD_ONLY_MODEL or provider == releases.NO_PROVIDER:
        mode = SearchMode.KEYWORD_ONLY
    elif layout.fts is None or (search is not None and not search.hybrid_enabled):
        mode = SearchMode.VECTOR_ONLY
    else:
        mode = SearchMode.HYBRID
    sources = identity.sources or (search.sources if search is not None else None)
    scope = tables.SearchScope(None if mode is SearchMode.KEYWORD_ONLY else identity.model, sources)
    return AgentFacts(target, name, because, identity, search, mode, scope)


class AgentLegs(Legs):
    """Runs one release's legs over one index; belongs to the engine thread."""

    def __init__(
        self,
        database: ForeignDatabase,
        facts: AgentFacts,
        from_file: GivenVectors | None,
        env: Mapping[str, str],
    ) -> None:
        """`from_file` are vectors of queries from a file; `env` has the keys of providers."""
        self.database = database
        self.facts = facts
        self.release = releases.release_named(facts.profile)
        target = facts.target
        config, agent = target.config or OpenClawConfig(), target.agent or DEFAULT_AGENT
        self.query_vectors = QueryVectors(
            facts.identity,
            # No provider is asked without a configuration: defaults are nobody's choice.
            facts.search if target.expected is not None else None,
            from_file=from_file,
            env=env,
            read_cache=lambda digest: database.read(
                lambda opened: rows.cached_vector(opened, facts.identity, digest)
            ),
            read_access=lambda provider: read_remote(config, agent, env, provider),
            allow_insecure=target.allow_insecure,
        )
        self.vectors = StoredVectors()
        self.backend = "not loaded"
        """The way vectors were compared last, in words."""
        self.answered = threading.Event()
        """Set by the first search."""

    def retrieve(
        self, request: SearchRequest, cancelled: IsCancelled, partial: Partial | None
    ) -> CandidatePool:
        query, scope = parse_query(request.text, verbatim=request.verbatim), self.facts.scope
        ranked = replace(request, ranking=for_mode(request.ranking, self.facts.mode))
        try:
            return self.search(ranked, query.rest, scope, query.filters, cancelled, partial)
        finally:
            self.answered.set()

    def interrupt(self) -> None:
        self.database.interrupt()

    def search(
        self,
        request: SearchRequest,
        text: str,
        scope: tables.SearchScope,
        filters: Filters = NO_FILTERS,
        cancelled: IsCancelled = never,
        partial: Partial | None = None,
    ) -> CandidatePool:
        """Ask the legs that the ranking of a request searches with.

        `text` is the query without its `filters`. `partial` gets the keyword leg's hits while the
        vector is waited for.
        """
        started = perf_counter()
        mode = request.ranking.search_mode

        def pool(vector: QueryVector | NoVector | None) -> CandidatePool:
            def read(opened: Opened) -> CandidatePool:
                return self._pool(opened, request, text, scope, filters, vector)

            return replace(self.database.read(read), elapsed_ms=_ms_since(started))

        try:
            if partial is not None and not request.typing and mode is SearchMode.HYBRID:
                partial(pool(None))
            vector = None
            if mode is not SearchMode.KEYWORD_ONLY and trim(text):
                # Outside of any reading: it may take a while, or read the index itself.
                vector = self.query_vectors.find(text, typing=request.typing, cancelled=cancelled)
            stop_if(cancelled)
            return pool(vector)
        except Interrupted as error:
            raise Cancelled from error

    def file_time(self, source: str, path: str) -> int:
        """Return the time of a file of the workspace; sessions do not lie there."""
        workspace = self.facts.target.workspace
        try:
            return (workspace / path).stat().st_mtime_ns if workspace is not None else 0
        except (OSError, ValueError):
            # A path that cannot be looked at has no time, to the release as well.
            return 0

    def _pool(
        self,
        opened: Opened,
        request: SearchRequest,
        text: str,
        scope: tables.SearchScope,
        filters: Filters,
        vector: QueryVector | NoVector | None,
    ) -> CandidatePool:
        ranking, layout = request.ranking, opened.layout
        mode = ranking.search_mode
        # Without a provider no release filters by its model, and each searches keywords.
        falls_back = isinstance(vector, NoVector) and vector.reason is not Reason.ZERO_QUERY_VECTOR
        if falls_back and mode is SearchMode.HYBRID:
            scope = replace(scope, model=None)
        scope = filtered_scope(opened, scope, filters)
        if filters != NO_FILTERS and not trim(text):
            # Nothing is left for the release: what the filters let through is listed.
            mode, cosines = SearchMode.FILTERS_ONLY, tuple[tuple[str, float], ...]()
            passing, limit = newest_hits(opened, scope), ranking.candidates
            keyword, keyword_state = passing[:limit], newest_first(len(passing), limit)
            vector_state = NOTHING_ASKED
        else:
            keyword, keyword_state = self._search_keywords(opened, text, ranking, scope)
            cosines, vector_state = self._search_vectors(opened, vector, ranking, scope)
        if (
            vector is not None
            and mode is SearchMode.HYBRID
            and keyword_state.status is not LegStatus.FAILED
            and vector_state.reason
            not in {Reason.OK, Reason.ZERO_QUERY_VECTOR, Reason.INDEX_FAILED}
        ):
            mode = SearchMode.KEYWORD_ONLY
        ids = dict.fromkeys([*(hit.id for hit in keyword), *(chunk_id for chunk_id, _ in cosines)])
        chunks = candidates.read_chunks(opened.connection, layout, ids)

        def file_time(source: str, path: str) -> int:
            if source == CONVERSATIONS and self.release.has_paths:
                # From 2026.8 on, a session has the time at which it was indexed.
                return rows.time_of(opened, path, source)
            return self.file_time(source, path)

        made = candidates.make_pool(
            text,
            candidates.with_file_times(chunks, ranking.decay.dates, file_time),
            keyword=keyword,
            vector=cosines,
            states={Leg.KEYWORD: keyword_state, Leg.VECTOR: vector_state},
            limit=ranking.candidates,
            search_mode=mode,
            names_files=self.release.has_paths,
            tokenizer=layout.tokenizer,
        )
        return replace(made, query=request.text, typing=request.typing)

    def _search_keywords(
        self, opened: Opened, text: str, ranking: Ranking, scope: tables.SearchScope
    ) -> tuple[tuple[tables.KeywordHit, ...], LegState]:
        started, layout = perf_counter(), opened.layout
        if ranking.search_mode is SearchMode.VECTOR_ONLY:
            return (), LegState(LegStatus.SKIPPED, Reason.DISABLED, "hybrid search is off")
        if layout.fts is None:
            return (), LegState(*_FAILED, "the index has no full-text table")
        limit, mapping = ranking.candidates, ranking.keyword_mapping
        leg = OpenClawKeywordLeg(opened.connection, layout, self.release, scope, limit, mapping)
        try:
            answer = leg.search(text)
        except DatabaseError as error:
            return (), _failed_leg(error, started)
        status, reason, refusal = LegStatus.OK, Reason.OK, safe_line(answer.refusal)
        notes = [f"a part was refused: {refusal}"] if refusal else []
        if answer.shortened:
            most = f"only the first {MAX_QUERY_CHARS} characters of the query are searched"
            notes.insert(0, most)
        if refusal and not answer.hits:
            (status, reason), notes = _FAILED, [refusal]
        elif answer.plan.is_empty and not answer.keywords:
            notes = ["no letter or digit in the query"]
            status, reason = LegStatus.SKIPPED, Reason.NO_TERMS
        facts: Numbers = {
            "match": answer.plan.match or "",
            "substrings": " ".join(answer.plan.substrings),
            "keywords": " ".join(answer.keywords),
            "tokenizer": layout.tokenizer,
        }
        return answer.hits, LegState(status, reason, "; ".join(notes), _ms_since(started), facts)

    def _search_vectors(
        self,
        opened: Opened,
        vector: QueryVector | NoVector | None,
        ranking: Ranking,
        scope: tables.SearchScope,
    ) -> tuple[tuple[tuple[str, float], ...], LegState]:
        """Search by the vector of the query; `None` while it is waited for."""
        if ranking.search_mode is SearchMode.KEYWORD_ONLY:
            detail = "the agent has no embedding provider"
            return (), LegState(LegStatus.SKIPPED, Reason.DISABLED, detail)
        if vector is None:
            return (), LegState(LegStatus.PENDING, Reason.PENDING)
        if isinstance(vector, NoVector):
            status = {
                Reason.PENDING: LegStatus.PENDING,
                Reason.ZERO_QUERY_VECTOR: LegStatus.SKIPPED,
            }.get(vector.reason, LegStatus.FAILED)
            return (), LegState(status, vector.reason, vector.detail)
        size, dims = vector.values.size, opened.layout.vec_dims
        if dims is not None and size != dims:
            # The metadata, which the vector fits, need not tell the size of the table.
            why = f"{size} numbers from {vector.detail}, the vector table has {dims}"
            detail = f"the query vector does not fit: {why}"
            return (), LegState(LegStatus.FAILED, Reason.DIMENSIONS_DIFFER, detail)
        started = perf_counter()
        try:
            answer = candidates.nearest_chunks(
                opened.connection,
                opened.layout,
                self.release,
                vector.values,
                ranking.candidates,
                scope,
                self.vectors.visible(opened, scope),
                vec_readable=opened.vec_readable,
            )
        except DatabaseError as error:
            return (), _failed_leg(error, started)
        self.backend = answer.backend
        facts: Numbers = {
            "backend": answer.backend,
            "model": scope.model or "",
            "searched" if answer.backend == candidates.SCAN else "nearest": answer.searched,
            "query_vector": vector.origin,
            "query_vector_from": vector.detail,
        }
        return answer.hits, LegState(LegStatus.OK, elapsed_ms=_ms_since(started), facts=facts)


_FAILED: Final = LegStatus.FAILED, Reason.INDEX_FAILED


def _failed_leg(error: DatabaseError, started: float) -> LegState:
    """Return the state of a leg that fails softly, as in the program.

    `started` is of `perf_counter`. Raises the error when it is not about the query.
    """
    if isinstance(error, Interrupted) or fault(error) is not None:
        raise error
    return LegState(*_FAILED, safe_line(str(error)), _ms_since(started))


def _ms_since(started: float) -> float:
    return (perf_counter() - started) * 1000


class StoredVectors:
    """The vectors of an index in memory, until it changes."""

    def __init__(self) -> None:
        self._loaded: tuple[Hashable, Sequence[rows.VectorBatch]] | None = None

    def are_loaded(self, opened: Opened) -> bool:
        """Return whether the vectors are in memory as they are in the index now."""
        return self._loaded is not None and self._loaded[0] == _stamp(opened)

    def batches(self, opened: Opened) -> Sequence[rows.VectorBatch]:
        """Return the vectors as they are in the index now.

        The vec0 table's own numbers (float32) come before those of the chunk table, which are
        exact but take long to parse: the program compares in single precision too.
        """
        stamp = _stamp(opened)
        if self._loaded is None or self._loaded[0] != stamp:
            # The old ones go before the new ones are read, which may be interrupted.
            self._loaded = None
            indexed = rows.read_indexed(opened)
            is_filled = indexed is not None and len(indexed.rowids) > 0
            batches = [indexed] if indexed and is_filled else list(rows.read_vectors(opened))
            self._loaded = stamp, batches
        return self._loaded[1]

    def visible(self, opened: Opened, scope: tables.SearchScope) -> candidates.VectorBatches:
        """Yield the vectors that a scope may see; nothing is read before they are used."""
        where, values = scope.visible("source", opened.layout)
        sql = f"SELECT rowid, id FROM {opened.layout.chunks} WHERE model = ?{where}"
        visible = dict(opened.select(sql, scope.model or "", *values))
        for batch in self.batches(opened):
            places = [n for n, rowid in enumerate(batch.rowids.tolist()) if rowid in visible]
            ids = [str(visible[int(batch.rowids[place])]) for place in places]
            yield ids, batch.vectors[places]


def _stamp(opened: Opened) -> Hashable:
    # The files alone miss a commit within one tick of the clock that keeps their sizes.
    return opened.fingerprint, rows.revision(opened)


def filtered_scope(
    opened: Opened, scope: tables.SearchScope, filters: Filters
) -> tables.SearchScope:
    """Return a scope with the files of some filters; itself without any.

    Every file counts that a row of a text or path names: up to 2026.5 a full-text row whose chunk
    is gone still is a hit. Raises what SQLite raises.
    """
    if filters == NO_FILTERS:
        return scope
    layout, keys = opened.layout, set()
    tagged, excluded = set[str](), set[str]()
    times = {(row.path, row.source): row.mtime_ns for row in rows.files(opened)}
    source = tables.readable("source") if layout.legs_see_source else "NULL"
    key = tables.file_key("source", has_source=layout.legs_see_source)
    for table in filter(None, (layout.chunks, layout.fts, layout.paths_fts)):
        sql = f"SELECT DISTINCT {key}, {tables.readable('path')}, {source} FROM {table}"
        for name, stored_path, stored_source in opened.select(sql):
            path, origin = tables.text_of(stored_path) or "", tables.text_of(stored_source) or NOTES
            if fits_file(filters, path, origin, times.get((path, origin), 0)):
                keys.add(str(name))
        if not (filters.tags or filters.excluded) or table == layout.paths_fts:
            continue
        sql = f"SELECT {key}, {tables.readable('id')}, {tables.readable('text')} FROM {table}"
        if table == layout.fts:
            # Elsewhere its text is that of the chunk, behind the path.
            sql += f" WHERE id NOT IN (SELECT id FROM {layout.chunks})"
        for name, stored_id, stored_text in opened.select(sql):
            text = tables.text_of(stored_text) or ""
            if filters.tags and filters.fits_tags(text):
                tagged.add(str(name))
            if filters.excluded and match_spans(text, filters.excluded):
                excluded.add(tables.text_of(stored_id) or "")
    files = json.dumps(sorted(keys & tagged if filters.tags else keys))
    return replace(scope, files=files, excluded=json.dumps(sorted(excluded)) if excluded else None)


def newest_hits(opened: Opened, scope: tables.SearchScope) -> tuple[tables.KeywordHit, ...]:
    """Return chunks of a scope, the latest day first, then those without one by their last change.

    Raises what SQLite does.
    """
    layout = opened.layout
    where, values = scope.visible("source", layout)
    source = tables.readable("source") if layout.legs_see_source else "NULL"
    sql = tables.SQL["in_order"].format(source=source, chunks=layout.chunks, where=where)
    places = [place for row in opened.select(sql, *values) if (place := chunk_row(*row))]
    times = {(row.path, row.source): row.mtime_ns for row in rows.files(opened)}

    def age(place: tuple[str, str, str, int, str]) -> tuple[date, int]:
        _, path, origin, *_ = place
        return day_of_path(path) or date.min, times.get((path, origin), 0)

    newest = sorted(places, key=age, reverse=True)
    return tuple(tables.KeywordHit(*place, float(at), 0.0, 0.0) for at, place in enumerate(newest))


def fits_file(filters: Filters, path: str, source: str, mtime_ns: int) -> bool:
    """Return whether a file takes part: a note by the day in its name, others by their change."""
    day = day_of_path(path) if source == NOTES else None
    return filters.fits(path=path, source=source, day=day, mtime_ns=mtime_ns)
