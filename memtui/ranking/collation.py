"""The order of names that `String.prototype.localeCompare` gives, for what memory paths hold.

An approximation of the root collation of CLDR (UTS #35): punctuation before symbols, digits and
letters; accents, width and case only where nothing else differs, lower case first. Scripts in the
order Latin, Greek, Cyrillic, …, Hangul, kana, Han, each by code point, which agrees with the root
order within the blocks that are in common use.
"""

from __future__ import annotations

from functools import lru_cache
from unicodedata import combining, decimal, normalize

_PUNCTUATION = "\t\n\r _-–—,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_PLACES = {character: place for place, character in enumerate(_PUNCTUATION)}
_PAIRS = {"ß": "ss", "æ": "ae", "œ": "oe"}
_BARRED = {"ø": "o", "ł": "l", "đ": "d", "ı": "i", "ð": "d", "ħ": "h"}
_HANGUL, _KANA, _HAN = 1, 2, 3

Weight = tuple[int, int, int]
Key = tuple[tuple[Weight, ...], tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=8192)
def collation_key(text: str) -> Key:
    """Return a key that sorts as the root collation does: primary, secondary, tertiary weights."""
    primary: list[Weight] = []
    marks: list[int] = []
    cases: list[int] = []
    for original in text:
        for character in original if original.isascii() else normalize("NFKD", original):
            if combining(character):
                marks.append(ord(character))
                continue
            lower = character.lower()[0]
            letters = _PAIRS.get(lower, lower)
            for letter in letters:
                primary.append(_primary(letter))
                marks.append(0)
                cases.append((character != lower) * 2 + (original != letters))
    return tuple(primary), tuple(marks), tuple(cases)


def _primary(letter: str) -> Weight:
    place = _PLACES.get(letter)
    if place is not None:
        return 0, place, 0
    if letter.isdecimal():
        return 2, decimal(letter), 0
    if not letter.isalpha():
        return 1, ord(letter), 0
    base = _BARRED.get(letter)
    if base is not None:
        return 3, ord(base), 1
    point = ord(letter)
    if 0x1100 <= point < 0x1200 or 0xAC00 <= point < 0xD7B0:
        return 3 + _HANGUL, point, 0
    if 0x3040 <= point < 0x3100:
        # Katakana and hiragana differ only where nothing else does.
        return 3 + _KANA, point - 0x60 if point >= 0x30A0 else point, 0
    if point >= 0x2E80:
        return 3 + _HAN, point, 0
    return 3, point, 0
