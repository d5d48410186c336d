"""The vectors in memory are those of the index, whatever was committed between two looks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity
from memtui.engine.own_legs import followed_view
from memtui.index.database import open_database
from memtui.retrieval.vector_view import VectorView
from tests.support.rows import DIMS, IndexFile, unit_vectors

IDENTITY = ProviderIdentity("test", "test-model", DIMS, "0")


@dataclass
class Followed:
    """An index that is written by one connection and followed by another."""

    index: IndexFile
    reader: Any
    cache: EmbeddingCache
    view: VectorView | None = None
    vectors: dict[int, Any] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    made: int = 0

    def add(self, count: int, *, embedded: bool = True) -> None:
        """Add chunks, with vectors or waiting for them."""
        self.made += 1
        rows = self.index.add_all(f"note {self.made}, {place}" for place in range(count))
        self.pending.update(rows)
        if embedded:
            self.embed(rows)

    def embed(self, rows: list[int]) -> None:
        """Give chunks that wait their vectors."""
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

    def look(self, trace: Callable[[str], None] = lambda statement: None) -> None:
        """Follow what was committed; `trace` hears the statements."""

        def hear(_: object, statement: str, __: object) -> bool:
            trace(statement)
            return True

        self.reader.exec_trace = hear
        self.view = followed_view(self.view, self.reader, self.cache, IDENTITY)

    def check(self) -> None:
        """Follow what was committed, and compare it with what is there."""
        self.look()
        view = self.view
        assert view is not None
        held = dict(zip(view.rowids[view.live].tolist(), view.matrix[view.live], strict=True))
        assert set(held) == set(self.vectors)
        assert (view.size, view.pending) == (len(held), len(self.pending))
        assert all(np.array_equal(held[row], vector) for row, vector in self.vectors.items())


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    index = IndexFile(tmp_path)
    reader = open_database(index.path, readonly=True)
    cache = EmbeddingCache(tmp_path / "cache.db", open_database)
    yield Followed(index, reader, cache)
    reader.close()
    cache.close()
    index.connection.close()


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_the_index_holds(followed: Followed, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(8):
        followed.add(1 + number % 3, embedded=number % 2 == 0)
    for step in range(60):
        for _ in range(dice.randrange(4)):
            known, waiting = sorted(followed.vectors), sorted(followed.pending)
            match dice.choice(["add", "add waiting", "embed", "remove", "drop", "remove waiting"]):
                case "add" | "add waiting" as what:
                    followed.add(1 + step % 3, embedded=what == "add")
                case "embed" if waiting:
                    followed.embed(dice.sample(waiting, dice.randint(1, len(waiting))))
                case "remove" if known:
                    followed.remove(dice.choice(known))
                case "drop" if known:
                    followed.drop_vector(dice.choice(known))
                case "remove waiting" if waiting:
                    followed.remove(dice.choice(waiting))
        followed.check()


def test_chunks_that_stay_are_not_read_again(followed: Followed) -> None:
    followed.add(20)
    followed.check()
    followed.add(3)
    followed.add(2, embedded=False)
    statements: list[str] = []
    followed.look(statements.append)
    assert len([one for one in statements if "FROM chunks_vec WHERE" in one]) == 3


def test_what_is_committed_in_mid_look_is_there_once(followed: Followed) -> None:
    followed.add(3)
    followed.check()
    late = iter((False, True))

    def commit(statement: str) -> None:
        if "embedded = 0" in statement:
            for embedded in late:
                followed.add(2, embedded=embedded)

    followed.add(1)
    followed.look(commit)
    assert next(late, None) is None
    followed.embed(sorted(followed.pending))
    for _ in range(2):
        followed.check()
        followed.add(2)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_vector_that_comes_late_is_found(followed: Followed, is_first: bool) -> None:
    followed.add(2)
    if not is_first:
        followed.check()
    late, never = followed.index.add_all(["late", "never"])
    with followed.index.connection as connection:
        connection.execute("UPDATE chunks SET embedded = 1 WHERE id IN (?, ?)", (late, never))
    followed.check()
    followed.index.add_vectors({late: unit_vectors(1, DIMS, seed=late)[0]})
    followed.vectors[late] = unit_vectors(1, DIMS, seed=late)[0]
    followed.check()
    assert never not in followed.vectors
