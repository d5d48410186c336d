"""A real engine over a memory of twelve notes: indexed once a process, opened in milliseconds.

    with registered_hashed():
        memory = make_small_memory(tmp_path)
        engine = memory.open(bus)            # also a factory for `MemtuiApp`

`make_small_agent` gives the same over the small index that OpenClaw made, with vectors for queries.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from msgspec.structs import replace

from memtui.bus import Bus
from memtui.engine.engine import Engine
from memtui.engine.foreign.index import OpenClawIndex
from memtui.engine.foreign.query_vectors import GivenVectors, load_given
from memtui.engine.own_index import OwnIndex
from memtui.index.foreign.opening import open_foreign
from memtui.index.generations import IndexFolder, LiveIndex
from memtui.index.indexer import Indexer
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.memory.workspace import workspace_id
from memtui.settings.files import make_private
from memtui.settings.schema import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding import registered_hashed
from tests.support.known import load
from tests.support.openclaw import AGENT_BLOB, State, make_state

NOW = datetime(2026, 2, 20, 12, 0, tzinfo=UTC)
SETTINGS = Settings(
    embedding=EmbeddingSettings(provider="hashed", fallback="none"),
    index=IndexSettings(watch=False),
)
NOTES: Mapping[str, str] = load("notes")["small memory"]


@dataclass(frozen=True, slots=True)
class SmallMemory:
    """Twelve notes with their index; nothing of it is shared with another test."""

    root: Path
    data: Path
    settings: Settings = SETTINGS
    homes: TranscriptHomes = field(default_factory=TranscriptHomes)

    def open(self, bus: Bus | None = None, **options: Any) -> Engine:
        """Open it at a clock that stands still; the `hashed` provider must be registered."""
        given = {"now": lambda: NOW, "homes": self.homes, **options}
        return Engine.open(self.root, self.settings, bus=bus, data_dir=self.data, **given)


def make_small_memory(folder: Path, *, indexed: bool = True) -> SmallMemory:
    """Write the notes below a folder, with their index; without it, where not `indexed`."""
    root, data = folder / "notes", folder / "data"
    write_notes(root)
    if indexed:
        make_private(data / workspace_id(root))
        for name, content in _index().items():
            path = data / workspace_id(root) / name
            path.write_bytes(content)
            path.chmod(0o600)
        _take_inodes(root, IndexFolder(data / workspace_id(root)))
    return SmallMemory(root, data)


def _take_inodes(root: Path, folder: IndexFolder) -> None:
    """Have the index know the copied files for the ones that were indexed."""
    live = LiveIndex(folder)
    live.connection()
    with closing(apsw.Connection(str(folder.path(live.generation)))) as connection:
        connection.execute("PRAGMA synchronous = off; BEGIN")
        live.close()
        for name in NOTES:
            inode = (root / name).stat().st_ino
            connection.execute("UPDATE files SET inode = ? WHERE path = ?", (inode, name))
        connection.execute("COMMIT")


def write_notes(
    root: Path, notes: Mapping[str, str] = NOTES, seconds: float = NOW.timestamp() - 3600
) -> None:
    """Write notes, all changed last at the same moment."""
    for name, text in notes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (seconds, seconds))


@contextmanager
def words_alone(folder: Path, notes: Mapping[str, str]) -> Iterator[Engine]:
    """Open other notes, written and indexed below a folder without a model, for their words."""
    write_notes(folder / "notes", notes)
    settings = replace(SETTINGS, embedding=EmbeddingSettings(provider="none", fallback="none"))
    memory = SmallMemory(folder / "notes", folder / "data", settings)
    with memory.open() as engine:
        engine.index.sync(wait=True)
        yield engine


@functools.cache
def _index() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        memory = make_small_memory(Path(folder), indexed=False)
        with registered_hashed(), memory.open() as engine:
            engine.index.sync(wait=True)
        files = (memory.data / workspace_id(memory.root)).iterdir()
        return {path.name: path.read_bytes() for path in files}


@dataclass(frozen=True, slots=True)
class SmallAgent:
    """An agent's state folder with the small index of one release."""

    state: State
    given: GivenVectors | None = None

    def open(self, bus: Bus | None = None, **options: Any) -> Engine:
        """Open it at a clock that stands still, with the given vectors of queries, if any."""
        clock = datetime(2026, 11, 16, 12, tzinfo=UTC)
        base = {"now": lambda: clock, "env": {}, "vectors": self.given, "examine": False, **options}
        return Engine.open_agent(self.state.target(), bus=bus, **base)


def make_small_agent(folder: Path, release: str = AGENT_BLOB) -> SmallAgent:
    """Lay out the state folder of an agent, `.openclaw` below a folder."""
    state = make_state(folder / ".openclaw", release)
    return SmallAgent(state, one_vector(folder / "vector.json", state))


def one_vector(path: Path, state: State) -> GivenVectors:
    """Give the vector of one of the index's own chunks to every query."""
    with closing(open_foreign(state.database)) as opened:
        sql = f"SELECT embedding FROM {opened.layout.vec} LIMIT 1 OFFSET 7"
        found = opened.connection.execute(sql).fetchall()
    values = np.frombuffer(bytes(found[0][0]), dtype="<f4").tolist()  # type: ignore[arg-type]
    path.write_text(json.dumps(values), encoding="utf-8")
    return load_given(path)


def own_index(engine: Engine) -> OwnIndex:
    """The memory of an engine over memtui's own index, for tests of how it is written."""
    assert isinstance(engine.index, OwnIndex)
    return engine.index


def indexer_of(engine: Engine) -> Indexer:
    """The thread that writes the index of an engine that was opened for it."""
    indexer = own_index(engine).indexer
    assert indexer is not None
    return indexer


def agent_index(engine: Engine) -> OpenClawIndex:
    """The memory of an engine over an agent's index."""
    assert isinstance(engine.index, OpenClawIndex)
    return engine.index
