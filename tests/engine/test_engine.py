"""The engine on a real folder: real SQLite, real files, real threads, a real watcher."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.bus import Bus, Event, IndexChanged, SearchReady, StatusChanged, SyncFinished
from memtui.embedding import registry
from memtui.embedding.provider import Vector
from memtui.engine import Engine
from memtui.errors import IndexMissing, IndexUnusable, SettingsError, WriterLocked
from memtui.index.database import PAGE_SIZE, open_database
from memtui.index.job import PAUSE_SECONDS, WORTH_A_WAIT
from memtui.model import IndexState, Leg, LegStatus, Reason
from memtui.ranking.strength import is_all_weak
from memtui.report.status import status_sections
from memtui.settings.schema import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding import HASHED, REGISTRATIONS, HashedProvider, registered_hashed
from tests.support.indexing import EventQueue
from tests.support.small_memory import NOTES, SETTINGS, SmallMemory, make_small_memory, own_index

QUERY = "omada router"


@pytest.fixture(autouse=True)
def hashed() -> Iterator[None]:
    with registered_hashed():
        yield


def test_a_query_reads_nothing_of_the_index_twice(
    memory: SmallMemory, statements: list[str]
) -> None:
    """With filters, a phrase that stands nowhere, and hits of both legs, of the same strength."""
    with memory.open(write=False) as engine:
        engine.search.ask(QUERY)
        statements.clear()
        ranked = engine.search.ask('"router router" router path:memory')
        is_all_weak(ranked)
    assert ranked.pool.hits[Leg.VECTOR]
    assert ranked.pool.hits[Leg.KEYWORD]
    reads = Counter(sql for sql in statements if sql.lstrip().startswith("SELECT"))
    assert set(reads.values()) == {1}


@pytest.fixture
def new(tmp_path: Path) -> SmallMemory:
    """A memory without an index, watched by settings that hurry."""
    quick = replace(SETTINGS, index=IndexSettings(debounce_seconds=0.05, rescan_seconds=1.0))
    return dataclasses.replace(make_small_memory(tmp_path, indexed=False), settings=quick)


def paths(engine: Engine, query: str) -> list[str]:
    return [hit.chunk.path for hit in engine.search.ask(query).hits]


def test_without_an_index_it_says_so_and_makes_none(new: SmallMemory) -> None:
    with new.open(write=False, warm=True) as engine:
        with pytest.raises(IndexMissing):
            engine.search.ask("router")
        assert list(engine.browse.recent()) == []
        assert engine.providers.cost().chunks == 0
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.NO_INDEX
        assert engine.index.status().pending_count == len(NOTES)
    assert not new.data.exists()


def test_keys_hold_much_work(new: SmallMemory) -> None:
    for number in range(WORTH_A_WAIT):
        (new.root / f"memory/{number}.md").write_text(f"# Note {number}\n", "utf-8")
    with new.open() as engine:
        engine.index.hold()
        began = time.monotonic()
        engine.index.sync(wait=True)
        assert time.monotonic() - began >= PAUSE_SECONDS / 2


def test_a_source_is_current_changed_or_gone(engine: Engine) -> None:
    path = "memory/people/mai.md"
    assert engine.index.files.source(path).state == "current"
    assert engine.index.files.source(path).lines[0] == "# Mai"
    (engine.root / path).write_text("# Other\n", encoding="utf-8")
    assert engine.index.files.source(path).state == "changed"
    assert engine.index.files.source(path).lines == ["# Other"]
    (engine.root / path).unlink()
    gone = engine.index.files.source(path)
    assert gone.state == "gone"
    assert gone.lines[0] == "# Mai"


def test_a_look_at_the_files_finds_what_waits(engine: Engine) -> None:
    engine.index.refresh_status()
    assert engine.index.status().pending == ()
    (engine.root / "memory/new.md").write_text("new\n", encoding="utf-8")
    (engine.root / "MEMORY.md").unlink()
    engine.index.refresh_status()
    status = engine.index.status()
    assert status.state is IndexState.STALE
    assert set(status.pending) == {"memory/new.md", "MEMORY.md"}


def test_the_watcher_brings_a_change_into_the_results_and_the_status(new: SmallMemory) -> None:
    bus = Bus()
    done = EventQueue(bus, SyncFinished)
    with new.open(bus, watch=True) as engine:
        assert done.get(timeout=30) is not None, "the first index"
        engine.index.refresh_status()
        assert engine.index.status().files == len(NOTES)
        (new.root / "memory/fresh.md").write_text("A kingfisher flew past.\n", encoding="utf-8")
        while "memory/fresh.md" not in paths(engine, "kingfisher"):
            assert done.get(timeout=30) is not None, "the change was not noticed"
        # The look at the files is forgotten.
        assert engine.index.status().files == len(NOTES) + 1


def test_what_indexes_by_itself_never_says_that_there_is_no_index(new: SmallMemory) -> None:
    with new.open(watch=True) as engine:
        states = {engine.index.status().state}
        while IndexState.READY not in states:
            states.add(engine.index.status().state)
    assert states == {IndexState.INDEXING, IndexState.READY}


def test_a_second_engine_follows_the_first(new: SmallMemory) -> None:
    bus = Bus()
    changes = EventQueue(bus, Event)
    with new.open() as writer, new.open(bus) as follower:
        with pytest.raises(WriterLocked):
            follower.index.require_writer()
        # It has looked at the empty folder.
        assert changes.get(timeout=20) == StatusChanged()
        writer.index.sync(wait=True)
        assert paths(follower, QUERY)
        while not isinstance(event := changes.get(timeout=20), IndexChanged):
            assert event is not None, "the follower never told of the first index"
        (new.root / "memory/owl.md").write_text("An owl in the barn.\n", encoding="utf-8")
        writer.index.sync(wait=True)
        assert paths(follower, "owl barn")[0] == "memory/owl.md"
        while not isinstance(event := changes.get(timeout=20), IndexChanged):
            assert event is not None, "the follower never told that the index changed"
        while follower.index.status().files != len(NOTES) + 1:
            assert changes.get(timeout=20) is not None
        follower.providers.switch(EmbeddingSettings(provider="minilm"))
        provider = follower.index.status().provider
        assert (provider.requested, provider.actual) == ("minilm", "hashed"), "the writer's"
        other = replace(new.settings, embedding=EmbeddingSettings(provider="minilm"))
        with Engine.open(new.root, other, data_dir=new.data, write=False) as reader:
            reader.index.refresh_status()
            status = reader.index.status()
        assert status.state == "ready", "nothing that an index run could do now"
        shown = "\n".join(row.cells[-1] for row in next(status_sections(status)).rows)
        assert "hashed makes the vectors (as in the other memtui; asked for here: minilm)" in shown
        new.root.rename(new.root.with_name("away"))
        changes = EventQueue(bus, StatusChanged)
        with new.open(bus) as late:
            while not (status := late.index.status()).skipped:
                assert changes.get(timeout=20) is not None
        assert [one.path for one in status.skipped] == ["."], "a folder that is gone is counted"
        assert (status.files, status.errors) == (len(NOTES) + 1, ())


def test_a_subscriber_that_fails_ends_no_thread_and_is_named(memory: SmallMemory) -> None:
    bus = Bus()
    bus.subscribe(SyncFinished, Mock(side_effect=ValueError("boom")))
    with memory.open(bus) as engine:
        engine.index.sync(wait=True)
        (memory.root / "memory/owl.md").write_text("An owl.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        assert engine.index.status().files == len(NOTES) + 1
        assert any("boom" in error.message for error in engine.index.status().errors)


def test_an_index_folder_that_depends_on_the_current_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="data_dir"):
        Engine.open(tmp_path, Settings(index=IndexSettings(data_dir="here")))
    assert not (tmp_path / "here").exists()


def test_a_search_keeps_to_the_generation_it_began_with(memory: SmallMemory) -> None:
    waiting: list[Engine] = []

    class Swapping(HashedProvider):
        def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
            if waiting:
                waiting.pop().index.sync(rebuild=True, wait=True)
            return super().embed_query(text)

    with registered_hashed(Swapping()), memory.open() as engine:
        waiting.append(engine)
        ranked = engine.search.ask(QUERY)
        for state in ranked.pool.states.values():
            assert state.status is LegStatus.OK, state.detail
        assert engine.search.ask(QUERY).pool.generation > ranked.pool.generation


def test_vectors_are_those_of_the_rows_of_a_new_generation(engine: Engine) -> None:
    query, provider = "Likes lotus tea", HashedProvider()
    engine.search.ask(query)
    (engine.root / "MEMORY.md").unlink()
    engine.index.sync(rebuild=True, wait=True)
    pool = engine.search.ask(query).pool
    assert len(pool.hits[Leg.VECTOR]) == engine.index.status().chunks
    for hit in pool.hits[Leg.VECTOR]:
        (vector,) = provider.embed_documents([pool.chunks[hit.chunk_id].text])
        assert hit.raw == pytest.approx(float(vector @ provider.embed_query(query)), abs=1e-5)


@pytest.mark.parametrize("dimensions", [64, 128, 32])
def test_vectors_of_another_model_are_not_compared(memory: SmallMemory, dimensions: int) -> None:
    other = HashedProvider(model="other", dimensions=dimensions)
    with registered_hashed(other), memory.open() as engine:
        ranked = engine.search.ask(QUERY)
        state = ranked.pool.states[Leg.VECTOR]
        assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.NO_VECTORS)
        assert "hashed-trigrams" in state.detail
        assert ranked.pool.states[Leg.KEYWORD].status is LegStatus.OK
        assert ranked.hits
        engine.index.sync(wait=True)
        assert engine.search.ask(QUERY).pool.states[Leg.VECTOR].status is LegStatus.OK


def test_the_first_search_does_not_wait_for_a_slow_model(memory: SmallMemory) -> None:
    release = threading.Event()

    class Slow(HashedProvider):
        def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
            release.wait(20)
            return super().embed_query(text)

    bus = Bus()
    queue = EventQueue(bus, SearchReady)
    with registered_hashed(Slow()), memory.open(bus) as engine:
        own_index(engine).providers.get()
        sequence = engine.search.submit(QUERY)
        first = queue.get(timeout=20)
        release.set()
        assert isinstance(first, SearchReady)
        assert not first.complete
        assert first.ranked.hits
        assert first.ranked.pool.states[Leg.VECTOR].status is LegStatus.PENDING
        last = queue.get(timeout=20)
        assert isinstance(last, SearchReady)
        assert (last.sequence, last.complete, bool(last.ranked.hits)) == (sequence, True, True)


def test_closing_does_not_wait_for_a_model_that_is_being_loaded(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release, provider = threading.Event(), threading.Event(), HashedProvider()

    def create(choice: EmbeddingSettings) -> HashedProvider:
        begun.set()
        release.wait(20)
        return provider

    slow = replace(registry.registration_of(HASHED), create=create)
    monkeypatch.setitem(REGISTRATIONS, HASHED, slow)
    closer = threading.Thread(target=memory.open(write=False, warm=True).close)
    assert begun.wait(20)
    [loading] = [one for one in threading.enumerate() if one.name == "memtui-model"]
    closer.start()
    closer.join(1.0)
    is_closed = not closer.is_alive()
    release.set()
    loading.join(20)
    assert is_closed, "a search by words alone ends at once"
    assert provider.closed, "what is loaded after the end is let go of"


def test_a_note_with_a_name_that_cannot_be_written_plainly_is_shown(engine: Engine) -> None:
    # The index doubles a U+FFFD, as it writes bytes that are no UTF-8 with one.
    (engine.root / "memory/caf\ufffd.md").write_text("A heron.\n", encoding="utf-8")
    engine.index.sync(wait=True)
    path = engine.search.ask("heron").hits[0].chunk.path
    assert path == "memory/caf\ufffd\ufffd.md"
    assert engine.index.files.source(path).state == "current"


def test_a_damaged_index_is_named_and_never_another_error(memory: SmallMemory) -> None:
    path = next(memory.data.glob("*/index-*.db"))
    content = path.read_bytes()
    path.write_bytes(content[:PAGE_SIZE] + b"\xa5" * (len(content) - PAGE_SIZE))
    with memory.open(write=False) as engine:
        for read in (
            lambda: engine.search.ask("router"),
            engine.browse.recent,
            engine.index.refresh_status,
            lambda: engine.index.files.source("MEMORY.md"),
        ):
            with pytest.raises(IndexUnusable, match="damaged"):
                read()
        assert engine.providers.cost().chunks == 0


def test_a_leg_that_cannot_read_the_index_leaves_the_other_to_answer(memory: SmallMemory) -> None:
    with closing(open_database(next(memory.data.glob("*/index-*.db")))) as connection:
        connection.execute("DROP TABLE chunks_fts_data")
    with memory.open(write=False) as engine:
        pool = engine.search.ask("heron").pool
    state = pool.states[Leg.KEYWORD]
    assert (state.status, state.reason) == (LegStatus.FAILED, Reason.INDEX_FAILED)
    assert state.detail
    assert pool.states[Leg.VECTOR].status is LegStatus.OK
    assert pool.hits[Leg.VECTOR]


YEAR = timedelta(days=365)


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (-YEAR, "the clock was moved back by 365 days"),
        (YEAR, "the clock was moved forward by 365 days"),
        (timedelta(hours=-3), "the clock was moved back by 3 h"),
        (timedelta(minutes=-59), ""),
    ],
)
def test_a_move_of_the_clock_is_told_until_it_is_taken_back(
    memory: SmallMemory, moved: timedelta, words: str
) -> None:
    moves = [timedelta()]
    options: Any = {"write": False, "now": lambda: datetime.now(UTC) + moves[-1]}
    with memory.open(**options) as engine:
        for move, expected in ((moved, words), (timedelta(), "")):
            moves.append(move)
            warnings = [one for one in engine.index.status().warnings if "clock" in one]
            assert len(warnings) == bool(expected)
            assert "".join(warnings).startswith(expected)


QUESTIONS = ("router password", "Omada -vault", "京都駅", "when was the birthday of Mai", "xyzzy")


def test_reading_answers_what_writing_answers_and_makes_no_cache(memory: SmallMemory) -> None:
    with memory.open() as writer:
        answers = [writer.search.ask(question).hits for question in QUESTIONS]
    for file in memory.data.glob("*/cache.db*"):
        file.unlink()
    with memory.open(write=False) as reader:
        assert [reader.search.ask(question).hits for question in QUESTIONS] == answers
        cost = reader.providers.cost()
        assert (cost.chunks, cost.cached) == (14, 0)
    assert not list(memory.data.glob("*/cache.db*"))


def test_who_writes_is_told_to_who_reads(memory: SmallMemory) -> None:
    with memory.open(write=False) as reader:
        for brief, name in ((True, "none"), (False, f"process {os.getpid()}")):
            with memory.open():
                reader.index.refresh_status(brief=brief)
            assert reader.index.status().writer == name
