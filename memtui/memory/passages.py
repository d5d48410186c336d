"""The passages of a text: a line of dialogue, an item, a row of a table, a sentence of prose.

A heading belongs to what follows it, unless that is a line of dialogue, which begins with a name;
lines of code stand together up to the longest length.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import IntFlag
from itertools import chain, pairwise
from typing import Final, NamedTuple, TypeAlias

from memtui.data import read_table
from memtui.text.tokens import SOUTH_EAST_ASIAN, are_apart

LONGEST: Final = 400
"""Characters; a longer passage is cut at ends of sentences, then between words."""

Span: TypeAlias = tuple[int, int]


class PassageFlag(IntFlag):
    """A feature of a passage that ranking asks for."""

    QUESTION = 1
    """It ends with a question mark."""
    SPEAKER = 2
    """It begins with somebody's name and a colon."""
    TIME = 4
    """It names a time or a date."""


class Passage(NamedTuple):
    """A passage, from character `start` of its text to the one before `end`."""

    start: int
    end: int
    flags: int
    """Of `PassageFlag`."""


_TABLE = read_table("passages.toml")
_LABELS, _TIMES, _HINTS, _ABBREVIATIONS = (
    frozenset(_TABLE[name].split()) for name in ("labels", "times", "hints", "abbreviations")
)
_MONTHS = frozenset(_TABLE["after_ordinals"].split())
_CLOCK, _PHRASE = (
    re.compile("|".join(_TABLE[name]), re.IGNORECASE) for name in ("clock", "phrases")
)
_BLANKS = str.maketrans(dict.fromkeys(f"{string.punctuation}{string.digits}«»“”„‘’…–—", " "))
_LINE_END = re.compile(r"\n")

_BEGINNING = re.compile(_TABLE["beginning"], re.VERBOSE)
_SAID = ("speaker", "said item")
_WHOLE = ("heading", "row", "item", "code", *_SAID)
_MARKS = re.compile(r"(?:[-*+>|#]++(?=\s)|\s++|\[ \])*")
_CLOSING = _TABLE["closing"]
_ASKED = ("?", "？", "؟")
_END = re.compile(_TABLE["end"].replace("<closing>", _CLOSING))
_LEAST_WITHOUT_STOP: Final = 60
_WITHOUT_STOP = re.compile(f"[{SOUTH_EAST_ASIAN}]")
_END_OR_BLANK = re.compile(
    rf"{_END.pattern}|(?<=[{SOUTH_EAST_ASIAN}])[ \t]+(?=[{SOUTH_EAST_ASIAN}])"
)


def passages(text: str) -> tuple[Passage, ...]:
    """Cut a text into passages, ascending and apart; every letter and digit is in one of them.

    None is longer than `LONGEST` or blank at an end, and each holds a letter or a digit.
    """
    parts: list[Passage] = []
    heading = -1
    clocks = [clock.start() for clock in _CLOCK.finditer(text)]
    # At once: the table is read anew for every call. Each character keeps its place.
    blanked = text.translate(_BLANKS)
    for kind, first, last in _blocks(text):
        flags = PassageFlag.SPEAKER.value if kind in _SAID else 0
        for start, end in _cut(text, kind, first, last):
            if heading >= 0 and not flags and end - heading <= LONGEST:
                parts.pop()
                start = heading
            heading = start if kind == "heading" else -1
            passage = text[start:end]
            if passage.rstrip(_CLOSING).endswith(_ASKED):
                flags |= PassageFlag.QUESTION.value
            words = blanked[start:end].lower().split()
            is_phrase = not _HINTS.isdisjoint(words) and _PHRASE.search(passage) is not None
            is_clock = bisect_left(clocks, start) < bisect_left(clocks, end)
            if is_clock or is_phrase or not _TIMES.isdisjoint(words):
                flags |= PassageFlag.TIME.value
            parts.append(Passage(start, end, flags))
            flags = 0
    return tuple(parts)


def speaker(passage: str) -> str:
    """Return who says a line of dialogue, as it begins with the name; empty for any other."""
    begun = _BEGINNING.match(passage)
    return (begun["name"] or "").strip() if begun is not None else ""


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind and the place of every run of lines that no passage goes beyond."""
    kind, start, at = "", 0, 0
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        begun = _BEGINNING.match(text, at, end)
        line = (begun.lastgroup or "") if begun is not None else ""
        if begun is not None and line == "speaker":
            kinds = ("item", "said item") if begun["bullet"] else ("", line)
            words = begun["name"].split()
            is_label = len(words) > 3 or words[0].lower() in _LABELS
            line = kinds[not is_label and not any(word[0].islower() for word in words)]
        if kind == "code":
            is_new = False
        elif line in ("speaker", "code", "blank"):
            is_new = True
        elif kind == "speaker":
            is_new = line == "heading" or end - start > LONGEST
        else:
            is_new = bool(line) or kind in ("heading", "row", "blank")
        if is_new:
            yield kind, start, at
            kind, start = line, at
        elif kind == line == "code":
            yield kind, start, end
            kind, start = "", end
        at = end
    yield kind, start, at


def _cut(text: str, kind: str, start: int, end: int) -> Iterator[Span]:
    end = start + len(text[start:end].rstrip())
    marks = _MARKS.match(text, start, end)
    start = marks.end() if marks is not None else start
    ends = _sentence_ends(text, start, end)
    if kind == "code":
        ends = chain((line.end() for line in _LINE_END.finditer(text, start, end)), [end])
    spans: Iterable[Span] = [(start, end)]
    if kind not in _WHOLE:
        spans = pairwise(chain([start], ends))
    elif end - start > LONGEST:
        spans = _packed(start, ends)
    for first, last in spans:
        yield from _pieces(text, first, last)


def _sentence_ends(text: str, first: int, last: int) -> Iterator[int]:
    start = first
    ends = _END_OR_BLANK if _WITHOUT_STOP.search(text, first, last) else _END
    for ending in ends.finditer(text, first, last):
        place = ending.start()
        if text[place] in " \t" and place - start < _LEAST_WITHOUT_STOP:
            continue
        if text[place] == ".":
            # The full stop of `e.g.`, `Dr.`, `J.` or `3. Mai` ends no sentence.
            word = "".join(text[max(start, place - 16) : place].split()[-1:])
            bare = word.strip(_CLOSING + "([{").lower()
            if bare in _ABBREVIATIONS or (len(bare) == 1 and word.isupper()):
                continue
            if bare.isdecimal() and _MONTHS.intersection(text[place + 1 : place + 17].split()[:1]):
                continue
        start = ending.end()
        yield start
    yield last


def _packed(start: int, ends: Iterable[int]) -> Iterator[Span]:
    """Take neighbours together as long as they are not too long."""
    last = start
    for end in ends:
        if end - start > LONGEST and last > start:
            yield start, last
            start = last
        last = end
    yield start, last


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """Trim a passage, and cut one that is too long; nothing for one without letter or digit."""
    while start < end:
        cut = end if end - start <= LONGEST else _break(text, start)
        piece = text[start:cut]
        if any(map(str.isalnum, piece)):
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(piece.strip())
        start = cut


def _break(text: str, start: int) -> int:
    """Return the last place between words in the longest piece; its end where there is none."""
    longest = start + LONGEST
    space = text.rfind(" ", start + LONGEST // 2, longest)
    places = (at for at in range(longest, start, -1) if are_apart(text[at - 1 : at + 1]))
    return space if space > start else next(places, longest)
