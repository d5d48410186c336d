"""The lexical boost of a keyword hit: shared words, words in the path, length (2026.4 on)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from memtui.retrieval.openclaw.plan import tokens
from memtui.text.ecmascript import nfc, simple_fold, trim, utf16_length

OVERLAP_WEIGHT = 0.45
DENSITY_WEIGHT = 0.2
PATH_WEIGHT = 0.18
LENGTH_CEILING = 0.18
LENGTH_UNITS = 160


def boosted_score(query: str, path: str, text: str, score: float, *, normalised: bool) -> float:
    """The text score plus the boost, at most 1 (`scoreFallbackKeywordResult`).

    score + 0.45 * share of the query's words that the text holds + 0.2 * those per different word
    of the text + 0.18 for each that the path holds + min(length / 160, 0.18), length in UTF-16
    units. A query without words leaves the score. `normalised` (2026.9) compares composed text
    without case; before, lower case was compared.
    """
    words = query_words(query, normalised)
    if not words:
        return score
    held = text_words(text, normalised)
    overlap = sum(1 for word in words if word in held.folded)
    share = overlap / len(words)
    density = overlap / max(held.different, 1)
    name = simple_fold(nfc(path)) if normalised else path.lower()
    in_path = 0.0
    for word in words:
        in_path += PATH_WEIGHT if word in name else 0
    length = min(utf16_length(text) / LENGTH_UNITS, LENGTH_CEILING)
    boost = share * OVERLAP_WEIGHT + density * DENSITY_WEIGHT + in_path + length
    return min(1.0, score + boost)


@lru_cache(maxsize=256)
def query_words(query: str, normalised: bool) -> tuple[str, ...]:
    """The different words of a query, in order, as they are compared."""
    source = nfc(query) if normalised else query
    different = dict.fromkeys(trim(token).lower() for token in tokens(source))
    # Words are told apart by lower case, and compared by their simple folding.
    return tuple(map(simple_fold, different)) if normalised else tuple(different)


@dataclass(frozen=True, slots=True)
class TextWords:
    """The different words of a text: as they are compared, and how many there are."""

    folded: frozenset[str]
    different: int


@lru_cache(maxsize=4096)
def text_words(text: str, normalised: bool) -> TextWords:
    """The different words of a text, as they are compared with those of a query."""
    if text.isascii():
        words = frozenset(tokens(text.lower()))
        return TextWords(words, len(words))
    # Lower case may split a word of other scripts, so each is lowered by itself.
    source = nfc(text) if normalised else text
    lowered = frozenset(token.lower() for token in frozenset(tokens(source)))
    folded = frozenset(map(simple_fold, lowered)) if normalised else lowered
    return TextWords(folded, len(lowered))
