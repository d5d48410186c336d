"""Where query terms stand in a note's own text, and the piece of it to show.

Nothing here needs the index: words are compared by the stems FTS5 would give them, so that any
thread may mark any text.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from memtui.retrieval.beginnings import completions
from memtui.retrieval.porter import beginning_of_words, stem
from memtui.retrieval.runs import is_spaceless, runs

Span: TypeAlias = tuple[int, int]

_ELLIPSIS = "…"
_BOUNDARY_REACH = 20
_ACCENTS = re.compile("[\u0300-\u036f]+")
_HALFWIDTH_MARKS = "\uff9e\uff9f"
_MARK_BLOCKS = (range(0x300, 0x3100), range(0xA66F, 0xABEE), range(0xFE20, 0xFE30))


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line out of a text."""

    text: str
    """White space is single spaces; `…` where something was cut off."""
    spans: tuple[Span, ...]
    """Where query terms stand in `text`, in characters."""
    line_offset: int
    """On which line of the whole text it begins, the first being 0."""


class _Found(NamedTuple):
    start: int
    end: int
    term: int
    """Which of the terms it is."""


class _Word(NamedTuple):
    start: int
    end: int
    folded: str
    stem: str


@dataclass
class _Wanted:
    """The terms by the way they are looked for; numbers are places in the list of terms."""

    stems: dict[str, int]
    beginnings: list[tuple[str, int]]
    phrases: list[tuple[tuple[str, ...], int]]
    pieces: list[tuple[str, int]]

    @functools.cached_property
    def heads(self) -> tuple[str, ...]:
        """How the words begin that can be one of the terms."""
        return (*map(beginning_of_words, self.stems), *(begun for begun, _ in self.beginnings))

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches such words in a text of small letters without diacritics."""
        heads = "|".join(map(re.escape, sorted(set(self.heads))))
        return re.compile(f"(?<![a-z0-9])(?:{heads})[a-z0-9]*")


def match_spans(text: str, terms: Sequence[str]) -> list[Span]:
    """Find the terms of a query in a text, as (start, end) in characters.

    Terms are spelled as a keyword hit names them: a word (found in any form with the same stem),
    `begin*` (words that begin so), several words (in that order, one after the other), or text in
    a script without spaces (found anywhere). Case and diacritics do not count. The spans are
    ascending and do not overlap; pieces of a script without spaces that touch are one span.
    """
    return _merged(_find(text, terms))


def snippet(text: str, terms: Sequence[str], width: int) -> Snippet:
    """Cut the piece of `text` that holds most of the terms, at most `width` characters long.

    Characters and not cells: whoever draws it cuts off what wide characters push out. Begins and
    ends between words where there is a space near. Without a term it is the beginning.
    """
    flat = " ".join(text.split())
    found = sorted(_find(flat, terms))
    if len(flat) <= width:
        return Snippet(flat, tuple(_merged(found)), _line(text, flat, 0))
    start, end = _window(flat, found, max(1, width - 2 * len(_ELLIPSIS)))
    before = _ELLIPSIS if start else ""
    body = flat[start:end]
    shift = start - len(before)
    spans = tuple(
        (max(low, start) - shift, min(high, end) - shift)
        for low, high in _merged(found)
        if low < end and high > start
    )
    after = _ELLIPSIS if end < len(flat) else ""
    return Snippet(before + body + after, spans, _line(text, flat, start))


def fold(word: str) -> str:
    """Fold a word as the index does: lower case, compatibility forms, no diacritics."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKC", word).lower().replace("đ", "d")
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", plain)))


# --- finding ----------------------------------------------------------------------------------


def _find(text: str, terms: Sequence[str]) -> list[_Found]:
    wanted = _wanted(tuple(terms))
    found = list(_find_pieces(text, wanted.pieces)) if wanted.pieces else []
    if wanted.phrases:
        found += _find_words(_every_word(text), wanted)
    elif wanted.stems or wanted.beginnings:
        found += _find_words(_likely_words(text, wanted), wanted)
    return found


@functools.lru_cache(maxsize=16)
def _wanted(terms: tuple[str, ...]) -> _Wanted:
    wanted = _Wanted({}, [], [], [])
    for place, term in enumerate(terms):
        if is_spaceless(unicodedata.normalize("NFKC", term)):
            _add_mixed(wanted, term, place)
            continue
        words = [fold(word) for _, word in _words(term)]
        if len(words) == 1 and term.endswith("*"):
            wanted.beginnings.append((words[0], place))
            for word in (words[0], *completions(words[0])):
                wanted.stems.setdefault(stem(word), place)
        elif len(words) == 1:
            wanted.stems.setdefault(stem(words[0]), place)
        elif words:
            wanted.phrases.append((tuple(map(stem, words)), place))
    return wanted


def _add_mixed(wanted: _Wanted, term: str, place: int) -> None:
    """Take a term of several scripts apart: its pieces are marked each for itself."""
    for run in runs(unicodedata.normalize("NFKC", term)):
        if run.grams:
            wanted.pieces.append((run.text, place))
        else:
            for _, word in _words(run.text):
                wanted.stems.setdefault(stem(fold(word)), place)


def _every_word(text: str) -> Iterator[_Word]:
    for start, word in _words(text):
        folded = fold(word)
        yield _Word(start, start + len(word), folded, stem(folded))


def _likely_words(text: str, wanted: _Wanted) -> Iterator[_Word]:
    """The words that begin as a wanted one does: all that can be one, and few others."""
    if text.isascii():
        for match in wanted.pattern.finditer(text.lower()):
            yield _Word(match.start(), match.end(), match.group(), stem(match.group()))
        return
    for start, word in _words(text):
        folded = fold(word)
        if folded.startswith(wanted.heads):
            yield _Word(start, start + len(word), folded, stem(folded))


def _find_words(words: Iterable[_Word], wanted: _Wanted) -> Iterator[_Found]:
    longest = max((len(stems) for stems, _ in wanted.phrases), default=0)
    recent: list[tuple[int, str]] = []
    for start, end, folded, own in words:
        place = wanted.stems.get(own)
        if place is None and wanted.beginnings:
            fits = (p for beginning, p in wanted.beginnings if folded.startswith(beginning))
            place = next(fits, None)
        if place is not None:
            yield _Found(start, end, place)
        if longest:
            recent = [*recent[1 - longest :], (start, own)] if longest > 1 else [(start, own)]
            yield from _ending_here(recent, wanted.phrases, end)


def _ending_here(
    recent: Sequence[tuple[int, str]],
    phrases: Iterable[tuple[tuple[str, ...], int]],
    end: int,
) -> Iterator[_Found]:
    for stems, place in phrases:
        last = recent[-len(stems) :]
        if tuple(own for _, own in last) == stems:
            yield _Found(last[0][0], end, place)


def _find_pieces(text: str, pieces: Sequence[tuple[str, int]]) -> Iterator[_Found]:
    plain, offsets = _compatible(text)
    for piece, place in pieces:
        start = plain.find(piece)
        while start >= 0:
            end = start + len(piece)
            yield _Found(offsets[start], offsets[end], place)
            start = plain.find(piece, start + 1)


def _compatible(text: str) -> tuple[str, Sequence[int]]:
    """Give the NFKC form of a text and for each place in it the place in the text."""
    if unicodedata.is_normalized("NFKC", text):
        return text, range(len(text) + 1)
    forms: list[str] = []
    offsets: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _joins(text[end]):
            end += 1
        form = unicodedata.normalize("NFKC", text[start:end])
        forms.append(form)
        offsets.extend([start] * len(form))
        start = end
    offsets.append(len(text))
    return "".join(forms), offsets


def _joins(character: str) -> bool:
    return unicodedata.combining(character) != 0 or character in _HALFWIDTH_MARKS


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Cut text into the words FTS5 sees, each with its place."""
    for match in _word_pattern().finditer(text):
        word = match.group()
        if word.isascii():
            yield match.start(), word
            continue
        for run in runs(word):
            if not run.grams:
                yield match.start() + run.start, run.text


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    codes = chain.from_iterable(_MARK_BLOCKS)
    marks = "".join(c for c in map(chr, codes) if unicodedata.category(c).startswith("M"))
    return re.compile(f"[^\\W_](?:[^\\W_]|[{marks}])*")


def _merged(found: Iterable[_Found]) -> list[Span]:
    spans: list[Span] = []
    for start, end, _ in sorted(found):
        if end <= start:
            continue
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


# --- cutting ----------------------------------------------------------------------------------


def _line(text: str, flat: str, start: int) -> int:
    """On which line of a text the word stands that stands at `start` in the text as one line."""
    words = re.finditer(r"\S+", text)
    word = next(islice(words, flat.count(" ", 0, start), None), None)
    return 0 if word is None else text.count("\n", 0, word.start())


def _window(flat: str, found: Sequence[_Found], width: int) -> Span:
    """Choose the piece with the most different terms, then the most, then the first."""
    first, last = _densest(found, width)
    low, high = (found[first].start, found[last].end) if found else (0, 0)
    free = max(0, width - (high - low))
    start = max(0, min(low - free // 3, len(flat) - width))
    end = min(len(flat), start + width)
    return _at_word(flat, start, low, step=1), _at_word(flat, end, min(high, end), step=-1)


def _densest(found: Sequence[_Found], width: int) -> tuple[int, int]:
    best, chosen = (0, 0), (0, 0)
    last = -1
    inside: dict[int, int] = {}
    for first, hit in enumerate(found):
        while last + 1 < len(found) and (last < first or found[last + 1].end - hit.start <= width):
            last += 1
            inside[found[last].term] = inside.get(found[last].term, 0) + 1
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
