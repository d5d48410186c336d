"""The lists of frequent words, out of the pages in which FTS5 stores them.

In a word's list (`ext/fts5/fts5_index.c` of SQLite, its first comment) each row is the difference
to the row before it, twice the bytes of its positions, and the positions, all as varints. Whoever
asks compares the answer with what FTS5 itself says, and a list that is not stored so, or not
entirely, is `None`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.leaf_pages import (
    Malformed,
    Part,
    Segment,
    TermPages,
    bounds,
    last_term,
    parts_of_list,
    segments,
    term_pages,
)

Numbers: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.intp]
Bytes: TypeAlias = NDArray[np.uint8]
Flags: TypeAlias = NDArray[np.bool_]

_MAIN = b"0"
_MORE = 0x80
_MOST_ROW_BYTES = 5
_MOST_SIZE_BYTES = 3
_MOST_KNOWN_PAGES = 2**16
_BYTES_AT_A_TIME = 2**17
_BLOCK = 512
"""Numbers of a list that are followed from an own beginning."""

_STEPS_AT_A_TIME = 16
"""A divisor of half a block: whatever begins an entry, there are two numbers to the next one."""


def stored_list(
    connection: Connection, token: str, parts_of_index: Sequence[Segment] | None = None
) -> tuple[Numbers, Numbers] | None:
    """The rows that hold a token, ascending, and how often each does; `None` for not readable.

    Rows that were deleted since are among them until FTS5 merges its segments. `parts_of_index`
    spares reading what these are. Raises what SQLite raises.
    """
    term = _MAIN + token.encode()
    try:
        found = [
            _decoded(parts)
            for segment in parts_of_index or segments(connection)
            if (parts := parts_of_list(connection, segment, term))
        ]
    except (Malformed, IndexError):
        return None
    if len(found) == 1:
        return found[0]
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(rows for rows, _ in found)])
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(counts for _, counts in found)])
    order = np.argsort(rows, kind="stable")
    return rows[order], counts[order]


class ListPages:
    """Over how many pages lists run, of one state of the index."""

    def __init__(self, connection: Connection) -> None:
        """Raises what SQLite raises."""
        self._connection = connection
        self._known: dict[str, int | None] = {}
        self._in_memory: list[TermPages] | None = None
        self.segments: Sequence[Segment] | None = None
        """What the index is made of; `None` for not readable."""
        with suppress(Malformed, IndexError):
            self.segments = segments(connection)

    def learn(self) -> None:
        """Take into memory where terms begin, for as long as the index stays as it is."""
        if self._in_memory is not None or self.segments is None:
            return
        found: list[TermPages] = []
        left = _MOST_KNOWN_PAGES
        for segment in self.segments:
            pages = term_pages(self._connection, segment, left)
            if pages is None:
                return
            found.append(pages)
            left -= len(pages.pages)
        self._in_memory = found

    def of(self, token: str) -> int | None:
        """Over how many page ends the list of a token runs at most; `None` for not readable."""
        if token not in self._known:
            self._known[token] = self._read(_MAIN + token.encode())
        return self._known[token]

    def _read(self, term: bytes) -> int | None:
        if self.segments is None:
            return None
        if self._in_memory is not None:
            ends = [pages.bounds(term) for pages in self._in_memory]
        else:
            ends = [bounds(self._connection, segment, term) for segment in self.segments]
        return sum(last - first for first, last in ends)


def long_lists(connection: Connection, pages: int, most: int = 2**31) -> list[str]:
    """The tokens whose lists run over so many page ends in some segment, the longest first.

    Looks at the `most` longest pieces of lists. Raises what SQLite raises; none where the pages
    are not readable.
    """
    found: dict[bytes, int] = {}
    try:
        for length, segment, page in _long_pieces(connection, pages)[:most]:
            term = last_term(connection, segment, page)
            found[term] = found.get(term, 0) + length
        longest = sorted(found, key=lambda term: -found[term])
        return [term[1:].decode() for term in longest if term.startswith(_MAIN)]
    except (Malformed, IndexError, UnicodeDecodeError):
        return []


def _long_pieces(connection: Connection, pages: int) -> list[tuple[int, Segment, int]]:
    """How long the lists are that run over so many pages, and where they begin; longest first."""
    found: list[tuple[int, Segment, int]] = []
    for segment in segments(connection):
        begun = term_pages(connection, segment)
        starts = (begun.pages if begun is not None else ()) or [segment.first_page]
        for page, following in pairwise([*starts, segment.last_page + 1]):
            if following - page > pages:
                found.append((following - page, segment, page))
    return sorted(found, reverse=True)


def _decoded(parts: Sequence[Part]) -> tuple[Numbers, Numbers]:
    """Rows and counts of one segment's list."""
    sizes = np.cumsum([0, *(len(part.body) for part in parts)])
    stored = np.frombuffer(b"".join(part.body for part in parts), dtype=np.uint8)
    starts = np.array(
        [size + part.first_row for size, part in zip(sizes, parts, strict=False)
         if part.first_row >= 0],
        dtype=np.int64,
    )  # fmt: skip
    if len(starts) == 0 or starts[0] != 0:
        raise Malformed
    begins = [0]
    for start in starts.tolist():
        if start - begins[-1] >= _BYTES_AT_A_TIME:
            begins.append(start)
    found = [
        _entries(stored[begin:end], starts[(begin <= starts) & (starts < end)] - begin)
        for begin, end in pairwise([*begins, len(stored)])
    ]
    rows = np.concatenate([rows for rows, _ in found])
    if rows[0] <= 0 or (rows[1:] <= rows[:-1]).any():
        raise Malformed
    return rows, np.concatenate([counts for _, counts in found])


def _entries(stored: Bytes, starts: Numbers) -> tuple[Numbers, Numbers]:
    """Rows and counts out of entries that are all there; those at `starts` are in full.

    Every entry is three numbers or more: the row, the size, and the positions.
    """
    is_end = stored < _MORE
    if not is_end[-1]:
        raise Malformed
    ends = np.flatnonzero(is_end)
    ended = np.cumsum(is_end, dtype=np.intp)
    values: Numbers | Bytes = stored[ends]
    rows = _chained(ends, ended, values)
    if (ends[np.minimum(rows + 1, len(ends) - 1)] - ends[rows] > 1).any():
        values = _long_values(stored, ends)
        rows = _chained(ends, ended, values)
    sizes = values[rows + 1]
    following = np.append(rows[1:], len(ends))
    counts = following - rows - 2
    is_whole = ends[rows + 1] + (sizes >> 1) == ends[following - 1]
    # A row that is deleted has an odd size.
    if (sizes & 1).any() or (counts <= 0).any() or not is_whole.all():
        raise Malformed
    in_full = ended[starts] - is_end[starts]
    places = np.searchsorted(rows, in_full)
    # A page whose first row is none of them is of another format.
    if places[-1] == len(rows) or (rows[places] != in_full).any():
        raise Malformed
    return _absolute(_steps(stored, ends, rows), places), counts


def _long_values(stored: Bytes, ends: Numbers) -> Numbers:
    """The values of all numbers, as far as they can be sizes."""
    values = stored[ends].astype(np.int64)
    widths = np.diff(ends, prepend=-1)
    for back in range(1, _MOST_SIZE_BYTES):
        wide = np.flatnonzero(widths > back)
        values[wide] |= (stored[ends[wide] - back].astype(np.int64) & 0x7F) << 7 * back
    return values


def _steps(stored: Bytes, ends: Numbers, rows: Numbers) -> Numbers:
    """The numbers that begin the entries."""
    last = ends[rows]
    steps = stored[last].astype(np.int64)
    widths = last - ends[rows - 1]
    widths[0] = last[0] + 1
    wide = np.flatnonzero(widths > 1)
    for back in range(1, _MOST_ROW_BYTES):
        steps[wide] |= (stored[last[wide] - back].astype(np.int64) & 0x7F) << 7 * back
        wide = wide[widths[wide] > back + 1]
    if len(wide):
        raise Malformed
    return steps


def _chained(ends: Numbers, ended: Indices, values: NDArray[np.integer[Any]]) -> Indices:
    """Which of the numbers begin entries, ascending; the first one does.

    An entry tells only where the next one begins. So every block of numbers is followed from its
    own beginning, all at a time: what is followed from a number between two entries soon falls in
    with the entries themselves. A block in which it does not is followed again from where the
    entries of the block before it end.
    """
    count = len(ends)
    following = _following(ends, ended, values)
    begins = np.arange(0, count, _BLOCK)
    limits = np.minimum(begins + _BLOCK, count)
    in_blocks = np.zeros((len(begins), _BLOCK), dtype=np.bool_)
    is_begun = in_blocks.reshape(-1)
    left = _followed(following, begins, limits, is_begun)
    entered = np.zeros_like(begins)
    while True:
        entered[1:] = left[:-1]
        inside = entered < limits
        agrees = left == entered
        agrees[inside] = is_begun[entered[inside]]
        wrong = np.flatnonzero(~agrees)
        if not len(wrong):
            break
        in_blocks[wrong] = False
        left[wrong] = _followed(following, entered[wrong], limits[wrong], is_begun)
    begun = np.flatnonzero(is_begun)
    return begun[begun >= entered[begun // _BLOCK]]


def _following(ends: Numbers, ended: Indices, values: NDArray[np.integer[Any]]) -> Indices:
    """For each number, if an entry began with it: the number behind the entry."""
    count = len(ends)
    following = np.full(count + 1, count, dtype=np.intp)
    last = ends[1:] + (values[1:] >> 1)
    # What is read behind the last number is never used.
    ended.take(last, out=following[: count - 1], mode="clip")
    return following


def _followed(following: Indices, begins: Indices, limits: Indices, is_begun: Flags) -> Indices:
    """Mark what is followed from each beginning up to its limit; the first number behind that."""
    steps = np.empty((_BLOCK // 2 + 1, len(begins)), dtype=np.intp)
    steps[0] = begins
    taken = 0
    while taken < _BLOCK // 2 and (steps[taken] < limits).any():
        for step in range(taken, taken + _STEPS_AT_A_TIME):
            following.take(steps[step], out=steps[step + 1], mode="clip")
        taken += _STEPS_AT_A_TIME
    steps = steps[: taken + 1]
    inside = steps < limits
    is_begun[steps[inside]] = True
    found: Indices = steps[np.count_nonzero(inside, axis=0), np.arange(len(begins))]
    return found


def _absolute(steps: Numbers, written: Numbers) -> Numbers:
    """Row numbers out of differences; those at the places `written` are in full."""
    before = steps.copy()
    before[written] = 0
    gone = np.cumsum(before)
    lengths = np.diff(np.append(written, len(steps)))
    rows: Numbers = gone + np.repeat(steps[written] - gone[written], lengths)
    return rows
