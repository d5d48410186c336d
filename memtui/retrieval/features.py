"""The features of the passages of a pool: what each and its neighbours have to do with a query."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Final

from msgspec import Struct

from memtui.data import read_table
from memtui.memory.passages import PassageFlag, passages, speaker
from memtui.model import Chunk, PassageFeatures
from memtui.retrieval.keyword import KeywordLeg, Plan
from memtui.retrieval.passages import PassageRow
from memtui.retrieval.pool import RowHit

K1: Final = 1.2
B: Final = 0.2
"""Of BM25 over passages: a short line is worth hardly more than a long one."""
PASSAGE_TOKENS: Final = 20
"""The length of a passage against which others are long or short; so many tokens of the index are
one passage where passages are counted."""

_WORDS: Final = read_table("passages.toml")
_ASKS_WHEN: Final = re.compile("|".join(_WORDS["asks_when"]), re.IGNORECASE)
_MONTHS: Final = {
    name: number
    for number, names in enumerate(_WORDS["months_of_year"], start=1)
    for name in names.split()
}
_DATE_WORD: Final = re.compile(r"\d+|[^\W\d_]+")
# A number is compared a few times quicker than a member of an enumeration.
_QUESTION, _SPEAKER, _TIME = (int(flag) for flag in PassageFlag)
_NO_DIALOGUE: Final = (0.0,) * 5

Similarity = tuple[float, float]
"""The MaxSim of a passage, and of the passage with those around it."""


def rarity(occurrences: int, tokens: int) -> float:
    """Return the inverse document frequency of a term, passages counted; at least 0.

    idf = ln(1 + (n - m + 0.5) / (m + 0.5)), m the times that the term occurs in the index, for a
    passage seldom holds it twice, and n the tokens of the index by `PASSAGE_TOKENS`.
    """
    n = max(1.0, tokens / PASSAGE_TOKENS)
    m = min(occurrences, n)
    return math.log(1 + (n - m + 0.5) / (m + 0.5))


class Terms(Struct, frozen=True):
    """The terms of a query in the chunks of a pool."""

    places: Mapping[int, Sequence[Sequence[int]]]
    """Of each chunk that holds any, by its row number: the token offsets of each term."""
    shares: Sequence[float]
    """The rarity of each term by the sum of all."""

    def cover(self, terms: Collection[int]) -> float:
        """Return the share of the rarity that some terms have, 0 to 1."""
        return sum(self.shares[term] for term in sorted(terms))

    def match(self, counts: Iterable[tuple[int, int]], length: float) -> float:
        """Return BM25 as a part of what it can be, 0 to 1; `length` is its factor of `K1`."""
        return sum(self.shares[term] * count / (count + K1 * length) for term, count in counts)


def locate_terms(
    leg: KeywordLeg, plan: Plan, rowids: Collection[int], hits: Iterable[RowHit]
) -> Terms:
    """Find the terms of a plan in some chunks; `hits` are those that the leg found by it."""
    places = {hit.rowid: hit.places for hit in hits if hit.rowid in rowids}
    places |= leg.find_places(plan, [row for row in rowids if row not in places])
    rarities = [rarity(max(term.postings, term.cost), leg.tokens) for term in plan.looked_up]
    total = math.fsum(rarities) or 1.0
    return Terms(places, [one / total for one in rarities])


def measure_passages(
    query: str,
    terms: Terms,
    chunks: Mapping[int, Chunk],
    rows_of: Mapping[int, Sequence[PassageRow]],
    similar: Mapping[int, Sequence[Similarity]],
) -> dict[str, tuple[PassageFeatures, ...]]:
    """Measure the features of every passage of some chunks, which are given by row number.

    `rows_of` are the passages of each, `similar` the MaxSim of each passage where it is known.
    """
    cover = cache(terms.cover)
    dialogue = DialogueQuery.of(query)
    measured = {}
    for rowid, chunk in chunks.items():
        rows = rows_of.get(rowid, ())
        if chunk.snippet is not None:
            # Masked: its characters are not those that the index counted.
            shown = zip(rows, passages(chunk.text), strict=False)
            rows = [row._replace(start=one.start, end=one.end) for row, one in shown]
        counted = _counted(rows, terms.places.get(rowid, ()))
        keyword = [
            terms.match(counts.items(), 1 - B + B * row.tokens / PASSAGE_TOKENS) if counts else 0
            for row, counts in zip(rows, counted, strict=True)
        ]
        term_sets = [frozenset[int](), *map(frozenset, counted), frozenset[int]()]
        around = [0.0, 0.0, *keyword, 0.0, 0.0]
        similarities = similar.get(rowid) or [(0.0, 0.0)] * len(rows)
        measured_here = []
        for at, row in enumerate(rows):
            before = rows[at - 1] if at else None
            values = (
                keyword[at],
                cover(term_sets[at + 1]),
                cover(term_sets[at] | term_sets[at + 1] | term_sets[at + 2]),
                (around[at] + around[at + 4]) / 2,
                *similarities[at],
                *dialogue.measure(row, before, around[at + 1], chunk),
            )
            measured_here.append(PassageFeatures(row.start, row.end, values))
        measured[chunk.id] = tuple(measured_here)
    return measured


def _counted(rows: Sequence[PassageRow], places: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """Count the terms in each passage, by their number."""
    counted: list[dict[int, int]] = [{} for _ in rows]
    firsts = [row.first_token for row in rows]
    for term, offsets in enumerate(places):
        for offset in offsets:
            counts = counted[bisect_right(firsts, offset) - 1]
            counts[term] = counts.get(term, 0) + 1
    return counted


class DialogueQuery(Struct, frozen=True):
    """The part of a query that only dialogue answers."""

    words: frozenset[str]
    asks_when: bool
    day: date | None = None
    """A day that the query names; its year and month where `is_month`."""
    is_month: bool = False

    @classmethod
    def of(cls, query: str) -> DialogueQuery:
        words = [word.lower() for word in _DATE_WORD.findall(query)]
        day, is_month = _date(words)
        return cls(frozenset(words), _ASKS_WHEN.search(query) is not None, day, is_month)

    def measure(
        self, row: PassageRow, before: PassageRow | None, keyword_before: float, chunk: Chunk
    ) -> tuple[float, ...]:
        """Measure the features that only a line of dialogue has; 0 for any other passage."""
        if not row.flags & _SPEAKER:
            return _NO_DIALOGUE
        is_reply = before is not None and before.flags & _QUESTION
        name = speaker(chunk.text[row.start : row.end]).lower()
        dated = 0.0
        if self.day is not None and chunk.day is not None:
            same_month = (chunk.day.year, chunk.day.month) == (self.day.year, self.day.month)
            dated = 1.0 if chunk.day == self.day and not self.is_month else same_month * 0.5
        return (
            keyword_before if is_reply else 0.0,
            float(not self.words.isdisjoint(_DATE_WORD.findall(name))),
            float(self.asks_when and row.flags & _TIME > 0),
            float(row.flags & _QUESTION > 0),
            dated,
        )


def _date(words: Sequence[str]) -> tuple[date | None, bool]:
    """Find a day, or else a month, among words: `2023-05-07`, `7 May 2023`, `May 2023`."""
    numbers = [int(word) for word in words if word.isdecimal() and len(word) <= 4]
    year = next((number for number in numbers if number >= 1000), 0)
    named = next((_MONTHS[word] for word in words if word in _MONTHS), 0)
    small = [number for number in numbers if number < 1000]
    if not named and len(small) > 1:
        named, *small = small
    if not year or not 1 <= named <= 12:
        return None, False
    try:
        return (date(year, named, small[0]), False) if small else (date(year, named, 1), True)
    except ValueError:
        return date(year, named, 1), True
