"""How much of a chunk's budget a piece of text takes, by the rules of three OpenClaw releases.

The unit is one UTF-16 code unit of Latin text; four make a token. Release 2026.2 counts code units.
2026.4 counts East Asian characters four times, because a tokenizer spends about a token on each.
2026.9 knows five weights (OPENCLAW.md section 2; the ranges are Unicode blocks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

Rules = Literal["2026.2", "2026.4", "2026.9"]

_PIECE = 1 << 16
_FIRST_ASTRAL, _LAST = 0x10000, 0x10FFFF
_UNIT_BYTES = 2
_PAGE = 256
_GOOD_PART = 64
_NOTHING = re.compile("(?!)")
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
    light: re.Pattern[str]
    """A run of characters that weigh one, within a line."""
    rare: re.Pattern[str]
    """A character of none of the first class, and no line feed."""
    pages: bytes
    """For 256 characters of the basic plane each, 1 where they are of the first class, else 0."""
    uneven: re.Pattern[str]
    """A character of the basic plane of which `pages` tells a wrong weight.

    With others in its set the search would take six times longer.
    """


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
    pages, uneven = _pages([pairs for _, pairs in groups])
    return _Scale(
        heavy=re.compile(f"[{''.join(sets)}]+"),
        classes=re.compile("|".join(f"([{chars}]+)" for chars in sets)),
        weights=(1, *(weight for weight, _ in groups)),
        light=re.compile(f"[^\n{''.join(sets)}]+"),
        rare=re.compile(f"[^\n{sets[0]}]"),
        pages=pages,
        uneven=re.compile(f"[{_char_set(uneven)}]") if uneven else _NOTHING,
    )


def _char_set(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _pages(groups: Sequence[_Ranges]) -> tuple[bytes, list[tuple[int, int]]]:
    """Mark the pages of which the first group takes a good part, and tell where that is wrong."""
    first, *others = groups
    marks, wrong = bytearray(_PAGE), list(chain(*others))
    for start, end in first:
        for low in range(start // _PAGE * _PAGE, min(end + 1, _FIRST_ASTRAL), _PAGE):
            taken = max(start, low), min(end, low + _PAGE - 1)
            if taken[1] - taken[0] < _GOOD_PART:
                wrong.append(taken)
            else:
                marks[low // _PAGE] = 1
                wrong += [(low, taken[0] - 1), (taken[1] + 1, low + _PAGE - 1)]
    return bytes(marks), [
        (low, min(high, _FIRST_ASTRAL - 1))
        for low, high in wrong
        if low <= high and low < _FIRST_ASTRAL
    ]


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


def line_sizes(lines: Sequence[str], rules: Rules) -> list[int]:
    """Weigh each line as `size_estimate` does; lines hold no line feed."""
    sizes = list(map(len, lines))
    odd = [at for at, line in enumerate(lines) if not line.isascii()]
    if not odd:
        return sizes
    text = "\n".join([lines[at] for at in odd])
    if len(text) > _PIECE:
        for at in odd:
            sizes[at] = size_estimate(lines[at], rules)
        return sizes
    scale = _SCALES[rules]
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) == _UNIT_BYTES * len(text) and scale.uneven.search(text) is None:
        marks = units[1::_UNIT_BYTES].translate(scale.pages)
        surplus, start = scale.weights[1] - 1, 0
        for at in odd:
            end = start + sizes[at]
            sizes[at] += surplus * marks.count(1, start, end)
            start = end + 1
        return sizes
    heavy = scale.light.sub("", text)
    parts = heavy.split("\n")
    if scale.rare.search(heavy) is None:
        surplus = scale.weights[1] - 1
        for at, part in zip(odd, parts, strict=True):
            sizes[at] += surplus * len(part)
    else:
        for at, part in zip(odd, parts, strict=True):
            sizes[at] += _surplus(part, scale)
    return sizes


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
