"""Whatever is asked on the demo memory, every chunk's inquiry agrees with the list."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtui.engine import Engine
from memtui.memory.workspace import demo_root
from memtui.model import Leg, Ranked, Ranking, Stage
from memtui.model.inquiry import Inquiry, Outcome, Station, TraceStep
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.settings.schema import Settings
from tests.support.pools import rankings

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
WORDS = (
    *("router", "vlan", "backup", "standup", "garden", "the", "who", "ticket", "omada", "invoice"),
    *("京都", "zzz", '"the router"', "path:memory/home", "after:2026-06-01", "source:none"),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, indexed_demo: Path) -> Iterator[Engine]:
    data = tmp_path_factory.mktemp("inquiry") / "data"
    shutil.copytree(indexed_demo, data)
    with Engine.open(demo_root(), Settings(), data_dir=data, now=lambda: NOW) as opened:
        yield opened


@pytest.fixture(scope="module")
def chunk_ids(engine: Engine) -> list[str]:
    return [
        chunk.chunk_id
        for path in engine.browse.paths()
        for chunk in engine.browse.chunk_ranges(path)
    ]


def number(step: TraceStep, name: str) -> float:
    value = step.numbers[name]
    assert isinstance(value, int | float)
    return float(value)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_inquiries_agree_with_the_list(
    engine: Engine, chunk_ids: list[str], data: st.DataObject
) -> None:
    query = " ".join(data.draw(st.lists(st.sampled_from(WORDS), max_size=4)))
    profiles = st.sampled_from([replace(one, k=3) for one in PROFILES.values()])
    ranking = data.draw(st.one_of(rankings(), profiles))
    ranked = engine.search.ask(query, ranking=ranking)
    asked = data.draw(st.sets(st.sampled_from(chunk_ids), max_size=12))
    listed = {chunk_id for chunk_id in ranked.pool.chunks if data.draw(st.booleans())}
    for chunk_id in sorted(asked | set(sorted(listed)[:20])):
        check(ranked, ranking, chunk_id, engine.explain.inquire(ranked, chunk_id))


def check(ranked: Ranked, ranking: Ranking, chunk_id: str, found: Inquiry) -> None:
    rank = next((hit.rank for hit in ranked.hits if hit.chunk.id == chunk_id), None)
    assert found.rank == rank
    assert found.shown == (rank is not None)
    lost = [step for step in found.steps if step.outcome is Outcome.LOST]
    assert len(lost) == (0 if found.shown else 1)
    assert (found.first_failure is None) == found.shown
    if lost:
        assert found.steps[-1] is lost[0]
        failure = found.first_failure
        assert failure is lost[0] or (failure is not None and failure.outcome is Outcome.PUSHED_OUT)
    for step in found.steps:
        if isinstance(step.at, Stage):
            check_stage(ranked, ranking, chunk_id, step)
        elif step.at in (Station.KEYWORD_POOL, Station.VECTOR_POOL):
            check_pool(ranked, chunk_id, step)


def check_stage(ranked: Ranked, ranking: Ranking, chunk_id: str, step: TraceStep) -> None:
    scored = find(ranked, chunk_id)
    stage = next(one for one in scored.stages if one.stage is step.at)
    assert step.rank == stage.rank
    assert step.of is not None
    assert 1 <= stage.rank <= step.of
    assert number(step, "after") == stage.after
    assert number(step, "k") == max(0, ranking.k)
    if step.at is not Stage.FUSION:
        assert number(step, "before") == stage.before
    if step.outcome is Outcome.PUSHED_OUT:
        assert stage.rank > ranking.k


def check_pool(ranked: Ranked, chunk_id: str, step: TraceStep) -> None:
    leg = Leg.KEYWORD if step.at is Station.KEYWORD_POOL else Leg.VECTOR
    limit = number(step, "limit")
    position = next((h.position for h in ranked.pool.hits[leg] if h.chunk_id == chunk_id), None)
    if step.outcome is Outcome.PASSED:
        assert position is not None
        assert step.rank == position + 1 <= limit
    else:
        assert step.rank is None or step.rank > limit
    if step.of is not None:
        assert step.rank is not None
        assert step.rank <= step.of
