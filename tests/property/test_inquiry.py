"""Whatever is asked on the demo memory, every chunk's inquiry agrees with the list."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.data import DEMO_ROOT
from memtui.engine import Engine
from memtui.engine.conversations import as_stored, compare, overlap
from memtui.engine.places import file_meant
from memtui.model import Chunk, Hit, Leg, Ranked, Ranking, Stage
from memtui.model.conversations import RecallChange, Recalled
from memtui.model.inquiry import Inquiry, Outcome, Station, TraceStep
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.settings.schema import Settings
from tests.support.dice import examples
from tests.support.known import load
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
    with Engine.open(DEMO_ROOT, Settings(), data_dir=data, now=lambda: NOW) as opened:
        yield opened


@pytest.fixture(scope="module")
def chunk_ids(engine: Engine) -> list[str]:
    paths = [file.path for file in engine.browse.files() if file.chunks]
    return [chunk.id for path in paths for chunk in engine.browse.chunks_of(path)]


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


PATHS = (
    "MEMORY.md",
    "old/MEMORY.md",
    "memory/2026-01-01.md",
    "memory/Kyoto.md",
    "notes/x/README.md",
    "x/README.md",
)
ROOT = Path("/home/me/notes")


def hit(path: str, start: int, end: int, rank: int) -> Hit:
    chunk = Chunk(f"{path}:{start}:{end}:{rank}", path, "memory", start, end, "t", "h", "m")
    return Hit(chunk, rank, 1 / rank, 1 / rank, {}, ())


starts, spans = st.integers(0, 30), st.integers(0, 12)
then_lists = st.lists(
    st.builds(
        lambda path, start, span: Recalled(path, start, start + span, 0.5),
        *(st.sampled_from(PATHS), starts, spans),
    ),
    max_size=8,
)
now_lists = st.lists(st.tuples(st.sampled_from(PATHS), st.integers(1, 30), spans), max_size=8).map(
    lambda places: [
        hit(path, start, start + span, rank) for rank, (path, start, span) in enumerate(places, 1)
    ]
)


@settings(max_examples=examples(150), deadline=None)
@given(then_lists, now_lists)
def test_rows_cover_then_and_now_exactly_once(then: list[Recalled], now: list[Hit]) -> None:
    rows = compare(then, now)
    assert sorted(r.rank_now for r in rows if r.rank_now is not None) == [*range(1, len(now) + 1)]
    assert sorted(r.rank_then for r in rows if r.rank_then) == [*range(1, len(then) + 1)]
    order = [(row.rank_now or 99, row.rank_then or 0) for row in rows]
    assert order == sorted(order)
    for row in rows:
        before = then[row.rank_then - 1] if row.rank_then is not None else None
        after = now[row.rank_now - 1].chunk if row.rank_now is not None else None
        if before is not None and after is not None:
            assert before.path == after.path == row.path
            assert before.start_line == 0 or overlap(before, after) > 0
            same = row.rank_then == row.rank_now
            assert row.change is (RecallChange.SAME if same else RecallChange.MOVED)
            assert row.chunk_id == after.id
        elif after is None:
            assert (row.change, row.score_now, row.chunk_id) == (RecallChange.LEFT, None, "")
        else:
            assert (row.change, row.score_then) == (RecallChange.ENTERED, None)


def test_the_places_with_the_most_lines_in_common_are_one() -> None:
    then = [Recalled("MEMORY.md", 1, 20), Recalled("MEMORY.md", 5, 6)]
    rows = compare(then, [hit("MEMORY.md", 5, 7, 1)])
    assert [(row.rank_then, row.rank_now) for row in rows] == [(2, 1), (1, None)]


def test_paths_as_tools_print_them() -> None:
    """A path that two could be meant by, or none, is of no file."""
    for written, stored in load("reading")["paths as tools print them"]:
        found = as_stored(Recalled(written, 0, 0), ROOT, PATHS)
        assert (found.path if found.path in PATHS else None) == stored, written
    cited = as_stored(Recalled("/home/me/notes/MEMORY.md#L4-L9", 0, 0), ROOT, PATHS)
    assert (cited.path, cited.start_line, cited.end_line) == ("MEMORY.md", 4, 9)
    known = as_stored(Recalled("MEMORY.md:4", 2, 3, 0.5, "s"), ROOT, PATHS)
    assert known == Recalled("MEMORY.md", 2, 3, 0.5, "s")
    gone = as_stored(Recalled("memory/gone.md#L4", 0, 0), ROOT, PATHS)
    assert gone.path == "memory/gone.md"


def test_a_file_of_this_machine_is_not_taken_for_one_of_the_memory(tmp_path: Path) -> None:
    other = tmp_path / "x" / "README.md"
    other.parent.mkdir()
    other.write_text("of something else")
    assert file_meant(str(other), ROOT, PATHS) is None
    other.unlink()
    assert file_meant(str(other), ROOT, PATHS) == "x/README.md"
