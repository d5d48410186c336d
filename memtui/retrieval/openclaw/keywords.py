"""Keywords of a conversational query (`query-expansion.ts`): by script, without stop words."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from memtui.retrieval.openclaw.words import KOREAN, KOREAN_PARTICLES, STOP_WORDS
from memtui.text.ecmascript import is_space, trim

_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_HAN_ONLY = re.compile("[\u4e00-\u9fff]+")
_JAPANESE_PART = re.compile("[a-z0-9_]+|[\u30a0-\u30ffー]+|[\u4e00-\u9fff]+|[\u3040-\u309f]{2,}")
_HANGUL = re.compile("[\uac00-\ud7af\u3131-\u3163]")
_SYLLABLE = re.compile("[\uac00-\ud7af]")
_ASCII_WORD = re.compile("[a-z0-9_]+", re.IGNORECASE | re.ASCII)
_ASCII_LETTERS = re.compile("[a-zA-Z]+")
_ASCII_DIGITS = re.compile("[0-9]+")
_SHORTEST_WORD = 3


def extract_keywords(query: str, *, trigram: bool) -> list[str]:
    """The keywords of a query, lower case, each once, in order.

    Kana is taken run by run, Han as characters and adjacent pairs (under the trigram tokenizer as
    one block), Hangul as the word and its stem without the longest trailing particle. Stop words
    of seven languages, ASCII words of one or two letters, plain numbers and symbols are left out.
    """
    seen: dict[str, None] = {}
    for segment in _segments(trim(query).lower()):
        for token in _tokens_of(segment, trigram):
            if token not in STOP_WORDS and _is_useful(token):
                seen.setdefault(token)
    return list(seen)


def _segments(text: str) -> list[str]:
    """Split at white space and punctuation; symbols stay."""
    spaced = "".join(" " if is_space(char) or _is_punctuation(char) else char for char in text)
    return [segment for segment in spaced.split(" ") if segment]


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _tokens_of(segment: str, trigram: bool) -> list[str]:
    if _KANA.search(segment):
        return _japanese(segment, trigram)
    if _HAN.search(segment):
        characters = _HAN.findall(segment)
        return ["".join(characters)] if trigram else [*characters, *_pairs(characters)]
    if _HANGUL.search(segment):
        return _korean(segment)
    return [segment]


def _japanese(segment: str, trigram: bool) -> list[str]:
    found: list[str] = []
    for part in _JAPANESE_PART.findall(segment):
        found.append(part)
        if not trigram and _HAN_ONLY.fullmatch(part):
            found += _pairs(part)
    return found


def _korean(segment: str) -> list[str]:
    stem = _korean_stem(segment)
    found: list[str] = []
    if segment not in KOREAN and (stem is None or stem not in KOREAN):
        found.append(segment)
    if stem and stem not in KOREAN and _is_useful_stem(stem):
        found.append(stem)
    return found


def _korean_stem(segment: str) -> str | None:
    for particle in KOREAN_PARTICLES:
        if len(segment) > len(particle) and segment.endswith(particle):
            return segment[: -len(particle)]
    return None


def _is_useful_stem(stem: str) -> bool:
    if _SYLLABLE.search(stem):
        return len(stem) >= 2
    return _ASCII_WORD.fullmatch(stem) is not None


def _pairs(characters: str | list[str]) -> list[str]:
    return [first + second for first, second in pairwise(characters)]


def _is_useful(token: str) -> bool:
    if _ASCII_LETTERS.fullmatch(token):
        return len(token) >= _SHORTEST_WORD
    if _ASCII_DIGITS.fullmatch(token):
        return False
    return any(unicodedata.category(character)[0] not in "PS" for character in token)
