"""Cutting notes into chunks of about equal size that overlap, by the rules of OpenClaw 2026.9.

The unit is one UTF-16 code unit of Latin text; four make a token. East Asian characters weigh more,
because a tokenizer spends a token or several on each (the ranges are Unicode blocks).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from memtui.data import read_table
from memtui.errors import IsCancelled, never, stop_if
from memtui.memory.discover import ROOT_FILES
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan, Document
from memtui.text.ecmascript import utf16_head


@functools.cache
def weight_classes() -> tuple[re.Pattern[str], Sequence[int]]:
    """Return what matches a run of characters of one weight that is not 1, and the weights.

    The group that matched is the place of the weight. Compiled when a text needs it.
    """
    rows = read_table("chunking.toml")["weights"]
    groups = "|".join(f"([{''.join(row['ranges'])}]+)" for row in rows)
    # ASCII weighs one: told at once, without asking every group.
    classes = re.compile(rf"(?![\x00-\x7f])(?:{groups})")
    return classes, [1, *(row["weight"] for row in rows)]


def _weights(text: str) -> list[int]:
    classes, weights = weight_classes()
    each = [1] * len(text)
    for run in classes.finditer(text):
        each[run.start() : run.end()] = [weights[run.lastindex or 0]] * len(run[0])
    return each


def size_estimate(text: str) -> int:
    """Weigh text: the number of UTF-16 units, with East Asian characters weighted."""
    if text.isascii():
        return len(text)
    classes, weights = weight_classes()
    runs = classes.finditer(text)
    return len(text) + sum((weights[run.lastindex or 0] - 1) * len(run[0]) for run in runs)


_CHARS_PER_TOKEN = 4
_LEAST_CHARS = 32


class _Segment(NamedTuple):
    """A line, or a piece of one, with its 1-based line number; `cost` is its weight plus one."""

    text: str
    line: int
    cost: int


class Packer:
    """Packs lines into chunks as they come, and can go on another day where it stopped.

    What `pack` gives for the lines of a text, and `finish` after them, is what `chunk_text` gives
    for the whole.
    """

    def __init__(
        self, tokens: int = 400, overlap: int = 80, pending: Iterable[tuple[str, int]] = ()
    ) -> None:
        """`pending`: what the property of that name was when the reading stopped."""
        self._budget = max(_LEAST_CHARS, tokens * _CHARS_PER_TOKEN)
        self._overlap = max(0, overlap * _CHARS_PER_TOKEN)
        self._pending = [_Segment(text, line, size_estimate(text) + 1) for text, line in pending]
        self._used = sum(segment.cost for segment in self._pending)

    @property
    def pending(self) -> list[tuple[str, int]]:
        """The text in no finished chunk yet, with the overlap before it; at most a chunk's budget.

        Each text with its line.
        """
        return [(segment.text, segment.line) for segment in self._pending]

    def pack(self, lines: Iterable[tuple[int, str]]) -> Iterator[ChunkSpan]:
        """Take the next lines, none of which holds a line feed; yield the chunks they complete."""
        budget = self._budget
        for number, line in lines:
            size = budget + 1 if len(line) > budget else size_estimate(line)
            for text, weight in [(line, size)] if size <= budget else _cut_line(line, budget):
                segment = _Segment(text, number, weight + 1)
                if self._used + segment.cost > budget and self._pending:
                    yield from self.finish()
                    self._pending = self._carried(segment.cost)
                    self._used = sum(segment.cost for segment in self._pending)
                self._pending.append(segment)
                self._used += segment.cost

    def cut(self) -> list[ChunkSpan]:
        """End the chunk here: what comes next shares nothing with it."""
        ended = self.finish()
        self._pending, self._used = [], 0
        return ended

    def finish(self) -> list[ChunkSpan]:
        """Return the chunk that ends the text, if it ended here; more lines may still be fed."""
        if not self._pending:
            return []
        text = "\n".join([segment.text for segment in self._pending])
        return [ChunkSpan(self._pending[0].line, self._pending[-1].line, text, text_hash(text))]

    def _carried(self, cost: int) -> list[_Segment]:
        """Keep lines from the end while they fit beside the next segment; else a line's end."""
        room = min(self._overlap, max(0, self._budget - cost))
        carried: list[_Segment] = []
        for segment in reversed(self._pending):
            if segment.cost > room:
                # As much of the end as there is room for, whole characters only.
                end = segment.text[-room:] if room and not carried else ""
                length = sum(size < room for size in accumulate(reversed(_weights(end))))
                if tail := end[len(end) - length :]:
                    carried.append(_Segment(tail, segment.line, size_estimate(tail) + 1))
                break
            carried.append(segment)
            room -= segment.cost
            if room == 0:
                break
        return carried[::-1]


def _cut_line(line: str, budget: int) -> Iterator[tuple[str, int]]:
    """Cut every `budget` units between characters, and by weight what weighs more.

    A budget holds any character: none weighs more than 16.
    """
    at = 0
    while at < len(line):
        piece = utf16_head(line[at : at + budget], budget)
        at += len(piece)
        if (size := size_estimate(piece)) <= budget:
            yield piece, size
            continue
        start = used = 0
        for place, weight in enumerate(_weights(piece)):
            if used + weight > budget:
                yield piece[start:place], used
                start, used = place, 0
            used += weight
        yield piece[start:], used


_ENTRY_START = re.compile(r"- |#{1,6}(?:\s|$)")


def chunk_text(
    text: str, *, tokens: int = 400, overlap: int = 80, per_entry: bool = False
) -> Iterator[ChunkSpan]:
    """Cut text into chunks of about `tokens` tokens of four characters, overlapping by `overlap`.

    Empty text gives one empty chunk. With `per_entry` a line that starts a bullet or a heading
    starts a new chunk, and nothing overlaps across such a start.
    """
    packer = Packer(tokens, overlap)
    lines = enumerate(text.split("\n"), start=1)
    if not per_entry:
        yield from packer.pack(lines)
    for number, line in lines:
        if _ENTRY_START.match(line):
            yield from packer.cut()
        yield from packer.pack([(number, line)])
    yield from packer.finish()


def chunk_document(
    document: Document, *, tokens: int = 400, overlap: int = 80, cancelled: IsCancelled = never
) -> list[ChunkSpan]:
    """Cut a document into the chunks that are indexed.

    Blank chunks are left out, and of chunks with the same lines and text all but the first (they
    would have one id). The curated `MEMORY.md` and `USER.md` are cut per entry. Raises `Cancelled`
    when `cancelled()` turns true.
    """
    per_entry = document.file.path in ROOT_FILES
    chunks: dict[tuple[int, int, str], ChunkSpan] = {}
    for chunk in chunk_text(document.text, tokens=tokens, overlap=overlap, per_entry=per_entry):
        stop_if(cancelled)
        if chunk.text and not chunk.text.isspace():
            chunks.setdefault((chunk.start_line, chunk.end_line, chunk.hash), chunk)
    return list(chunks.values())


def chunk_id(
    source: str, path: str, start_line: int, end_line: int, chunk_hash: str, model: str
) -> str:
    """Name a chunk: sha256 hex of `source:path:start_line:end_line:chunk_hash:model`."""
    recipe = f"{source}:{path}:{start_line}:{end_line}:{chunk_hash}:{model}"
    return hashlib.sha256(recipe.encode("utf-8", "surrogatepass")).hexdigest()
