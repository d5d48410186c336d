"""Least changes on the bundled demo, tried one by one; `python -m tests.counterfactuals` has all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memtui.ranking.counterfactual import Parameter
from tests.counterfactuals import QUERIES, Memory, Tally, open_demo, profiles, try_all

NEAR, FAR = 2, 1
POINTS = 30


@pytest.fixture(scope="module")
def memory(indexed_demo: Path) -> Iterator[Memory]:
    with open_demo(indexed_demo) as engine:
        yield Memory(engine)


def some(chunk_ids: Sequence[str]) -> Sequence[str]:
    """A few of the nearest misses, and a few from everywhere in the index."""
    near, rest = chunk_ids[:12], chunk_ids[12:]
    seeded = random.Random(len(chunk_ids))
    return [*seeded.sample(near, NEAR), *seeded.sample(rest, FAR)]


@pytest.mark.parametrize("name", profiles())
def test_changes_do_it_and_nothing_else_does(memory: Memory, name: str) -> None:
    tally = Tally()
    order = list(profiles())
    for query in QUERIES[order.index(name) :: len(order)]:
        tally.add(try_all(memory, query, profiles()[name], POINTS, some))
    assert tally.wrong == []
    assert tally.chunks == (NEAR + FAR) * len(QUERIES) // len(order)
    assert len(tally.by_parameter) >= 4
    assert tally.changes + tally.refusals >= tally.chunks * len(Parameter)
