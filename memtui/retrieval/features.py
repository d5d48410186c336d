"""The features of the passages of a pool: what each and its neighbours have to do with a query."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from msgspec import Struct

from memtui.data import read_table
from memtui.memory.passages import PassageFlag, speaker
from memtui.model import FEATURES, Chunk, PassageFeatures
from memtui.retrieval.connection import Connection, register_fts5
from memtui.retrieval.keyword import Plan
from memtui.retrieval.passages import PassageRow, fetch_passages

K1: Final = 1.2
B: Final = 0.2
"""Of BM25 over passages: a short line is worth hardly more than a long one."""
PASSAGE_TOKENS: Final = 20
"""The length of a passage against which others are long or short; so many tokens of the index are
one passage where passages are counted."""

_SQL: Final = read_table("queries.toml")["context"]
_WORDS: Final = read_table("passages.toml")
_ASKS_WHEN: Final = re.compile("|".join(_WORDS["asks_when"]), re.IGNORECASE)
_MONTHS: Final = {
    name: number
    for number, names in enumerate(_WORDS["months_of_year"], start=1)
    for name in names.split()
}
_DATE_WORD: Final = re.compile(r"\d+|[^\W\d_]+")
_PLACES: Final = "memtui_places"


class Terms(Struct, frozen=True):
    """The words of a query in the chunks of a pool."""

    places: Mapping[int, Sequence[Sequence[int]]]
    """Of each chunk that holds any, by its row number: the token offsets of each word."""
    rarity: Sequence[float]
    """The inverse document frequency of each word, passages counted; at least 0."""


def fetch_terms(connection: Connection, plan: Plan, rowids: Sequence[int]) -> Terms:
    """Look up where the words of a plan stand in some chunks.

    idf = ln(1 + (n - m + 0.5) / (m + 0.5)), m the times that the word occurs in the index, for a
    passage seldom holds it twice, and n the tokens of the index by `PASSAGE_TOKENS`.
    """
    register_fts5(connection, _PLACES, _places)
    spans, end = {}, 0
    for operand in plan.operands:
        start, end = end, end + max(1, len(operand.phrases))
        spans[operand.match] = range(start, end)
    words = (*plan.phrases, *plan.kept)
    columns = [[at for one in word.operands for at in spans[one.match]] for word in words]
    rows = connection.execute(_SQL["places"], (plan.match, json.dumps(rowids))) if words else ()
    places: dict[int, list[list[int]]] = {}
    passages = 1.0
    for rowid, packed in rows:
        tokens, phrases = json.loads(packed)
        passages = max(1.0, tokens / PASSAGE_TOKENS)
        places[rowid] = [sorted(at for one in each for at in phrases[one]) for each in columns]
    occurring = [min(max(word.postings, word.cost), passages) for word in words]
    rarity = [math.log(1 + (passages - count + 0.5) / (count + 0.5)) for count in occurring]
    return Terms(places, rarity)


def _places(api: Any, *_: object) -> str:
    """List the token offsets of each phrase in the row at hand, after the tokens of the index."""
    phrases = [api.phrase_locations(place)[0] for place in range(api.phrase_count)]
    return json.dumps([api.column_total_size(0), phrases])


def measure_passages(
    connection: Connection,
    query: str,
    plan: Plan,
    chunks: Mapping[int, Chunk],
    cosines: Mapping[int, float],
) -> dict[str, tuple[PassageFeatures, ...]]:
    """Measure the features of every passage of some chunks, which are given by row number.

    `cosines` are those of the chunks with the query. Empty for an index that keeps no passages.
    Raises what SQLite raises.
    """
    rows_of = fetch_passages(connection, chunks)
    if not rows_of:
        return {}
    terms = fetch_terms(connection, plan, list(chunks))
    total = math.fsum(terms.rarity) or 1.0
    shares = [rarity / total for rarity in terms.rarity]
    asked = Asked.of(query)
    in_files: dict[str, list[int]] = {}
    for rowid, places in terms.places.items():
        counts = in_files.setdefault(chunks[rowid].path, [0] * len(shares))
        counts[:] = [count + len(each) for count, each in zip(counts, places, strict=True)]
    files = {path: _saturated(counts, shares, 2.0) for path, counts in in_files.items()}
    measured = {}
    for rowid, chunk in chunks.items():
        rows, places = rows_of.get(rowid, ()), terms.places.get(rowid, ())
        counted = _counted(rows, places)
        keyword = [
            _saturated(counts, shares, 1 - B + B * row.tokens / PASSAGE_TOKENS) if counts else 0.0
            for row, counts in zip(rows, counted, strict=True)
        ]
        file, cosine = files.get(chunk.path, 0.0), max(0.0, cosines.get(rowid, 0.0))
        measured[chunk.id] = tuple(
            PassageFeatures(
                row.start,
                row.end,
                (
                    keyword[at],
                    _cover(counted[at : at + 1], shares),
                    _cover(counted[max(0, at - 1) : at + 2], shares),
                    (_at(keyword, at - 2) + _at(keyword, at + 2)) / 2,
                    file,
                    cosine,
                    0.0,
                    *asked.dialogue(rows, at, _at(keyword, at - 1), chunk),
                ),
            )
            for at, row in enumerate(rows)
        )
    return measured


def _counted(rows: Sequence[PassageRow], places: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """Count each word in each passage; nothing for a passage without any."""
    counted: list[list[int]] = [[] for _ in rows]
    firsts = [row.first_token for row in rows]
    for word, offsets in enumerate(places):
        for offset in offsets:
            counts = counted[max(0, bisect_right(firsts, offset) - 1)]
            if not counts:
                counts += [0] * len(places)
            counts[word] += 1
    return [*counted]


def _saturated(counts: Sequence[int], shares: Sequence[float], length: float) -> float:
    """BM25 as a part of what it can be, 0 to 1; `length` is its factor of `K1`."""
    return sum(
        share * count / (count + K1 * length)
        for count, share in zip(counts, shares, strict=True)
        if count
    )


def _cover(counted: Sequence[Sequence[int]], shares: Sequence[float]) -> float:
    """Return the share of the rarity that the words in any of these passages have."""
    held = {word for counts in counted for word, count in enumerate(counts) if count}
    return sum(shares[word] for word in sorted(held))


def _at(values: Sequence[float], place: int) -> float:
    return values[place] if 0 <= place < len(values) else 0.0


class Asked(Struct, frozen=True):
    """The part of a query that only dialogue answers."""

    words: frozenset[str]
    asks_when: bool
    day: date | None = None
    """A day that the query names; its year and month where `is_month`."""
    is_month: bool = False

    @classmethod
    def of(cls, query: str) -> Asked:
        words = [word.lower() for word in _DATE_WORD.findall(query)]
        day, is_month = _date(words)
        return cls(frozenset(words), _ASKS_WHEN.search(query) is not None, day, is_month)

    def dialogue(
        self, rows: Sequence[PassageRow], at: int, before: float, chunk: Chunk
    ) -> tuple[float, ...]:
        """Measure the features that only a line of dialogue has; 0 for any other passage."""
        flags = rows[at].flags
        if PassageFlag.SPEAKER not in flags:
            return (0.0,) * 5
        is_reply = at > 0 and PassageFlag.QUESTION in rows[at - 1].flags
        name = speaker(chunk.text[rows[at].start : rows[at].end]).lower()
        dated = 0.0
        if self.day is not None and chunk.day is not None:
            same_month = (chunk.day.year, chunk.day.month) == (self.day.year, self.day.month)
            dated = 1.0 if chunk.day == self.day and not self.is_month else same_month * 0.5
        return (
            before if is_reply else 0.0,
            float(not self.words.isdisjoint(_DATE_WORD.findall(name))),
            float(self.asks_when and PassageFlag.TIME in flags),
            float(PassageFlag.QUESTION in flags),
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


assert len(FEATURES) == 12
