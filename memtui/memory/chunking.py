"""Cutting notes into chunks of about equal size that overlap, by the rules of three releases."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import NamedTuple

from memtui.errors import Cancelled
from memtui.memory.documents import text_hash
from memtui.memory.weights import (
    Rules,
    line_sizes,
    parts_within,
    size_estimate,
    tail_within,
)
from memtui.model import ChunkSpan, Document

_CHARS_PER_TOKEN = 4
_LEAST_CHARS = 32
_UNIT_BYTES = 2
_HIGH_SURROGATE = range(0xD8, 0xDC)

NumberedLine = tuple[int, str]


class _Segment(NamedTuple):
    """A line, or a piece of one, with its 1-based line number; `cost` is its weight plus one."""

    text: str
    line: int
    cost: int


@dataclass(slots=True)
class _Row:
    """Segments side by side, as lists of their parts."""

    texts: list[str]
    numbers: Sequence[int]
    costs: list[int]
    ends: list[int]
    """The costs of all segments before each, as they were at first, and of all of them."""

    @classmethod
    def of(cls, held: Sequence[_Segment], first: int, lines: list[str], sizes: list[int]) -> _Row:
        """Lay the lines behind the segments that are held."""
        texts, costs = list(lines), [size + 1 for size in sizes]
        numbers: Sequence[int] = range(first, first + len(lines))
        if held:
            texts = [segment.text for segment in held] + texts
            costs = [segment.cost for segment in held] + costs
            numbers = [*(segment.line for segment in held), *numbers]
        return cls(texts, numbers, costs, list(accumulate(costs, initial=0)))

    def overflow(self, start: int, room: int, least: int) -> int:
        """The first segment, from `least` on, up to which more than `room` is used."""
        return max(least, bisect_right(self.ends, self.ends[start] + room) - 1)

    def chunk(self, start: int, end: int) -> ChunkSpan:
        """The chunk of the segments from `start` up to `end`."""
        text = "\n".join(self.texts[start:end])
        return ChunkSpan(self.numbers[start], self.numbers[end - 1], text, text_hash(text))

    def backwards(self, start: int, end: int) -> Iterator[_Segment]:
        """The segments from before `end` down to `start`."""
        for at in range(end - 1, start - 1, -1):
            yield _Segment(self.texts[at], self.numbers[at], self.costs[at])

    def carry(self, start: int, end: int, plan: _Plan) -> int:
        """Begin the chunk after the one of these segments: its first segment, maybe shortened."""
        if plan.rules != "2026.9":
            return end - len(_carry_whole_lines(self.backwards(start, end), 0, plan))
        room = min(plan.overlap, max(0, plan.budget - self.costs[end]))
        first = bisect_left(self.ends, self.ends[end] - room, start + 1, end)
        left = room - (self.ends[end] - self.ends[first])
        if first == start + 1 and self.costs[start] <= left:
            return start
        if first < end:
            return first
        tail = tail_within(self.texts[end - 1], room - 1, plan.rules)
        if not tail:
            return end
        self.texts[end - 1] = tail
        self.costs[end - 1] = size_estimate(tail, plan.rules) + 1
        return end - 1

    def saved(self, at: int) -> int:
        """By how much less a segment costs than at first."""
        return self.ends[at + 1] - self.ends[at] - self.costs[at]


@dataclass(frozen=True, slots=True)
class _Plan:
    tokens: int
    budget: int
    overlap: int
    rules: Rules


class Packer:
    """Packs lines into chunks as they come, and can go on another day where it stopped.

    What `feed` gives for the lines of a text, and `finish` after them, is what `chunk_text` gives
    for the whole.
    """

    def __init__(
        self,
        tokens: int = 400,
        overlap: int = 80,
        rules: Rules = "2026.9",
        held: Iterable[Sequence[str | int]] = (),
    ) -> None:
        """`held`: what the property of that name was when the reading stopped.

        Raises `ValueError` when it is not that.
        """
        self._plan = _Plan(
            tokens=tokens,
            budget=max(_LEAST_CHARS, tokens * _CHARS_PER_TOKEN),
            overlap=max(0, overlap * _CHARS_PER_TOKEN),
            rules=rules,
        )
        self._held: list[_Segment] = []
        for text, line in held:
            if not isinstance(text, str) or not isinstance(line, int):
                raise ValueError("held lines are pairs of a text and a line number")
            self._held.append(_Segment(text, line, size_estimate(text, rules) + 1))
        self._used = sum(segment.cost for segment in self._held)

    @property
    def held(self) -> list[list[str | int]]:
        """What is in no finished chunk yet, with the overlap before it: [text, line] each.

        At most a chunk's budget, but for releases up to 2026.4, whose overlap may exceed it.
        """
        return [[segment.text, segment.line] for segment in self._held]

    def feed(self, line_number: int, text: str) -> list[ChunkSpan]:
        """Take the next line, which holds no line feed; give the chunks that it completes."""
        return list(self.pack([(line_number, text)]))

    def pack(self, lines: Iterable[NumberedLine]) -> Iterator[ChunkSpan]:
        """Do what `feed` does for many lines, one chunk at a time."""
        plan = self._plan
        carry = _carry_within_budget if plan.rules == "2026.9" else _carry_whole_lines
        for segment in _segments(lines, plan):
            if self._used + segment.cost > plan.budget and self._held:
                yield _chunk(self._held)
                self._held = carry(reversed(self._held), segment.cost, plan)
                self._used = sum(kept.cost for kept in self._held)
            self._held.append(segment)
            self._used += segment.cost

    def pack_block(
        self, first: int, lines: list[str], *, is_ascii: bool = False, ends: bool = False
    ) -> Iterator[ChunkSpan]:
        """Do what `pack` does for neighbouring lines, the first of which has the number `first`.

        With `is_ascii` every character weighs one; with `ends` do what `cut` does behind them.
        Where no line has to be cut, the ends of chunks are looked up in the running total.
        """
        plan = self._plan
        sizes = list(map(len, lines)) if is_ascii else line_sizes(lines, plan.rules)
        if max(sizes, default=0) > plan.budget:
            yield from self.pack(enumerate(lines, start=first))
            if ends:
                yield from self.cut()
            return
        row = _Row.of(self._held, first, lines, sizes)
        start, spare, least = 0, 0, max(len(self._held), 1)
        while (end := row.overflow(start, plan.budget + spare, least)) < len(row.texts):
            yield row.chunk(start, end)
            start = row.carry(start, end, plan)
            spare = row.saved(start)
            least = end + 1
        if ends:
            if row.texts:
                yield row.chunk(start, len(row.texts))
            self._held, self._used = [], 0
            return
        rest = slice(start, None)
        self._held = list(map(_Segment, row.texts[rest], row.numbers[rest], row.costs[rest]))
        self._used = sum(row.costs[rest])

    def cut(self) -> list[ChunkSpan]:
        """End the chunk here: what comes next shares nothing with it."""
        ended = self.finish()
        self._held, self._used = [], 0
        return ended

    def finish(self) -> list[ChunkSpan]:
        """The chunk that ends the text, if it ended here; more lines may still be fed."""
        return [_chunk(self._held)] if self._held else []


def _chunk(held: Sequence[_Segment]) -> ChunkSpan:
    text = "\n".join([segment.text for segment in held])
    return ChunkSpan(held[0].line, held[-1].line, text, text_hash(text))


def _carry_whole_lines(backwards: Iterable[_Segment], _cost: int, plan: _Plan) -> list[_Segment]:
    """Keep lines from the end until they make up the overlap; the last one may exceed it."""
    kept: list[_Segment] = []
    size = 0
    for segment in backwards:
        if size >= plan.overlap:
            break
        kept.append(segment)
        size += segment.cost
    return kept[::-1]


def _carry_within_budget(backwards: Iterable[_Segment], cost: int, plan: _Plan) -> list[_Segment]:
    """Keep lines from the end while they fit beside the next segment; else the end of one line."""
    room = min(plan.overlap, max(0, plan.budget - cost))
    kept: list[_Segment] = []
    for segment in backwards:
        if segment.cost > room:
            tail = "" if kept else tail_within(segment.text, room - 1, plan.rules)
            if tail:
                kept.append(_Segment(tail, segment.line, size_estimate(tail, plan.rules) + 1))
            break
        kept.append(segment)
        room -= segment.cost
        if room == 0:
            break
    return kept[::-1]


def _segments(lines: Iterable[NumberedLine], plan: _Plan) -> Iterator[_Segment]:
    budget, rules = plan.budget, plan.rules
    cut = _SEGMENTERS[rules]
    for number, line in lines:
        length = len(line)
        if length <= budget:
            size = length if line.isascii() else size_estimate(line, rules)
            if size <= budget:
                yield _Segment(line, number, size + 1)
                continue
        for text, size in cut(line, plan):
            yield _Segment(text, number, size + 1)


def _cut_by_units(line: str, plan: _Plan) -> Iterator[tuple[str, int]]:
    """Cut every `budget` UTF-16 units, through surrogate pairs if need be (release 2026.2)."""
    return ((piece, size_estimate(piece, "2026.2")) for piece in _unit_pieces(line, plan.budget))


def _cut_twice(line: str, plan: _Plan) -> Iterator[tuple[str, int]]:
    """Cut every `budget` units, and again every `tokens` units what weighs more (2026.4)."""
    for piece in _unit_pieces(line, plan.budget):
        size = size_estimate(piece, plan.rules)
        if size <= plan.budget:
            yield piece, size
            continue
        for part in _unit_pieces(piece, max(1, plan.tokens), keep_pairs=True):
            yield part, size_estimate(part, plan.rules)


def _cut_by_weight(line: str, plan: _Plan) -> Iterator[tuple[str, int]]:
    """Cut every `budget` units between characters, and by weight what weighs more (2026.9)."""
    at = 0
    while at < len(line):
        piece = _first_units(line[at : at + plan.budget], plan.budget)
        at += len(piece)
        size = size_estimate(piece, plan.rules)
        if size <= plan.budget:
            yield piece, size
        else:
            yield from parts_within(piece, plan.budget, plan.rules)


_SEGMENTERS: dict[Rules, Callable[[str, _Plan], Iterator[tuple[str, int]]]] = {
    "2026.2": _cut_by_units,
    "2026.4": _cut_twice,
    "2026.9": _cut_by_weight,
}


def _first_units(text: str, units: int) -> str:
    """Take the characters of text that lie whole within its first UTF-16 units."""
    if size_estimate(text, "2026.2") <= units:
        return text
    data = text.encode("utf-16-le", "surrogatepass")[: units * _UNIT_BYTES]
    if data[-1] in _HIGH_SURROGATE:
        data = data[:-_UNIT_BYTES]
    return data.decode("utf-16-le", "surrogatepass")


def _unit_pieces(text: str, units: int, *, keep_pairs: bool = False) -> Iterator[str]:
    """Cut text every so many UTF-16 units; a pair cut in two leaves U+FFFD on both sides.

    With `keep_pairs` a cut inside a pair moves behind it.
    """
    if text.isascii():
        yield from (text[at : at + units] for at in range(0, len(text), units))
        return
    data = text.encode("utf-16-le", "surrogatepass")
    at = 0
    while at < len(data):
        end = min(at + units * _UNIT_BYTES, len(data))
        if keep_pairs and end < len(data) and data[end - 1] in _HIGH_SURROGATE:
            end += _UNIT_BYTES
        yield data[at:end].decode("utf-16-le", "replace")
        at = end


__all__ = [
    "Packer",
    "Rules",
    "chunk_document",
    "chunk_id",
    "chunk_text",
    "iter_chunks",
    "remap_lines",
    "size_estimate",
]

_BLOCK = 1 << 16
_CURATED = frozenset({"MEMORY.md", "USER.md"})
_ENTRY_START = re.compile(r"- |#{1,6}(?:\s|$)")


def chunk_text(
    text: str,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    per_entry: bool = False,
) -> list[ChunkSpan]:
    """Cut text into chunks of about `tokens` tokens of four characters, overlapping by `overlap`.

    Empty text gives one empty chunk. With `per_entry` a line that starts a bullet or a heading
    starts a new chunk, and nothing overlaps across such a start.
    """
    return list(iter_chunks(text, tokens=tokens, overlap=overlap, rules=rules, per_entry=per_entry))


def iter_chunks(
    text: str,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    per_entry: bool = False,
) -> Iterator[ChunkSpan]:
    """Do what `chunk_text` does, one chunk at a time, so that a caller can stop in between."""
    packer = Packer(tokens, overlap, rules)
    if per_entry:
        lines = chain.from_iterable(_blocks(text))
        for group in _entries(enumerate(lines, start=1)):
            yield from packer.pack(group)
            yield from packer.cut()
        return
    is_ascii = text.isascii()
    if len(text) <= _BLOCK:
        yield from packer.pack_block(1, text.split("\n"), is_ascii=is_ascii, ends=True)
        return
    first = 1
    for block in _blocks(text):
        yield from packer.pack_block(first, block, is_ascii=is_ascii)
        first += len(block)
    yield from packer.finish()


def chunk_document(
    document: Document,
    *,
    tokens: int = 400,
    overlap: int = 80,
    rules: Rules = "2026.9",
    cancelled: Callable[[], bool] | None = None,
) -> list[ChunkSpan]:
    """Cut a document into the chunks that are indexed.

    Blank chunks are left out, and of chunks with the same lines and text all but the first (they
    would have one id). By the 2026.9 rules the curated `MEMORY.md` and `USER.md` are cut per entry.
    Raises `Cancelled` when `cancelled()` turns true.
    """
    per_entry = rules == "2026.9" and document.file.path in _CURATED
    chunks: dict[tuple[int, int, str], ChunkSpan] = {}
    for chunk in iter_chunks(
        document.text, tokens=tokens, overlap=overlap, rules=rules, per_entry=per_entry
    ):
        if cancelled is not None and cancelled():
            raise Cancelled
        if chunk.text and not chunk.text.isspace():
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.hash), chunk)
    return list(chunks.values())


def chunk_id(
    source: str, path: str, start_line: int, end_line: int, chunk_hash: str, model: str
) -> str:
    """Name a chunk: sha256 hex of `source:path:start_line:end_line:chunk_hash:model`."""
    recipe = f"{source}:{path}:{start_line}:{end_line}:{chunk_hash}:{model}"
    return hashlib.sha256(recipe.encode("utf-8", "surrogatepass")).hexdigest()


def remap_lines(chunks: Iterable[ChunkSpan], line_map: Sequence[int] | None) -> list[ChunkSpan]:
    """Replace the lines of chunks of a derived text by those of its source.

    `line_map[i]` is the source line of the text's line `i + 1`; lines beyond it stay as they are.
    """
    if not line_map:
        return list(chunks)

    def source_line(line: int) -> int:
        return line_map[line - 1] if line <= len(line_map) else line

    return [
        replace(
            chunk, start_line=source_line(chunk.start_line), end_line=source_line(chunk.end_line)
        )
        for chunk in chunks
    ]


def _blocks(text: str) -> Iterator[list[str]]:
    """Split at line feeds as `str.split` does, a block at a time."""
    start, end = 0, len(text)
    while end - start > _BLOCK:
        cut = text.rfind("\n", start, start + _BLOCK)
        if cut < 0:
            cut = text.find("\n", start + _BLOCK)
        if cut < 0:
            break
        yield text[start:cut].split("\n")
        start = cut + 1
    yield text[start:].split("\n")


def _entries(lines: Iterable[NumberedLine]) -> Iterator[list[NumberedLine]]:
    group: list[NumberedLine] = []
    for number, line in lines:
        if group and _ENTRY_START.match(line):
            yield group
            group = []
        group.append((number, line))
    yield group
