"""What every engine keeps, whoever made its index: memtui, a release of OpenClaw, a list of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from memtui.bus import SearchFailed, SearchReady
from memtui.engine import Engine
from memtui.engine.browse import answered_queries, days_of, recalls_of
from memtui.errors import Cancelled, IndexMissing, IndexUnusable
from memtui.model import Chunk, IndexState, Leg, LegStatus, Ranked, Ranking, Reason
from memtui.model.conversations import MemoryCall, RecallChange, TranscriptKind
from memtui.model.inquiry import Outcome, Place, Station
from memtui.ranking.counterfactual.change import NoChangeReason, Parameter, apply
from memtui.ranking.profiles import PROFILES
from memtui.tui.app import MemtuiApp
from tests.support.embedding import registered_hashed
from tests.support.indexing import EventQueue
from tests.support.memory_index import open_memory_index
from tests.support.openclaw import RELEASES, hash_tree
from tests.support.small_memory import (
    NOTES,
    SmallMemory,
    make_small_agent,
    make_small_memory,
    write_notes,
)
from tests.tui.harness import dark, screen_text, settle, until

OWN, LISTED = "own", "listed"


@dataclass
class Memory:
    """An engine, a query that several of its chunks answer, and whose index it is."""

    engine: Engine
    query: str
    kind: str
    folder: Path

    def ask(self, **ranking: object) -> Ranked:
        changed = replace(self.engine.ranking, **ranking)
        return self.engine.search.ask(self.query, ranking=changed)

    def chunks(self) -> list[Chunk]:
        browse = self.engine.browse
        return [chunk for file in browse.files() for chunk in browse.chunks_of(file.path)]

    def missed(self) -> tuple[Ranked, Chunk]:
        """A short list, and a chunk that is not in it."""
        ranked = self.ask(k=2)
        shown = {hit.chunk.id for hit in ranked.hits}
        return ranked, next(drop.chunk for drop in ranked.drops if drop.chunk.id not in shown)


@pytest.fixture(params=[OWN, LISTED, *RELEASES])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    kind = request.param
    with registered_hashed():
        if kind == OWN:
            engine, query = make_small_memory(tmp_path).open(), "router config"
        elif kind == LISTED:
            engine, query = open_memory_index(tmp_path, NOTES), "router config"
        else:
            engine, query = make_small_agent(tmp_path, kind).open(), "OAuth refresh token"
        with engine:
            yield Memory(engine, query, kind, tmp_path)


def test_a_list_is_the_ranked_pool_and_ranks_again_the_same(memory: Memory) -> None:
    ranked = memory.ask()
    assert ranked.pool.query == memory.query
    assert [hit.rank for hit in ranked.hits] == list(range(1, len(ranked.hits) + 1))
    assert ranked.hits
    assert all(ranked.pool.chunks[hit.chunk.id] == hit.chunk for hit in ranked.hits)
    for leg in Leg:
        assert ranked.pool.states[leg].status is LegStatus.OK
        assert [hit.position for hit in ranked.pool.hits[leg]] == list(
            range(len(ranked.pool.hits[leg]))
        )
    again = memory.engine.search.rerank(ranked.pool, memory.engine.ranking)
    assert again.hits == ranked.hits
    assert not memory.engine.search.ask("   ").hits


@pytest.mark.parametrize("kind", [OWN, LISTED])
def test_equal_scores_are_in_the_order_of_places(tmp_path: Path, kind: str) -> None:
    """Whatever was written first; agents' indexes keep the order of their release."""
    paths = [f"memory/{number:02}.md" for number in range(80)]
    texts = dict.fromkeys(paths, "Router config\n")
    with registered_hashed():
        memory = SmallMemory(tmp_path / "notes", tmp_path / "data")
        with memory.open() if kind == OWN else open_memory_index(tmp_path, texts) as engine:
            for part in (paths[45:], paths) if kind == OWN else ():
                write_notes(memory.root, dict.fromkeys(part, "Router config\n"))
                engine.index.sync(wait=True)
            ranked = engine.search.ask("router config", ranking=Ranking(k=3))
            for leg in Leg:
                hit_paths = [ranked.pool.chunks[hit.chunk_id].path for hit in ranked.pool.hits[leg]]
                assert hit_paths == paths[:50]
            for ranking in (ranked.ranking, replace(PROFILES["memini"], dedup=False, k=3)):
                again = engine.search.rerank(ranked.pool, ranking)
                assert [hit.chunk.path for hit in again.hits] == paths[:3]
                assert [drop.chunk.path for drop in again.drops] == paths[3:50]
            last = ranked.drops[-1].chunk.id
            places = engine.explain.inquire(ranked, last).leg_places.values()
            assert [place.rank.position for place in places if place.rank] == [49, 49]
            near = engine.browse.neighbours(last, 2)
            assert [one.chunk.path for one in near.by_vector] == paths[:2]


NARROWED: Mapping[str, Callable[[Chunk], bool]] = {
    "path:memory/20*": lambda chunk: chunk.path.startswith("memory/20"),
    "path:20 after:2026-02-01 before:2026-11-12": lambda chunk: (
        "20" in chunk.path and "2026-02-01" <= chunk.path[7:17] < "2026-11-12"
    ),
    "source:memory -router": lambda chunk: "router" not in chunk.text.casefold(),
    "tag:nowhere": lambda chunk: False,
}
"""The chunks that filters let through, of every index."""


@pytest.mark.parametrize("typed", NARROWED)
def test_filters_narrow_a_search_and_list_alone(memory: Memory, typed: str) -> None:
    if memory.kind == LISTED:
        return
    ranking, search = replace(memory.engine.ranking, k=200, min_score=None), memory.engine.search
    passing = {chunk.id for chunk in memory.chunks() if NARROWED[typed](chunk)}
    listed = search.ask(typed, ranking=ranking).hits
    assert {hit.chunk.id for hit in listed} == passing
    days = [hit.chunk.day for hit in listed if hit.chunk.day is not None]
    assert days == sorted(days, reverse=True)
    everything = {hit.chunk.id for hit in search.ask(memory.query, ranking=ranking).hits}
    hit_ids = {hit.chunk.id for hit in search.ask(f"{memory.query} {typed}", ranking=ranking).hits}
    assert hit_ids == everything & passing


def test_what_a_conversation_asked_is_asked_word_for_word(memory: Memory) -> None:
    query = f"{memory.query} path:nowhere -memory"
    call = MemoryCall("s.jsonl", 1, TranscriptKind.OPENCLAW, "memory_search", query, None)
    replayed = memory.engine.conversations.replay(call)
    assert {row.change for row in replayed.rows} == {RecallChange.ENTERED}
    assert memory.kind == LISTED or not memory.engine.search.ask(query).hits


def test_submitted_searches_answer_on_the_bus_and_the_latest_wins(memory: Memory) -> None:
    events = EventQueue(memory.engine.bus, (SearchReady, SearchFailed))
    for text in ("o", "ro", "rou"):
        memory.engine.search.submit(text)
    last = memory.engine.search.submit(memory.query, typing=False)
    while True:
        event = events.get(timeout=30)
        assert isinstance(event, SearchReady)
        if event.sequence == last and event.complete:
            break
    assert event.ranked.hits == memory.ask().hits


def test_paths_files_and_chunks_are_of_one_index(memory: Memory) -> None:
    browse = memory.engine.browse
    chunk_counts = {file.path: file.chunks for file in browse.files() if file.chunks}
    assert [*chunk_counts] == sorted(chunk_counts)
    chunks = memory.chunks()
    assert len({chunk.id for chunk in chunks}) == len(chunks) == sum(chunk_counts.values())
    for path, count in chunk_counts.items():
        assert len(browse.chunks_of(path)) == count
        source = memory.engine.index.files.source(path)
        assert (source.path, source.state) == (path, "current")
        assert source.lines
    status = memory.engine.index.status()
    assert (status.files, status.chunks) == (len(chunk_counts), len(chunks))
    assert status.state in (IndexState.READY, IndexState.STALE)
    changed = {file.path: file.changed for file in browse.files()}
    assert all(changed[one.path] in (one.mtime, None) for one in browse.recent(3))
    assert not browse.chunks_of("nowhere.md")
    assert memory.engine.index.files.source("nowhere.md").state == "gone"


def test_days_count_the_files_of_each(memory: Memory) -> None:
    files = [file for file in memory.engine.browse.files() if file.day is not None]
    days = days_of(files, {file.path: 2 for file in files})
    assert [day.day for day in days] == sorted({file.day for file in files if file.day})
    assert sum(day.recalls or 0 for day in days) == 2 * len(files)


def test_everything_shown_is_explained_as_shown(memory: Memory) -> None:
    ranked = memory.ask()
    for hit in ranked.hits:
        inquiry = memory.engine.explain.inquire(ranked, hit.chunk.id)
        assert (inquiry.rank, inquiry.shown) == (hit.rank, True)
        assert inquiry.place.path == hit.chunk.path
        assert all(step.outcome is not Outcome.LOST for step in inquiry.steps)
        for leg in Leg:
            place = inquiry.leg_places[leg]
            position = next(
                (one.position for one in ranked.pool.hits[leg] if one.chunk_id == hit.chunk.id),
                None,
            )
            if leg is Leg.VECTOR and position is not None:
                assert place.rank is not None
                assert place.rank.position == position
            assert (place.rank is None) == (place.reason is not Reason.OK)
        here = memory.engine.explain.inquire_at(ranked, Place(hit.chunk.path, hit.chunk.start_line))
        assert here.shown


def test_what_is_missed_has_one_reason_and_every_spelling_finds_it(memory: Memory) -> None:
    ranked, chunk = memory.missed()
    inquiry = memory.engine.explain.inquire(ranked, chunk.id)
    assert not inquiry.shown
    assert [step.at for step in inquiry.steps if step.outcome is Outcome.LOST]
    root = memory.engine.root
    for path in (chunk.path, f"./{chunk.path}", str(root / chunk.path)):
        same = memory.engine.explain.inquire_at(ranked, Place(path, chunk.start_line))
        assert same.chunk is not None
        assert same.chunk.path == chunk.path
    nowhere = memory.engine.explain.inquire_at(ranked, Place("no/such/file.md"))
    assert nowhere.chunk is None
    assert (nowhere.steps[-1].at, nowhere.steps[-1].reason) == (Station.DISCOVERED, Reason.NO_FILE)
    beyond = memory.engine.explain.inquire_at(ranked, Place(chunk.path, 10**6))
    assert beyond.steps[-1].reason is Reason.NO_CHUNK_AT_LINE
    gone = memory.engine.explain.inquire(ranked, "0" * 64)
    assert gone.steps[-1].reason in (Reason.VANISHED, Reason.NOT_INDEXED)


def test_the_first_rank_beyond_the_candidates_is_told(memory: Memory) -> None:
    ranked = memory.ask(k=1, candidate_multiplier=2, min_candidates=1)
    limit = min(ranked.pool.limit, ranked.ranking.candidates)
    for chunk in memory.chunks():
        inquiry = memory.engine.explain.inquire(ranked, chunk.id)
        place = inquiry.leg_places[Leg.VECTOR].rank
        if place is not None and place.position == limit:
            pool = next(step for step in inquiry.steps if step.at is Station.VECTOR_POOL)
            assert (pool.rank, pool.numbers["limit"]) == (limit + 1, limit)
            assert pool.outcome is not Outcome.PASSED
            return
    assert memory.kind == LISTED


def test_least_changes_do_what_they_say(memory: Memory) -> None:
    ranked, chunk = memory.missed()
    explain = memory.engine.explain
    places = explain.inquire(ranked, chunk.id).leg_places
    ranking = replace(memory.engine.ranking, k=2)
    least = memory.engine.what_if.least_changes(ranked, ranking, chunk.id, places)
    assert least.changes
    for change in least.changes:
        changed = memory.engine.search.ask(
            memory.query, ranking=apply(ranking, change.parameter, change.new)
        )
        assert chunk.id in {hit.chunk.id for hit in changed.hits}
    words = memory.engine.what_if.word_changes(
        ranked, ranking, chunk, explain.inquire(ranked, chunk.id).terms
    )
    for one in words.changes:
        answer = memory.engine.search.ask(one.query, ranking=ranking)
        assert {hit.chunk.id: hit.rank for hit in answer.hits}[chunk.id] == one.rank_after
    assert words.changes or words.reason is not Reason.OK or words.tried


def test_the_least_depth_is_what_a_search_by_every_value_finds(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"k": 2, "candidate_multiplier": 3, "min_candidates": 1}
    ranked, explain = memory.ask(**small), memory.engine.explain
    ranking = replace(memory.engine.ranking, **small)
    values = {Parameter.K: range(1, 31), Parameter.CANDIDATE_MULTIPLIER: range(1, 51)}
    by_size: dict[tuple[int, int], set[str]] = {}
    showing: dict[tuple[Parameter, str], list[int]] = {}
    for parameter, value in [(one, value) for one in values for value in values[one]]:
        changed = apply(ranking, parameter, value)
        size = changed.k, changed.candidates
        if size not in by_size:
            answer = memory.engine.search.ask(memory.query, ranking=changed)
            by_size[size] = {hit.chunk.id for hit in answer.hits}
        for chunk_id in by_size[size]:
            showing.setdefault((parameter, chunk_id), []).append(value)
    near = ranked.drops[0].chunk.id
    shown = {hit.chunk.id for hit in ranked.hits}
    missed = [chunk.id for chunk in memory.chunks() if chunk.id not in shown]
    for chunk_id in (near,) if ranked.pool.sized else missed[:: len(missed) // 4]:
        places = explain.inquire(ranked, chunk_id).leg_places
        least = memory.engine.what_if.least_changes(ranked, ranking, chunk_id, places)
        changes = {one.parameter: one.new for one in least.changes}
        for parameter, now in ((Parameter.K, 2), (Parameter.CANDIDATE_MULTIPLIER, 3)):
            # Of two values that are equally near the larger.
            does_it = showing.get((parameter, chunk_id), [])
            nearest = min(does_it, key=lambda value: (abs(value - now), -value), default=None)
            tried = changes.get(parameter) if changes.get(parameter) in values[parameter] else None
            assert tried == nearest, (parameter, chunk_id)
    if ranked.pool.sized:
        # A large index is not searched again and again.
        monkeypatch.setattr("memtui.engine.what_if.MOST_CHUNKS", 5)
        places = explain.inquire(ranked, near).leg_places
        left = memory.engine.what_if.least_changes(ranked, ranking, near, places).without
        assert {one.parameter for one in left if one.reason is NoChangeReason.NEW_SEARCH} == set(
            values
        )


def test_passages_are_pieces_of_the_chunk(memory: Memory) -> None:
    ranked = memory.ask()
    chunk = ranked.hits[0].chunk
    passages = memory.engine.explain.passages(ranked, chunk.id)
    assert passages.text == chunk.text
    for one in passages.found:
        assert 0 <= one.start < one.end <= len(passages.text)
    assert memory.engine.explain.passages(ranked, "0" * 64).reason is Reason.VANISHED


def test_a_chunk_is_told_from_every_side(memory: Memory) -> None:
    browse = memory.engine.browse
    for chunk in memory.chunks()[::5]:
        record = browse.chunk_record(chunk.id)
        assert record is not None
        assert (record.chunk.id, record.chunk.path) == (chunk.id, chunk.path)
        assert record.characters == len(chunk.text)
        assert [term.document_frequency for term in record.terms] == sorted(
            term.document_frequency for term in record.terms
        )
        neighbours = browse.neighbours(chunk.id, 3)
        assert neighbours.vector_state is Reason.OK
        for one in (*neighbours.by_vector, *neighbours.by_words, *neighbours.duplicates):
            assert one.chunk.id != chunk.id
            assert 0.0 <= one.score <= 1.0 + 1e-9
        scores = [one.score for one in neighbours.by_vector]
        assert scores == sorted(scores, reverse=True)
    assert browse.chunk_record("0" * 64) is None
    assert browse.neighbours("0" * 64).by_vector == ()


def test_history_is_asked_as_searches_answer(memory: Memory) -> None:
    queries = [memory.query, "memory", memory.query, " "]
    expected = {query: memory.engine.search.ask(query).hits for query in queries[:2]}
    tops = memory.engine.search.tops(queries)
    recalled = recalls_of(tops)
    assert sum(recalled.values()) == sum(map(len, expected.values()))
    best = expected[memory.query][0].chunk
    answered = answered_queries(best.id, tops)
    assert (memory.query, 1) in {(one.query, one.rank) for one in answered}
    with pytest.raises(Cancelled):
        memory.engine.search.tops(["another one"], cancelled=lambda: True)


def test_care_looks_at_everything_and_can_be_stopped(memory: Memory) -> None:
    progress: list[tuple[int, int]] = []
    report = memory.engine.browse.care(progressed=lambda *done: progress.append(done))
    assert progress[-1][0] == progress[-1][1]
    assert {finding.rule for finding in report.findings} <= set(report.looked_at)
    with pytest.raises(Cancelled):
        memory.engine.browse.care(cancelled=lambda: True)


def test_what_is_only_read_refuses_to_be_written(memory: Memory) -> None:
    engine = memory.engine
    if memory.kind == OWN:
        engine.index.require_writer()
        assert engine.providers.available()
        assert engine.providers.cost().chunks == engine.index.status().chunks
        return
    assert engine.providers.available() == ()
    assert engine.providers.cost().files == 0
    for refused in (partial(engine.index.sync, rebuild=True), engine.index.require_writer):
        with pytest.raises(IndexUnusable, match="only reads"):
            refused()


def test_a_closed_engine_says_so_and_leaves_no_trace(memory: Memory) -> None:
    before = hash_tree(memory.folder) if memory.kind in RELEASES else {}
    ranked = memory.ask()
    memory.engine.browse.care()
    memory.engine.browse.neighbours(ranked.hits[0].chunk.id)
    memory.engine.index.refresh_status()
    memory.engine.close()
    memory.engine.close()
    with pytest.raises(IndexMissing):
        memory.engine.search.ask(memory.query)
    if memory.kind != LISTED:
        with pytest.raises(IndexMissing):
            memory.engine.explain.inquire(ranked, ranked.hits[0].chunk.id)
    assert memory.engine.wait_idle(1)
    if before:
        assert hash_tree(memory.folder) == before


def test_filters_mask_both_legs_and_the_trace_names_them(memory: Memory) -> None:
    if memory.kind == LISTED:
        # The list of the tests knows no filters.
        return
    first = memory.ask().hits[0].chunk
    other = next(hit.chunk for hit in memory.ask().hits if hit.chunk.path != first.path)
    ranked = memory.engine.search.ask(f"{memory.query} path:{first.path}")
    assert {chunk.path for chunk in ranked.pool.chunks.values()} == {first.path}
    assert all(state.status is LegStatus.OK for state in ranked.pool.states.values())
    inquiry = memory.engine.explain.inquire(ranked, other.id)
    assert {place.reason for place in inquiry.leg_places.values()} == {Reason.FILTERED}
    filtered = [step for step in inquiry.steps if step.reason is Reason.FILTERED]
    assert {word for step in filtered for word in step.words} == {f"path:{first.path}"}
    assert not memory.engine.search.ask(f"{memory.query} path:no-such-file").hits
    assert not memory.engine.search.ask(f"{memory.query} before:1999-01-01 source:memory").hits


async def test_the_screen_asks_nowhere_who_made_the_index(tmp_path: Path) -> None:
    app = MemtuiApp(partial(open_memory_index, tmp_path, NOTES), dark(root=tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None, 20)
        app.search_screen.query_input.value = "router config"
        await until(pilot, lambda: "2025-11-02.md" in screen_text(app), 20)
        await settle(app, pilot)
        assert "Router config first written down" in screen_text(app)
        await pilot.press("escape", "x")
        await until(pilot, lambda: "router config" in screen_text(app), 20)
    app.memories.close()
