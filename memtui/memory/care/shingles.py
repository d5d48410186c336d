"""Runs of words, to tell texts that are nearly the same."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final, TypeVar

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
