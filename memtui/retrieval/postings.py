"""Which chunks hold a word and how often: FTS5's own lists, as arrays.

`bm25()` asks for the length of every row and counts every phrase anew for each query. Here the
lengths of all rows are in memory, and a list is read once: the lists used last are kept, and
follow the index when it changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.doclists import ListPages, stored_list
from memtui.retrieval.row_lengths import Lengths, RowLengths, numbers
from memtui.retrieval.term_plan import INSTANCES, Words

Rows: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.unsignedinteger[Any]]

REMEMBERED_BYTES = 32 * 2**20
REMEMBERED_PER_ROW = 128
"""More bytes of a large index are kept, in proportion to what its vectors take."""

MOST_LISTS = 2048
"""What Python keeps of a short list is many times its rows; one is read again in no time."""

DECODED_FROM = 3
"""Pages from which on a list is read out of FTS5's own pages; below, asking is as quick."""

SHORT = 2
"""Pages up to which to read a list is no more work than to count its rows."""

ROWS_OF_A_PAGE = 4000
"""About, of a word that stands once in a row: four bytes for each."""

_CHECKED_LISTS = 8
_MOST_NEW_ROWS = 4096
_SIZE_FUNCTION = "memtui_collection_size"
_COUNT_FUNCTION = "memtui_phrase_count"
_LISTED = "SELECT group_concat(doc) FROM temp.memtui_instances WHERE "
_ONE = "term = ?"
_RANGE = "term >= ? AND term < ?"
_HOLDING = "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?"
_NEW = (
    f"SELECT rowid, {_COUNT_FUNCTION}(chunks_fts) FROM chunks_fts "
    "WHERE chunks_fts MATCH ? AND rowid > ? LIMIT ?"
)
_END_OF_RANGE = "\U0010ffff"


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The rows that hold a phrase, ascending, and how often each does; shape (n,) both."""

    rows: Rows
    counts: Counts
    most: int
    """No row holds it more often."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.rows.nbytes + self.counts.nbytes

    def counts_of(self, rows: Rows) -> Counts:
        """How often each row holds the phrase, shape (len(rows),); quickest where they ascend."""
        if not len(self.rows):
            return np.zeros(len(rows), dtype=np.uint8)
        places = self.rows.searchsorted(rows)
        np.minimum(places, len(self.rows) - 1, out=places)
        counts: Counts = self.counts[places] * (self.rows[places] == rows)
        return counts


_NOTHING = Postings(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8), 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A list as it was when the index had so many rows, and so many of them were gone."""

    postings: Postings
    last: int
    gone: int


class PostingsReader:
    """Reads lists from the full-text table of one connection, on that connection's thread."""

    def __init__(self, connection: Connection, *, remembered: int | None = None) -> None:
        """`remembered`: how many bytes the lists that are kept may take."""
        self._connection = connection
        self._remembered = remembered
        self._known: OrderedDict[Words, _Kept] = OrderedDict()
        self._bytes = 0
        self._stamp: tuple[int, int] | None = None
        self._row_lengths = RowLengths(connection)
        self._gone: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._pages: ListPages | None = None
        self._agreed = 0
        self._is_complete = False
        self.rows = 0
        """How many rows there are."""
        self.tokens = 0
        """Tokens of all rows."""
        self.shortest = 0
        """No row that holds anything has fewer tokens."""
        connection.execute(INSTANCES)
        connection.register_fts5_function(_SIZE_FUNCTION, _collection_size)
        connection.register_fts5_function(_COUNT_FUNCTION, _phrase_count)

    @property
    def lengths(self) -> Lengths:
        """Tokens of each row, by row number; shape (last row number + 1,)."""
        return self._row_lengths.lengths

    @property
    def most_bytes(self) -> int:
        """How many bytes the lists that are kept may take."""
        if self._remembered is not None:
            return self._remembered
        return max(REMEMBERED_BYTES, REMEMBERED_PER_ROW * self.rows)

    @property
    def is_new(self) -> bool:
        """Whether it has still to read the lengths of all rows."""
        return not self._is_complete

    @property
    def has_room(self) -> bool:
        """Whether lists that nobody asked for may be read: a quarter is for what is asked."""
        return self._bytes < self.most_bytes * 3 // 4

    def advance(self) -> bool:
        """Read some of what the first `refresh` needs; whether there is more of it."""
        more = self._row_lengths.advance()
        self._is_complete |= not more
        return more

    def refresh(self) -> None:
        """Follow the index within the caller's snapshot; raises what SQLite raises."""
        version = self._connection.execute("PRAGMA data_version").fetchall()[0][0]
        own = self._connection.execute("SELECT total_changes()").fetchall()[0][0]
        if (version, own) == self._stamp:
            return
        self._stamp = None
        self._pages = ListPages(self._connection)
        sql = f"SELECT {_SIZE_FUNCTION}(chunks_fts) FROM chunks_fts LIMIT 1"
        found = self._connection.execute(sql).fetchall()
        self.rows, self.tokens = map(int, found[0][0].split()) if found else (0, 0)
        gone = self._row_lengths.refresh(self.rows)
        self._is_complete = True
        self._gone = np.concatenate([self._gone, gone])
        if len(self._gone) > _MOST_NEW_ROWS:
            self.forget()
        lengths = self.lengths
        self.shortest = int(lengths.min(initial=2**31, where=lengths > 0))
        self._stamp = (version, own)

    def forget(self) -> None:
        """Drop every list."""
        self._known.clear()
        self._bytes = 0
        self._gone = np.empty(0, dtype=np.int64)

    def has(self, words: Words) -> bool:
        """Whether the list of a phrase is kept."""
        return words in self._known

    def size_of(self, words: Words) -> int | None:
        """How many rows hold a phrase: by its list where that is kept or short, else by its pages.

        A page holds so many rows at most; `None` where that cannot be told.
        """
        if words in self._known:
            return len(self.get(words).rows)
        if len(words.tokens) > 1 or words.beginning:
            return None
        pages = self._pages_of(words.tokens[0])
        if pages is None:
            return None
        if pages > SHORT:
            return min((pages + 1) * ROWS_OF_A_PAGE, self.rows)
        return len(self.get(words).rows)

    def _pages_of(self, token: str) -> int | None:
        return self._pages.of(token) if self._pages is not None else None

    def learn_pages(self) -> None:
        """Make it quick to tell how long lists are, until the index changes."""
        if self._pages is not None:
            self._pages.learn()

    def get(self, words: Words) -> Postings:
        """Read the list of a phrase, or take it from those that are kept."""
        known = self._known.get(words)
        if known is not None and self._is_current(known):
            self._known.move_to_end(words)
            return known.postings
        if known is not None:
            del self._known[words]
            self._bytes -= known.postings.nbytes
            known = self._followed(words, known)
        if known is None:
            known = _Kept(self._read(words), self._row_lengths.last, len(self._gone))
        self._known[words] = known
        self._bytes += known.postings.nbytes
        while len(self._known) > 1 and (
            self._bytes > self.most_bytes or len(self._known) > MOST_LISTS
        ):
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.postings.nbytes
        return known.postings

    def _is_current(self, kept: _Kept) -> bool:
        return kept.last == self._row_lengths.last and kept.gone == len(self._gone)

    def _followed(self, words: Words, kept: _Kept) -> _Kept | None:
        """A list as it is now; `None` where reading it again is as quick."""
        last, postings = self._row_lengths.last, kept.postings
        if kept.gone < len(self._gone):
            stays = ~np.isin(postings.rows, self._gone[kept.gone :].astype(np.int32))
            postings = replace(postings, rows=postings.rows[stays], counts=postings.counts[stays])
        if kept.last < last:
            values = (words.match, kept.last, _MOST_NEW_ROWS)
            found = self._connection.execute(_NEW, values).fetchall()
            if len(found) == _MOST_NEW_ROWS:
                return None
            postings = _joined(postings, np.array(found, dtype=np.int64).reshape(-1, 2))
        return replace(kept, postings=postings, last=last, gone=len(self._gone))

    def _read(self, words: Words) -> Postings:
        if len(words.tokens) > 1:
            rows = self._connection.execute(_NEW, (words.match, 0, -1)).fetchall()
            return _joined(_NOTHING, np.array(rows, dtype=np.int64).reshape(-1, 2))
        stored = None if words.beginning else self._stored(words)
        return stored or _counted(self._instances(words.tokens[0], words.beginning))

    def _stored(self, words: Words) -> Postings | None:
        """The list of a frequent word as it is stored, when the first ones are as FTS5 counts."""
        token = words.tokens[0]
        if self._pages is None or (self._pages.of(token) or 0) < DECODED_FROM:
            return None
        found = stored_list(self._connection, token, self._pages.segments)
        if found is None:
            return None
        rows, counts = found
        if rows.max(initial=0) > self._row_lengths.last:
            return None
        is_live = self.lengths[rows] > 0
        if not is_live.all():
            rows, counts = rows[is_live], counts[is_live]
        if self._agreed < _CHECKED_LISTS:
            held = self._connection.execute(_HOLDING, (words.match,)).fetchall()[0][0]
            if held != len(rows):
                return None
            self._agreed += 1
        return _packed(rows, counts)

    def _instances(self, token: str, beginning: bool) -> NDArray[np.int64]:
        """The row of every place where a token stands, ascending."""
        where, values = _condition(token, beginning)
        rows = self._connection.execute(_LISTED + where, values).fetchall()
        found = numbers(rows[0][0])
        return np.sort(found) if beginning else found


def _condition(token: str, beginning: bool) -> tuple[str, tuple[str, ...]]:
    return (_RANGE, (token, token + _END_OF_RANGE)) if beginning else (_ONE, (token,))


def _counted(rows: NDArray[np.int64]) -> Postings:
    """Count the repetitions of ascending row numbers."""
    if not len(rows):
        return _NOTHING
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    return _packed(rows[starts], np.append(starts[1:], len(rows)) - starts)


def _packed(rows: NDArray[np.int64], counts: NDArray[np.int64]) -> Postings:
    most = int(counts.max(initial=0))
    return Postings(rows.astype(np.int32), counts.astype(np.min_scalar_type(most)), most)


def _joined(postings: Postings, new: NDArray[np.int64]) -> Postings:
    """Add rows behind the others, `new` holding their numbers and counts; shape (n, 2)."""
    rows = np.concatenate([postings.rows.astype(np.int64), new[:, 0]])
    return _packed(rows, np.concatenate([postings.counts.astype(np.int64), new[:, 1]]))


def _collection_size(api: Any, *_: object) -> str:
    return f"{api.row_count} {api.column_total_size(-1)}"


def _phrase_count(api: Any, *_: object) -> int:
    return int(api.inst_count)
