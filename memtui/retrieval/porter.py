"""The Porter stemmer as FTS5's `porter` tokenizer applies it, for marking words without SQLite.

M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980). Differences that FTS5 has are
kept: it works on UTF-8 bytes (every byte that is not ASCII counts as a consonant) and leaves words
of fewer than 3 or more than 64 bytes alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

Suffixes: TypeAlias = tuple[tuple[str, str], ...]

_SHORTEST, _LONGEST = 3, 64

_STEP_2: Suffixes = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("logi", "log"), ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"),
    ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"),
    ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3: Suffixes = (
    ("ical", "ic"), ("ness", ""), ("icate", "ic"), ("iciti", "ic"), ("ful", ""), ("ative", ""),
    ("alize", "al"),
)  # fmt: skip
_STEP_4: Suffixes = tuple(
    (suffix, "")
    for suffix in (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion",
        "ou", "ism", "ate", "iti", "ous", "ive", "ize",
    )
)  # fmt: skip


@functools.lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Reduce a folded word to its stem; the same word for every form that FTS5 holds equal."""
    encoded = word.encode("utf-8", "replace")
    if not _SHORTEST <= len(encoded) <= _LONGEST:
        return word
    # One character for each byte, since that is what the tokenizer counts.
    text = _step_1a(encoded.decode("latin-1"))
    text = _step_1b(text)
    if text.endswith("y") and _has_vowel(text[:-1]):
        text = text[:-1] + "i"
    text = _replace(text, _STEP_2, lambda rest, suffix: _measure(rest) > 0)
    text = _replace(text, _STEP_3, lambda rest, suffix: _measure(rest) > 0)
    text = _replace(text, _STEP_4, _may_lose)
    return _step_5(text).encode("latin-1").decode("utf-8", "replace")


def beginning_of_words(stem: str) -> str:
    """What every folded word with that stem begins with, at least one character of it.

    A suffix is replaced by one that begins as it did, but for its last one or two letters: `hoping`
    and `hope`, `happy` and `happi`, `sensibility` and `sensibl`.
    """
    return stem[: max(1, len(stem) - 2)]


def _step_1a(text: str) -> str:
    if text.endswith(("sses", "ies")) and len(text) > (4 if text.endswith("sses") else 3):
        return text[:-2]
    if text.endswith("s") and not text.endswith("ss"):
        return text[:-1]
    return text


def _step_1b(text: str) -> str:
    if text.endswith("eed") and len(text) > 3:
        return text[:-1] if _measure(text[:-3]) > 0 else text
    for suffix in ("ed", "ing"):
        rest = text[: -len(suffix)]
        if text.endswith(suffix) and rest:
            return _tidy(rest) if _has_vowel(rest) else text
    return text


def _tidy(text: str) -> str:
    """Mend what is left after `ed` or `ing` was cut off."""
    if len(text) > 2 and text.endswith(("at", "bl", "iz")):
        return text + "e"
    last = text[-1]
    if len(text) > 1 and last == text[-2] and last not in "aeiouslz":
        return text[:-1]
    if _measure(text) == 1 and _ends_cvc(text):
        return text + "e"
    return text


def _may_lose(rest: str, suffix: str) -> bool:
    return _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t")))


def _step_5(text: str) -> str:
    if text.endswith("e"):
        rest = text[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_cvc(rest)):
            text = rest
    if text.endswith("ll") and _measure(text[:-1]) > 1:
        text = text[:-1]
    return text


def _replace(text: str, suffixes: Suffixes, condition: Callable[[str, str], bool]) -> str:
    """Replace the first suffix that fits, when the rest of the word meets the condition."""
    for suffix, other in suffixes:
        if text.endswith(suffix) and len(text) > len(suffix):
            rest = text[: -len(suffix)]
            return rest + other if condition(rest, suffix) else text
    return text


def _shape(text: str) -> list[bool]:
    """Tell for each letter whether it is a consonant; `y` is one unless it follows one."""
    shape: list[bool] = []
    consonant = False
    for letter in text:
        consonant = not (letter in "aeiou" or (letter == "y" and consonant))
        shape.append(consonant)
    return shape


def _measure(text: str) -> int:
    """Count the times a consonant follows a vowel: m in Porter's [C](VC)^m[V]."""
    shape = _shape(text)
    return sum(1 for before, after in pairwise(shape) if after and not before)


def _has_vowel(text: str) -> bool:
    return any(
        letter in "aeiou" or (letter == "y" and place > 0) for place, letter in enumerate(text)
    )


def _ends_cvc(text: str) -> bool:
    """Tell whether the end is consonant, vowel, consonant, and that last one not w, x or y."""
    return text[-1:] not in ("w", "x", "y", "") and _shape(text)[-3:] == [True, False, True]
