"""What processes are killed in: a workspace in some state, and what is done to it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from memtui.embedding.provider import ProviderIdentity, Vector
from memtui.errors import MemtuiError
from memtui.index.database import Recipe, open_database, write_meta
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import LiveIndex, WriterLock
from memtui.index.transcripts.discovery import TranscriptScope
from tests.support.conversations import Homes, append, said
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace, holding

_NOTES = 48
_OLD_NS = 1_790_000_000 * 10**9
_WORDS = ["garden", "router", "backup", "invoice", "river", "Wetter", "東京", "прогулка"]
_BATCHES, _BATCH = 24, 16
_LIMIT = 400_000


class Ground:
    """A folder with notes, conversations, and the index as it is before something is done."""

    def __init__(self, scene: Scene, place: Path) -> None:
        """Make what there is before a scene."""
        self.place = place
        self.notes = place / "notes"
        """The memory folder."""
        self.start = place / "start"
        """The index folder before; each run works on a copy."""
        self.data = place / "data"
        """The copy."""
        self.acknowledged = place / "acknowledged"
        """Where a child writes down what the cache has taken."""
        place.mkdir(parents=True)
        scene.prepare(self)

    def put_back(self) -> None:
        """Put the folder that is worked on back as it was before."""
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.start, self.data)
        self.acknowledged.write_text("")

    def scope(self) -> TranscriptScope:
        """The conversations that are indexed beside the notes."""
        return Homes(self.place / "homes").scope(self.notes, "openclaw")

    def workspace(self, data: Path, model: str | None = None) -> Workspace:
        """The notes with their index in `data`, by the usual model or another one."""
        provider = HashedProvider(model=model) if model else HashedProvider()
        recipe = Recipe(provider.identity, chunk_tokens=120, chunk_overlap=20)
        return Workspace(self.notes, data, provider, recipe, self.scope())


class AcknowledgingCache(EmbeddingCache):
    """A cache that tells, after each write of vectors, which ones it has taken."""

    def __init__(self, path: Path, told: Callable[[list[str]], None]) -> None:
        super().__init__(path)
        self._told = told

    def put_many(self, identity: ProviderIdentity, vectors: Mapping[str, Vector]) -> None:
        """Store vectors and say so."""
        super().put_many(identity, vectors)
        self._told(list(vectors))


@dataclass(frozen=True, slots=True)
class Scene:
    """An operation, in one of its forms."""

    operation: str
    name: str
    prepare: Callable[[Ground], None]
    act: Callable[[Workspace], None]
    swaps: bool = False
    """Whether the live index is either as before or whole, at any instant."""
    evicts: bool = False
    """Whether vectors of the cache that no chunk needs may go."""
    once: bool = False
    """Whether it cannot be done again after it was killed."""


def write_notes(ground: Ground, seed: int) -> None:
    """Write several dozens of notes and three conversations; half were written long ago."""
    rng = random.Random(seed)
    for number in range(_NOTES):
        _write(ground, f"{number % 5}/note-{number}.md", number, rng)
    homes = Homes(ground.place / "homes")
    for session in range(3):
        lines = [
            said("user" if turn % 2 else "assistant", _prose(rng, 25), turn) for turn in range(8)
        ]
        homes.openclaw(f"session-{session}.jsonl", lines)


def edit_notes(ground: Ground, seed: int) -> None:
    """Rewrite, move, remove and add notes, and go on with a conversation."""
    rng = random.Random(seed)
    for number in range(0, _NOTES, 6):
        _write(ground, f"{number % 5}/note-{number}.md", number, rng)
    for number in range(1, _NOTES, 8):
        (ground.notes / f"{number % 5}/note-{number}.md").rename(
            ground.notes / f"moved-{number}.md"
        )
    for number in range(2, _NOTES, 12):
        (ground.notes / f"{number % 5}/note-{number}.md").unlink()
    for number in range(6):
        _write(ground, f"new/note-{number}.md", number, rng)
    lines = [said("user", _prose(rng, 40), turn) for turn in range(5)]
    homes = Homes(ground.place / "homes")
    longer = homes.openclaw("session-new.jsonl", lines).with_name("session-0.jsonl")
    append(longer, said("assistant", _prose(rng, 25)))


def _write(ground: Ground, path: str, number: int, rng: random.Random) -> None:
    target = ground.notes / path
    target.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"## Part {part}\n\n{_prose(rng, 45)}\n" for part in range(1 + number % 3)]
    target.write_text(f"# Note {number}\n\n" + "\n".join(parts), encoding="utf-8")
    if number % 2:
        os.utime(target, ns=(_OLD_NS, _OLD_NS + number))


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) + str(rng.randrange(99)) for _ in range(words))


def _nothing(ground: Ground) -> None:
    write_notes(ground, 1)
    ground.start.mkdir()


def _up_to_date(ground: Ground, model: str | None = None) -> None:
    write_notes(ground, 1)
    with closing(ground.workspace(ground.start, model)) as workspace:
        workspace.sync()


def _older(ground: Ground, model: str | None = None) -> None:
    _up_to_date(ground, model)
    edit_notes(ground, 2)


def _built(ground: Ground) -> None:
    """A live generation of older notes, and a built one that only waits to be committed."""
    _older(ground)
    other = ground.place / "built"
    with closing(ground.workspace(other)) as workspace:
        workspace.rebuild()
    building = ground.start / "index-2.db.building"
    (other / "index-1.db").rename(building)
    # As a rebuild leaves it: without a log.
    open_database(building, bulk=True).close()
    with (
        closing(open_database(other / "cache.db")) as connection,
        closing(ground.workspace(other)) as built,
        closing(ground.workspace(ground.start)) as workspace,
    ):
        identity = built.provider.identity
        rows = connection.execute("SELECT text_hash FROM embedding_cache").fetchall()
        vectors = built.cache.get_many(identity, [str(row[0]) for row in rows])
        workspace.cache.put_many(identity, vectors)
    shutil.rmtree(other)


def _full_cache(ground: Ground) -> None:
    """An index that is up to date, and more vectors than the cache is to keep."""
    _up_to_date(ground)
    with closing(ground.workspace(ground.start)) as workspace:
        for batch in range(80):
            workspace.cache.put_many(workspace.provider.identity, made_vectors(batch))


def _schema_of_before(ground: Ground) -> None:
    """An index of schema 1, which had no conversations."""
    _older(ground)
    with closing(open_database(ground.start / "index-1.db")) as connection:
        connection.execute("DROP TABLE transcripts")
        write_meta(connection, {"schema_version": "1"})


def run_indexer(workspace: Workspace, *, rebuild: bool = False) -> None:
    """Sync or rebuild on the program's own index thread; raises when that fails."""
    with closing(workspace.indexer()) as indexer:
        indexer.start()
        indexer.require_writer()
        indexer.sync(rebuild=rebuild)
        if not indexer.wait_idle(60.0):
            raise TimeoutError("the index thread did not end its work")
        if failed := [record.message for record in indexer.snapshot().errors]:
            raise MemtuiError("; ".join(failed))


def _swap(workspace: Workspace) -> None:
    workspace.folder.commit(workspace.folder.folder / "index-2.db.building")
    # Taken afterwards: whoever takes the lock removes what is still being built.
    with holding(WriterLock(workspace.folder)):
        workspace.folder.clean()


def made_vectors(batch: int) -> dict[str, Vector]:
    """A batch of vectors of texts that are in no note."""
    rng = np.random.default_rng(batch)
    names = [sha256(f"made {batch} {place}".encode()).hexdigest() for place in range(_BATCH)]
    vectors: dict[str, Vector] = {}
    for name in names:
        vector = rng.standard_normal(64).astype(np.float32)
        vectors[name] = vector / np.float32(np.linalg.norm(vector))
    return vectors


def _write_cache(workspace: Workspace) -> None:
    identity = workspace.provider.identity
    for batch in range(_BATCHES):
        workspace.cache.put_many(identity, made_vectors(batch))


def _trim_cache(workspace: Workspace) -> None:
    live = LiveIndex(workspace.folder)
    with holding(WriterLock(workspace.folder)), closing(live):
        rows = live.connection().execute("SELECT hash FROM chunks").fetchall()
        hashes = [str(row[0]) for row in rows]
        workspace.cache.trim(_LIMIT, lambda: {workspace.provider.identity: hashes})


_rebuild = partial(run_indexer, rebuild=True)

_ALL: tuple[Scene, ...] = (
    Scene("sync", "sync", _older, run_indexer),
    Scene("sync", "first sync", _nothing, run_indexer),
    Scene("rebuild", "rebuild", _older, _rebuild, swaps=True),
    Scene("rebuild", "first rebuild", _nothing, _rebuild),
    Scene("swap", "swap", _built, _swap, swaps=True, once=True),
    Scene("cache write", "cache write", _up_to_date, _write_cache, swaps=True),
    Scene("cache write", "cache eviction", _full_cache, _trim_cache, swaps=True, evicts=True),
    Scene("migration", "schema", _schema_of_before, run_indexer, swaps=True),
    Scene("migration", "model", partial(_older, model="another-model"), run_indexer, swaps=True),
)
SCENES: Mapping[str, Scene] = {scene.name: scene for scene in _ALL}
