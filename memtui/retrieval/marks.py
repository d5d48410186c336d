"""Finds the terms of a query in a note's own text, and cuts the piece of it to show.

Nothing here needs the index: words are compared by the stems that the language of the text and
FTS5's tokenizer give them, so that any thread may mark any text.
"""

from __future__ import annotations

import functools
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import contains
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from memtui.retrieval.connection import FOLDING, token_places
from memtui.text.languages import language_of, stems
from memtui.text.tokens import only_spaced, split_scripts

Span: TypeAlias = tuple[int, int]

_ELLIPSIS = "…"
_BOUNDARY_REACH = 20
_HALFWIDTH_MARKS = "\uff9e\uff9f"


class Snippet(Struct, frozen=True):
    """One line out of a text."""

    text: str
    """White space is single spaces; `…` where something was cut off."""
    spans: tuple[Span, ...]
    """The places of query terms in `text`, in characters."""


class _Match(NamedTuple):
    start: int
    end: int
    term: int


class _Terms(Struct, frozen=True):
    """The terms by the way they are looked for; numbers are places in the list of terms."""

    stems: dict[str, int] = {}
    beginnings: list[tuple[str, int]] = []
    phrases: list[tuple[list[str], int]] = []
    pieces: list[tuple[str, int]] = []


def match_spans(text: str, terms: Sequence[str], language: str | None = None) -> list[Span]:
    """Find the terms of a query in a text, as (start, end) in characters.

    Terms are spelled as a keyword hit names them: a word (found in any form with the same stem),
    `begin*` (words that begin so), several words (in that order, one after the other), or text in
    a script without spaces (found anywhere). Case and diacritics do not count. The spans are
    ascending and do not overlap; pieces of a script without spaces that touch are one span.
    Of a piece of a text, `language` is that of the whole.
    """
    return _merged(_matches(text, terms, language_of(text) if language is None else language))


def snippet(text: str, terms: Sequence[str], width: int) -> Snippet:
    """Cut the piece of `text` that holds most of the terms, at most `width` characters long.

    Characters and not cells: whoever draws it cuts off what wide characters push out. Begins and
    ends between words where there is a space near. Without a term it is the beginning.
    """
    flat = " ".join(text.split())
    matches = sorted(_matches(flat, terms, language_of(flat)))
    marked = _merged(matches)
    if len(flat) <= width:
        return Snippet(flat, tuple(marked))
    width = max(1, width - 2 * len(_ELLIPSIS))
    # The piece with the most different terms, then the most, then the first.
    ends, low, high, best = [match.end for match in matches], 0, 0, (0, 0)
    for place, match in enumerate(matches):
        after = max(place + 1, bisect_right(ends, match.start + width, lo=place))
        value = len({other.term for other in matches[place:after]}), after - place
        if value > best:
            best, low, high = value, match.start, ends[after - 1]
    free = max(0, width - (high - low))
    start = max(0, min(low - free // 3, len(flat) - width))
    end = min(len(flat), start + width)
    start = _at_word(flat, start, low, step=1)
    end = _at_word(flat, end, min(high, end), step=-1)
    before = _ELLIPSIS if start else ""
    shift = start - len(before)
    spans = tuple(
        (max(first, start) - shift, min(last, end) - shift)
        for first, last in marked
        if first < end and last > start
    )
    return Snippet(before + flat[start:end] + (_ELLIPSIS if end < len(flat) else ""), spans)


def _at_word(flat: str, cut: int, bound: int, *, step: int) -> int:
    """Move a cut towards `bound`, at most 20 characters, so that it falls between words."""
    if cut in (0, len(flat)) or " " in flat[cut - 1 : cut + 1]:
        beyond = flat[cut] if step > 0 else flat[cut - 1]
        return cut + step if cut not in (0, len(flat)) and beyond == " " else cut
    ahead, behind = min(cut + _BOUNDARY_REACH, bound + 1), max(cut - _BOUNDARY_REACH, bound - 1, 0)
    space = flat.find(" ", cut, ahead) if step > 0 else flat.rfind(" ", behind, cut)
    if space >= 0:
        return space + 1 if step > 0 else space
    while cut != bound and 0 < cut < len(flat) and unicodedata.category(flat[cut])[0] == "M":
        cut += step
    return cut


def _matches(text: str, terms: Sequence[str], language: str) -> list[_Match]:
    parsed = _parsed(tuple(terms), language)
    # The NFKC form of the text, and for each place in it the place in the text.
    plain = text
    offsets: Sequence[int] = range(len(text) + 1)
    if not unicodedata.is_normalized("NFKC", text):
        plain, places_of, start = "", list[int](), 0
        for end in range(1, len(text) + 1):
            after = text[end : end + 1]
            if not after or not (unicodedata.combining(after) or after in _HALFWIDTH_MARKS):
                form = unicodedata.normalize("NFKC", text[start:end])
                plain += form
                places_of += [start] * len(form)
                start = end
        offsets = [*places_of, len(text)]
    places: list[_Match] = []
    for piece, term in parsed.pieces:
        start = plain.find(piece)
        while start >= 0:
            places.append(_Match(start, start + len(piece), term))
            start = plain.find(piece, start + 1)
    has_words = parsed.stems or parsed.phrases
    encoded = only_spaced(plain).encode("utf-8", "replace") if has_words else b""
    tokens_at = _stem_places(encoded, language)
    # Where each character begins: tokens are told by their bytes.
    starts = [place for place, byte in enumerate(encoded) if byte & 0xC0 != 0x80]
    beginnings = tuple(beginning for beginning, _ in parsed.beginnings)
    # The stemmer makes one token of each.
    folded = token_places(encoded, FOLDING) if beginnings else ()
    for number, (start, end, forms) in enumerate(tokens_at):
        last = bisect_left(starts, end)
        of_stem = next((parsed.stems[stem] for stem in forms if stem in parsed.stems), None)
        if of_stem is None and beginnings and (word := folded[number][2]).startswith(beginnings):
            of_stem = next(term for begun, term in parsed.beginnings if word.startswith(begun))
        if of_stem is not None:
            places.append(_Match(bisect_left(starts, start), last, of_stem))
        for phrase, term in parsed.phrases:
            first = number + 1 - len(phrase)
            there = tokens_at[max(0, first) : number + 1]
            if first >= 0 and all(map(contains, (forms for *_, forms in there), phrase)):
                places.append(_Match(bisect_left(starts, tokens_at[first][0]), last, term))
    # A character that stands for several, as a fraction does, is marked by the last of them.
    return [
        _Match(offsets[start], offsets[end], term)
        for start, end, term in places
        if offsets[start] < offsets[end]
    ]


@functools.lru_cache(maxsize=16)
def _parsed(terms: tuple[str, ...], language: str) -> _Terms:
    parsed = _Terms()
    for place, term in enumerate(terms):
        scripts = split_scripts(unicodedata.normalize("NFKC", term))
        parsed.pieces.extend((piece, place) for piece in scripts[1::2])
        text = only_spaced("".join(scripts))
        words = [forms[0] for *_, forms in _stem_places(text.encode("utf-8", "replace"), language)]
        if len(scripts) > 1:
            # A term of several scripts is marked piece by piece.
            parsed.stems.update({stem: place for stem in words if stem not in parsed.stems})
        elif len(words) > 1:
            parsed.phrases.append((words, place))
        elif words:
            parsed.stems.setdefault(words[0], place)
            if term.endswith("*"):
                ((_, _, beginning),) = token_places(text.encode("utf-8", "replace"), FOLDING)
                parsed.beginnings.append((beginning, place))
    return parsed


def _stem_places(encoded: bytes, language: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return the places of words in UTF-8, each with all that the index holds it as."""
    return [
        (start, end, stems(encoded[start:end].decode().lower(), language) or (token,))
        for start, end, token in token_places(encoded)
    ]


def _merged(matches: Iterable[_Match]) -> list[Span]:
    spans: list[Span] = []
    for start, end, _ in sorted(matches):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        elif end > start:
            spans.append((start, end))
    return spans
