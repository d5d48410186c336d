"""Cutting notes into chunks of about equal size that overlap, by the rules of three releases.

The unit is one UTF-16 code unit of Latin text; four make a token. Release 2026.2 counts code units.
2026.4 counts East Asian characters four times, because a tokenizer spends about a token on each.
2026.9 knows five weights (OPENCLAW.md section 2; the ranges are Unicode blocks).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memtui.errors import Cancelled
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan, Document

Rules = Literal["2026.2", "2026.4", "2026.9"]

_PIECE = 1 << 16
_FIRST_ASTRAL, _LAST = 0x10000, 0x10FFFF
_PAIR = 2
"""A character outside the basic plane is two UTF-16 units."""

_Ranges = tuple[tuple[int, int], ...]

_RANGES: Mapping[Rules, Mapping[int, _Ranges]] = {
    "2026.2": {},
    "2026.4": {
        4: (
            (0x2E80, 0x9FFF),
            (0xA000, 0xA4FF),
            (0xAC00, 0xD7AF),
            (0xF900, 0xFAFF),
            (0x20000, 0x2FA1F),
        ),
    },
    "2026.9": {
        4: (
            (0x00B7, 0x00B7),  # middle dot
            (0x3000, 0x319F),  # punctuation, kana, bopomofo, compatibility jamo, kanbun
            (0x4E00, 0x9FA5),  # the ideographs of Unicode 1.1
            (0xAC00, 0xD7AF),  # Hangul syllables
            (0xFF01, 0xFF60),  # full-width forms
        ),
        8: (
            (0x02C7, 0x02C7),  # tone marks of bopomofo, and two combining marks used with kana
            (0x02C9, 0x02CB),
            (0x02D9, 0x02D9),
            (0x02EA, 0x02EB),
            (0x0305, 0x0305),
            (0x0323, 0x0323),
            (0xFE10, 0xFE4F),  # vertical and compatibility forms
            (0xFF61, 0xFFDC),  # half-width forms
            (0xFFE0, 0xFFE6),  # full-width signs
        ),
        12: (
            (0x1100, 0x11FF),  # Hangul jamo
            (0x2E80, 0x2FFF),  # radicals
            (0x31A0, 0x4DFF),  # extended bopomofo to the Yijing hexagrams, with extension A
            (0x9FA6, 0x9FFF),  # the ideographs added later
            (0xA000, 0xA4FF),  # Yi
            (0xA700, 0xA707),  # tone marks
            (0xA960, 0xA97F),  # Hangul jamo extended A
            (0xD7B0, 0xD7FF),  # Hangul jamo extended B
            (0xF900, 0xFAFF),  # compatibility ideographs
            (0x1D360, 0x1D371),  # counting rods
        ),
        16: (
            (0x16FE0, 0x16FFF),  # ideographic marks
            (0x1AFF0, 0x1B16F),  # kana supplements
            (0x1F200, 0x1F2FF),  # enclosed ideographs
            (0x20000, 0x2FA1F),  # extensions B to F
            (0x30000, 0x3347F),  # extensions G and later
        ),
    },
}


@dataclass(frozen=True, slots=True)
class _Scale:
    heavy: re.Pattern[str]
    """A run of characters that do not weigh one."""
    classes: re.Pattern[str]
    """A run of characters of one weight; the number of its group names the weight."""
    weights: tuple[int, ...]


def _scale(ranges: Mapping[int, _Ranges]) -> _Scale:
    taken = sorted(pair for pairs in ranges.values() for pair in pairs if pair[0] >= _FIRST_ASTRAL)
    rest: list[tuple[int, int]] = []
    start = _FIRST_ASTRAL
    for first, last in taken:
        if start < first:
            rest.append((start, first - 1))
        start = last + 1
    rest.append((start, _LAST))
    groups = [*ranges.items(), (_PAIR, tuple(rest))]
    sets = [_char_set(pairs) for _, pairs in groups]
    return _Scale(
        heavy=re.compile(f"[{''.join(sets)}]+"),
        classes=re.compile("|".join(f"([{chars}]+)" for chars in sets)),
        weights=(1, *(weight for weight, _ in groups)),
    )


def _char_set(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_SCALES: Mapping[Rules, _Scale] = {rules: _scale(ranges) for rules, ranges in _RANGES.items()}


def size_estimate(text: str, rules: Rules = "2026.9") -> int:
    """Weigh text: the number of UTF-16 units, with East Asian characters weighted by `rules`."""
    if text.isascii():
        return len(text)
    scale = _SCALES[rules]
    total = len(text)
    for start in range(0, len(text), _PIECE):
        total += _surplus("".join(scale.heavy.findall(text, start, start + _PIECE)), scale)
    return total


def _surplus(heavy: str, scale: _Scale) -> int:
    """By how much characters that do not weigh one exceed their number."""
    return sum(
        (scale.weights[run.lastindex or 0] - 1) * (run.end() - run.start())
        for run in scale.classes.finditer(heavy)
    )


def weighted_runs(text: str, rules: Rules) -> Iterator[tuple[int, int, int]]:
    """Cut text into runs of one weight: (start, end, weight of one character), without gaps."""
    scale = _SCALES[rules]
    at = 0
    for heavy in scale.heavy.finditer(text):
        if at < heavy.start():
            yield at, heavy.start(), 1
        for run in scale.classes.finditer(text, *heavy.span()):
            yield run.start(), run.end(), scale.weights[run.lastindex or 0]
        at = heavy.end()
    if at < len(text):
        yield at, len(text), 1


def tail_within(text: str, budget: int, rules: Rules) -> str:
    """Take as much of the end of text as weighs at most `budget`, whole characters only."""
    if budget <= 0:
        return ""
    if text.isascii():
        return text[-budget:]
    start = len(text)
    for first, last, weight in reversed(list(weighted_runs(text, rules))):
        fitting = min(last - first, budget // weight)
        start = last - fitting
        budget -= fitting * weight
        if fitting < last - first:
            break
    return text[start:]


def parts_within(text: str, budget: int, rules: Rules) -> Iterator[tuple[str, int]]:
    """Cut text into parts that weigh at most `budget` (at least 16), each with its weight."""
    start = used = 0
    for first, last, weight in weighted_runs(text, rules):
        at = first
        while at < last:
            fitting = min(last - at, (budget - used) // weight)
            at += fitting
            used += fitting * weight
            if at < last:
                yield text[start:at], used
                start, used = at, 0
    yield text[start:], used


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
    lines = enumerate(text.split("\n"), start=1)
    if not per_entry:
        yield from packer.pack(lines)
        yield from packer.finish()
        return
    for group in _entries(lines):
        yield from packer.pack(group)
        yield from packer.cut()


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


def _entries(lines: Iterable[NumberedLine]) -> Iterator[list[NumberedLine]]:
    group: list[NumberedLine] = []
    for number, line in lines:
        if group and _ENTRY_START.match(line):
            yield group
            group = []
        group.append((number, line))
    yield group
