"""Changes that take another search: the smallest that does it, found by searching again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from memtui.engine.what_if import MOST_CHUNKS, find_changes
from memtui.model import CandidatePool, Leg, Ranked, Ranking
from memtui.model.inquiry import LegPlace, LegRank
from memtui.ranking.counterfactual import Change, Counterfactuals, NoChangeReason, Parameter, apply
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from tests.support.pools import NOW, chunk, pool

BASE = replace(PROFILES["openclaw-2026.4"], k=6, candidate_multiplier=4, min_score=None)
IDS = [f"c{number:03}" for number in range(120)]
DEPTH = (Parameter.K, Parameter.CANDIDATE_MULTIPLIER)


@dataclass
class Sized:
    """An engine whose legs choose their candidates for the number that is asked for."""

    vector: list[tuple[str, float]]
    keyword: list[tuple[str, float]]
    asked: list[Ranking] = field(default_factory=list)

    def pool(self, ranking: Ranking) -> CandidatePool:
        count = ranking.candidates
        found = pool([chunk(i) for i in IDS], self.vector[:count], self.keyword[:count])
        held = {hit.chunk_id for hits in found.hits.values() for hit in hits}
        chunks = {i: one for i, one in found.chunks.items() if i in held}
        return replace(found, chunks=chunks, limit=count, sized=True)

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        wanted = ranking or BASE
        self.asked.append(wanted)
        return rank(self.pool(wanted), wanted, now=NOW)


def late() -> Sized:
    """c100 is the best of both legs together, but stands low in each: at 30 and at 40."""
    vector = [(i, 0.5) for i in IDS[:60]]
    keyword = [(i, -0.5) for i in IDS[60:]]
    vector.insert(30, ("c100", 0.5))
    keyword = [hit for hit in keyword if hit[0] != "c100"]
    keyword.insert(40, ("c100", -0.5))
    return Sized(vector, keyword)


def find(
    engine: Sized, chunk_id: str, places: Mapping[Leg, LegPlace] | None = None, chunks: int = 120
) -> Counterfactuals:
    ranked = engine.search("query", ranking=BASE)
    engine.asked.clear()
    return find_changes(engine.search, ranked, BASE, chunk_id, places or {}, chunks=chunks)


def by_parameter(least: Counterfactuals) -> dict[Parameter, Change]:
    return {change.parameter: change for change in least.changes}


def at(position: int) -> LegPlace:
    return LegPlace(LegRank(position, 61, 0.5))


def test_a_multiplier_is_raised_to_where_both_legs_have_the_chunk() -> None:
    engine = late()
    least = find(engine, "c100", {Leg.VECTOR: at(30), Leg.KEYWORD: at(40)})
    change = by_parameter(least)[Parameter.CANDIDATE_MULTIPLIER]
    # 31 candidates bring it in with half its score, 41 with all of it.
    assert (change.old, change.new, change.rank_after) == (4, 7, 1)
    assert by_parameter(least)[Parameter.K].new == 11
    assert not {one.reason for one in least.without} & {NoChangeReason.NEW_SEARCH}
    for found in least.changes:
        shown = engine.search("query", ranking=apply(BASE, found.parameter, found.new)).hits
        assert shown[found.rank_after - 1].chunk.id == "c100"


def test_each_number_of_candidates_is_searched_once() -> None:
    engine = late()
    least = find(engine, "c023")
    assert Parameter.CANDIDATE_MULTIPLIER not in by_parameter(least)
    asked = [one.candidates for one in engine.asked if one.k == BASE.k]
    assert len(asked) == len(set(asked)) > 10
    assert BASE.candidates not in asked
    assert len([one for one in engine.asked if one.k != BASE.k]) < 60


def test_a_smaller_multiplier_can_take_the_rivals_away() -> None:
    # Six rivals that the keyword leg lifts above the chunk stand at 15 to 20 there.
    rivals = IDS[1:7]
    vector = [("c000", 0.5), *((i, 0.4) for i in rivals), *((i, 0.1) for i in IDS[10:60])]
    keyword = [*((i, -0.01) for i in IDS[60:75]), *((i, -0.005) for i in rivals)]
    engine = Sized(vector, keyword)
    heavy = replace(BASE, vector_weight=0.02, keyword_weight=0.98)
    ranked = engine.search("query", ranking=heavy)
    assert "c000" not in {hit.chunk.id for hit in ranked.hits}
    least = find_changes(engine.search, ranked, heavy, "c000", {}, chunks=120)
    change = by_parameter(least)[Parameter.CANDIDATE_MULTIPLIER]
    # With 18 candidates three of the rivals are left, with 24 all six.
    assert (change.new, change.rank_after) == (3, 4)


def test_a_large_index_is_not_searched_again() -> None:
    engine = late()
    least = find(engine, "c100", {Leg.VECTOR: at(30)}, chunks=MOST_CHUNKS + 1)
    assert engine.asked == []
    left = {one.parameter: one.reason for one in least.without}
    assert {left[parameter] for parameter in DEPTH} == {NoChangeReason.NEW_SEARCH}


def test_progress_is_told_before_every_search_and_can_stop_it() -> None:
    engine = late()
    ranked = engine.search("query", ranking=BASE)
    told: list[Parameter] = []

    def stop(parameter: Parameter) -> None:
        told.append(parameter)
        if told.count(Parameter.CANDIDATE_MULTIPLIER) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        find_changes(engine.search, ranked, BASE, "c023", {}, chunks=120, progress=stop)
    assert told[-1] is Parameter.CANDIDATE_MULTIPLIER
