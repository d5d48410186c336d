"""The lists of frequent words, out of the pages in which FTS5 stores them.

The format is that of SQLite's `ext/fts5/fts5_index.c` (its first comment): a word's list runs over
the leaf pages of a segment; each row is the difference to the row before it, twice the bytes of
its positions, and the positions, all as varints. Every page tells where its first row is, which is
written in full. Whoever asks compares the answer with what FTS5 itself says, and a list that is
not stored so, or not entirely, is `None`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection

Numbers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]

_STRUCTURE = 10
_WITH_ORIGINS = b"\xff\x00\x00\x01"
_SEGMENT_SHIFT = 37
_MAIN = b"0"
_HEADER = 4
_MORE = 0x80
_MOST_ROW_BYTES = 5
_MOST_SIZE_BYTES = 3
_PADDING = 16
_BYTES_AT_A_TIME = 2**17
_TRIED_EVERY = 256
_PAGES_AT_A_TIME = 64

_STORED = "SELECT block FROM chunks_fts_data WHERE id = ?"
_PAGES = "SELECT block FROM chunks_fts_data WHERE id BETWEEN ? AND ? ORDER BY id"
_FIRST_PAGE = (
    "SELECT pgno FROM chunks_fts_idx WHERE segid = ? AND term <= ? ORDER BY term DESC LIMIT 1"
)
_NEXT_PAGE = "SELECT pgno FROM chunks_fts_idx WHERE segid = ? AND term > ? ORDER BY term LIMIT 1"
_EVERY_PAGE = "SELECT pgno FROM chunks_fts_idx WHERE segid = ? ORDER BY term"


class _Segment(NamedTuple):
    number: int
    first_page: int
    last_page: int


@dataclass(frozen=True, slots=True)
class _Part:
    """What one page holds of a list."""

    body: bytes
    first_row: int
    """Where the first row is that begins on it; -1 for none."""


class _Malformed(Exception):
    """The pages are not as this version of the format has them."""


def stored_list(connection: Connection, token: str) -> tuple[Numbers, Numbers] | None:
    """The rows that hold a token, ascending, and how often each does; `None` for not readable.

    Rows that were deleted since are among them until FTS5 merges its segments. Raises what SQLite
    raises.
    """
    try:
        found = [
            _decoded(parts)
            for segment in _segments(connection)
            if (parts := _parts(connection, segment, _MAIN + token.encode()))
        ]
    except (_Malformed, IndexError):
        return None
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(rows for rows, _ in found)])
    counts = np.concatenate([np.empty(0, dtype=np.int64), *(counts for _, counts in found)])
    order = np.argsort(rows, kind="stable")
    return rows[order], counts[order]


def pages_of_list(connection: Connection, token: str) -> int | None:
    """Over how many page ends the list of a token runs at most; `None` for not readable."""
    term = _MAIN + token.encode()
    pages = 0
    try:
        for segment in _segments(connection):
            values = (segment.number, term)
            first = connection.execute(_FIRST_PAGE, values).fetchall()
            following = connection.execute(_NEXT_PAGE, values).fetchall()
            last = int(following[0][0]) >> 1 if following else segment.last_page
            pages += last - (int(first[0][0]) >> 1 if first else segment.first_page)
    except (_Malformed, IndexError):
        return None
    return pages


def long_lists(connection: Connection, pages: int) -> list[str]:
    """The tokens whose lists run over so many page ends in some segment, the longest first.

    Raises what SQLite raises; none where the pages are not readable.
    """
    found: dict[bytes, int] = {}
    try:
        for segment in _segments(connection):
            rows = connection.execute(_EVERY_PAGE, (segment.number,)).fetchall()
            starts = [page >> 1 for (page,) in rows] or [segment.first_page]
            for page, following in pairwise([*starts, segment.last_page + 1]):
                if following - page > pages:
                    stored = _one(connection, _STORED, (_page(segment, page),))
                    term = _terms(stored)[-1][0]
                    found[term] = found.get(term, 0) + following - page
        longest = sorted(found, key=lambda term: -found[term])
        return [term[1:].decode() for term in longest if term.startswith(_MAIN)]
    except (_Malformed, IndexError, UnicodeDecodeError):
        return []


def _segments(connection: Connection) -> list[_Segment]:
    stored = _one(connection, _STORED, (_STRUCTURE,))
    origins = stored[4:8] == _WITH_ORIGINS
    numbers = _varints(stored, 8 if origins else 4)
    levels, _, _ = next(numbers), next(numbers), next(numbers)
    segments: list[_Segment] = []
    for _ in range(levels):
        _, count = next(numbers), next(numbers)
        for _ in range(count):
            segments.append(_Segment(next(numbers), next(numbers), next(numbers)))
            for _ in range(5 if origins else 0):
                next(numbers)
    return segments


def _page(segment: _Segment, number: int) -> int:
    """The row in which a leaf page of a segment is stored."""
    return (segment.number << _SEGMENT_SHIFT) + number


def _one(connection: Connection, sql: str, values: tuple[int | bytes, ...]) -> bytes:
    rows = connection.execute(sql, values).fetchall()
    if not rows or not isinstance(rows[0][0], bytes):
        raise _Malformed
    return rows[0][0]


def _varints(stored: bytes, place: int) -> Iterator[int]:
    """Read SQLite's varints one after the other; raises `_Malformed` behind the last."""
    while place < len(stored):
        value, place = _varint(stored, place)
        yield value
    raise _Malformed


def _varint(stored: bytes, place: int) -> tuple[int, int]:
    value = 0
    for _ in range(9):
        byte = stored[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place
    raise _Malformed


def _parts(connection: Connection, segment: _Segment, term: bytes) -> list[_Part]:
    """The pieces of the pages that hold the list of a term; none when the segment lacks it."""
    found = connection.execute(_FIRST_PAGE, (segment.number, term)).fetchall()
    page = int(found[0][0]) >> 1 if found else segment.first_page
    first = _one(connection, _STORED, (_page(segment, page),))
    place = _list_of(first, term)
    if place is None:
        return []
    start, end, is_last = place
    parts = [_Part(first[start:end], 0)]
    while is_last and page < segment.last_page:
        until = min(page + _PAGES_AT_A_TIME, segment.last_page)
        pages = connection.execute(
            _PAGES, (_page(segment, page + 1), _page(segment, until))
        ).fetchall()
        if len(pages) != until - page:
            raise _Malformed
        for (stored,) in pages:
            part, is_last = _continued(stored)
            parts.append(part)
            if not is_last:
                break
        page = until
    return parts


def _list_of(page: bytes, term: bytes) -> tuple[int, int, bool] | None:
    """Where the list of a term begins and ends on a page, and whether it may go on behind it."""
    terms = _terms(page)
    for number, (known, start, end) in enumerate(terms):
        if known == term:
            return start, end, number == len(terms) - 1
    return None


def _terms(page: bytes) -> list[tuple[bytes, int, int]]:
    """The terms that begin on a leaf page, and where the list of each begins and ends on it."""
    size, starts = _footer(page)
    found: list[tuple[bytes, int, int]] = []
    known = b""
    for number, (start, end) in enumerate(pairwise([*starts, size])):
        kept = 0
        if number:
            kept, start = _varint(page, start)
        length, start = _varint(page, start)
        known = known[:kept] + page[start : start + length]
        found.append((known, start + length, end))
    return found


def _footer(page: bytes) -> tuple[int, list[int]]:
    """Where the content of a leaf page ends, and where its terms begin."""
    size = int.from_bytes(page[2:4], "big")
    if not _HEADER <= size <= len(page):
        raise _Malformed
    starts: list[int] = []
    place = size
    while place < len(page):
        step, place = _varint(page, place)
        starts.append((starts[-1] if starts else 0) + step)
    return size, starts


def _continued(page: bytes) -> tuple[_Part, bool]:
    """What a page that follows holds of the list, and whether the list may go on behind it."""
    size = int.from_bytes(page[2:4], "big")
    if not _HEADER <= size <= len(page):
        raise _Malformed
    end = _varint(page, size)[0] if size < len(page) else size
    first = int.from_bytes(page[:2], "big")
    if not _HEADER <= end <= size:
        raise _Malformed
    inside = first - _HEADER if _HEADER <= first < end else -1
    return _Part(page[_HEADER:end], inside), end == size and size == len(page)


def _decoded(parts: Sequence[_Part]) -> tuple[Numbers, Numbers]:
    """Rows and counts of one segment's list."""
    sizes = np.cumsum([0, *(len(part.body) for part in parts)])
    stored = np.frombuffer(b"".join(part.body for part in parts), dtype=np.uint8)
    starts = np.array(
        [size + part.first_row for size, part in zip(sizes, parts, strict=False)
         if part.first_row >= 0],
        dtype=np.int64,
    )  # fmt: skip
    if len(starts) == 0 or starts[0] != 0:
        raise _Malformed
    return _entries(stored, starts)


def _entries(stored: NDArray[np.uint8], starts: Numbers) -> tuple[Numbers, Numbers]:
    end = len(stored)
    # What is read behind the last entry is never used.
    padded = np.concatenate([stored, np.zeros(_PADDING, dtype=np.uint8)])
    following = np.full(end + 1, end, dtype=np.int32)
    for first in range(0, end, _BYTES_AT_A_TIME):
        last = min(first + _BYTES_AT_A_TIME, end)
        behind = _behind(padded[first : last + _PADDING], last - first)
        np.minimum(behind + np.int32(first), end, out=following[first:last])
    places = _chained(following, starts, end)
    steps, behind_steps = _values(padded, places)
    sizes, _ = _values(padded, behind_steps)
    rows = _absolute(steps, np.searchsorted(places, starts))
    # Each position is one number, and the row and the size are two more.
    counts = np.add.reduceat(stored < _MORE, places, dtype=np.int64) - 2
    deleted = (sizes & 1).any()
    if deleted or (counts <= 0).any() or (np.diff(rows, prepend=-1) <= 0).any():
        raise _Malformed
    return rows, counts


def _behind(padded: NDArray[np.uint8], end: int) -> Places:
    """For each of the first `end` places, if a row began there: where the next one begins."""
    goes_on = padded >= _MORE
    widths = np.ones(len(padded), dtype=np.uint8)
    longer = goes_on.copy()
    for back in range(1, _MOST_ROW_BYTES):
        widths += longer
        longer[:-back] &= goes_on[back:]
    values = (padded & 0x7F).astype(np.int32)
    low = values.copy()
    wide = np.flatnonzero(goes_on[:-_MOST_SIZE_BYTES])
    for back in range(1, _MOST_SIZE_BYTES):
        values[wide] = values[wide] << 7 | low[wide + back]
        wide = wide[goes_on[wide + back]]
    sizes = widths + (values >> 1)
    behind = np.arange(end, dtype=np.int32) + widths[:end]
    found: Places = behind + sizes[behind]
    return found


def _chained(following: Places, starts: Numbers, end: int) -> Numbers:
    """Where rows begin, ascending, from the first start on.

    A row tells only where the next one begins. So many places are tried at a time: whatever is
    followed from a place between two rows soon falls in with the rows themselves.
    """
    tried = np.arange(0, end, _TRIED_EVERY, dtype=np.int32)
    limits = np.append(tried[1:], np.int32(end))
    seen: list[Places] = []
    at = tried
    while (inside := at < limits).any():
        seen.append(at)
        at = np.where(inside, following[at], at)
    every = np.stack(seen)
    is_own = every < limits
    is_seen = np.zeros(end + 1, dtype=np.bool_)
    is_seen[every[is_own]] = is_seen[end] = True
    joins, between, kinds = _joins(following, at, is_seen)
    entered = _entered(joins, end)
    rows = np.concatenate([every[is_own & (every >= entered)], between[entered[kinds] < end]])
    found: Numbers = np.sort(rows).astype(np.int64)
    # A page whose first row is none of them is of another format.
    if not (found[np.searchsorted(found[:-1], starts)] == starts).all():
        raise _Malformed
    return found


def _joins(
    following: Places, at: Places, is_seen: NDArray[np.bool_]
) -> tuple[Places, Places, Numbers]:
    """Where each chain falls in with a later one, and what it passes before, with its number."""
    joins = at.copy()
    between: list[Places] = [np.empty(0, dtype=np.int32)]
    kinds: list[Numbers] = [np.empty(0, dtype=np.int64)]
    alone = np.flatnonzero(~is_seen[joins])
    while len(alone):
        between.append(joins[alone])
        kinds.append(alone)
        joins[alone] = following[joins[alone]]
        alone = alone[~is_seen[joins[alone]]]
    return joins, np.concatenate(between), np.concatenate(kinds)


def _entered(joins: Places, end: int) -> Places:
    """From where on each chain belongs to the one that begins at 0; `end` where it never does."""
    entered = [end] * len(joins)
    followed = joins.tolist()
    place = 0
    while place < end:
        number = place // _TRIED_EVERY
        entered[number] = place
        place = followed[number]
    return np.array(entered, dtype=np.int32)


def _values(padded: NDArray[np.uint8], places: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers that are written at some places, and the places behind them."""
    values = (padded[places] & 0x7F).astype(np.int64)
    behind = places + 1
    wide = np.flatnonzero(padded[places] >= _MORE)
    for _ in range(1, _MOST_ROW_BYTES):
        byte = padded[behind[wide]]
        values[wide] = values[wide] << 7 | byte & 0x7F
        behind[wide] += 1
        wide = wide[byte >= _MORE]
    if len(wide):
        raise _Malformed
    return values, behind


def _absolute(steps: Numbers, written: Numbers) -> Numbers:
    """Row numbers out of differences; those at the places `written` are in full."""
    before = steps.copy()
    before[written] = 0
    gone = np.cumsum(before)
    lengths = np.diff(np.append(written, len(steps)))
    rows: Numbers = gone + np.repeat(steps[written] - gone[written], lengths)
    return rows
