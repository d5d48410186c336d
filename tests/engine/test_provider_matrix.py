"""Every way in which a service can fail, for every service, down to the index on the disk.

Each ends in the index of a run without faults or in a named state, with nothing half written; and
once the service works again, in the index of a run without faults.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from memtui.embedding.remote.plan import plan_of
from memtui.embedding.remote.provider import RemoteProvider
from memtui.engine import Engine
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex
from memtui.memory.workspace import workspace_id
from memtui.model import Failure, IndexState, IndexStatus, Leg, LegStatus, Reason
from memtui.settings import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.embedding_services import (
    EmbeddingServer,
    broken_off,
    cut,
    embedding_server,
    fewer,
    fixed,
    hanging,
    holding,
    key_in,
    right,
    rows_of,
    status,
    uneven,
    zeros,
)
from tests.support.loopback import HTML, Answer, Seen
from tests.support.remote_embedding import (
    KEY,
    KEY_VARIABLES,
    MODEL,
    PROVIDERS,
    Clock,
    base_url,
    choice_at,
    registered_remote,
)
from tests.support.service_cases import CASES, Case
from tests.support.small_memory import writer_of

NOTES = {
    "MEMORY.md": "# Memory\n\nThe router password lives in the vault.\n",
    "memory/2026-11-18.md": "# Tuesday\n\nConfigured the router: VLAN 20 for IoT.\n",
    "memory/people/mai.md": "# Mai\n\nLikes lotus tea.\n",
    "memory/trips/kyoto.md": "# 京都\n\n京都駅から清水寺まではバスで行く。\n",
}
OF_THE_ISSUE = {
    "success",
    "400-oversize",
    "400-oversize-stays",
    "401",
    "403",
    "404",
    "429",
    "429-retry-after",
    "429-stays",
    "500-stays",
    "503",
    "slow",
    "hanging",
    "cut-stays",
    "dimensions",
    "fewer-stays",
    "shuffled",
    "nan",
    "infinity",
    "not-json",
    "html",
}
MATRIX = [
    pytest.param(case, provider, id=f"{provider}-{case.name}")
    for case in CASES
    if case.name in OF_THE_ISSUE
    for provider in case.only
]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key for every service, and a home without any other."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in KEY_VARIABLES.values():
        monkeypatch.setenv(name, KEY)


@pytest.fixture(autouse=True)
def made() -> Iterator[list[RemoteProvider]]:
    """The providers that engines create; their pauses pass at once."""
    with registered_remote(Clock()) as providers:
        yield providers


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None


class Scene:
    """A workspace whose index is made by a service on this machine."""

    def __init__(
        self,
        folder: Path,
        provider: str,
        server: EmbeddingServer,
        notes: dict[str, str] | None = None,
    ) -> None:
        self.root, self.data = folder / "workspace", folder / "data"
        self.provider, self.server = provider, server
        for name, text in (notes or NOTES).items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def open(self, **embedding: object) -> Engine:
        values = {
            "provider": self.provider,
            "model": MODEL,
            "base_url": base_url(self.provider, self.server),
            "fallback": "none",
            "keyring": False,
            "agent_keys": False,
            **embedding,
        }
        settings = Settings(
            embedding=EmbeddingSettings.parse(values),
            chunking=ChunkingSettings(tokens=48, overlap=0),
        )
        return Engine.open(self.root, settings, data_dir=self.data)

    def vectors(self) -> dict[str, tuple[str, bool, bytes | None]]:
        """By chunk, its text, whether it counts as embedded, and its vector."""
        live = LiveIndex(IndexFolder(self.data / workspace_id(self.root)))
        try:
            connection = live.connection()
            is_there = "SELECT 1 FROM sqlite_schema WHERE name = 'chunks_vec'"
            stored = connection.execute(is_there).fetchall()
            kept = "SELECT rowid, embedding FROM chunks_vec" if stored else "SELECT 0, 0 LIMIT 0"
            by_row = {row: _bytes(vector) for row, vector in connection.execute(kept)}
            chunks = "SELECT id, chunk_id, text, embedded FROM chunks"
            return {
                str(name): (str(text), bool(embedded), by_row.get(row))
                for row, name, text, embedded in connection.execute(chunks).fetchall()
            }
        finally:
            live.close()

    def sent(self, text: str) -> str:
        """A chunk's text as the service gets it."""
        plan = plan_of(self.provider, choice_at(self.provider, self.server))
        return plan.templates.document + text

    def assert_every_vector_is_right(self) -> int:
        """Compare each vector with what the service gives; how many there are."""
        found = self.vectors()
        for text, embedded, vector in found.values():
            assert embedded is (vector is not None)
            if vector is not None:
                right = rows_of([self.sent(text)])[0]
                np.testing.assert_array_equal(np.frombuffer(vector, np.float32), right)
        return sum(embedded for _, embedded, _ in found.values())

    def assert_no_key(self, said: IndexStatus) -> None:
        """Look for the key in what is shown and in every file of the index."""
        text = json.dumps(asdict(said), default=str) + repr(said)
        assert KEY not in text
        assert "SECRET" not in text
        files = [path for path in self.data.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"SECRET" in path.read_bytes()]


WORDS = {
    Failure.TOO_LARGE: "too long",
    Failure.RATE_LIMITED: "too many requests",
    Failure.SERVICE_DOWN: "the service fails",
    Failure.TIMEOUT: "no answer from",
    Failure.CUT: "cut the connection",
    Failure.BAD_ANSWER: "answer",
    Failure.DIMENSIONS_DIFFER: "dimensions",
}


def named(said: IndexStatus) -> set[str]:
    """The kinds of failure that the errors of a status tell, by their words."""
    words = " ".join(error.message for error in said.errors) + said.provider.detail
    return {failure.value for failure, part in WORDS.items() if part in words}


@pytest.mark.parametrize(("case", "provider"), MATRIX)
def test_an_index_or_a_named_state(case: Case, provider: str, tmp_path: Path) -> None:
    with embedding_server(case.fault(provider), stays=case.stays) as server:
        scene = Scene(tmp_path, provider, server)
        with scene.open(batch_timeout=case.seconds, query_timeout=case.seconds) as engine:
            engine.index.sync(wait=True)
            said, count = engine.index.status(), scene.assert_every_vector_is_right()
            scene.assert_no_key(said)
            if case.failure is None:
                assert said.provider.state is Reason.OK
                assert (said.vectors, said.state) == (len(NOTES), IndexState.READY)
                assert count == said.chunks == len(NOTES)
            else:
                assert (said.vectors, count) == (0, 0)
                assert said.state is not IndexState.READY
                assert case.failure.value in {said.provider.failure, *named(said)}
                assert engine.search.ask("router").hits, "the keyword search goes on"
            wanted = KEY if provider in KEY_VARIABLES else ""
            assert {key_in(seen) for seen in server.seen} == {wanted}
            server.faults, server.stays = [], False
            if case.failure is not Failure.TIMEOUT:
                engine.index.sync(wait=True)
                assert_whole(scene, engine.index.status())
        if case.failure is Failure.TIMEOUT:
            # Times so short that a server hangs in them are too short for a busy machine.
            with scene.open() as engine:
                engine.index.sync(wait=True)
                assert_whole(scene, engine.index.status())
        assert scene.assert_every_vector_is_right() == len(NOTES)


def assert_whole(scene: Scene, said: IndexStatus) -> None:
    assert (said.vectors, said.state) == (len(NOTES), IndexState.READY)
    assert said.provider.state is Reason.OK
    scene.assert_no_key(said)


@pytest.mark.parametrize("words", ["please reduce the length", "no such input"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_text_that_is_refused_costs_no_other_its_vector(
    provider: str, words: str, tmp_path: Path
) -> None:
    def picky(seen: Seen) -> Answer:
        if "router" in str(seen.body):
            return status(400, {"error": {"message": words}})(seen)
        return right(seen)

    with embedding_server(picky, stays=True) as server:
        scene = Scene(tmp_path, provider, server)
        with scene.open() as engine:
            engine.index.sync(wait=True)
            said = engine.index.status()
            refused = sum("router" in text for text in NOTES.values())
            assert (said.vectors, said.chunks) == (len(NOTES) - refused, len(NOTES))
            assert scene.assert_every_vector_is_right() == len(NOTES) - refused
            assert (said.state, said.provider.state) == (IndexState.DEGRADED, Reason.OK)
            assert all(path in said.warnings[0] for path, text in NOTES.items() if "router" in text)
            assert words not in str(said)
            scene.assert_no_key(said)
            requests = len(server.seen)
            assert requests <= 9
            for _ in range(5):
                writer_of(engine).indexer.sync()
                assert engine.wait_idle()
            assert len(server.seen) <= requests + 10, "what is refused is not sent for ever"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_redirect_carries_no_key_and_no_text(provider: str, tmp_path: Path) -> None:
    with embedding_server() as other, embedding_server() as server:
        elsewhere = f"http://localhost:{other.server_address[1]}/v1/embeddings"
        server.faults, server.stays = [status(307, location=elsewhere)], True
        scene = Scene(tmp_path, provider, server)
        with scene.open() as engine:
            engine.index.sync(wait=True)
            said = engine.index.status()
            assert said.provider.failure is Failure.REDIRECTED
            assert (said.vectors, scene.assert_every_vector_is_right()) == (0, 0)
            scene.assert_no_key(said)
        assert server.seen
        assert not other.seen


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_that_sees_nothing_leaves_the_keyword_search(provider: str, tmp_path: Path) -> None:
    with embedding_server(zeros, stays=True) as server:
        scene = Scene(tmp_path, provider, server)
        with scene.open() as engine:
            engine.index.sync(wait=True)
            assert engine.index.status().provider.state is Reason.OK
            found = engine.search.ask("router")
            assert {hit.chunk.path for hit in found.hits} == {"MEMORY.md", "memory/2026-11-18.md"}
            assert found.pool.states[Leg.VECTOR].status is not LegStatus.OK
            scene.assert_no_key(engine.index.status())
        assert not [vector for _, _, vector in scene.vectors().values() if vector and any(vector)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_closing_does_not_wait_for_a_service_that_hangs(provider: str, tmp_path: Path) -> None:
    with embedding_server(hanging, stays=True) as server:
        scene = Scene(tmp_path, provider, server)
        with scene.open() as engine:
            engine.index.sync()
            assert server.arrived.wait(10)
            begun = time.monotonic()
        assert time.monotonic() - begun < 2.0
        assert scene.assert_every_vector_is_right() == 0


FILES, CHUNKS = 100, 2000


def test_a_storm_of_faults_ends_in_the_index_of_a_calm_run(
    tmp_path: Path, made: list[RemoteProvider]
) -> None:
    """Of 2,000 chunks, three requests of ten fail in one of a dozen ways."""
    faults = [
        status(429),
        status(429, retry_after="1"),
        status(500),
        status(503),
        fixed(Answer(HTML)),
        fixed(Answer(b"hello")),
        cut,
        broken_off,
        fewer,
        uneven,
        holding(float("nan")),
        holding(float("inf")),
    ]
    with embedding_server() as server:
        notes = {
            f"memory/{number % 7}/{number}.md": "\n".join(
                f"Note {number}, entry {entry}: {'kingfisher ' * 13}" for entry in range(20)
            )
            for number in range(FILES)
        }
        scene = Scene(tmp_path, "openai", server, notes)
        rounds = 0
        with scene.open(dimensions=16) as engine:
            server.faults, server.chance = faults, 0.3
            while (said := engine.index.status()).vectors < CHUNKS or said.vectors < said.chunks:
                assert rounds < 40, "it does not get on"
                engine.index.sync(wait=True)
                rounds += 1
            scene.assert_no_key(engine.index.status())
        assert rounds > 1
        # Every text was answered well once, whatever else failed around it.
        assert engine_usage(made) == CHUNKS
        assert scene.assert_every_vector_is_right() == said.chunks == CHUNKS


def engine_usage(made: list[RemoteProvider]) -> int:
    return sum(provider.usage().texts for provider in made)
