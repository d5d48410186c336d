"""The whole engine with a service whose batches it uses: over restarts, and without a trace."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from memtui.bus import Event, SyncProgressed
from memtui.embedding.batch.protocols import (
    GeminiBatches,
    MistralBatches,
    OpenAiBatches,
    VoyageBatches,
)
from memtui.engine import Engine
from memtui.index.vectors import STORE_NAME
from memtui.model import IndexState, Leg, LegStatus
from memtui.settings import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.batch_loopback import DIMENSIONS, TOKENS, WAITING, BatchServer, batch_server
from tests.support.batches import KEY, NAMES, texts_of
from tests.support.embedding import HASHED, registered_hashed

NOTES = 6
WAIT = 20.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Batches are asked for at once, and the only key is the test's own."""
    for kind in (OpenAiBatches, VoyageBatches, MistralBatches, GeminiBatches):
        monkeypatch.setattr(kind, "limits", replace(kind.limits, first_poll=0.001))
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
        "base_url": server.url,
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


@pytest.mark.parametrize("name", NAMES)
def test_an_index_by_a_batch(name: str, tmp_path: Path) -> None:
    with batch_server(name) as server, opened(server, tmp_path) as engine:
        waiting = until(engine, lambda seen: seen.phase == f"batch: waiting for {name}")
        engine.index.sync(wait=True)
        said = engine.index.status()
        assert (said.vectors, said.state, said.errors) == (NOTES, IndexState.READY, ())
        assert said.last_sync is not None
        assert (said.last_sync.usage.texts, said.last_sync.usage.tokens) == (NOTES, NOTES * TOKENS)
        assert waiting.is_set()
        assert "inline" not in server.steps()
        assert_no_key(engine, tmp_path)


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


def test_a_note_written_meanwhile_is_found_by_keyword(tmp_path: Path) -> None:
    with batch_server("voyage") as server, opened(server, tmp_path) as engine:
        server.states = [WAITING["voyage"]]
        waiting = until(engine, lambda seen: seen.phase.startswith("batch: waiting"))
        engine.index.sync()
        assert waiting.wait(WAIT)
        (tmp_path / "workspace" / "late.md").write_text("a zebra crossed\n", encoding="utf-8")
        indexed = until(engine, lambda seen: seen.phase == "files" and seen.done == seen.total > 0)
        engine.index.sync()
        assert indexed.wait(WAIT)
        again = until(engine, lambda seen: seen.phase.startswith("batch: waiting"))
        assert again.wait(WAIT)
        assert [hit.chunk.path for hit in engine.search.ask("zebra").hits] == ["late.md"]
        assert len(server.jobs) == 1


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
