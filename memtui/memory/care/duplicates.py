"""Near-duplicates among many texts: sketches propose pairs, an exact comparison decides.

A. Broder, "On the resemblance and containment of documents" (1997): the share of shingles that
two texts have in common is about that of their sketches, the least hashes of each.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from memtui.errors import IsCancelled, never, stop_if
from memtui.model import Chunk

SHINGLE_WORDS: Final = 3
NEAR: Final = 0.6
"""Texts that have at least this share of their shingles in common are near-duplicates."""
FEWEST_WORDS: Final = 8
"""A text with fewer words is too short to be told from a phrase that notes just share."""

T = TypeVar("T")

# Scripts that put no spaces between words are taken character by character.
_WORD = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U0003134f]"
    "|[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U0003134f]+"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text, case folded, without punctuation."""
    return _WORD.findall(text.casefold())


def shingles_of(words: Sequence[T]) -> frozenset[tuple[T, ...]]:
    """Return every run of `SHINGLE_WORDS` words; of fewer words the one run that there is."""
    if len(words) <= SHINGLE_WORDS:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False))


MOST_SHARED: Final = 4
"""A short line that more texts have is one of a template."""
SHORT_LINE: Final = 80
"""Characters of a line that can be one of a template; longer ones say something."""
_CHECK_EVERY: Final = 256
_FORM = re.compile(
    r"[ \t>]*(?:#{1,6}(?:[ \t]|$)|(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX/-]\]|[^\n]{0,60}:[ \t*_]*$)"
)
_DIGITS = re.compile("[0-9]+")


def without_forms(texts: Sequence[str], cancelled: IsCancelled = never) -> list[str]:
    """Return each text without headings, tasks, empty fields and shared short lines.

    Lines that differ in their numbers alone count as one. Raises `Cancelled`.
    """
    counts: Counter[str] = Counter()
    for text in _all(texts, cancelled):
        counts.update({shape for line in text.split("\n") if (shape := _shape(line))})
    shared = {shape for shape, count in counts.items() if count > MOST_SHARED}
    return [
        "\n".join(
            line
            for line in text.split("\n")
            if not _FORM.match(line) and _shape(line) not in shared
        )
        for text in _all(texts, cancelled)
    ]


def _all(
    texts: Sequence[str],
    cancelled: IsCancelled,
    progressed: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number % _CHECK_EVERY == 0:
            stop_if(cancelled)
            progressed(number, len(texts))
        yield text


def _shape(line: str) -> str:
    """Return a short line without its numbers; empty for a long one."""
    return _DIGITS.sub("0", line.strip().casefold()) if len(line) <= SHORT_LINE else ""


NEAR_WITH_OTHER_NUMBERS: Final = 0.8
SKETCH: Final = 24
"""Hashes of a sketch."""
_LEAST_SHARED: Final = 0.25
"""Of a sketch, in texts that are compared; those of near-duplicates share twice as much."""
_NEARBY: Final = 8
"""So many earlier texts with a hash are compared with each; a family of many alike is a chain."""


class Cut(NamedTuple):
    """The parts by which two texts are compared."""

    shingles: frozenset[tuple[str, ...]]
    numbers: frozenset[str]
    """The words that have a digit."""


class Pair(NamedTuple):
    """Two places in the sequence of texts, the earlier first, and the share of shingles."""

    first: int
    second: int
    score: float


def near_duplicates(
    texts: Sequence[str],
    *,
    apart: Callable[[int, int], bool] = lambda first, second: True,
    cancelled: IsCancelled = never,
    progressed: Callable[[int, int], None] = lambda done, total: None,
) -> list[Pair]:
    """Find the pairs of texts that are near-duplicates, as `likeness` has it.

    Of a family of texts that are all alike each is paired with one or a few others, not all with
    all: the pairs connect them. `apart(first, second)` says whether two may be paired at all. Texts
    of fewer than `FEWEST_WORDS` words are left out. In linear time; `progressed` is told how many
    texts were read. Raises `Cancelled`.
    """
    numbers: dict[str, int] = {}
    same: dict[tuple[str, ...], int] = {}
    with_hash: dict[int, list[int]] = defaultdict(list)
    cuts: dict[int, Cut] = {}
    above: dict[int, int] = {}
    pairs: list[Pair] = []
    for place, text in enumerate(_all(texts, cancelled, progressed)):
        words = words_of(text)
        if len(words) < FEWEST_WORDS:
            continue
        twin = same.setdefault(tuple(words), place)
        if twin != place and apart(twin, place):
            pairs.append(Pair(twin, place, 1.0))
            continue
        numbered = [numbers.setdefault(word, len(numbers)) for word in words]
        # The least hashes of the shingles; numbers hash alike everywhere.
        sketch = nsmallest(SKETCH, {hash(run) for run in shingles_of(numbered)})
        shared = Counter(one for value in sketch for one in with_hash[value][-_NEARBY:])
        for earlier, count in sorted(shared.items()):
            families = _family(above, earlier), _family(above, place)
            is_alike = count >= _LEAST_SHARED * len(sketch) and families[0] != families[1]
            if not (is_alike and apart(earlier, place)):
                continue
            for one in (earlier, place):
                cuts.setdefault(one, cut(texts[one]))
            score = likeness(cuts[earlier], cuts[place])
            if score is not None:
                above[families[1]] = families[0]
                pairs.append(Pair(earlier, place, score))
        for value in sketch:
            with_hash[value].append(place)
    return sorted(pairs)


def cut(text: str) -> Cut:
    """Cut a text into what it is compared by: of one that is too short, nothing."""
    if len(words := words_of(text)) < FEWEST_WORDS:
        return Cut(frozenset(), frozenset())
    numbers = frozenset(word for word in words if any(map(str.isdigit, word)))
    return Cut(shingles_of(words), numbers)


def likeness(first: Cut, second: Cut) -> float | None:
    """Return the share of shingles of two near-duplicates; `None` for two that are none.

    Texts with other numbers are mostly records of the same kind, of two things: they have to be
    more alike.
    """
    shared, every = first.shingles & second.shingles, first.shingles | second.shingles
    score = len(shared) / max(1, len(every))
    least = NEAR if first.numbers == second.numbers else NEAR_WITH_OTHER_NUMBERS
    return score if score >= least else None


def _family(above: dict[int, int], place: int) -> int:
    """Return the text that stands for all those a text is connected to by pairs."""
    root = place
    while root in above:
        root = above[root]
    while place != root:
        above[place], place = root, above[place]
    return root


def overlaps(first: Chunk, second: Chunk) -> bool:
    """Tell whether two chunks hold the same lines of one file."""
    return (
        (first.path, first.source) == (second.path, second.source)
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
    )
