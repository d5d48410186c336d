"""The vectors in memory are those of the index, whatever was committed between two looks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity
from memtui.engine.followed_view import FollowedView
from memtui.index.database import open_database
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex
from memtui.index.schema import write_meta
from tests.support.rows import DIMS, IndexFile, unit_vectors

IDENTITY = ProviderIdentity("test", "test-model", DIMS, "0")
STEPS = 60


@dataclass
class Followed:
    """An index that is written by one connection and followed by another."""

    index: IndexFile
    reader: Any
    view: FollowedView
    vectors: dict[int, Any] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    statements: list[str] = field(default_factory=list)
    made: int = 0

    def add(self, number: int, *, embedded: bool) -> None:
        """Add chunks, with vectors or waiting for them."""
        self.made += 1
        texts = (f"note {self.made}, {place}" for place in range(1 + number % 3))
        rows = self.index.add_all(texts)
        self.pending.update(rows)
        if embedded:
            self.embed(rows)

    def embed(self, rows: list[int]) -> None:
        """Give chunks that wait their vectors; the same text always gets the same one."""
        vectors = {row: unit_vectors(1, DIMS, seed=row)[0] for row in rows}
        self.index.add_vectors(vectors)
        self.vectors |= vectors
        self.pending.difference_update(rows)

    def remove(self, row: int) -> None:
        """Remove a chunk."""
        self.index.remove(row)
        self.vectors.pop(row, None)
        self.pending.discard(row)

    def drop_vector(self, row: int) -> None:
        """Let a chunk wait for another vector."""
        with self.index.connection as connection:
            connection.execute("DELETE FROM chunks_vec WHERE rowid = ?", (row,))
            connection.execute("UPDATE chunks SET embedded = 0 WHERE id = ?", (row,))
        del self.vectors[row]
        self.pending.add(row)

    def look(self) -> None:
        """Follow what was committed, and compare it with what is there."""
        self.statements.clear()
        self.view.refresh(IDENTITY, None, while_filling=True)
        view = self.view.view
        assert view is not None
        held = dict(zip(view.rowids[view.live].tolist(), view.matrix[view.live], strict=True))
        assert set(held) == set(self.vectors)
        assert view.size == len(held)
        assert view.pending == len(self.pending)
        for row, vector in self.vectors.items():
            assert np.array_equal(held[row], vector), row


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    index = IndexFile(tmp_path)
    write_meta(index.connection, {"dimensions": str(DIMS)})
    reader = open_database(index.path, readonly=True)
    cache = EmbeddingCache(tmp_path / "cache.db", open_database)
    view = FollowedView(LiveIndex(IndexFolder(tmp_path)), cache, lambda: True, nullcontext)
    view.begin(reader)
    made = Followed(index, reader, view)

    def noted(_: object, statement: str, __: object) -> bool:
        made.statements.append(statement)
        return True

    reader.exec_trace = noted
    yield made
    reader.close()
    cache.close()
    index.connection.close()


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_the_index_holds(followed: Followed, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(8):
        followed.add(number, embedded=number % 2 == 0)
    for step in range(STEPS):
        for _ in range(dice.randrange(4)):
            known, waiting = sorted(followed.vectors), sorted(followed.pending)
            match dice.choice(["add", "add waiting", "embed", "remove", "drop", "remove waiting"]):
                case "add":
                    followed.add(100 + step, embedded=True)
                case "add waiting":
                    followed.add(100 + step, embedded=False)
                case "embed" if waiting:
                    followed.embed(dice.sample(waiting, dice.randint(1, len(waiting))))
                case "remove" if known:
                    followed.remove(dice.choice(known))
                case "drop" if known:
                    followed.drop_vector(dice.choice(known))
                case "remove waiting" if waiting:
                    followed.remove(dice.choice(waiting))
        followed.look()


def test_chunks_that_stay_are_not_read_again(followed: Followed) -> None:
    for number in range(20):
        followed.add(number, embedded=True)
    followed.look()
    followed.add(50, embedded=True)
    followed.add(51, embedded=False)
    followed.look()
    assert followed.statements
    fetched = [one for one in followed.statements if "FROM chunks_vec" in one]
    assert len(fetched) == 1 + 50 % 3


def test_what_is_committed_in_mid_look_is_there_once(followed: Followed) -> None:
    followed.add(2, embedded=True)
    followed.look()
    late = iter((False, True))

    def commit(_: object, statement: str, __: object) -> bool:
        if "embedded = 0" in statement:
            for embedded in late:
                followed.add(1, embedded=embedded)
        return True

    followed.reader.exec_trace = commit
    followed.add(0, embedded=True)
    followed.view.refresh(IDENTITY, None, while_filling=True)
    assert next(late, None) is None
    followed.embed(sorted(followed.pending))
    for _ in range(2):
        followed.look()
        view = followed.view.view
        assert view is not None
        assert view.size == len(set(view.rowids[view.live].tolist()))
        followed.add(1, embedded=True)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_vector_that_comes_late_is_found(followed: Followed, is_first: bool) -> None:
    followed.add(1, embedded=True)
    if not is_first:
        followed.look()
    late, never = followed.index.add_all(["late", "never"])
    with followed.index.connection as connection:
        connection.execute("UPDATE chunks SET embedded = 1 WHERE id IN (?, ?)", (late, never))
    followed.look()
    followed.index.add_vectors({late: unit_vectors(1, DIMS, seed=late)[0]})
    followed.vectors[late] = unit_vectors(1, DIMS, seed=late)[0]
    followed.look()
    assert never not in followed.vectors
