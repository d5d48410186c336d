"""Under a storm of faults the index becomes, in the end, what it would be in calm weather."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from memtui.embedding.provider import Vectors
from memtui.engine import Engine
from memtui.errors import ProviderError
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex
from memtui.memory.workspace import workspace_id
from memtui.model import Failure
from memtui.settings import ChunkingSettings, EmbeddingSettings, Settings
from tests.support.indexing import Contents, contents
from tests.support.services import Service, registered

FILES = 200
CHUNKS = 2000
FAULTY = 0.3
PASSING = [failure for failure in Failure if failure.is_passing]
SETTINGS = Settings(
    embedding=EmbeddingSettings(provider="stormy", fallback="none"),
    chunking=ChunkingSettings(tokens=48, overlap=0),
)


class Storm:
    """Lets three calls of ten fail, each in a way of its own, by a seed."""

    def __init__(self, service: Service, seed: int) -> None:
        self.random = random.Random(seed)
        self.answered: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.service = service
        service.alter = self.alter

    def alter(self, texts: Sequence[str], vectors: Vectors) -> Vectors:
        if self.random.random() >= FAULTY:
            self.answered.update(texts)
            return vectors
        kind = self.random.choice(["passing", "cut", "fewer", "more", "none", "library", "slow"])
        self.failed[kind] += 1
        match kind:
            case "passing":
                raise ProviderError("a fault", failure=self.random.choice(PASSING))
            case "cut":
                raise ProviderError("the connection was cut", failure=Failure.CUT)
            case "library":
                raise RuntimeError("an error of a library")
            case "fewer":
                return vectors[:-1]
            case "more":
                return vectors.repeat(2, axis=0)
            case "none":
                return vectors[:0]
        threading.Event().wait(0.002)
        self.answered.update(texts)
        return vectors


def write_notes(root: Path) -> None:
    for number in range(FILES):
        lines = [
            f"Note {number} has an entry {entry} about {'kingfisher ' * 12}{entry * number}"
            for entry in range(CHUNKS // FILES)
        ]
        path = root / f"memory/{number % 7}/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")


def contents_of(root: Path, data: Path) -> Contents:
    live = LiveIndex(IndexFolder(data / workspace_id(root)))
    try:
        return contents(live.connection())
    finally:
        live.close()


def made_in_calm_weather(root: Path, data: Path) -> Contents:
    with registered(Service("stormy")), Engine.open(root, SETTINGS, data_dir=data) as engine:
        engine.index.sync(wait=True)
    return contents_of(root, data)


@pytest.mark.parametrize("seed", [1, 2])
def test_repeated_syncs_end_in_the_index_of_a_run_without_faults(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "workspace"
    write_notes(root)
    expected = made_in_calm_weather(root, tmp_path / "calm")
    assert len(expected.chunks) == CHUNKS == len(expected.vectors)

    service = Service("stormy")
    storm = Storm(service, seed)
    data = tmp_path / "storm"
    rounds = 0
    with registered(service), Engine.open(root, SETTINGS, data_dir=data) as engine:
        before = -1
        while (status := engine.index.status()).vectors < CHUNKS:
            assert status.vectors > before or rounds < 60, "it does not get on"
            before = status.vectors
            engine.index.sync(wait=True)
            rounds += 1
        assert engine.index.status().provider.actual == "stormy"
    assert rounds > 1
    assert sum(storm.failed.values()) > 50
    assert len(storm.failed) == 7
    assert contents_of(root, data) == expected
    assert set(storm.answered.values()) == {1}, "a text with a vector was sent again"
