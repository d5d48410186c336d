"""How many tokens each row of the full-text table has, as an array that follows the index."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection

Lengths: TypeAlias = NDArray[np.uint32]

_MOST_ROWS = 2**31
_ROWS_AT_A_TIME = 65_536
_PART = "FROM (SELECT id, sz FROM chunks_fts_docsize WHERE id > ? ORDER BY id LIMIT ?)"
_SIZES = f"SELECT count(*), max(id), group_concat(hex(sz), '') {_PART}"
_ROWS = f"SELECT group_concat(id) {_PART}"
_EVERY_ROW = "SELECT group_concat(id) FROM chunks_fts_docsize"


class RowLengths:
    """Reads the lengths of rows over one connection; a row number is never used twice."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_there: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)
        self.lengths: Lengths = np.zeros(1, dtype=np.uint32)
        """By row number, 0 for what is no row; shape (last row number + 1,)."""

    @property
    def last(self) -> int:
        """The last row that was read."""
        return len(self.lengths) - 1

    def advance(self) -> bool:
        """Read the lengths of some rows that are new; whether there may be more."""
        past = self.last
        found = self._connection.execute(_SIZES, (past, _ROWS_AT_A_TIME)).fetchall()
        count, last, sizes = found[0]
        if not count:
            return False
        if last >= _MOST_ROWS:
            raise OverflowError(f"row {last} of an index")
        lengths = np.zeros(last + 1, dtype=np.uint32)
        is_there = np.zeros(last + 1, dtype=np.bool_)
        lengths[: past + 1], is_there[: past + 1] = self.lengths, self._is_there
        rows: NDArray[np.int64] | slice = slice(past + 1, None)
        if count != last - past:
            listed = self._connection.execute(_ROWS, (past, _ROWS_AT_A_TIME)).fetchall()
            rows = numbers(listed[0][0])
        lengths[rows], is_there[rows] = varints(bytes.fromhex(sizes)), True
        self.lengths, self._is_there = lengths, is_there
        return bool(count == _ROWS_AT_A_TIME)

    def refresh(self, count: int) -> NDArray[np.int64]:
        """Read what is new, and find the rows that are gone when there are to be `count`."""
        while self.advance():
            pass
        gone = np.empty(0, dtype=np.int64)
        if int(np.count_nonzero(self._is_there)) != count:
            every = numbers(self._connection.execute(_EVERY_ROW).fetchall()[0][0])
            is_there = np.zeros(len(self._is_there), dtype=np.bool_)
            is_there[every] = True
            gone = np.flatnonzero(self._is_there & ~is_there)
            # In new arrays: somebody may hold on to those before.
            self.lengths, self._is_there = np.where(is_there, self.lengths, 0), is_there
        return gone


def numbers(listed: str | None) -> NDArray[np.int64]:
    """Read numbers with commas between them; `None` is none."""
    if not listed:
        return np.empty(0, dtype=np.int64)
    return np.fromstring(listed, dtype=np.int64, sep=",")


def varints(stored: bytes) -> Lengths:
    """Decode SQLite's varints: seven bits a byte, the upper ones first, the last byte below 128."""
    parts = np.frombuffer(stored, dtype=np.uint8)
    ends = np.flatnonzero(parts < 0x80)
    lengths = np.diff(ends, prepend=-1)
    values: Lengths = np.zeros(len(ends), dtype=np.uint32)
    for back in range(int(lengths.max(initial=0))):
        longer = lengths > back
        values[longer] |= (parts[ends[longer] - back] & 0x7F).astype(np.uint32) << (7 * back)
    return values
