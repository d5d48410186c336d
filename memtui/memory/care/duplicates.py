"""Near-duplicates among many texts: MinHash buckets propose pairs, an exact comparison decides.

A. Broder, "On the resemblance and containment of documents" (1997), with banding: two texts that
have the share J of their shingles in common meet in a bucket with 1 - (1 - J^ROWS)^BANDS: 0.99 for
0.6, where near-duplicates begin.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from memtui.errors import Cancelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


SHINGLE_WORDS: Final = 3
"""How many words make a shingle."""
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
    """The words of a text, case folded, without punctuation."""
    return _WORD.findall(text.casefold())


def shingles_of(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Every run of `SHINGLE_WORDS` words; of fewer words the one run that there is."""
    if len(words) <= SHINGLE_WORDS:
        return frozenset([tuple(words)] if words else [])
    runs = zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False)
    return frozenset(runs)


def jaccard(first: Set[T], second: Set[T]) -> float:
    """The share of all elements that both sets have, 0 to 1; 0 for two empty sets."""
    if not first or not second:
        return 0.0
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


MOST_SHARED: Final = 4
"""A short line that more texts have is one of a template."""
SHORT_LINE: Final = 80
"""Characters of a line that can be one of a template; longer ones say something."""
_CHECK_EVERY: Final = 256
_FORM = re.compile(
    r"[ \t>]*(?:#{1,6}(?:[ \t]|$)|(?:[-*+]|\d{1,9}[.)])[ \t]+\[[ xX/-]\]|[^\n]{0,60}:[ \t*_]*$)"
)
_DIGITS = re.compile("[0-9]+")


def without_forms(texts: Sequence[str], cancelled: Callable[[], bool] = lambda: False) -> list[str]:
    """Each text without headings, tasks, empty fields and the short lines that many texts share.

    Lines that differ in their numbers alone count as one. Raises `Cancelled`.
    """
    counts: Counter[str] = Counter()
    for text in _all(texts, cancelled):
        counts.update({_shape(line) for line in text.split("\n") if _is_short(line)})
    shared = {shape for shape, count in counts.items() if count > MOST_SHARED}
    return [_said(text, shared) for text in _all(texts, cancelled)]


def _all(texts: Sequence[str], cancelled: Callable[[], bool]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        yield text


def _said(text: str, shared: set[str]) -> str:
    return "\n".join(
        line
        for line in text.split("\n")
        if not _FORM.match(line) and not (_is_short(line) and _shape(line) in shared)
    )


def _is_short(line: str) -> bool:
    return 0 < len(line) <= SHORT_LINE


def _shape(line: str) -> str:
    return _DIGITS.sub("0", line.strip().casefold())


BANDS: Final = 24
ROWS: Final = 3
NEAR_WITH_OTHER_NUMBERS: Final = 0.8
_SEED: Final = 20_261_120

_NEARBY: Final = 8
"""So many earlier texts of a bucket are compared with each; a family of many alike is a chain."""


class Cut(NamedTuple):
    """What two texts are compared by."""

    shingles: frozenset[tuple[str, ...]]
    numbers: frozenset[str]
    """The words that have a digit."""


class Pair(NamedTuple):
    """Two places in the sequence of pieces, the earlier first, and the share of shingles."""

    first: int
    second: int
    score: float


def near_duplicates(
    texts: Sequence[str],
    *,
    apart: Callable[[int, int], bool] = lambda first, second: True,
    cancelled: Callable[[], bool] = lambda: False,
    progressed: Callable[[int, int], None] = lambda done, total: None,
) -> list[Pair]:
    """Find the pairs of texts that are near-duplicates, as `likeness` has it.

    Of a family of texts that are all alike each is paired with one or a few others, not all with
    all: the pairs connect them. `apart(first, second)` says whether two may be paired at all. Texts
    of fewer than `FEWEST_WORDS` words are left out. In linear time; `progressed` is told how many
    texts were read. Raises `Cancelled`.
    """
    import numpy as np

    numbers: dict[str, int] = {}
    same: dict[tuple[str, ...], int] = {}
    pairs: list[Pair] = []
    places: list[int] = []
    signatures: list[NDArray[np.uint64]] = []
    hashes = _Hashes()
    for place, text in enumerate(texts):
        if place % _CHECK_EVERY == 0:
            if cancelled():
                raise Cancelled
            progressed(place, len(texts))
        words = words_of(text)
        if len(words) < FEWEST_WORDS:
            continue
        twin = same.setdefault(tuple(words), place)
        if twin != place and apart(twin, place):
            pairs.append(Pair(twin, place, 1.0))
            continue
        coded = [numbers.setdefault(word, len(numbers)) for word in words]
        signatures.append(hashes.signature(coded))
        places.append(place)
    if places:
        candidates = _candidates(places, np.stack(signatures), cancelled)
        pairs += _checked(texts, candidates, apart, cancelled)
    return sorted(pairs)


def cut(text: str) -> Cut:
    """A text as it is compared."""
    words = words_of(text)
    numbers = frozenset(word for word in words if any(map(str.isdigit, word)))
    return Cut(shingles_of(words), numbers)


def likeness(first: Cut, second: Cut) -> float | None:
    """The share of shingles of two near-duplicates; `None` for two that are none.

    Texts with other numbers are mostly records of the same kind, of two things: they have to be
    more alike.
    """
    score = jaccard(first.shingles, second.shingles)
    least = NEAR if first.numbers == second.numbers else NEAR_WITH_OTHER_NUMBERS
    return score if score >= least else None


class _Hashes:
    """`BANDS` x `ROWS` hash functions of shingles of numbered words."""

    def __init__(self) -> None:
        import numpy as np

        random = np.random.default_rng(_SEED)
        count = BANDS * ROWS
        odd, high = np.uint64(1), 2**63
        self._factors = random.integers(1, high, count, dtype=np.uint64) | odd
        self._offsets = random.integers(0, high, count, dtype=np.uint64)
        self._positions = random.integers(1, high, SHINGLE_WORDS, dtype=np.uint64) | odd

    def signature(self, words: Sequence[int]) -> NDArray[np.uint64]:
        """The least value of each hash function over the shingles, shape (BANDS * ROWS,)."""
        import numpy as np

        numbered = np.array(words, dtype=np.uint64) + np.uint64(1)
        length = len(words) - SHINGLE_WORDS + 1
        mixed = np.zeros(length, dtype=np.uint64)
        for start, position in enumerate(self._positions):
            # Wraps around on purpose: the arithmetic is that of 64 bits.
            mixed ^= _scrambled(numbered[start : start + length] * position)
        mixed = np.unique(_scrambled(mixed))
        values = mixed[:, None] * self._factors + self._offsets
        least: NDArray[np.uint64] = (values >> np.uint64(16)).min(axis=0)
        return least


def _scrambled(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    import numpy as np

    values = (values ^ (values >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return values ^ (values >> np.uint64(29))


def _candidates(
    places: Sequence[int], signatures: NDArray[np.uint64], cancelled: Callable[[], bool]
) -> Iterator[tuple[int, int]]:
    """Pairs of places that share a bucket in some band, each pair once."""
    seen: set[tuple[int, int]] = set()
    for band in range(BANDS):
        if cancelled():
            raise Cancelled
        part = signatures[:, band * ROWS : (band + 1) * ROWS]
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for row, place in enumerate(places):
            buckets[part[row].tobytes()].append(place)
        for bucket in buckets.values():
            for position, second in enumerate(bucket):
                for first in bucket[max(0, position - _NEARBY) : position]:
                    if (first, second) not in seen:
                        seen.add((first, second))
                        yield first, second


def _checked(
    texts: Sequence[str],
    candidates: Iterator[tuple[int, int]],
    apart: Callable[[int, int], bool],
    cancelled: Callable[[], bool],
) -> Iterator[Pair]:
    known: dict[int, Cut] = {}
    family = _Families()
    for number, (first, second) in enumerate(candidates):
        if number % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        if family.of(first) == family.of(second) or not apart(first, second):
            continue
        for place in (first, second):
            if place not in known:
                known[place] = cut(texts[place])
        score = likeness(known[first], known[second])
        if score is not None:
            family.join(first, second)
            yield Pair(first, second, score)


class _Families:
    """Texts that are connected by pairs."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def of(self, place: int) -> int:
        """The one that stands for a text's family."""
        root = place
        while (above := self._above.get(root, root)) != root:
            root = above
        while (above := self._above.get(place, place)) != root:
            self._above[place], place = root, above
        return root

    def join(self, first: int, second: int) -> None:
        """Make one family of two."""
        self._above[self.of(second)] = self.of(first)
