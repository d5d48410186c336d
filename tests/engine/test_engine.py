"""The engine on a real folder: real SQLite, real files, real threads, a real watcher."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.bus import (
    Bus,
    Event,
    IndexChanged,
    IndexSwapped,
    SearchFailed,
    SearchReady,
    SyncFinished,
)
from memtui.engine import Engine
from memtui.errors import IndexMissing, SettingsError, WriterLocked
from memtui.model import IndexState, Leg, LegStatus, Reason
from memtui.settings import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.events import EventQueue, collect

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
    assert engine.index.rebuild_cost().chunks == 0


def test_both_legs_answer_after_a_sync(engine: Engine) -> None:
    engine.index.sync(wait=True)
    status = engine.index.status()
    assert status.state is IndexState.READY
    assert (status.files, status.chunks, status.vectors) == (6, 6, 6)
    ranked = engine.search.ask("omada router vlan")
    assert {state.status for state in ranked.pool.states.values()} == {LegStatus.OK}
    assert {hit.chunk.path for hit in ranked.hits[:2]} == {
        "memory/2026-11-18.md",
        "memory/2026-11-19.md",
    }
    assert set(ranked.hits[0].legs) == {Leg.VECTOR, Leg.KEYWORD}
    assert len(ranked.hits) + len(ranked.drops) == len(ranked.pool.chunks)


def test_every_change_of_the_files_is_followed_by_a_sync(engine: Engine, root: Path) -> None:
    engine.index.sync(wait=True)
    (root / "memory/2026-11-18.md").rename(root / "memory/2026-11-17.md")
    (root / "memory/people/mai.md").write_text("Mai now prefers jasmine.\n", encoding="utf-8")
    (root / "memory/2026-02-01.md").unlink()
    (root / "memory/new.md").write_text("A heron stood in the pond.\n", encoding="utf-8")
    engine.index.sync(wait=True)
    assert "memory/2026-11-17.md" in paths(engine, "omada router")
    assert "memory/2026-11-18.md" not in paths(engine, "omada router")
    assert paths(engine, "jasmine")[0] == "memory/people/mai.md"
    assert paths(engine, '"192.168.1.1"') == []
    assert paths(engine, "heron")[0] == "memory/new.md"
    assert engine.index.status().files == 6


def test_typing_makes_the_last_word_a_prefix(engine: Engine) -> None:
    engine.index.sync(wait=True)
    found = engine.search.ask("omad", typing=True)
    assert "memory/2026-11-18.md" in {
        hit.chunk.path for hit in found.hits if Leg.KEYWORD in hit.legs
    }
    whole = engine.search.ask("omad", typing=False)
    assert all(Leg.KEYWORD not in hit.legs for hit in whole.hits)


def test_a_failing_provider_leaves_the_keyword_leg(root: Path, tmp_path: Path) -> None:
    broken = HashedProvider(fail_next=10_000)
    data = tmp_path / "data"
    with registered_hashed(broken), Engine.open(root, SETTINGS, data_dir=data) as engine:
        engine.index.sync(wait=True)
        ranked = engine.search.ask("omada router")
        assert ranked.hits
        assert ranked.pool.states[Leg.KEYWORD].status is LegStatus.OK
        assert ranked.pool.states[Leg.VECTOR].status is not LegStatus.OK
        status = engine.index.status()
        assert status.state is IndexState.DEGRADED
        assert status.errors


def test_without_a_provider_search_is_by_keyword(root: Path, tmp_path: Path) -> None:
    settings = Settings(embedding=EmbeddingSettings(provider="none"))
    with Engine.open(root, settings, data_dir=tmp_path / "data") as engine:
        engine.index.sync(wait=True)
        ranked = engine.search.ask("omada router")
        assert ranked.hits
        assert ranked.pool.states[Leg.VECTOR].reason is Reason.DISABLED
        assert engine.index.status().state is IndexState.READY


def test_a_rebuild_swaps_a_new_generation_in(root: Path, tmp_path: Path) -> None:
    bus = Bus()
    swaps = collect(bus, IndexSwapped)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus) as engine:
        engine.index.sync(wait=True)
        before = engine.index.status().generation
        assert swaps.get(timeout=20) == IndexSwapped(before)
        expected = paths(engine, "omada router")
        assert engine.index.rebuild_cost().cached == 6
        engine.index.rebuild(wait=True)
        assert engine.index.status().generation > before
        assert swaps.get(timeout=20) == IndexSwapped(engine.index.status().generation)
        assert paths(engine, "omada router") == expected


def test_searches_go_on_while_a_rebuild_runs(root: Path, tmp_path: Path) -> None:
    bus = Bus()
    finished = threading.Event()
    bus.subscribe(SyncFinished, lambda event: finished.set())
    for number in range(60):
        text = f"# Note {number}\n\nThe router has port {number}.\n" * 30
        (root / f"memory/note-{number}.md").write_text(text, encoding="utf-8")
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus) as engine:
        engine.index.sync(wait=True)
        finished.clear()
        engine.index.rebuild()
        searches = 0
        while not finished.is_set() or searches == 0:
            assert engine.search.ask("router port").hits
            searches += 1


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
    done = collect(bus, SyncFinished)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", bus=bus, watch=True) as engine:
        assert done.get(timeout=30) is not None, "the first index"
        (root / "memory/fresh.md").write_text("A kingfisher flew past.\n", encoding="utf-8")
        while "memory/fresh.md" not in paths(engine, "kingfisher"):
            assert done.get(timeout=30) is not None, "the change was not noticed"


def test_a_second_engine_follows_the_first(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    bus = Bus()
    changes: EventQueue = collect(bus, Event)
    with (
        Engine.open(root, SETTINGS, data_dir=data) as writer,
        Engine.open(root, SETTINGS, data_dir=data, bus=bus) as follower,
    ):
        with pytest.raises(WriterLocked):
            follower.index.require_writer()
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


def test_reading_alone_writes_nothing(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Engine.open(root, SETTINGS, data_dir=data, write=False) as engine:
        assert engine.index.status().state is IndexState.NO_INDEX
    assert not data.exists()


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
