"""Every way in which a service can fail, for every service, and down to the index on the disk.

Each ends in the right vectors or in a named failure, after the requests and pauses that are meant,
with the key nowhere; and once the service works again, in the vectors of a run without faults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict

from memtui.embedding.remote import RemoteProvider, plan_of
from memtui.engine import Engine
from memtui.errors import ProviderError
from memtui.index.generations import IndexFolder, LiveIndex
from memtui.memory.workspace import workspace_id
from memtui.model import Failure, IndexState, IndexStatus, Reason
from memtui.settings.schema import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.embedding_services import (
    HTML,
    KEY,
    KEY_VARIABLES,
    MODEL,
    NO_MODEL,
    OVERSIZE,
    PROVIDERS,
    Answer,
    Clock,
    EmbeddingServer,
    Fault,
    base_url,
    broken_off,
    choice_at,
    cut,
    embedding_server,
    fewer,
    fixed,
    gzipped,
    hanging,
    holding,
    impatient,
    key_in,
    registered_remote,
    remote_provider,
    repeated_key,
    right,
    rows_of,
    shuffled,
    slow,
    status,
    texts_in,
    uneven,
)


@dataclass(frozen=True)
class Case:
    """A fault, how many requests three texts take, how it ends, and the pauses between."""

    fault: Fault
    requests: int
    failure: Failure | None = None
    """With one, the fault stays."""
    pauses: tuple[float, ...] = ()
    seconds: float = 5.0
    only: tuple[str, ...] = PROVIDERS
    by_provider: Callable[[str], Fault] | None = None
    """The fault in the words of each provider."""


def oversize(provider: str) -> Fault:
    return status(400, OVERSIZE[provider])


def no_model(provider: str) -> Fault:
    return status(404 if provider in ("openai", "gemini", "ollama") else 400, NO_MODEL[provider])


SHORT, LONG = (0.5, 1.0), (5.0, 10.0, 20.0, 40.0)
LONG_AGO = "Wed, 21 Oct 2015 07:28:00 GMT"
NO_GZIP = fixed(Answer(b"x", headers={"content-encoding": "gzip"}))
CASES = {
    "success": Case(gzipped, 1),
    "slow": Case(slow, 1, seconds=2.0),
    "shuffled": Case(shuffled, 1, only=("openai", "voyage", "mistral")),
    "400-oversize": Case(right, 3, by_provider=oversize),
    "400-oversize-stays": Case(right, 3, Failure.TOO_LARGE, by_provider=oversize),
    "413": Case(status(413), 3, Failure.TOO_LARGE),
    "400": Case(status(400), 1, Failure.BAD_REQUEST),
    "401": Case(repeated_key(401), 1, Failure.KEY_REFUSED),
    "403": Case(repeated_key(403), 1, Failure.FORBIDDEN),
    "404": Case(right, 1, Failure.NO_MODEL, by_provider=no_model),
    "429": Case(status(429), 2, pauses=(5.0,)),
    "429-retry-after": Case(status(429, retry_after="7"), 2, pauses=(7.0,)),
    "429-date": Case(status(429, retry_after=LONG_AGO), 2, pauses=(0.0,)),
    "429-minutes": Case(status(429, retry_after="61"), 1, Failure.RATE_LIMITED),
    "429-stays": Case(status(429), 5, Failure.RATE_LIMITED, LONG),
    "500": Case(status(500), 2, pauses=(0.5,)),
    "500-stays": Case(status(500), 3, Failure.SERVICE_DOWN, SHORT),
    "503-retry-after": Case(status(503, retry_after="3"), 2, pauses=(3.0,)),
    "hanging": Case(hanging, 3, Failure.TIMEOUT, SHORT, seconds=0.2),
    "cut": Case(cut, 2, pauses=(0.5,)),
    "cut-stays": Case(cut, 9, Failure.CUT, 3 * SHORT),
    "dimensions": Case(uneven, 1, Failure.DIMENSIONS_DIFFER),
    "fewer": Case(fewer, 2, pauses=(0.5,)),
    "fewer-stays": Case(fewer, 3, Failure.BAD_ANSWER, SHORT),
    "nan": Case(holding(float("nan")), 3, Failure.BAD_ANSWER, SHORT),
    "infinity": Case(holding(float("inf")), 3, Failure.BAD_ANSWER, SHORT),
    "broken-off": Case(broken_off, 2, pauses=(0.5,)),
    "not-json": Case(fixed(Answer(b"hello")), 3, Failure.BAD_ANSWER, SHORT),
    "html-502": Case(fixed(Answer(HTML, 502)), 3, Failure.SERVICE_DOWN, SHORT),
    "no-gzip": Case(NO_GZIP, 3, Failure.BAD_ANSWER, SHORT),
    "redirect": Case(status(307, location="http://localhost:9"), 1, Failure.REDIRECTED),
}
TEXTS = ["the router is in the hall", "the gate code changed", "京都駅から清水寺まで"]


def fault_of(case: Case, provider: str) -> Fault:
    return case.by_provider(provider) if case.by_provider is not None else case.fault


@pytest.mark.parametrize(
    ("name", "provider"), [(name, each) for name, case in CASES.items() for each in case.only]
)
def test_right_vectors_or_a_named_failure(name: str, provider: str) -> None:
    case, clock = CASES[name], Clock()
    stays = case.failure is not None
    with embedding_server(fault_of(case, provider), stays=stays) as server:
        choice = impatient(choice_at(provider, server), case.seconds, concurrency=1)
        with remote_provider(choice, clock=clock) as it:
            if case.failure is None:
                np.testing.assert_array_equal(it.embed_documents(TEXTS), rows_of(TEXTS))
            else:
                with pytest.raises(ProviderError) as caught:
                    it.embed_documents(TEXTS)
                assert caught.value.failure is case.failure
                assert not {"SECRET", "\n"} & set(str(caught.value).split(" "))
                assert KEY not in repr(caught.value)
            assert (len(server.seen), tuple(clock.pauses)) == (case.requests, case.pauses)
            assert {key_in(seen) for seen in server.seen} == {KEY}
            server.faults = []
        # A time so short that a server hangs in it is too short for a busy machine.
        with remote_provider(choice_at(provider, server)) as it:
            np.testing.assert_array_equal(it.embed_documents(TEXTS), rows_of(TEXTS))


# --- down to the index ----------------------------------------------------------------------------

NOTES = {
    "MEMORY.md": "# Memory\n\nThe router password lives in the vault.\n",
    "memory/2026-11-18.md": "# Tuesday\n\nConfigured the router: VLAN 20 for IoT.\n",
    "memory/trips/kyoto.md": "# 京都\n\n京都駅から清水寺まではバスで行く。\n",
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key for every service, and a home without any other."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in KEY_VARIABLES.values():
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def made() -> Iterator[list[RemoteProvider]]:
    """The providers that engines create; their pauses pass at once."""
    with registered_remote(Clock()) as providers:
        yield providers


@dataclass
class Scene:
    """A workspace whose index is made by a service on this machine."""

    folder: Path
    provider: str
    server: EmbeddingServer

    def open(self, notes: dict[str, str] = NOTES, **embedding: object) -> Engine:
        for name, text in notes.items():
            path = self.folder / "workspace" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
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
        return Engine.open(self.folder / "workspace", settings, data_dir=self.folder / "data")

    def right_vectors(self) -> int:
        """Compare each vector with what the service gives; how many there are."""
        prefix = plan_of(self.provider, choice_at(self.provider, self.server)).templates.document
        live = LiveIndex(
            IndexFolder(self.folder / "data" / workspace_id(self.folder / "workspace"))
        )
        try:
            connection = live.connection()
            stored = "SELECT text, vector FROM chunks JOIN vectors USING(id)"
            rows: list[Any] = connection.execute(stored).fetchall()
        finally:
            live.close()
        for text, vector in rows:
            expected = rows_of([prefix + text])[0]
            np.testing.assert_array_equal(np.frombuffer(vector, np.float32), expected)
        return len(rows)

    def assert_no_key(self, said: IndexStatus) -> None:
        """Look for the key in what is shown and in every file of the index."""
        assert "SECRET" not in json.dumps(asdict(said), default=str) + repr(said)
        files = [path for path in (self.folder / "data").rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"SECRET" in path.read_bytes()]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["success", "401", "404", "429-stays", "dimensions", "redirect"])
def test_an_index_or_a_named_state(name: str, provider: str, tmp_path: Path) -> None:
    case = CASES[name]
    stays = case.failure is not None
    with embedding_server(fault_of(case, provider), stays=stays) as server:
        scene = Scene(tmp_path, provider, server)
        with scene.open() as engine:
            engine.index.sync(wait=True)
            said = engine.index.status()
            scene.assert_no_key(said)
            if case.failure is None:
                assert (said.vectors, scene.right_vectors()) == (len(NOTES), len(NOTES))
            else:
                assert (said.vectors, scene.right_vectors()) == (0, 0)
                assert said.state is not IndexState.READY
                words = str(said.errors) + said.provider.detail
                assert case.failure is said.provider.failure or "HTTP" in words or "dim" in words
                assert engine.search.ask("router").hits, "the keyword search goes on"
            server.faults = []
            engine.index.sync(wait=True)
            said = engine.index.status()
            assert (said.vectors, said.state) == (len(NOTES), IndexState.READY)
            assert said.provider.state is Reason.OK
        assert scene.right_vectors() == len(NOTES)


def test_a_storm_of_faults_ends_in_the_index_of_a_calm_run(
    tmp_path: Path, made: list[RemoteProvider]
) -> None:
    """Of 600 chunks, three requests of ten fail in one of a dozen ways."""
    faults: list[Fault] = [status(429), status(429, retry_after="1"), status(500), status(503)]
    faults += [fixed(Answer(HTML)), fixed(Answer(b"hello")), cut, broken_off, fewer, uneven]
    faults += [holding(float("nan")), holding(float("inf"))]
    notes = {
        f"memory/{number}.md": "\n".join(
            f"Note {number}, entry {entry}: {'kingfisher ' * 13}" for entry in range(20)
        )
        for number in range(30)
    }
    with embedding_server() as server:
        scene = Scene(tmp_path, "openai", server)
        rounds = 0
        with scene.open(notes, dimensions=16) as engine:
            server.faults, server.chance = faults, 0.3
            while (said := engine.index.status()).vectors < 600 or said.vectors < said.chunks:
                assert rounds < 40, "it does not get on"
                engine.index.sync(wait=True)
                rounds += 1
            scene.assert_no_key(engine.index.status())
        # Every text was answered well once, whatever else failed around it.
        assert sum(provider.usage().texts for provider in made) == 600
        assert scene.right_vectors() == said.chunks == 600
        assert sum(len(texts_in(seen)) for seen in server.seen) > 600
