"""`memtui explain`: one chunk of a search, from its raw scores to what would change its rank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memtui.cli import words
from memtui.cli.documents import drop_entry, file_states, hit_entry, legs_entry, ranking_entry
from memtui.cli.invocation import Invocation
from memtui.cli.least import change_lines, changes_of, deeper_lines, least_entry
from memtui.cli.output import Output
from memtui.cli.results import excerpt_of
from memtui.cli.search import EXIT_NOTHING, EXIT_OK, search
from memtui.cli.session import Session, open_reading
from memtui.cli.terms import place_lines, term_lines
from memtui.cli.waterfall import print_searched, print_waterfall
from memtui.errors import QueryError
from memtui.model import Hit, Leg, Ranked, Ranking, citation
from memtui.model.terms import KeywordExplanation, LegPlace
from memtui.ranking.trace import Explanation, explain

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges

_PLACE = re.compile(r"(?P<path>.+?)(?:#L|:)(?P<line>\d{1,9})(?:-L?\d{1,9})?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chunk that is asked for; without an id, `missing` says why there is none."""

    chunk_id: str | None
    place: str = ""
    missing: str = ""
    """Also why a chunk of the index is not in the pool."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A chunk opened up; `told` is `None` for one that is not in the pool."""

    chosen: Chosen
    told: Explanation | None
    terms: KeywordExplanation | None
    places: Mapping[Leg, LegPlace]
    least: LeastChanges

    @property
    def shown(self) -> bool:
        """Whether it is in the list."""
        return self.told is not None and self.told.rank is not None


def run_explain(invocation: Invocation, query: str, options: Mapping[str, Any]) -> int:
    """Print the arithmetic of one chunk; 1 when there is no such result or place."""
    with open_reading(invocation, options["now"]) as session:
        ranked, warnings = search(session, query)
        output = invocation.output(raw=options["raw"])
        chosen = _chosen(session, ranked, options)
        opened = None
        if chosen.chunk_id is not None:
            opened = _opened(session, ranked, chosen, chosen.chunk_id, output)
        if invocation.json:
            document = _document(session.ranking(), ranked, chosen, opened, warnings)
            if opened is not None and opened.told is not None:
                document["hit"] = _hit(session, opened.told)
            output.document(document)
        else:
            for warning in warnings:
                output.note(f"memtui: {warning}")
            if session.is_foreign:
                print_searched(output, ranked)
            if opened is None:
                output.note(f"memtui: {chosen.missing}")
            else:
                _print(output, session.ranking(), ranked, opened)
    return EXIT_OK if chosen.chunk_id is not None else EXIT_NOTHING


def _opened(
    session: Session, ranked: Ranked, chosen: Chosen, chunk_id: str, output: Output
) -> Opened:
    terms = session.engine.keyword_terms(ranked, chunk_id)
    places = session.engine.leg_places(ranked, chunk_id)
    told = explain(ranked, chunk_id) if chunk_id in ranked.pool.chunks else None
    least = changes_of(session, ranked, chunk_id, places, output)
    return Opened(chosen, told, terms, places, least)


def _chosen(session: Session, ranked: Ranked, options: Mapping[str, Any]) -> Chosen:
    if options["chunk"] is not None:
        return _chunk_at(session, ranked, options["chunk"])
    rank = options["rank"] or 1
    if rank <= len(ranked.hits):
        return Chosen(ranked.hits[rank - 1].chunk.id)
    found = words.count(len(ranked.hits), "result")
    return Chosen(None, missing=f"there is no rank {rank}: the search has {found}")


def _chunk_at(session: Session, ranked: Ranked, place: str) -> Chosen:
    found = _PLACE.fullmatch(place)
    if found is None:
        raise QueryError(f"--chunk {place!r} is not a place", hint="memory/2026-02-10.md#L12")
    line = int(found["line"])
    at_line = [
        chunk
        for chunk in session.engine.chunk_ranges(found["path"])
        if chunk.start_line <= line <= chunk.end_line
    ]
    if not at_line:
        return Chosen(None, missing=f"the index holds no chunk at {place}")
    in_pool = [chunk for chunk in at_line if chunk.chunk_id in ranked.pool.chunks]
    chunk = (in_pool or at_line)[0]
    cited = citation(found["path"], chunk.start_line, chunk.end_line)
    missing = "" if in_pool else f"no leg found {place} among its first {ranked.pool.limit}"
    return Chosen(chunk.chunk_id, cited, missing)


def _print(output: Output, ranking: Ranking, ranked: Ranked, opened: Opened) -> None:
    if opened.told is None:
        output.line(output.styled(output.clean(opened.chosen.place), 1))
        output.line(output.clean(f"  NOT SHOWN: {opened.chosen.missing}"))
    else:
        print_waterfall(output, ranked, opened.told.scored.chunk.id)
    for line in _lines(ranking, ranked, opened):
        output.line(output.clean(line))


def _lines(ranking: Ranking, ranked: Ranked, opened: Opened) -> Iterator[str]:
    yield from term_lines(ranked, opened.least.found.chunk_id, opened.terms)
    yield from place_lines(ranked, opened.places)
    if opened.shown:
        return
    if opened.told is None:
        yield from deeper_lines(opened.least.needs, opened.places)
    yield from change_lines(opened.least.found, ranking)


def _hit(session: Session, told: Explanation) -> dict[str, Any] | None:
    if not isinstance(told.scored, Hit):
        return None
    states = file_states(session.engine.status())
    return hit_entry(told.scored, excerpt_of(told.scored, 300).text, states)


def _document(
    ranking: Ranking,
    ranked: Ranked,
    chosen: Chosen,
    opened: Opened | None,
    warnings: list[str],
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "legs": legs_entry(ranked),
        "shown": opened is not None and opened.shown,
        "hit": None,
        "drop": None,
        "warnings": warnings,
    }
    if chosen.missing:
        document["missing"] = chosen.missing
    if opened is None:
        return document
    document |= {
        "terms": opened.terms,
        "leg_ranks_of_all": opened.places,
        **least_entry(opened.least, ranking),
    }
    told = opened.told
    if told is None:
        return {**document, "chunk_id": chosen.chunk_id, "citation": chosen.place}
    if not isinstance(told.scored, Hit):
        document["drop"] = drop_entry(told.scored)
    return {
        **document,
        "ranks": [{"stage": stage, "rank": rank} for stage, rank in told.ranks],
        "leg_ranks": told.leg_ranks,
        "without": told.without,
        "similar": told.similar,
    }
