"""No statement of sqlite-vec is interrupted: an interrupted one ends the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from memtui.errors import Cancelled
from memtui.retrieval.vector_view import load_view
from tests.support.rows import DIMS, IndexFile, unit_vectors

_DIMS = 2
_VIRTUAL = "chunks_vec"
_STORED = "chunks_vec_"


class _Stored:
    """A connection whose statements are noted, with whether somebody could interrupt them."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self._fails = fails
        self.open = True
        self.seen: list[tuple[str, bool]] = []

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        before, self.open = self.open, False
        yield
        self.open = before

    def execute(self, statements: str, bindings: Any = None, /) -> Any:
        self.seen.append((statements, self.open))
        if _STORED in statements and self._fails is not None:
            raise self._fails
        return _Rows([(0,)] if "count(" in statements else [])


class _Rows(list[tuple[int]]):
    def fetchall(self) -> list[tuple[int]]:
        return list(self)


def test_what_asks_the_virtual_table_is_undisturbed() -> None:
    stored = _Stored()
    load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]
    asked = [one for one in stored.seen if _VIRTUAL in one[0].replace(_STORED, "")]
    assert asked
    assert not any(could for _, could in asked)


def test_an_interruption_is_not_taken_for_blocks_that_cannot_be_read() -> None:
    stored = _Stored(fails=apsw.InterruptError("interrupted"))
    with pytest.raises(apsw.InterruptError):
        load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]


def test_other_trouble_with_the_blocks_leaves_the_table_to_be_asked() -> None:
    stored = _Stored(fails=apsw.SQLError("no such table"))
    load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]
    assert stored.seen[-2] == ("SELECT rowid, embedding FROM chunks_vec", False)


def test_a_long_load_gives_way_and_lets_go_of_its_snapshot(tmp_path: Path) -> None:
    index = IndexFile(tmp_path)
    row = index.add("router")
    index.add_vectors({row: unit_vectors(1, DIMS, seed=1)[0]})
    with pytest.raises(Cancelled):
        load_view(index.connection, None, None, DIMS, exact_limit=0, gives_way=lambda: True)
    assert not index.connection.in_transaction
    # What is read in a moment is not begun again and again.
    short = load_view(index.connection, None, None, DIMS, gives_way=lambda: True)
    assert short.size == 1
    index.connection.close()
