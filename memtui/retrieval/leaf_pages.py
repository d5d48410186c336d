"""The pages in which FTS5 stores its lists, and what each holds of a word's list.

The format is that of SQLite's `ext/fts5/fts5_index.c` (its first comment): the words of a segment
stand on its leaf pages in ascending order, each behind the letters it shares with the one before,
and the list of a word runs on over as many pages as it takes. Every page tells where its first row
is, which is written in full.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from memtui.retrieval.connection import Connection

_STRUCTURE = 10
_WITH_ORIGINS = b"\xff\x00\x00\x01"
_SEGMENT_SHIFT = 37
_HEADER = 4
_MORE = 0x80
_PAGES_AT_A_TIME = 64

_STORED = "SELECT block FROM chunks_fts_data WHERE id = ?"
_PAGES = "SELECT block FROM chunks_fts_data WHERE id BETWEEN ? AND ? ORDER BY id"
_BOUNDS = (
    "SELECT (SELECT pgno FROM chunks_fts_idx WHERE segid = ?1 AND term <= ?2 "
    "ORDER BY term DESC LIMIT 1), "
    "(SELECT pgno FROM chunks_fts_idx WHERE segid = ?1 AND term > ?2 ORDER BY term LIMIT 1)"
)
_EVERY_PAGE = "SELECT term, pgno FROM chunks_fts_idx WHERE segid = ? ORDER BY term LIMIT ?"


class Segment(NamedTuple):
    """A part of the index that was written in one piece."""

    number: int
    first_page: int
    last_page: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one page holds of a list."""

    body: bytes
    first_row: int
    """Where the first row is that begins on it; -1 for none."""


class Malformed(Exception):
    """The pages are not as this version of the format has them."""


def segments(connection: Connection) -> tuple[Segment, ...]:
    """The segments of the index. Raises `Malformed`, IndexError and what SQLite raises."""
    stored = _one(connection, _STORED, (_STRUCTURE,))
    origins = stored[4:8] == _WITH_ORIGINS
    numbers = _varints(stored, 8 if origins else 4)
    levels, _, _ = next(numbers), next(numbers), next(numbers)
    found: list[Segment] = []
    for _ in range(levels):
        _, count = next(numbers), next(numbers)
        for _ in range(count):
            found.append(Segment(next(numbers), next(numbers), next(numbers)))
            for _ in range(5 if origins else 0):
                next(numbers)
    return tuple(found)


def bounds(connection: Connection, segment: Segment, term: bytes) -> tuple[int, int]:
    """The page on which a term begins if the segment has it, and the last its list may reach."""
    first, following = connection.execute(_BOUNDS, (segment.number, term)).fetchall()[0]
    return (
        segment.first_page if first is None else int(first) >> 1,
        segment.last_page if following is None else int(following) >> 1,
    )


@dataclass(frozen=True, slots=True)
class TermPages:
    """The pages of a segment on which terms begin, ascending, with the least that tells them."""

    segment: Segment
    terms: Sequence[bytes]
    pages: Sequence[int]

    def bounds(self, term: bytes) -> tuple[int, int]:
        """What `bounds` tells."""
        place = bisect_right(self.terms, term)
        return (
            self.pages[place - 1] if place else self.segment.first_page,
            self.pages[place] if place < len(self.pages) else self.segment.last_page,
        )


def term_pages(connection: Connection, segment: Segment, most: int = -1) -> TermPages | None:
    """Read the pages on which terms begin; `None` when there are more than `most`."""
    limit = most if most < 0 else most + 1
    rows = connection.execute(_EVERY_PAGE, (segment.number, limit)).fetchall()
    if len(rows) == limit:
        return None
    return TermPages(segment, [term for term, _ in rows], [page >> 1 for _, page in rows])


def last_term(connection: Connection, segment: Segment, page: int) -> bytes:
    """The last term that begins on a page. Raises as `segments` does."""
    stored = _one(connection, _STORED, (_row(segment, page),))
    known = b""
    for number, begin in enumerate(_footer(stored)[1]):
        kept, length, start = _spelling(stored, begin, is_first=number == 0)
        known = known[:kept] + stored[start : start + length]
    return known


def parts_of_list(connection: Connection, segment: Segment, term: bytes) -> list[Part]:
    """The pieces of the pages that hold the list of a term; none when the segment lacks it.

    Raises as `segments` does.
    """
    page, last = bounds(connection, segment, term)
    first = _one(connection, _STORED, (_row(segment, page),))
    place = _list_of(first, term)
    if place is None:
        return []
    start, end, is_last = place
    parts = [Part(first[start:end], 0)]
    while is_last and page < last:
        until = min(page + _PAGES_AT_A_TIME, last)
        pages = connection.execute(
            _PAGES, (_row(segment, page + 1), _row(segment, until))
        ).fetchall()
        if len(pages) != until - page:
            raise Malformed
        for (stored,) in pages:
            if not isinstance(stored, bytes):
                raise Malformed
            part, is_last = _continued(stored)
            parts.append(part)
            if not is_last:
                break
        page = until
    return parts


def _row(segment: Segment, page: int) -> int:
    """The row in which a leaf page of a segment is stored."""
    return (segment.number << _SEGMENT_SHIFT) + page


def _one(connection: Connection, sql: str, values: tuple[int | bytes, ...]) -> bytes:
    rows = connection.execute(sql, values).fetchall()
    if not rows or not isinstance(rows[0][0], bytes):
        raise Malformed
    return rows[0][0]


def _varints(stored: bytes, place: int) -> Iterator[int]:
    """Read SQLite's varints one after the other; raises `Malformed` behind the last."""
    while place < len(stored):
        value, place = _varint(stored, place)
        yield value
    raise Malformed


def _varint(stored: bytes, place: int) -> tuple[int, int]:
    value = 0
    for _ in range(9):
        byte = stored[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < _MORE:
            return value, place
    raise Malformed


def _footer(page: bytes) -> tuple[int, list[int]]:
    """Where the content of a leaf page ends, and where its terms begin."""
    size = int.from_bytes(page[2:4], "big")
    if not _HEADER <= size <= len(page):
        raise Malformed
    starts: list[int] = []
    start = step = 0
    for byte in page[size:]:
        step = step << 7 | byte & 0x7F
        if byte < _MORE:
            start += step
            starts.append(start)
            step = 0
    return size, starts


def _spelling(page: bytes, start: int, *, is_first: bool) -> tuple[int, int, int]:
    """How many letters a term takes over, how many are its own, and where these are."""
    kept = 0
    if not is_first:
        kept, length = page[start], page[start + 1]
        if kept < _MORE and length < _MORE:
            return kept, length, start + 2
        kept, start = _varint(page, start)
    length, start = _varint(page, start)
    return kept, length, start


def _list_of(page: bytes, term: bytes) -> tuple[int, int, bool] | None:
    """Where the list of a term begins and ends on a page, and whether it may go on behind it.

    The terms ascend: what one shares with the term before it tells mostly where it stands.
    """
    size, starts = _footer(page)
    shared = 0
    for number, (begin, end) in enumerate(pairwise([*starts, size])):
        kept, length, start = _spelling(page, begin, is_first=number == 0)
        if kept > shared:
            continue
        own, wanted = page[start : start + length], term[shared:]
        if kept < shared or own > wanted:
            return None
        if own == wanted:
            return start + length, end, number == len(starts) - 1
        shared += _shared(own, wanted)
    return None


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes two terms have in common at their beginning."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def _continued(page: bytes) -> tuple[Part, bool]:
    """What a page that follows holds of the list, and whether the list may go on behind it."""
    size = int.from_bytes(page[2:4], "big")
    if not _HEADER <= size <= len(page):
        raise Malformed
    end = _varint(page, size)[0] if size < len(page) else size
    first = int.from_bytes(page[:2], "big")
    if not _HEADER <= end <= size:
        raise Malformed
    inside = first - _HEADER if _HEADER <= first < end else -1
    return Part(page[_HEADER:end], inside), end == size and size == len(page)
