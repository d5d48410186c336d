"""A sync whose vectors come from a service's batch interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict

from memtui.bus import Event, SyncProgressed
from memtui.engine import Engine
from memtui.index.vectors import STORE_NAME
from memtui.model import IndexState, Leg, LegStatus, Usage
from memtui.settings.schema import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.batches import (
    DIMENSIONS,
    KEY,
    TOKENS,
    WAITING,
    BatchServer,
    batch_server,
    texts_of,
)
from tests.support.embedding import HASHED, registered_hashed
from tests.support.embedding_services import Answer
from tests.support.small_memory import own_index

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
        embedding=EmbeddingSettings.parse(values), chunking=ChunkingSettings(tokens=48, overlap=0)
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


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with batch_server("openai") as server, opened(server, tmp_path) as engine:
        server.inline = True
        folder = next((tmp_path / "data").iterdir())
        (folder / STORE_NAME).mkdir()
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert (status.vectors, set(server.steps())) == (NOTES, {"inline"})
        told = f"batch: {STORE_NAME} cannot be read or written: Is a directory"
        assert [record.message for record in status.errors] == [told]


def test_a_credential_is_in_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "ghp_" + "R4nd0mL00k1ngT0ken" * 2
    with batch_server("openai") as server:
        monkeypatch.setenv("http_proxy", server.url)
        address = server.base_url.replace(server.host, "embeddings.invalid")
        elsewhere = {"base_url": address, "allow_insecure": True}
        for model in ("model-1", "model-2"):
            with opened(server, tmp_path, model=model, **elsewhere) as engine:
                note = tmp_path / "workspace" / "deploy.md"
                note.write_text(f"# Deploy\n\nGITHUB_TOKEN={secret}\n", encoding="utf-8")
                server.inline = True
                engine.index.sync(wait=True)
                status = engine.index.status()
                assert (status.vectors, len(status.withheld), status.errors) == (NOTES, 1, ())
                assert status.provider.model == model
        assert len(server.jobs) == 2
        assert not [call for call in server.calls if secret.encode() in call.body]


@pytest.mark.parametrize("step", ["upload", "create", "poll"])
def test_a_key_that_was_replaced_meanwhile_is_looked_for_once_more(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with batch_server("openai") as server, opened(server, tmp_path) as engine:
        provider, _ = own_index(engine).providers.get()
        assert provider is not None
        assert provider.batches(bool) is not None
        monkeypatch.setenv("MEMTUI_TEST_KEY", "sk-another-key-77")
        server.fail(step, Answer(b"", 401))
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert (status.vectors, status.errors, len(server.jobs)) == (NOTES, (), 1)
        assert status.usage == Usage(1, NOTES, NOTES * TOKENS)
        keys = [call.headers["authorization"] for call in server.calls]
        refused = server.steps().index(step)
        assert set(keys[: refused + 1]) == {f"Bearer {KEY}"}
        assert set(keys[refused + 1 :]) == {"Bearer sk-another-key-77"}


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
