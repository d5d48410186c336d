"""Where query terms stand in a note's own text, and the piece of it to show.

Nothing here needs the index: words are compared by the stems that FTS5's tokenizer gives them, so
that any thread may mark any text.
"""

from __future__ import annotations

import functools
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from memtui.retrieval.connection import FOLDING, completions, token_places, tokens
from memtui.text.tokens import only_spaced, split_scripts

Span: TypeAlias = tuple[int, int]

_ELLIPSIS = "…"
_BOUNDARY_REACH = 20
_HALFWIDTH_MARKS = "\uff9e\uff9f"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line out of a text."""

    text: str
    """White space is single spaces; `…` where something was cut off."""
    spans: tuple[Span, ...]
    """Where query terms stand in `text`, in characters."""


class _Match(NamedTuple):
    start: int
    end: int
    term: int
    """Which of the terms it is."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms by the way they are looked for; numbers are places in the list of terms."""

    stems: dict[str, int] = field(default_factory=dict)
    beginnings: list[tuple[str, int]] = field(default_factory=list)
    phrases: list[tuple[list[str], int]] = field(default_factory=list)
    pieces: list[tuple[str, int]] = field(default_factory=list)


def match_spans(text: str, terms: Sequence[str]) -> list[Span]:
    """Find the terms of a query in a text, as (start, end) in characters.

    Terms are spelled as a keyword hit names them: a word (found in any form with the same stem),
    `begin*` (words that begin so), several words (in that order, one after the other), or text in
    a script without spaces (found anywhere). Case and diacritics do not count. The spans are
    ascending and do not overlap; pieces of a script without spaces that touch are one span.
    """
    return _merged(_matches(text, terms))


def snippet(text: str, terms: Sequence[str], width: int) -> Snippet:
    """Cut the piece of `text` that holds most of the terms, at most `width` characters long.

    Characters and not cells: whoever draws it cuts off what wide characters push out. Begins and
    ends between words where there is a space near. Without a term it is the beginning.
    """
    flat = " ".join(text.split())
    matches = sorted(_matches(flat, terms))
    if len(flat) <= width:
        return Snippet(flat, tuple(_merged(matches)))
    start, end = _window(flat, matches, max(1, width - 2 * len(_ELLIPSIS)))
    before = _ELLIPSIS if start else ""
    body = flat[start:end]
    shift = start - len(before)
    spans = tuple(
        (max(low, start) - shift, min(high, end) - shift)
        for low, high in _merged(matches)
        if low < end and high > start
    )
    after = _ELLIPSIS if end < len(flat) else ""
    return Snippet(before + body + after, spans)


# --- finding ----------------------------------------------------------------------------------


def _matches(text: str, terms: Sequence[str]) -> list[_Match]:
    wanted = _parsed(tuple(terms))
    plain, offsets = _compatible(text)
    places = list(_pieces(plain, wanted)) if wanted.pieces else []
    if wanted.stems or wanted.phrases:
        places += _words(plain, wanted)
    # A character that stands for several, as a fraction does, is marked by the last of them.
    return [
        _Match(offsets[start], offsets[end], term)
        for start, end, term in places
        if offsets[start] < offsets[end]
    ]


@functools.lru_cache(maxsize=16)
def _parsed(terms: tuple[str, ...]) -> _Terms:
    parsed = _Terms()
    for place, term in enumerate(terms):
        scripts = split_scripts(unicodedata.normalize("NFKC", term))
        parsed.pieces.extend((piece, place) for piece in scripts[1::2])
        text = only_spaced("".join(scripts))
        stems = tokens(text)
        if len(scripts) > 1:
            # A term of several scripts is marked piece by piece.
            parsed.stems.update({stem: place for stem in stems if stem not in parsed.stems})
        elif len(stems) > 1:
            parsed.phrases.append((stems, place))
        elif stems:
            parsed.stems.setdefault(stems[0], place)
            if term.endswith("*"):
                (beginning,) = tokens(text, FOLDING)
                parsed.beginnings.append((beginning, place))
                for stem in tokens(" ".join(completions(beginning))):
                    parsed.stems.setdefault(stem, place)
    return parsed


def _words(text: str, terms: _Terms) -> Iterator[_Match]:
    encoded = only_spaced(text).encode("utf-8", "replace")
    found = token_places(encoded)
    # Where each character begins: tokens are told by their bytes.
    starts: Sequence[int] = range(len(encoded))
    if len(encoded) != len(text):
        starts = [place for place, byte in enumerate(encoded) if byte & 0xC0 != 0x80]
    beginnings = tuple(beginning for beginning, _ in terms.beginnings)
    # The stemmer makes one token of each.
    folded = token_places(encoded, FOLDING) if beginnings else ()
    stems = [stem for _, _, stem in found]
    for number, (start, end, stem) in enumerate(found):
        term = terms.stems.get(stem)
        if term is None and beginnings and (word := folded[number][2]).startswith(beginnings):
            term = next(place for begun, place in terms.beginnings if word.startswith(begun))
        if term is not None:
            yield _Match(bisect_left(starts, start), bisect_left(starts, end), term)
        for phrase, place in terms.phrases:
            first = number + 1 - len(phrase)
            if first >= 0 and stems[first : number + 1] == phrase:
                start = found[first][0]
                yield _Match(bisect_left(starts, start), bisect_left(starts, end), place)


def _pieces(text: str, terms: _Terms) -> Iterator[_Match]:
    for piece, place in terms.pieces:
        start = text.find(piece)
        while start >= 0:
            yield _Match(start, start + len(piece), place)
            start = text.find(piece, start + 1)


def _compatible(text: str) -> tuple[str, Sequence[int]]:
    """Give the NFKC form of a text and for each place in it the place in the text."""
    if unicodedata.is_normalized("NFKC", text):
        return text, range(len(text) + 1)
    forms: list[str] = []
    offsets: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and (
            unicodedata.combining(text[end]) or text[end] in _HALFWIDTH_MARKS
        ):
            end += 1
        form = unicodedata.normalize("NFKC", text[start:end])
        forms.append(form)
        offsets.extend([start] * len(form))
        start = end
    offsets.append(len(text))
    return "".join(forms), offsets


def _merged(matches: Iterable[_Match]) -> list[Span]:
    spans: list[Span] = []
    for start, end, _ in sorted(matches):
        if end <= start:
            continue
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


# --- cutting ----------------------------------------------------------------------------------


def _window(flat: str, matches: Sequence[_Match], width: int) -> Span:
    """Choose the piece with the most different terms, then the most, then the first."""
    first, last = _densest(matches, width)
    low, high = (matches[first].start, matches[last].end) if matches else (0, 0)
    free = max(0, width - (high - low))
    start = max(0, min(low - free // 3, len(flat) - width))
    end = min(len(flat), start + width)
    return _at_word(flat, start, low, step=1), _at_word(flat, end, min(high, end), step=-1)


def _densest(matches: Sequence[_Match], width: int) -> tuple[int, int]:
    best, chosen = (0, 0), (0, 0)
    last = -1
    inside: dict[int, int] = {}
    for first, hit in enumerate(matches):
        while last + 1 < len(matches) and (
            last < first or matches[last + 1].end - hit.start <= width
        ):
            last += 1
            inside[matches[last].term] = inside.get(matches[last].term, 0) + 1
        value = (len(inside), last - first + 1)
        if value > best:
            best, chosen = value, (first, last)
        inside[hit.term] -= 1
        if not inside[hit.term]:
            del inside[hit.term]
    return chosen


def _at_word(flat: str, cut: int, bound: int, *, step: int) -> int:
    """Move a cut towards `bound`, at most 20 characters, so that it falls between words."""
    place = cut
    for _ in range(_BOUNDARY_REACH):
        if _between_words(flat, place):
            space = place if step > 0 else place - 1
            return place + step if flat[space : space + 1] == " " else place
        if place == bound:
            break
        place += step
    while cut != bound and 0 < cut < len(flat) and unicodedata.category(flat[cut])[0] == "M":
        cut += step
    return cut


def _between_words(flat: str, place: int) -> bool:
    inside = 0 < place < len(flat)
    return not inside or flat[place] == " " or flat[place - 1] == " "
