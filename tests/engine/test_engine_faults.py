"""The engine when something changes or breaks in the middle: swaps, models, providers, files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memtui.bus import Bus, SearchReady, SyncFinished
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Provider, Vector
from memtui.embedding.registry import Availability, Registration, register
from memtui.engine import Engine
from memtui.engine.own_legs import OwnLegs
from memtui.errors import IndexUnusable, ProviderError
from memtui.index.database import PAGE_SIZE, DatabaseError, open_database
from memtui.model import IndexState, Leg, LegStatus, Reason
from memtui.retrieval.connection import snapshot
from memtui.retrieval.legs import LegAnswer
from memtui.retrieval.query import Query
from tests.engine.test_engine import NOTES, SETTINGS, answer, write_notes
from tests.support.embedding import HashedProvider, hashed_identity, registered_hashed
from tests.support.events import collect
from tests.support.small_memory import own_index, writer_of


@pytest.fixture(autouse=True)
def hashed() -> Iterator[None]:
    with registered_hashed():
        # One for each engine: an engine closes what it loaded.
        create_with(lambda choice: HashedProvider())
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    write_notes(folder)
    return folder


@pytest.fixture
def data(root: Path, tmp_path: Path) -> Path:
    """A data folder with an index that is up to date."""
    folder = tmp_path / "data"
    with Engine.open(root, SETTINGS, data_dir=folder) as engine:
        engine.index.sync(wait=True)
    return folder


def database(data: Path) -> Path:
    return next(data.glob("*/index-*.db"))


def create_with(create: Callable[[EmbeddingChoice], Provider]) -> None:
    register(
        Registration(
            "hashed",
            False,
            create,
            lambda choice: Availability(True, "made for tests"),
            lambda choice: hashed_identity(),
        )
    )


def test_a_search_keeps_to_the_generation_it_began_with(
    root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = OwnLegs._ask
    with Engine.open(root, SETTINGS, data_dir=data) as engine:
        swapped: list[Leg] = []

        def ask_then_swap(
            self: OwnLegs,
            leg: Leg,
            query: Query,
            limit: int,
            cancelled: Callable[[], bool],
            typing: bool,
        ) -> LegAnswer:
            found = ask(self, leg, query, limit, cancelled, typing)
            if not swapped:
                swapped.append(leg)
                writer_of(engine).indexer.rebuild()
                assert writer_of(engine).indexer.wait_idle(30)
            return found

        monkeypatch.setattr(OwnLegs, "_ask", ask_then_swap)
        ranked = engine.search.ask("omada router")
        for state in ranked.pool.states.values():
            assert state.status is LegStatus.OK, state.detail
        assert engine.search.ask("omada router").pool.generation > ranked.pool.generation


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


def test_a_provider_whose_libraries_break_leaves_the_keyword_leg(root: Path, data: Path) -> None:
    def fail(choice: EmbeddingChoice) -> Provider:
        raise RuntimeError("compiled for another numpy")

    create_with(fail)
    with Engine.open(root, SETTINGS, data_dir=data) as engine:
        ranked = engine.search.ask("omada router")
        state = ranked.pool.states[Leg.VECTOR]
        assert (state.status, state.reason) == (LegStatus.FAILED, Reason.PROVIDER_FAILED)
        assert state.detail.startswith("hashed: RuntimeError: compiled for another numpy; tried")
        assert ranked.hits


def test_the_status_follows_a_provider_that_answers_again(root: Path, tmp_path: Path) -> None:
    broken = True

    def create(choice: EmbeddingChoice) -> Provider:
        if broken:
            raise ProviderError("the model is missing")
        return HashedProvider()

    create_with(create)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data") as engine:
        engine.index.sync(wait=True)
        assert engine.index.status().provider.state is Reason.PROVIDER_FAILED
        broken = False
        own_index(engine).providers.retry()
        engine.search.ask("router")
        assert engine.index.status().provider.state is Reason.OK
        assert engine.index.status().state is IndexState.DEGRADED, "the vectors are still missing"


def test_the_first_search_does_not_wait_for_a_slow_model(root: Path, data: Path) -> None:
    release = threading.Event()

    class Slow(HashedProvider):
        def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
            release.wait(20)
            return super().embed_query(text)

    bus = Bus()
    queue = collect(bus, SearchReady)
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
    done = collect(bus, SyncFinished)
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
        cost = engine.index.rebuild_cost()
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
        assert engine.index.rebuild_cost().chunks == 0


def test_an_interruption_at_its_very_end_leaves_no_snapshot_open(data: Path) -> None:
    class Interrupted:
        """A connection whose first release is interrupted, as another thread may do."""

        def __init__(self) -> None:
            self.connection = open_database(database(data), readonly=True)
            self.missed = 0

        def execute(self, sql: str, bindings: object = None, /) -> object:
            if sql.startswith("RELEASE") and not self.missed:
                self.missed += 1
                raise DatabaseError("interrupted")
            return self.connection.execute(sql)

    interrupted = Interrupted()
    with snapshot(interrupted):  # type: ignore[arg-type]
        interrupted.execute("SELECT count(*) FROM chunks")
    assert interrupted.missed == 1
    assert not interrupted.connection.in_transaction
    interrupted.connection.close()
