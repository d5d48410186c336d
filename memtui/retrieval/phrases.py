"""Quoted phrases as FTS5 phrases over text that is indexed with n-grams."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import takewhile

from memtui.text.tokens import index_text, quote, split_scripts


def phrase_match(phrases: Sequence[str]) -> str | None:
    """Write the FTS5 expression of rows that hold every phrase; `None` when nothing is left."""
    segments = [segment for phrase in phrases for segment in phrase_segments(phrase)]
    return " AND ".join(dict.fromkeys(segments)) or None


def phrase_segments(phrase: str) -> tuple[str, ...]:
    """Write a phrase as FTS5 phrases that all have to match; empty without letters and digits.

    A run of a script without spaces is the sequence of its n-grams. In the index shorter n-grams
    follow it, so that a word behind the run begins another segment: such a mixed phrase finds
    a few rows more than a comparison of text would.
    """
    segments: list[str] = []
    parts: list[str] = []
    for place, piece in enumerate(split_scripts(unicodedata.normalize("NFKC", phrase))):
        is_spaced = place % 2 == 0
        parts += _words(index_text(piece)) if is_spaced else _grams(piece)
        if not is_spaced and len(piece) > 1:
            segments.append(" ".join(parts))
            parts = []
    segments.append(" ".join(parts))
    return tuple(dict.fromkeys(quote(segment) for segment in segments if segment))


def _grams(run: str) -> list[str]:
    """Cut a run as the index does, without the shorter n-grams that the index adds behind."""
    grams = index_text(run).split()
    return list(takewhile(lambda gram: len(gram) == len(grams[0]), grams))


def _words(text: str) -> list[str]:
    return [word for word in text.split() if any(char.isalnum() for char in word)]
