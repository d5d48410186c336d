"""The order of names that `String.prototype.localeCompare` gives, for what memory paths hold.

An approximation of the root collation of CLDR (UTS #35): punctuation before symbols, digits and
letters; accents, width and case only where nothing else differs, lower case first. Scripts in the
order Latin, Greek, Cyrillic, …, Hangul, kana, Han, each by code point, which agrees with the root
order within the blocks that are in common use.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import groupby, pairwise

from memtui.model import (
    CandidatePool,
    LegHit,
    Numbers,
    Operation,
    Ranking,
    Reason,
    SearchMode,
    Stage,
    TieRule,
)
from memtui.ranking.fusion import FusedRow, text_score

_PUNCTUATION = "\t\n\r _-–—,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_PLACES = {character: place for place, character in enumerate(_PUNCTUATION)}
_PAIRS = {"ß": "ss", "æ": "ae", "œ": "oe"}
_BARRED = {"ø": "o", "ł": "l", "đ": "d", "ı": "i", "ð": "d", "ħ": "h"}
_HANGUL, _KANA, _HAN = 1, 2, 3

Weight = tuple[int, int, int]
Key = tuple[tuple[Weight, ...], tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=8192)
def collation_key(text: str) -> Key:
    """A key that sorts as the root collation does: primary, secondary, tertiary weights."""
    if text.isascii():
        return (
            tuple([_ASCII_PRIMARY[character] for character in text]),
            (0,) * len(text),
            tuple([3 if "A" <= character <= "Z" else 0 for character in text]),
        )
    primary: list[Weight] = []
    marks: list[int] = []
    cases: list[int] = []
    for original in text:
        for character in _decomposed(original):
            if unicodedata.combining(character):
                marks.append(ord(character))
                continue
            lower = character.lower()[0]
            letters = _PAIRS.get(lower, lower)
            for letter in letters:
                primary.append(_primary(letter))
                marks.append(0)
                cases.append((character != lower) * 2 + (original != letters))
    return tuple(primary), tuple(marks), tuple(cases)


def _decomposed(character: str) -> str:
    return character if character.isascii() else unicodedata.normalize("NFKD", character)


def _primary(letter: str) -> Weight:
    place = _PLACES.get(letter)
    if place is not None:
        return 0, place, 0
    if letter.isdecimal():
        return 2, unicodedata.decimal(letter), 0
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


_ASCII_PRIMARY = {chr(point): _primary(chr(point).lower()) for point in range(128)}


def _unremarkable(index: int) -> tuple[Reason, Numbers]:
    return Reason.OK, {}


@dataclass(frozen=True, slots=True)
class Step:
    """What one stage did, by candidate index: scores after it and the surviving order."""

    stage: Stage
    operation: Operation
    scores: Sequence[float]
    order: Sequence[int]
    operands: Sequence[float | None] | None = None
    dropped: tuple[int, ...] = ()
    describe: Callable[[int], tuple[Reason, Numbers]] = _unremarkable
    numbers: Numbers = field(default_factory=dict)
    is_score: bool = True
    """False when `scores` only explain an order: later stages go on with the scores before."""


@dataclass(frozen=True, slots=True)
class StageState:
    """Where every candidate stands before a stage; `order` holds the survivors, best first."""

    pool: CandidatePool
    ranking: Ranking
    now: datetime
    rows: Sequence[FusedRow]
    scores: Sequence[float]
    order: Sequence[int]

    def sorted_by(self, scores: Sequence[float], order: Sequence[int] | None = None) -> list[int]:
        """Sort by score, best first; equal scores as the profile's tie rule says.

        `order` defaults to the survivors.
        """
        chosen = self.order if order is None else order
        if self.ranking.tie_rule is TieRule.STABLE:
            return sorted(chosen, key=scores.__getitem__, reverse=True)
        if self.ranking.tie_rule is TieRule.LEG_ORDER:
            # A release sorts once, after decay: ties that decay makes keep the order of the merge.
            return sorted(chosen, key=lambda index: (-scores[index], index))
        ordered = sorted(chosen, key=lambda index: -scores[index])
        if all(scores[a] != scores[b] for a, b in pairwise(ordered)):
            return ordered
        # Where a candidate lies takes long to find out, and only tells equal scores apart.
        return [
            index
            for _, tied in groupby(ordered, key=scores.__getitem__)
            for index in self._placed(list(tied))
        ]

    def _placed(self, tied: list[int]) -> list[int]:
        return sorted(tied, key=self.location) if len(tied) > 1 else tied

    def lexical_rank(self, index: int) -> float:
        """The private score of a body match that has no BM25 value (2026.9 `hybrid.ts`)."""
        hit = self.keyword_hit(index)
        if hit is None or not hit.has_body or self.text_score(index) != 0:
            return 0.0
        return hit.boosted or 0.0

    def keyword_hit(self, index: int) -> LegHit | None:
        """What the keyword leg found of a candidate."""
        return self.rows[index].keyword_hit

    def text_score(self, index: int) -> float:
        """The text score of a candidate before any boost; 0 without one."""
        hit = self.keyword_hit(index)
        if hit is None or not hit.has_body:
            return 0.0
        return text_score(hit, self.ranking.keyword_mapping)

    def location(self, index: int) -> tuple[object, ...]:
        """What tells equal scores apart under `TieRule.LOCATION`; the smaller comes first."""
        row = self.rows[index]
        chunk = row.chunk
        path = collation_key(chunk.path)
        if self.ranking.search_mode is SearchMode.KEYWORD_ONLY:
            hit = self.keyword_hit(index)
            path_score = hit.path_raw or 0.0 if hit is not None and not row.path_tier else 0.0
            return (-self.text_score(index), -path_score, path, chunk.start_line, chunk.id)
        return (-self.lexical_rank(index), path, chunk.start_line, chunk.end_line)


StageFunction = Callable[[StageState], Step | None]
"""Returns `None` when the stage is off."""
