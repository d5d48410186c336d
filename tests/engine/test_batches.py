"""A sync whose vectors come from a service's batch interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from memtui.bus import Event, SyncProgressed
from memtui.embedding.provider import Provider
from memtui.embedding.registry import registration_of
from memtui.embedding.remote import RemoteProvider
from memtui.engine import Engine
from memtui.index.job import Job, SyncResult
from memtui.index.schema import Recipe
from memtui.index.sync import sync
from memtui.index.vectors import STORE_NAME
from memtui.model import IndexState, Leg, LegStatus, ProviderState
from memtui.settings.schema import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.batch_loopback import DIMENSIONS, TOKENS, WAITING, BatchServer, batch_server
from tests.support.batches import KEY, NAMES, texts_of
from tests.support.embedding import HASHED, identity_of, registered_hashed
from tests.support.indexing import Workspace
from tests.support.loopback import Answer

CHUNKS = 6


@dataclass
class Scene:
    """Notes, their index, and a provider that asks a server on this machine."""

    server: BatchServer
    workspace: Workspace
    provider: RemoteProvider

    def job(self, **options: object) -> Job:
        """A sync of the notes; what it notes is in `notes`."""
        self.notes: list[str] = []
        job = replace(self.workspace.job(), provider=self.factory, note=self.notes.append)
        return replace(job, **options)  # type: ignore[arg-type]

    def factory(self) -> tuple[Provider, ProviderState]:
        """Hand out the provider."""
        name = self.server.service
        return self.provider, ProviderState(name, name, "m", DIMENSIONS)

    def sync(self, **options: object) -> SyncResult:
        """Bring the index up to date."""
        return sync(self.job(**options))


@contextmanager
def scene(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minimum: int = 2
) -> Iterator[Scene]:
    monkeypatch.setenv("MEMTUI_TEST_KEY", KEY)
    with batch_server(name) as server:
        choice = EmbeddingSettings(
            provider=name,
            model="model-1",
            base_url=server.base_url,
            dimensions=DIMENSIONS,
            key_env="MEMTUI_TEST_KEY",
            keyring=False,
            agent_keys=False,
            batch=True,
            batch_minimum=minimum,
        )
        provider = registration_of(name).create(choice)
        assert isinstance(provider, RemoteProvider)
        workspace = Workspace(tmp_path / "notes", tmp_path / "data")
        workspace.recipe = Recipe(identity_of(provider))
        for number, text in enumerate(texts_of(CHUNKS).values()):
            workspace.write(f"{number}.md", text + "\n")
        try:
            yield Scene(server, workspace, provider)
        finally:
            provider.close()
            workspace.cache.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_first_index_is_embedded_by_a_batch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene(name, tmp_path, monkeypatch) as here:
        result = here.sync()
        assert here.server.steps()[:5] == ["upload", "create", "poll", "poll", "download"]
        assert (result.problem, here.notes) == (None, [])
        assert result.stats.chunks_embedded == CHUNKS
        assert (result.stats.cache_hits, result.cache_misses) == (0, CHUNKS)
        assert result.stats.usage.texts == CHUNKS
        assert result.stats.usage.tokens == CHUNKS * TOKENS
        assert here.workspace.cache.count() == CHUNKS
        phases = [event.phase for event in here.workspace.events if hasattr(event, "phase")]
        assert f"batch: waiting for {name}" in phases
        assert phases[-1] == "vectors"
        again = here.sync()
        assert (again.stats.chunks_embedded, len(here.server.calls)) == (0, 7)


def test_a_store_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene("openai", tmp_path, monkeypatch) as here:
        here.server.inline = True
        (tmp_path / "data" / STORE_NAME).mkdir(parents=True)
        assert here.sync().stats.chunks_embedded == CHUNKS
        assert set(here.server.steps()) == {"inline"}
        assert here.notes == [f"batch: {STORE_NAME} cannot be read or written: Is a directory"]


@pytest.mark.parametrize("step", ["upload", "create", "poll"])
def test_a_key_that_was_replaced_meanwhile_is_looked_for_once_more(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene("openai", tmp_path, monkeypatch) as here:
        assert here.provider.batches(bool) is not None
        monkeypatch.setenv("MEMTUI_TEST_KEY", "sk-another-key-77")
        here.server.fail(step, Answer(b"", 401))
        assert here.sync().stats.chunks_embedded == CHUNKS
        assert (here.notes, len(here.server.jobs)) == ([], 1)
        keys = [call.headers["authorization"] for call in here.server.calls]
        refused = here.server.steps().index(step)
        assert set(keys[: refused + 1]) == {f"Bearer {KEY}"}
        assert set(keys[refused + 1 :]) == {"Bearer sk-another-key-77"}


NOTES = 6
WAIT = 20.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Batches are asked for at once, and the only key is the test's own."""
    monkeypatch.setattr("memtui.embedding.batch.FIRST_POLL", 0.001)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMTUI_TEST_KEY", KEY)


def opened(server: BatchServer, folder: Path, **embedding: object) -> Engine:
    """An engine whose provider asks the server."""
    root = folder / "workspace"
    root.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts_of(NOTES).values()):
        (root / f"{number}.md").write_text(f"{text}\n", encoding="utf-8")
    values = {
        "provider": server.service,
        "model": "model-1",
        "dimensions": DIMENSIONS,
        "base_url": server.base_url,
        "key_env": "MEMTUI_TEST_KEY",
        "keyring": False,
        "agent_keys": False,
        "fallback": "none",
        "batch": True,
        "batch_minimum": 2,
        **embedding,
    }
    settings = Settings(
        embedding=EmbeddingSettings.parse(values),
        chunking=ChunkingSettings(tokens=48, overlap=0),
    )
    return Engine.open(root, settings, data_dir=folder / "data")


def until(engine: Engine, told: Callable[[SyncProgressed], bool]) -> threading.Event:
    """Set once the progress tells something."""
    event = threading.Event()

    def listen(seen: Event) -> None:
        if isinstance(seen, SyncProgressed) and told(seen):
            event.set()

    engine.bus.subscribe(SyncProgressed, listen)
    return event


def assert_no_key(engine: Engine, folder: Path) -> None:
    """Look for the key in what is shown and in every file."""
    said = engine.index.status()
    assert KEY not in json.dumps(asdict(said), default=str) + repr(said)
    files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_batch_outlives_the_program(tmp_path: Path) -> None:
    with batch_server("openai") as server:
        server.states = [WAITING["openai"]]
        with opened(server, tmp_path) as engine:
            waiting = until(engine, lambda seen: seen.phase.startswith("batch: waiting"))
            engine.index.sync()
            assert waiting.wait(WAIT)
            assert list((tmp_path / "data").rglob(STORE_NAME))
            assert_no_key(engine, tmp_path)
        for job in server.jobs.values():
            job.states.append("completed")
        with opened(server, tmp_path) as engine:
            engine.index.sync(wait=True)
            assert (engine.index.status().vectors, len(server.jobs)) == (NOTES, 1)
            assert engine.index.status().state is IndexState.READY
    assert not list((tmp_path / "data").rglob(STORE_NAME))


def test_the_index_of_another_model_follows_the_files_until_the_batch_is_done(
    tmp_path: Path,
) -> None:
    with batch_server("openai") as server, registered_hashed():
        plain = {"provider": HASHED, "model": None, "dimensions": None, "base_url": None}
        with opened(server, tmp_path, **plain) as engine:
            engine.index.sync(wait=True)
            assert engine.index.status().vectors == NOTES
        server.inline = True
        server.states = [WAITING["openai"]]
        with opened(server, tmp_path) as engine:
            waiting = until(engine, lambda seen: seen.phase.startswith("batch: waiting"))
            engine.index.sync()
            assert waiting.wait(WAIT)
            late = tmp_path / "workspace" / "late.md"
            late.write_text("a zebra crossed\n", encoding="utf-8")
            indexed = until(engine, lambda seen: seen.phase == "files" and seen.done == seen.total)
            again = until(engine, lambda seen: indexed.is_set() and seen.phase.startswith("batch"))
            engine.index.sync()
            assert again.wait(WAIT)
            assert [hit.chunk.path for hit in engine.search.ask("zebra").hits][:1] == ["late.md"]
            assert engine.index.status().generation == 1
            for job in server.jobs.values():
                job.states.append("completed")
            assert engine.wait_idle(WAIT)
            said = engine.index.status()
            assert (said.generation, said.vectors, len(server.jobs)) == (2, NOTES + 1, 1)
            assert server.steps().count("inline") == 3, "a probe for each run, and the late note"
            assert said.usage.texts == NOTES + 1, "those of the batch are counted"
            assert said.errors == ()
            assert engine.search.ask("zebra").pool.states[Leg.VECTOR].status is LegStatus.OK
