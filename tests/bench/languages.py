"""The words of the five languages of the corpus: real function words and invented others.

Invented words behave like words: the frequent ones are short, endings give the stemmer work, and
characters of Chinese, Japanese and Korean are as unevenly frequent as in real text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Invention = Callable[[np.random.Generator, int], list[str]]

_ENGLISH_FUNCTION = """
    the of to and a in is that it for was on with as be at by this we not are but from or have an
    they which one were all there been their has will would who when if more about into than them
    can only other some could so its then two these my do our what up out me after your how no most
    where i he you had his her she him did should because very same before until
"""
_ENGLISH_SYLLABLES = """
    b c d f g h j k l m n p r s t v w br cr dr gr pl pr sl st tr sh ch th;
    a e i o u a e i o ai ea ou;
    - - n r l s t m ck nd;
    - - - - - - s ing ed er ly
"""
_GERMAN_FUNCTION = """
    der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an
    werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war
    haben nur oder aber vor zur bis mehr durch man sein wurde wenn ich wir was dann doch schon
"""
_GERMAN_SYLLABLES = """
    b d f g h k l m n p r s t v w z br fr gr kl kr pf pl schl schr sch st str zw qu;
    a e i o u ä ö ü ei au eu ie a e i;
    - - n r l s t ch ck nz lt rt;
    - - - - en er e ung lich keit isch te
"""
"""Beginnings, vowels, ends and endings of the invented words; `-` is nothing."""
_CHINESE_FUNCTION = (
    "的 是 在 了 和 有 我 不 这 也 就 要 都 他 她 到 说 会 对 把 被 从 还 可以 因为 所以"
)
_JAPANESE_FUNCTION = (
    "の は を に が と で も から まで した する です ます この その という ので ため"
)
_KOREAN_FUNCTION = (
    "그리고 하지만 그 이 저 우리 때문에 그래서 있다 없다 한다 했다 및 또는 다시 더 안 못"
)

_CJK_CHARACTERS = 1800
_KOREAN_SYLLABLES = 700
_KATAKANA = "アイウエオカキクケコサシスセソタチツテトナニノハヒフホマミムメモラリルレロワンガグゴジダドバビブボパプ"
_PARTICLES = ("", "", "은", "는", "이", "가", "을", "를", "에", "에서", "의", "로", "도")


@dataclass(frozen=True, slots=True)
class Language:
    """How one language is written, and its share of the topics."""

    name: str
    share: int
    """Of 25 topics."""
    function: tuple[str, ...]
    separator: str
    stop: str
    """The end of a sentence."""
    openings: tuple[str, ...]
    """How questions begin; words apart."""
    invent: Invention
    """Makes distinct words, the frequent ones first."""


def _of_syllables(table: str) -> Invention:
    onsets, vowels, codas, endings = (
        [part.replace("-", "") for part in parts.split()] for parts in table.split(";")
    )

    def invent(rng: np.random.Generator, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            for row in rng.integers(0, 1 << 30, (count, 10)).tolist():
                syllables = 1 + (len(words) > 400) + (row[8] % 4 == 0)
                parts = [
                    onsets[row[2 * place] % len(onsets)] + vowels[row[2 * place + 1] % len(vowels)]
                    for place in range(syllables)
                ]
                word = "".join(parts) + codas[row[7] % len(codas)]
                words[word + endings[row[9] % len(endings)]] = None
        return list(words)[:count]

    return invent


def _of_characters(
    first: int, last: int, characters: int, ending: Callable[[int], str] = lambda number: ""
) -> Invention:
    """Words of one to three of some characters between two code points, a few of them in many."""

    def invent(rng: np.random.Generator, count: int) -> list[str]:
        alphabet = rng.permutation(np.arange(first, last))[:characters].tolist()
        words: dict[str, None] = {}
        while len(words) < count:
            # A power of an even distribution: the first characters are in many of the words.
            drawn = (rng.random((count, 3)) ** 2 * characters).astype(np.int64).tolist()
            for row, number in zip(drawn, rng.integers(0, 1 << 30, count).tolist(), strict=True):
                length = 2 + (number % 5 == 0) - (number % 11 == 0)
                word = "".join(chr(alphabet[place]) for place in row[:length])
                words[word + ending(number // 64)] = None
        return list(words)[:count]

    return invent


def _japanese(number: int) -> str:
    """What some of the words end in: kana, as borrowed words and verbs do."""
    kana = (number % 7 == 0) * (1 + number % 3)
    return "".join(_KATAKANA[(number >> 4 * step) % len(_KATAKANA)] for step in range(kana))


def _korean(number: int) -> str:
    return _PARTICLES[number % len(_PARTICLES)]


LANGUAGES = (
    Language(
        "en", 15, tuple(_ENGLISH_FUNCTION.split()), " ", ".",
        (
            "what did we decide about", "when is the", "how do i", "who said that the",
            "why was the", "where is the note on", "which of the", "is there anything about",
            "what was wrong with", "how much did the", "do we still have the", "can you find",
        ),
        _of_syllables(_ENGLISH_SYLLABLES),
    ),
    Language(
        "de", 4, tuple(_GERMAN_FUNCTION.split()), " ", ".",
        ("was haben wir über", "wann ist die", "warum war der", "wo steht die notiz zu"),
        _of_syllables(_GERMAN_SYLLABLES),
    ),
    Language(
        "zh", 2, tuple(_CHINESE_FUNCTION.split()), "", "。",
        ("什么 时候", "为什么 我们", "哪里 有", "怎么"), _of_characters(0x4E00, 0x8FFF, _CJK_CHARACTERS),
    ),
    Language(
        "ja", 2, tuple(_JAPANESE_FUNCTION.split()), "", "。",
        ("いつ", "どこ に", "なぜ この", "だれ が"),
        _of_characters(0x4E00, 0x8FFF, _CJK_CHARACTERS, _japanese),
    ),
    Language(
        "ko", 2, tuple(_KOREAN_FUNCTION.split()), " ", ".",
        ("언제 우리", "왜 그", "어디에 있는", "무엇을 다시"),
        _of_characters(0xAC00, 0xD7A4, _KOREAN_SYLLABLES, _korean),
    ),
)  # fmt: skip

SHARES = tuple(place for place, one in enumerate(LANGUAGES) for _ in range(one.share))
"""The place in `LANGUAGES` of each of 25 topics."""
