"""Proof: recorded queries run again, and compared with the program's own answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from memtui.engine.foreign.agent import AgentFacts, AgentLegs, read_facts
from memtui.engine.foreign.query_vectors import GivenVectors, Number
from memtui.engine.ports import Progressed, SearchRequest
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.opening import ForeignDatabase, Opened
from memtui.model import (
    NOTES,
    CandidatePool,
    Chunk,
    Drop,
    Hit,
    Leg,
    LegState,
    LegStatus,
    Operation,
    Ranked,
    Ranking,
    SearchMode,
    Stage,
)
from memtui.ranking.mmr import snippet_text
from memtui.ranking.pipeline import for_mode, rank
from memtui.ranking.trace import find
from memtui.retrieval.openclaw.candidates import make_pool, read_chunks, with_file_times
from memtui.retrieval.openclaw.keyword_leg import merge_keyword_hits
from memtui.retrieval.openclaw.tables import SQL, KeywordHit, Layout, SearchScope
from memtui.settings.files import read_json
from memtui.settings.openclaw.releases import with_fields
from memtui.settings.openclaw.schema import DEFAULT_WEIGHTS, KEYS, normalised_weights

T = TypeVar("T")

Name: TypeAlias = Annotated[str, Meta(pattern="^[^\ud800-\udfff]*$")]
"""A text that a database can be asked for: without halves of surrogate pairs."""
_FORM: Final = 'it must hold {"query": …, "results": […]}, a list of these, or {"queries": a list}'


class RecordedHit(Struct, frozen=True, array_like=True):
    """A hit of a recorded leg: the first 16 digits of the chunk id, and its scores."""

    chunk: str
    score: Number
    vector_score: Number | None
    text_score: Number | None


class RecordedLeg(Struct, frozen=True):
    """One search of one leg as the program ran it: `searchKeyword` or `searchVector`."""

    leg: str
    hits: tuple[RecordedHit, ...]


class RecordedResult(Struct, frozen=True, rename="camel"):
    """A result as the program's `--json` prints it."""

    path: str
    start_line: int
    end_line: int
    score: Number
    vector_score: Number | None = None
    text_score: Number | None = None
    snippet: str | None = None


class RecordedOptions(Struct, frozen=True, rename="camel"):
    """The options of one query, taken as they are."""

    max_results: Annotated[int, Meta(ge=1)] | None = None
    min_score: Number | None = None
    sources: tuple[Name, ...] | None = None
    """The sources that were asked for; empty: those of the settings."""
    active_project_keys: tuple[Name, ...] | None = None


class RecordedQuery(Struct, frozen=True):
    query: str
    results: tuple[RecordedResult, ...]
    opts: RecordedOptions | None = None
    legs: tuple[RecordedLeg, ...] | None = None
    """`None` when legs were not recorded."""


class RecordedSettings(Struct, frozen=True):
    """The settings of a recording; `None`: not written there, so the index's own hold."""

    query: dict[str, Any] | None = None
    provider: Name | None = None
    model: Name | None = None
    fts: dict[str, Literal["unicode61", "trigram"] | None] | None = None
    sources: tuple[Name, ...] | None = None
    project_keys: tuple[Name, ...] | None = msgspec.field(name="activeProjectKeys", default=None)

    @property
    def search(self) -> dict[str, Any]:
        """Return what `query` sets, by field, clamped as the program clamps what is configured.

        Raises `ValueError` that names the key.
        """
        settings = {}
        for key in KEYS:
            value: Any = {"query": self.query}
            for step in key.name.split("."):
                value = value.get(step) if isinstance(value, dict) else value
            if value is not None and key.name.startswith("query."):
                try:
                    settings[key.field] = key.read(value)
                except ValueError as error:
                    raise ValueError(f"settings, {key.name.replace('.', ', ')}: {error}") from None
        if settings.keys() & {"vector_weight", "text_weight"}:
            # The one that is not written has its default, and both are divided by their sum.
            names = ("vector_weight", "text_weight")
            weights = map(settings.get, names, DEFAULT_WEIGHTS)
            settings |= zip(names, normalised_weights(*weights), strict=True)
        return settings


class Recording(Struct, frozen=True):
    """A file of answers."""

    queries: Annotated[tuple[RecordedQuery, ...], Meta(min_length=1)]
    settings: RecordedSettings | None = None
    now: Number | None = None
    """The program's clock in ms since 1970; `None`: not written."""

    @property
    def moment(self) -> datetime | None:
        """The program's clock; raises `ValueError` for a time outside the calendar."""
        try:
            return None if self.now is None else datetime.fromtimestamp(self.now / 1000, UTC)
        except (OverflowError, OSError, ValueError):
            text = "now must be milliseconds since 1970, within the calendar"
            raise ValueError(text) from None


def load_recording(path: Path) -> Recording:
    """Read a recording, plain or gzipped JSON.

    Either an object with `queries` (and perhaps `now` in milliseconds and `settings`), or a list
    of objects with `query` and `results`. Raises `SettingsError` that names the query, by its
    number from 1, and the key that cannot be used.
    """

    def parse(content: Any) -> Recording:
        if isinstance(content, dict) and "queries" not in content and "query" in content:
            content = [content]
        if isinstance(content, list):
            content = {"queries": content}
        if not isinstance(content, dict):
            raise ValueError("it is neither an object nor a list")
        if content.get("queries") == []:
            raise ValueError("it holds no query")
        recording = msgspec.convert(content, Recording)
        # What the types do not tell is found wrong here, and not in the middle of a run.
        _ = recording.moment, (recording.settings or RecordedSettings()).search
        return recording

    return read_json(path, "recorded answers", _FORM, parse)


def _coalesce(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


_KEYWORD, _VECTOR = "searchKeyword", "searchVector"
_SHOWN_DIGITS = 16
"""Of the chunk ids in recorded legs."""


class Verdict(Struct, frozen=True):
    """The comparison of one query."""

    query: str
    agrees: bool
    results: int
    """Number of results that the program gave."""
    score_difference: float | None
    """The largest one of a score, vector score or text score; `None`: it could not be asked."""
    from_legs: float | None = None
    """The largest difference of a score that starts from the recorded legs; `None`: not told."""
    stage: str | None = None
    """The first stage that differs; `None` when nothing does."""
    detail: str = ""


class Verification(Struct, frozen=True):
    agrees: bool
    profile: str
    chosen_because: str
    notes: tuple[str, ...]
    """Other tables than the program's own that are searched, in lines."""
    score_difference: float | None
    """The largest of all differences; `None` where no query could be asked."""
    queries: tuple[Verdict, ...]


def verify(
    target: ForeignTarget,
    recording: Recording,
    *,
    env: Mapping[str, str],
    vectors: GivenVectors | None = None,
    profile: str | None = None,
    progress: Progressed = lambda done, total: None,
) -> Verification:
    """Run a recording against an index and compare.

    Vectors of queries come from `vectors`, else as a search finds them. Raises
    `IndexMissing`, `IndexUnusable`, and `SettingsError` for a file that cannot be used.
    """
    settings = recording.settings or RecordedSettings()
    tokenizer = (settings.fts or {}).get("tokenizer")
    now = recording.moment or datetime.now(UTC)
    arrange = partial(_retokenized, tokenizer) if tokenizer is not None else None

    def read(opened: Opened) -> tuple[AgentFacts, dict[str, str], bool]:
        ids = [str(name) for (name,) in opened.select(f"SELECT id FROM {opened.layout.chunks}")]
        shown = {name[:_SHOWN_DIGITS]: name for name in ids}
        return read_facts(opened, target, profile), shown, opened.vec_readable

    verdicts = []
    with closing(ForeignDatabase(target.database, arrange=arrange)) as database:
        facts, ids, vec_readable = database.read(read)
        base, mode = with_fields(facts.ranking, settings.search), facts.mode
        project_keys = _coalesce(settings.project_keys, base.project_keys)
        is_hybrid = settings.search.get("hybrid_enabled")
        if settings.provider in {"none", ""}:
            mode = SearchMode.KEYWORD_ONLY
        elif is_hybrid is not None:
            mode = SearchMode.HYBRID if is_hybrid else SearchMode.VECTOR_ONLY
        enabled = _coalesce(settings.sources, facts.scope.sources)
        enabled = (NOTES,) if enabled == () else enabled
        legs = AgentLegs(database, facts, vectors, env)
        with closing(legs.query_vectors):
            for done, record in enumerate(recording.queries, start=1):
                options = record.opts or RecordedOptions()
                ranking = replace(
                    base,
                    k=_coalesce(options.max_results, base.k),
                    min_score=_coalesce(options.min_score, base.min_score),
                    project_keys=_coalesce(options.active_project_keys, project_keys),
                )
                sources = enabled
                if options.sources:
                    sources = tuple(s for s in options.sources if enabled is None or s in enabled)
                # For no enabled source the program does not search, and asks for no vector.
                searched = mode if sources != () else SearchMode.KEYWORD_ONLY
                ranking = for_mode(ranking, searched)
                model = settings.model or facts.identity.model
                scope = SearchScope(None if searched is SearchMode.KEYWORD_ONLY else model, sources)
                pool = legs.search(SearchRequest(record.query, ranking), record.query, scope)
                if pool.search_mode is searched:
                    recorded = database.read(partial(_recorded_pool, legs, ids, record, ranking))
                    from_legs = rank(recorded, ranking, now=now) if recorded is not None else None
                    verdicts.append(compare(record, rank(pool, ranking, now=now), from_legs))
                else:
                    detail, leg = pool.states[Leg.VECTOR].detail, str(Leg.VECTOR)
                    results = len(record.results)
                    verdicts.append(Verdict(record.query, False, results, None, None, leg, detail))
                progress(done, len(recording.queries))
    notes = []
    if tokenizer not in {None, facts.identity.fts_tokenizer or "unicode61"}:
        made = "keyword tables made anew in memory"
        notes.append(f"recorded with tokenizer {tokenizer}: {made}")
    if not vec_readable and mode is not SearchMode.KEYWORD_ONLY:
        notes.append("sqlite-vec cannot read this index: cosines are computed by memtui")
    return Verification(
        all(verdict.agrees for verdict in verdicts),
        facts.profile,
        facts.because,
        tuple(notes),
        max((d for one in verdicts if (d := one.score_difference) is not None), default=None),
        tuple(verdicts),
    )


def _retokenized(tokenizer: str, opened: Opened) -> Layout:
    """Build a keyword table of the index's chunks with `tokenizer`, in this connection's memory.

    Nothing of the file changes; the table goes with the connection. Returns the layout that
    searches it.
    """
    layout = opened.layout
    if tokenizer == layout.tokenizer:
        return layout
    option = "trigram case_sensitive 0" if tokenizer == "trigram" else tokenizer
    columns = ["text", "id", "path", "source", "model", "start_line", "end_line"]
    made = {"memtui_fts": (layout.chunks, columns)}
    if layout.paths_fts:
        made["memtui_paths_fts"] = (layout.files, ["path", "source"])
    opened.connection.execute("PRAGMA temp_store = MEMORY")
    for name, (table, (searched, *others)) in made.items():
        unindexed = ", ".join(f"{column} UNINDEXED" for column in others)
        values = ", ".join(layout.source if each == "source" else each for each in others)
        parts = {"name": name, "table": table, "searched": searched, "others": ", ".join(others)}
        sql = SQL["retokenized"].format(**parts, unindexed=unindexed, values=values, option=option)
        opened.connection.execute(sql)
    return replace(
        layout,
        fts="memtui_fts",
        paths_fts="memtui_paths_fts" if layout.paths_fts else None,
        fts_has_source=True,
        tokenizer=tokenizer,
    )


def _recorded_pool(
    legs: AgentLegs,
    chunk_ids: Mapping[str, str],
    record: RecordedQuery,
    ranking: Ranking,
    opened: Opened,
) -> CandidatePool | None:
    """Return the pool that the recorded legs make; `chunk_ids` are by their first digits.

    `None` when that cannot be told: no legs, legs of another index, or a release that does
    not record its whole-query leg (2026.9).
    """
    release = legs.release
    if record.legs is None or release.has_paths:
        return None
    keyword, vector = list[list[KeywordHit]](), list[tuple[str, float]]()
    try:
        names = {hit.chunk for leg in record.legs for hit in leg.hits}
        ids = [chunk_ids[name] for name in names]
        chunks = read_chunks(opened.connection, opened.layout, ids)
        for leg in record.legs:
            hits = [(chunks[chunk_ids[hit.chunk]], hit) for hit in leg.hits]
            if leg.leg == _VECTOR:
                vector += [(c.id, _coalesce(hit.vector_score, hit.score)) for c, hit in hits]
            elif leg.leg == _KEYWORD:
                keyword.append([])
                for c, hit in hits:
                    place, score = (c.id, c.path, c.source, c.start_line), hit.score
                    text_score = _coalesce(hit.text_score, score)
                    keyword[-1].append(KeywordHit(*place, c.text, None, text_score, score))
    except KeyError:
        return None
    has_provider = ranking.search_mode is SearchMode.HYBRID
    return make_pool(
        record.query,
        with_file_times(chunks, ranking.decay.dates, legs.file_time),
        keyword=merge_keyword_hits(keyword, release, has_provider=has_provider),
        vector=vector,
        states=dict.fromkeys(Leg, LegState(LegStatus.OK)),
        limit=ranking.candidates,
        search_mode=ranking.search_mode,
        names_files=False,
        tokenizer=opened.layout.tokenizer,
    )


END_TO_END = 1e-6
"""Most distance between scores: the program's cosine is single precision."""
FROM_LEGS = 1e-12
"""Most distance between scores that start from the program's own hits."""

Place: TypeAlias = tuple[str, int, int]
"""The key of a chunk in the program's answers, which hold no ids."""
Pairs: TypeAlias = dict[int, int]
"""Positions of the program's results to those of memtui's hits, both from 0."""


def compare(record: RecordedQuery, ranked: Ranked, legs: Ranked | None) -> Verdict:
    """Compare one query; `legs` is what the recorded legs rank to, where that can be told."""
    pairs, results = _paired(record, ranked), record.results
    difference = _largest(
        apart
        for theirs, ours in pairs.items()
        for _, apart, _ in _differences(ranked.hits[ours], results[theirs])
    )
    from_legs = None
    if legs is not None:
        # Infinite when the lists are not the same.
        from_legs = math.inf
        if [_place(hit.chunk) for hit in legs.hits] == [_place(result) for result in results]:
            both = zip(legs.hits, results, strict=True)
            from_legs = _largest(abs(hit.score - result.score) for hit, result in both)
    stage, detail = next(_parting(record, ranked, pairs), (None, ""))
    if stage is None and from_legs is not None and not from_legs <= FROM_LEGS:
        stage = "recorded scores"
        detail = f"ranked from them, a score differs by {from_legs:.3g}"
    return Verdict(record.query, stage is None, len(results), difference, from_legs, stage, detail)


def _paired(record: RecordedQuery, ranked: Ranked) -> Pairs:
    """Pair by place; chunks that share one by their order, and where some lack, by rank first."""
    results, hits = [_place(one) for one in record.results], [_place(h.chunk) for h in ranked.hits]
    pairs: Pairs = {}
    for place in set(results):
        theirs = [position for position, other in enumerate(results) if other == place]
        ours = [position for position, other in enumerate(hits) if other == place]
        same = set(ours) & set(theirs) if len(ours) != len(theirs) else set()
        pairs |= {position: position for position in same}
        left = ([n for n in theirs if n not in same], [n for n in ours if n not in same])
        pairs |= dict(zip(*left, strict=False))
    return pairs


def _parting(record: RecordedQuery, ranked: Ranked, pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Yield the stages at which memtui and the program part, the first one first, and how."""
    recorded = [hit for leg in record.legs or () if leg.leg == _VECTOR for hit in leg.hits]
    has_vectors = any(leg.leg == _VECTOR for leg in record.legs or ())
    if has_vectors and ranked.pool.states[Leg.VECTOR].status is LegStatus.OK:
        hits = ranked.pool.hits[Leg.VECTOR]
        if len(recorded) != len(hits):
            yield str(Leg.VECTOR), f"{len(hits)} hits, the program had {len(recorded)}"
        for own, theirs in zip(hits, recorded, strict=False):
            if not abs(own.raw - theirs.score) <= END_TO_END:
                detail = f"hit {own.position + 1} ({theirs.chunk}): {own.raw!r}"
                yield str(Leg.VECTOR), f"{detail}, the program had {theirs.score!r}"
    for position, result in enumerate(record.results):
        if position in pairs:
            for stage, apart, detail in _differences(ranked.hits[pairs[position]], result):
                if not apart <= END_TO_END:
                    yield stage, f"{_shown(result)}: {detail}"
    shown = {hit.chunk.id for hit in ranked.hits}
    for position, result in enumerate(record.results):
        if position in pairs:
            continue
        lost = [
            chunk_id
            for chunk_id, chunk in ranked.pool.chunks.items()
            if chunk_id not in shown and _place(chunk) == _place(result)
        ]
        if not lost:
            yield "candidates", f"{_shown(result)} is among the candidates of neither match"
            continue
        drop = find(ranked, lost[0])
        stage = str(drop.stage if isinstance(drop, Drop) else Stage.CUT)
        yield stage, f"{_shown(result)} was lost here; the program shows it"
    for position, hit in enumerate(ranked.hits):
        if position not in pairs.values():
            stage = Stage.MIN_SCORE if ranked.ranking.min_score is not None else Stage.CUT
            yield str(stage), f"{hit.chunk.citation} is shown; the program does not show it"
    both = list(zip(ranked.hits, record.results, strict=False))
    for number, (hit, result) in enumerate(both, start=1):
        if _place(hit.chunk) != _place(result):
            mmr = ranked.ranking.mmr.enabled and Stage.MMR in ranked.ranking.stages
            detail = f"{hit.chunk.path}:{hit.chunk.start_line}, the program has {_shown(result)}"
            yield str(Stage.MMR if mmr else Stage.FUSION), f"rank {number}: {detail}"
    for hit, result in both:
        if result.snippet is not None and snippet_text(hit.chunk) != result.snippet:
            yield "snippet", f"{_shown(result)}: the text is another"


def _differences(hit: Hit, result: RecordedResult) -> Iterator[tuple[str, float, str]]:
    """Yield the stage, the difference and the words of each score that both have.

    The cosine, the text score before any boost (0 where a leg did not find the chunk), and the
    last score that a stage made: where a difference came in, if the parts agree.
    """
    vector, keyword = hit.legs.get(Leg.VECTOR), hit.legs.get(Leg.KEYWORD)
    text_score = 0.0
    if keyword is not None:
        text_score = keyword.mapped if keyword.text_score is None else keyword.text_score
    scoring = {Operation.SUM, Operation.MULTIPLY, Operation.REPLACE}
    stages = [
        stage.stage
        for stage in hit.stages
        if stage.operation in scoring and (stage.operation is Operation.SUM or stage.operand)
    ]
    scores = (
        (Leg.VECTOR, vector.raw if vector is not None else 0.0, result.vector_score),
        (Leg.KEYWORD, text_score, result.text_score),
        (stages[-1] if stages else Stage.FUSION, hit.score, result.score),
    )
    for stage, ours, theirs in scores:
        if theirs is not None:
            yield str(stage), abs(ours - theirs), f"{ours!r}, the program had {theirs!r}"


def _largest(differences: Iterable[float]) -> float:
    """Return the largest of some differences; infinity when one is none, as NaN is."""
    return max((math.inf if math.isnan(d) else d for d in differences), default=0.0)


def _place(one: Chunk | RecordedResult) -> Place:
    return one.path, one.start_line, one.end_line


def _shown(result: RecordedResult) -> str:
    return f"{result.path}:{result.start_line}"
