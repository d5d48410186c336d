"""Least changes on the bundled demo, tried one by one; `python -m tests.counterfactuals` has all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.model.inquiry import Place
from memtui.ranking.counterfactual.change import Parameter, apply
from tests.counterfactuals import QUERIES, TRIED, Trial, open_demo
from tests.support.dice import examples

NEAR, FAR = 2, 1
"""Of each query so many of the nearest misses, and so many from everywhere in the index."""
POINTS = examples(10)
"""Values of each range that is searched in vain; the full run tries twenty times as many."""


@pytest.fixture(scope="module")
def engine(indexed_demo: Path) -> Iterator[Engine]:
    with open_demo(indexed_demo) as opened:
        yield opened


@pytest.mark.parametrize("name", TRIED)
def test_changes_do_it_and_nothing_else_does(engine: Engine, name: str) -> None:
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    # A fifth of the queries of the usual ranking, a fifteenth of those of each other one.
    queries = QUERIES[list(TRIED).index(name) :: len(TRIED)]
    queries = queries if name == "memtui" else queries[2::3]
    for query in queries:
        trial = Trial(engine, query, TRIED[name], POINTS)
        near, rest = trial.missing()[:12], trial.missing()[12:]
        seeded = random.Random(len(near) + len(rest))
        for chunk_id in (*seeded.sample(near, NEAR), *seeded.sample(rest, FAR)):
            wrong += trial.check(chunk_id, tally)
    assert wrong == []
    assert tally["chunks"] == (NEAR + FAR) * len(queries)
    assert len(tally.keys() & set(Parameter)) >= 3
    assert tally["changes"] + tally["refusals"] >= tally["chunks"] * len(Parameter)


def test_looking_for_changes_can_be_stopped(engine: Engine) -> None:
    ranking = replace(engine.ranking, k=1, candidate_multiplier=1, min_candidates=1)
    ranked = engine.search.ask("router config", ranking=ranking)
    trial = Trial(engine, "router config", ranking)
    chunk_id = trial.missing()[0]
    places = engine.explain.inquire(ranked, chunk_id).leg_places
    told: list[Parameter] = []

    def stop(parameter: Parameter) -> None:
        told.append(parameter)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        engine.what_if.least_changes(ranked, ranking, chunk_id, places, progress=stop)
    assert len(told) == 1


@pytest.mark.parametrize(("typing", "k"), [(False, 13), (True, 14)])
def test_what_is_tried_is_asked_as_the_list_was(engine: Engine, typing: bool, k: int) -> None:
    # As the beginning of a word `config` finds one note more, which takes rank 13.
    query = "router config"
    ranked = engine.search.ask(query, typing=typing)
    assert ranked.pool.typing is typing
    found = engine.explain.inquire_at(ranked, Place("memory/2026-01-20.md", 3))
    assert found.chunk is not None
    chunk_id = found.chunk.id
    least = engine.what_if.least_changes(ranked, engine.ranking, chunk_id, found.leg_places)
    offered = {change.parameter: change.new for change in least.changes}
    assert offered[Parameter.K] == k
    for change in least.changes:
        tried = apply(engine.ranking, change.parameter, change.new)
        shown = engine.search.ask(query, ranking=tried, typing=typing).hits
        assert shown[change.rank_after - 1].chunk.id == chunk_id
