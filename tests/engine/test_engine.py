"""The engine on a real folder: real SQLite, real files, real threads, a real watcher."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memtui.bus import (
    Bus,
    Event,
    IndexChanged,
    IndexSwapped,
    SearchFailed,
    SearchReady,
    StatusChanged,
    SyncFinished,
)
from memtui.embedding.provider import Vector
from memtui.embedding.registry import Registration, register
from memtui.engine import Engine
from memtui.errors import IndexMissing, IndexUnusable, SettingsError, WriterLocked
from memtui.index.database import PAGE_SIZE
from memtui.model import IndexState, Leg, LegStatus, Reason
from memtui.settings.schema import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding import HashedProvider, hashed_identity, registered_hashed
from tests.support.indexing import EventQueue
from tests.support.small_memory import make_small_memory, own_index

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
SETTINGS = Settings(
    embedding=EmbeddingSettings(provider="hashed", fallback="none"),
    index=IndexSettings(debounce_seconds=0.05, rescan_seconds=1.0),
)
NOTES = {
    "MEMORY.md": "# Memory\n\nPrefers wired uplinks. The router password lives in the vault.\n",
    "memory/2026-11-18.md": "# Tuesday\n\nConfigured the Omada router: VLAN 20 for IoT.\n",
    "memory/2026-11-19.md": "# Wednesday\n\nConfigured the Omada router: VLAN 20 for IoT, again.\n",
    "memory/2026-02-01.md": "# February\n\nThe gateway is 192.168.1.1.\n",
    "memory/people/mai.md": "# Mai\n\nBirthday on the third of May. Likes lotus tea.\n",
    "memory/trips/kyoto.md": "# 京都\n\n京都駅から清水寺まではバスで行く。\n",
}


def write_notes(root: Path) -> None:
    for name, text in NOTES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def hashed() -> Iterator[None]:
    with registered_hashed():
        # One for each engine: an engine closes what it loaded.
        register(
            Registration(
                "hashed",
                False,
                lambda choice: HashedProvider(),
                lambda choice: "made for tests",
                lambda choice: hashed_identity(),
            )
        )
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    write_notes(folder)
    return folder


@pytest.fixture
def engine(root: Path, tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", now=lambda: NOW) as opened:
        yield opened


def paths(engine: Engine, query: str) -> list[str]:
    return [hit.chunk.path for hit in engine.search.ask(query).hits]


def answer(queue: EventQueue, sequence: int) -> SearchReady:
    """The complete answer to a request; anything older that arrives first is left behind."""
    while True:
        event = queue.get(timeout=20)
        assert event is not None, "no answer came"
        assert not isinstance(event, SearchFailed), event
        if isinstance(event, SearchReady) and event.sequence == sequence and event.complete:
            return event


def test_before_the_first_index_a_search_says_so(engine: Engine) -> None:
    assert engine.index.status().state is IndexState.NO_INDEX
    with pytest.raises(IndexMissing):
        engine.search.ask("router")
    assert list(engine.browse.recent()) == []
    assert engine.providers.cost().chunks == 0


def test_a_source_is_current_changed_or_gone(engine: Engine, root: Path) -> None:
    engine.index.sync(wait=True)
    path = "memory/people/mai.md"
    assert engine.browse.source(path).state == "current"
    assert engine.browse.source(path).lines[0] == "# Mai"
    (root / path).write_text("# Other\n", encoding="utf-8")
    assert engine.browse.source(path).state == "changed"
    assert engine.browse.source(path).lines == ["# Other", ""]
    (root / path).unlink()
    gone = engine.browse.source(path)
    assert gone.state == "gone"
    assert gone.lines[0] == "# Mai"


def test_a_look_at_the_files_finds_what_waits(engine: Engine, root: Path) -> None:
    engine.index.refresh_status()
    assert engine.index.status().pending_count == 6
    engine.index.sync(wait=True)
    engine.index.refresh_status()
    assert engine.index.status().pending == ()
    (root / "memory/new.md").write_text("new\n", encoding="utf-8")
    (root / "MEMORY.md").unlink()
    engine.index.refresh_status()
    status = engine.index.status()
    assert status.state is IndexState.STALE
    assert set(status.pending) == {"memory/new.md", "MEMORY.md"}


def test_the_watcher_brings_a_change_into_the_results(root: Path, tmp_path: Path) -> None:
    bus = Bus()
    done = EventQueue(bus, SyncFinished)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus, watch=True) as engine:
        assert done.get(timeout=30) is not None, "the first index"
        (root / "memory/fresh.md").write_text("A kingfisher flew past.\n", encoding="utf-8")
        while "memory/fresh.md" not in paths(engine, "kingfisher"):
            assert done.get(timeout=30) is not None, "the change was not noticed"


def test_a_second_engine_follows_the_first(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    bus = Bus()
    changes = EventQueue(bus, Event)
    with (
        Engine.open(root, SETTINGS, data_dir=data) as writer,
        Engine.open(root, SETTINGS, data_dir=data, bus=bus) as follower,
    ):
        with pytest.raises(WriterLocked):
            follower.index.require_writer()
        # It has looked at the empty folder.
        assert changes.get(timeout=20) == StatusChanged()
        writer.index.sync(wait=True)
        assert paths(follower, "omada router")
        while not isinstance(event := changes.get(timeout=20), IndexSwapped):
            assert event is not None, "the follower never told of the first index"
        (root / "memory/owl.md").write_text("An owl in the barn.\n", encoding="utf-8")
        writer.index.sync(wait=True)
        assert paths(follower, "owl barn")[0] == "memory/owl.md"
        while not isinstance(event := changes.get(timeout=20), IndexChanged):
            assert event is not None, "the follower never told that the index changed"
        while follower.index.status().files != 7:
            assert changes.get(timeout=20) is not None


def test_a_subscriber_that_fails_ends_no_thread_and_is_named(root: Path, tmp_path: Path) -> None:
    bus = Bus()

    def fail(event: Event) -> None:
        raise ValueError("boom")

    bus.subscribe(SyncFinished, fail)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus) as engine:
        engine.index.sync(wait=True)
        (root / "memory/owl.md").write_text("An owl.\n", encoding="utf-8")
        engine.index.sync(wait=True)
        assert engine.index.status().files == 7
        assert any("boom" in error.message for error in engine.index.status().errors)


def test_an_index_folder_that_depends_on_the_current_folder_is_refused(root: Path) -> None:
    settings = Settings(index=IndexSettings(data_dir="here"))
    with pytest.raises(SettingsError, match="data_dir"):
        Engine.open(root, settings)
    assert not (root / "here").exists()


@pytest.fixture
def data(root: Path, tmp_path: Path) -> Path:
    """A data folder with an index that is up to date."""
    folder = tmp_path / "data"
    with Engine.open(root, SETTINGS, data_dir=folder) as engine:
        engine.index.sync(wait=True)
    return folder


def database(data: Path) -> Path:
    return next(data.glob("*/index-*.db"))


def test_a_search_keeps_to_the_generation_it_began_with(root: Path, data: Path) -> None:
    waiting: list[Engine] = []

    class Swapping(HashedProvider):
        def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
            if waiting:
                waiting.pop().index.rebuild(wait=True)
            return super().embed_query(text)

    with registered_hashed(Swapping()), Engine.open(root, SETTINGS, data_dir=data) as engine:
        waiting.append(engine)
        ranked = engine.search.ask("omada router")
        for state in ranked.pool.states.values():
            assert state.status is LegStatus.OK, state.detail
        assert engine.search.ask("omada router").pool.generation > ranked.pool.generation


def test_vectors_are_those_of_the_rows_of_a_new_generation(root: Path, data: Path) -> None:
    query, provider = "Likes lotus tea", HashedProvider()
    with Engine.open(root, SETTINGS, data_dir=data) as engine:
        engine.search.ask(query)
        (root / "MEMORY.md").unlink()
        engine.index.rebuild(wait=True)
        pool = engine.search.ask(query).pool
    assert len(pool.hits[Leg.VECTOR]) == len(NOTES) - 1
    for hit in pool.hits[Leg.VECTOR]:
        (vector,) = provider.embed_documents([pool.chunks[hit.chunk_id].text])
        assert hit.raw == pytest.approx(float(vector @ provider.embed_query(query)), abs=1e-5)


@pytest.mark.parametrize("dimensions", [64, 128, 32])
def test_vectors_of_another_model_are_not_compared(root: Path, data: Path, dimensions: int) -> None:
    other = HashedProvider(model="other", dimensions=dimensions)
    with registered_hashed(other), Engine.open(root, SETTINGS, data_dir=data) as engine:
        ranked = engine.search.ask("omada router")
        state = ranked.pool.states[Leg.VECTOR]
        assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.NO_VECTORS)
        assert "hashed-trigrams" in state.detail
        assert ranked.pool.states[Leg.KEYWORD].status is LegStatus.OK
        assert ranked.hits
        engine.index.sync(wait=True)
        assert engine.search.ask("omada router").pool.states[Leg.VECTOR].status is LegStatus.OK


def test_the_first_search_does_not_wait_for_a_slow_model(root: Path, data: Path) -> None:
    release = threading.Event()

    class Slow(HashedProvider):
        def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
            release.wait(20)
            return super().embed_query(text)

    bus = Bus()
    queue = EventQueue(bus, SearchReady)
    with (
        registered_hashed(Slow()),
        Engine.open(root, SETTINGS, data_dir=data, bus=bus) as engine,
    ):
        own_index(engine).providers.get()
        sequence = engine.search.submit("omada router")
        first = queue.get(timeout=20)
        release.set()
        assert isinstance(first, SearchReady)
        assert not first.complete
        assert first.ranked.hits
        assert first.ranked.pool.states[Leg.VECTOR].status is LegStatus.PENDING
        assert answer(queue, sequence).ranked.hits


def test_a_look_at_the_files_is_forgotten_when_the_watcher_syncs(
    root: Path, tmp_path: Path
) -> None:
    bus = Bus()
    done = EventQueue(bus, SyncFinished)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus, watch=True) as engine:
        assert done.get(timeout=30) is not None
        engine.index.refresh_status()
        assert engine.index.status().files == len(NOTES)
        (root / "memory/fresh.md").write_text("A kingfisher.\n", encoding="utf-8")
        assert done.get(timeout=30) is not None
        assert engine.index.status().files == len(NOTES) + 1


def test_a_note_with_a_name_that_cannot_be_written_plainly_is_shown(
    root: Path, tmp_path: Path
) -> None:
    # The index doubles a U+FFFD, as it writes bytes that are no UTF-8 with one.
    (root / "memory/caf\ufffd.md").write_text("A heron.\n", encoding="utf-8")
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data") as engine:
        engine.index.sync(wait=True)
        path = engine.search.ask("heron").hits[0].chunk.path
        assert path == "memory/caf\ufffd\ufffd.md"
        assert engine.browse.source(path).state == "current"


def test_reading_makes_no_cache(root: Path, data: Path) -> None:
    for file in data.glob("*/cache.db*"):
        file.unlink()
    with Engine.open(root, SETTINGS, data_dir=data, write=False) as engine:
        assert engine.search.ask("omada router").hits
        cost = engine.providers.cost()
        assert (cost.chunks, cost.cached) == (len(NOTES), 0)
    assert not list(data.glob("*/cache.db*"))


def test_a_damaged_index_is_named_and_never_another_error(root: Path, data: Path) -> None:
    path = database(data)
    content = path.read_bytes()
    path.write_bytes(content[:PAGE_SIZE] + b"\xa5" * (len(content) - PAGE_SIZE))
    with Engine.open(root, SETTINGS, data_dir=data, write=False) as engine:
        for read in (
            lambda: engine.search.ask("router"),
            engine.browse.recent,
            engine.index.refresh_status,
            lambda: engine.browse.source("MEMORY.md"),
        ):
            with pytest.raises(IndexUnusable, match="damaged"):
                read()
        assert engine.providers.cost().chunks == 0


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
    root: Path, data: Path, moved: timedelta, words: str
) -> None:
    moves = [timedelta()]
    options: Any = {"write": False, "now": lambda: datetime.now(UTC) + moves[-1]}
    with Engine.open(root, SETTINGS, data_dir=data, **options) as engine:
        for move, expected in ((moved, words), (timedelta(), "")):
            moves.append(move)
            warnings = [one for one in engine.index.status().warnings if "clock" in one]
            assert len(warnings) == bool(expected)
            assert "".join(warnings).startswith(expected)


# --- only reading ---------------------------------------------------------------------------------


QUESTIONS = ("router password", "Omada -vault", "京都駅", "when was the birthday of Mai", "xyzzy")


def test_reading_answers_what_writing_answers(tmp_path: Path) -> None:
    memory = make_small_memory(tmp_path)
    with memory.open(write=False) as reader:
        answers = [reader.search.ask(question).hits for question in QUESTIONS]
    with memory.open() as writer:
        assert [writer.search.ask(question).hits for question in QUESTIONS] == answers


def test_who_writes_is_told_to_who_reads(tmp_path: Path) -> None:
    memory = make_small_memory(tmp_path)
    with memory.open(write=False) as reader:
        for brief, name in ((True, "none"), (False, f"process {os.getpid()}")):
            with memory.open():
                reader.index.refresh_status(brief=brief)
            assert reader.index.status().writer == name


def test_without_an_index_it_says_so_and_makes_none(tmp_path: Path) -> None:
    with make_small_memory(tmp_path / "other", indexed=False).open(
        write=False, warm=True
    ) as engine:
        with pytest.raises(IndexMissing):
            engine.search.ask("router")
        engine.index.refresh_status()
        assert engine.index.status().state is IndexState.NO_INDEX
        assert engine.index.status().pending_count == 12
    assert not (tmp_path / "other/data").exists()
