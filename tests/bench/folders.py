"""Memory folders of a wanted size: notes on disk, and an index of them with both legs."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.minilm import identity
from memtui.index.database import open_database
from memtui.index.generations import IndexFolder
from memtui.index.schema import Recipe, write_meta
from memtui.memory.workspace import workspace_id
from tests.bench.corpus import VERSION, Corpus
from tests.bench.stores import Store, store

_NOTED = "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, seen_ns = ? WHERE path = ?"


def folder(corpus: Corpus, chunks: int, place: Path) -> Store:
    """Make notes of `chunks` chunks below `place` and their index, or take what is there.

    The notes are on disk as the index knows them, so that a sync finds nothing to do. The vectors
    are invented, under the name of the embedded model: a search embeds its query by that.
    """
    made = Store(place / f"notes-{chunks}-v{VERSION}", place / f"noted-{chunks}-v{VERSION}", chunks)
    index = IndexFolder(made.data / workspace_id(made.root))
    if index.current() is not None:
        return made
    bare = store(corpus, chunks, place)
    _write(corpus, chunks, made.root)
    index.create()
    building = index.begin()
    shutil.copyfile(bare.database, building)
    connection = open_database(building)
    stats = []
    for (path,) in connection.execute("SELECT path FROM files").fetchall():
        found = os.stat(made.root / str(path))
        stats.append((found.st_size, found.st_mtime_ns, found.st_ino, time.time_ns(), str(path)))
    recipe = Recipe(identity(EmbeddingChoice()))
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_NOTED, stats)
    connection.execute("UPDATE chunks SET model = ?", (recipe.model,))
    write_meta(connection, recipe.meta())
    connection.execute("COMMIT")
    connection.close()
    index.commit(building)
    return made


def copy(made: Store, place: Path) -> Store:
    """Copy an index, not its notes, so that it may be written to."""
    taken = replace(made, data=place)
    shutil.copytree(made.data, place)
    return taken


def _write(corpus: Corpus, chunks: int, root: Path) -> None:
    for notes, _ in corpus.notes(chunks):
        for note in notes:
            path = root / note.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(note.pieces), encoding="utf-8")
            # Long enough ago for a sync to trust what it sees.
            at = datetime(note.day.year, note.day.month, note.day.day, tzinfo=UTC).timestamp()
            os.utime(path, (at, at))
