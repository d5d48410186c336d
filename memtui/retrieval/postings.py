"""Which chunks hold a word and how often: FTS5's own lists, as arrays.

`bm25()` asks for the length of every row and counts every phrase anew for each query. Here the
lengths of all rows are in memory, and the list of a word is read in one statement, which takes
about a quarter of the time; the lists read last are kept until the index changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.term_plan import INSTANCES, Words

Rows: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.unsignedinteger[Any]]
Lengths: TypeAlias = NDArray[np.uint32]

REMEMBERED_BYTES = 32 * 2**20

_MOST_ROWS = 2**31
_FUNCTION = "memtui_collection_size"
_LISTED = "SELECT group_concat(doc) FROM temp.memtui_instances WHERE "
_PLACED = "SELECT group_concat(doc), group_concat(offset) FROM temp.memtui_instances WHERE "
_ONE = "term = ?"
_RANGE = "term >= ? AND term < ?"
_END_OF_RANGE = "\U0010ffff"
_OFFSET_BITS = 32
_LENGTHS = (
    "SELECT count(*), max(id), group_concat(hex(sz), '') FROM chunks_fts_docsize WHERE id > ?"
)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The rows that hold a phrase, ascending, and how often each does; shape (n,) both."""

    rows: Rows
    counts: Counts

    def holds(self, rowids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of each row number whether it is among them."""
        if not len(self.rows):
            return np.zeros(len(rowids), dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.rows, rowids), len(self.rows) - 1)
        held: NDArray[np.bool_] = self.rows[places] == rowids
        return held


class PostingsReader:
    """Reads lists from the full-text table of one connection, on that connection's thread."""

    def __init__(self, connection: Connection, *, remembered: int = REMEMBERED_BYTES) -> None:
        """`remembered`: how many bytes the lists that are kept may take."""
        self._connection = connection
        self._remembered = remembered
        self._known: OrderedDict[Words, Postings] = OrderedDict()
        self._bytes = 0
        self._stamp: tuple[int, int] | None = None
        self.lengths: Lengths = np.zeros(1, dtype=np.uint32)
        """Tokens of each row, by row number; shape (last row number + 1,)."""
        self.rows = 0
        """How many rows there are."""
        self.tokens = 0
        """Tokens of all rows."""
        connection.execute(INSTANCES)
        connection.register_fts5_function(_FUNCTION, _collection_size)

    def refresh(self) -> None:
        """Follow the index within the caller's snapshot; raises what SQLite raises."""
        version = self._connection.execute("PRAGMA data_version").fetchall()[0][0]
        own = self._connection.execute("SELECT total_changes()").fetchall()[0][0]
        if (version, own) == self._stamp:
            return
        self._known.clear()
        self._bytes = 0
        self._stamp = None
        self._read_lengths()
        sql = f"SELECT {_FUNCTION}(chunks_fts) FROM chunks_fts LIMIT 1"
        found = self._connection.execute(sql).fetchall()
        self.rows, self.tokens = map(int, found[0][0].split()) if found else (0, 0)
        self._stamp = (version, own)

    def get(self, words: Words) -> Postings:
        """Read the list of a phrase, or take it from those that are kept."""
        known = self._known.pop(words, None)
        if known is None:
            known = self._read(words)
            self._bytes += known.rows.nbytes + known.counts.nbytes
        self._known[words] = known
        while self._bytes > self._remembered and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.rows.nbytes + oldest.counts.nbytes
        return known

    def _read(self, words: Words) -> Postings:
        *before, last = words.tokens
        if not before:
            return _counted(self._instances(last, words.beginning))
        found = self._places(before[0], False)
        for distance, token in enumerate((*before[1:], last), 1):
            beginning = words.beginning and distance == len(before)
            found = np.intersect1d(found, self._places(token, beginning) - distance)
        return _counted(found >> _OFFSET_BITS)

    def _instances(self, token: str, beginning: bool) -> NDArray[np.int64]:
        """The row of every place where a token stands, ascending."""
        where, values = _condition(token, beginning)
        rows = self._connection.execute(_LISTED + where, values).fetchall()
        found = _numbers(rows[0][0])
        return np.sort(found) if beginning else found

    def _places(self, token: str, beginning: bool) -> NDArray[np.int64]:
        """Every place where a token stands, the row in the upper bits."""
        where, values = _condition(token, beginning)
        rows = self._connection.execute(_PLACED + where, values).fetchall()
        return (_numbers(rows[0][0]) << _OFFSET_BITS) | _numbers(rows[0][1])

    def _read_lengths(self) -> None:
        """Read the lengths of rows that are new; a row number is never used twice."""
        past = len(self.lengths) - 1
        count, last, sizes = self._connection.execute(_LENGTHS, (past,)).fetchall()[0]
        if not count:
            return
        if last >= _MOST_ROWS:
            raise OverflowError(f"row {last} of an index")
        lengths = np.zeros(last + 1, dtype=np.uint32)
        lengths[: past + 1] = self.lengths
        fresh = _varints(bytes.fromhex(sizes))
        if count == last - past:
            lengths[past + 1 :] = fresh
        else:
            sql = "SELECT group_concat(id) FROM chunks_fts_docsize WHERE id > ?"
            lengths[_numbers(self._connection.execute(sql, (past,)).fetchall()[0][0])] = fresh
        self.lengths = lengths


def _condition(token: str, beginning: bool) -> tuple[str, tuple[str, ...]]:
    return (_RANGE, (token, token + _END_OF_RANGE)) if beginning else (_ONE, (token,))


def _numbers(listed: str | None) -> NDArray[np.int64]:
    """Read numbers with commas between them; `None` is none."""
    if not listed:
        return np.empty(0, dtype=np.int64)
    return np.fromstring(listed, dtype=np.int64, sep=",")


def _counted(rows: NDArray[np.int64]) -> Postings:
    """Count the repetitions of ascending row numbers."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    small = np.min_scalar_type(int(counts.max(initial=0)))
    return Postings(rows[starts].astype(np.int32), counts.astype(small))


def _varints(stored: bytes) -> NDArray[np.uint32]:
    """Decode SQLite's varints: seven bits a byte, the upper ones first, the last byte below 128."""
    parts = np.frombuffer(stored, dtype=np.uint8)
    ends = np.flatnonzero(parts < 0x80)
    lengths = np.diff(ends, prepend=-1)
    values = np.zeros(len(ends), dtype=np.uint32)
    for back in range(int(lengths.max(initial=0))):
        longer = lengths > back
        values[longer] |= (parts[ends[longer] - back] & 0x7F).astype(np.uint32) << (7 * back)
    return values


def _collection_size(api: Any, *_: object) -> str:
    return f"{api.row_count} {api.column_total_size(-1)}"
