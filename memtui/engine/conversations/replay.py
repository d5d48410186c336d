"""What a search gave then against what it gives now: place by place, each exactly once."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from memtui.errors import MemtuiError
from memtui.index.reader import ChunkRange
from memtui.memory.paths import stored_path
from memtui.model import Drop, Hit, Ranked, Ranking, Reason
from memtui.model.conversations import MemoryCall, RecallChange, Recalled, RecallRow, Replayed

_CITED = re.compile(
    r"(?P<path>.+?)(?:#L|:)(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?\Z", re.DOTALL | re.IGNORECASE
)
_FILE: Final = "file://"
_COLLECTION: Final = "qmd://"


class PathNames:
    """Which file of the index a path means, as the tools of other programs write it.

    Understands paths relative to the root, absolute ones (of another machine, too), `~`, `\\`
    between folders, `file://`, `qmd://COLLECTION/PATH` and other cases of letters.
    """

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        """Every file of the index."""
        self._roots = tuple(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))
        self._known = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(_folded(path.rpartition("/")[2]), []).append(path)

    def stored(self, path: str) -> str | None:
        """The path in the index; `None` when the index holds no such file, or several could be."""
        for form in self._forms(path):
            if form in self._known:
                return form
        text = _slashed(path)
        if text.lower().startswith(_COLLECTION):
            within = text[len(_COLLECTION) :].partition("/")[2]
            return self._only(self._alike(within, ends_in=True))
        alike = [found for form in self._forms(path) for found in self._alike(form)]
        if not alike and not self._is_elsewhere(text):
            alike = self._below(text) or (
                self._alike(text, ends_in=True) if "/" not in text else []
            )
        return self._only(alike)

    def _forms(self, path: str) -> Iterator[str]:
        """How the index could store the path, the most literal first."""
        yield path
        text = _slashed(path)
        yield text
        if not text or "\0" in text:
            return
        expanded = os.path.expanduser(text)
        for root in self._roots:
            yield stored_path(os.path.normpath(os.path.join(root, expanded)), root)

    def _alike(self, path: str, *, ends_in: bool = False) -> list[str]:
        """The files of that path in any case of letters; with `ends_in` those that end in it."""
        wanted = _folded(path)
        found = self._by_name.get(wanted.rpartition("/")[2], [])
        if ends_in:
            return [one for one in found if f"/{_folded(one)}".endswith(f"/{wanted}")]
        return [one for one in found if _folded(one) == wanted]

    def _below(self, path: str) -> list[str]:
        """The files whose stored path is the end of the path: the longest."""
        wanted = _folded(path)
        found = [
            one
            for one in self._by_name.get(wanted.rpartition("/")[2], [])
            if wanted.endswith(f"/{_folded(one)}")
        ]
        longest = max((len(one) for one in found), default=0)
        return [one for one in found if len(one) == longest]

    def _is_elsewhere(self, path: str) -> bool:
        """Whether the path is that of another file of this machine."""
        try:
            expanded = os.path.expanduser(path)
            return os.path.isabs(expanded) and os.path.lexists(expanded)
        except ValueError:
            # A NUL in the name: no file can be called so.
            return False

    @staticmethod
    def _only(found: Iterable[str]) -> str | None:
        several = tuple(dict.fromkeys(found))
        return several[0] if len(several) == 1 else None


def as_stored(recalled: Recalled, names: PathNames) -> Recalled:
    """The place with the path that the index has for it, and the lines that its path cites.

    A path that the index does not hold loses its citation alone.
    """
    found = names.stored(recalled.path)
    if found is not None:
        return replace(recalled, path=found)
    cited = _CITED.fullmatch(recalled.path)
    if cited is None:
        return recalled
    path, start = cited["path"], int(cited["start"])
    end = max(start, int(cited["end"] or start))
    if recalled.start_line:
        start, end = recalled.start_line, recalled.end_line
    return Recalled(names.stored(path) or path, start, end, recalled.score, recalled.snippet)


@dataclass(frozen=True, slots=True)
class _Pair:
    likeness: float
    """The share of the lines of either place that both have."""
    then: int
    now: int

    @property
    def order(self) -> tuple[float, int, int, int]:
        """The best pair first: by likeness, then by how near the ranks are."""
        return -self.likeness, abs(self.then - self.now), self.now, self.then


def compare(then: Sequence[Recalled], now: Sequence[Hit]) -> list[RecallRow]:
    """Put two lists of places side by side: each place of either is in exactly one row.

    Two places are one when the path is the same and their lines overlap; a place without lines
    is any part of its file. Where several fit, the one with the most lines in common counts. Rows
    come by the rank now, then by the rank then. Paths must be as the index stores them.
    """
    partner = _matched(then, now)
    rows = []
    for at, hit in enumerate(now):
        before = partner.get(at)
        rows.append(_row_now(hit, at + 1, before, then))
    taken = set(partner.values())
    for at, recalled in enumerate(then):
        if at not in taken:
            change = RecallChange.LEFT
            rows.append(
                RecallRow(
                    path=recalled.path,
                    start_line=recalled.start_line,
                    end_line=recalled.end_line,
                    change=change,
                    rank_then=at + 1,
                    rank_now=None,
                    score_then=recalled.score,
                )
            )
    return rows


def _row_now(hit: Hit, rank: int, before: int | None, then: Sequence[Recalled]) -> RecallRow:
    chunk = hit.chunk
    change = RecallChange.ENTERED
    if before is not None:
        change = RecallChange.SAME if before + 1 == rank else RecallChange.MOVED
    return RecallRow(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        change=change,
        rank_then=None if before is None else before + 1,
        rank_now=rank,
        score_then=None if before is None else then[before].score,
        score_now=hit.score,
        chunk_id=chunk.id,
    )


def _matched(then: Sequence[Recalled], now: Sequence[Hit]) -> dict[int, int]:
    """For places of now the place of then that it is, by their positions."""
    at: dict[str, list[int]] = {}
    for position, hit in enumerate(now):
        at.setdefault(hit.chunk.path, []).append(position)
    pairs = [
        _Pair(likeness, before, after)
        for before, recalled in enumerate(then)
        for after in at.get(recalled.path, ())
        if (likeness := _likeness(recalled, now[after])) > 0
    ]
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for pair in sorted(pairs, key=lambda pair: pair.order):
        if pair.now not in partner and pair.then not in taken:
            partner[pair.now] = pair.then
            taken.add(pair.then)
    return partner


def _likeness(recalled: Recalled, hit: Hit) -> float:
    chunk = hit.chunk
    return overlap((recalled.start_line, recalled.end_line), (chunk.start_line, chunk.end_line))


def overlap(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The share of the lines of two places that both have, 0 to 1; small for unknown lines."""
    if first[0] <= 0:
        return 1e-9
    end = max(first)
    both = min(end, second[1]) - max(first[0], second[0]) + 1
    if both <= 0:
        return 0.0
    return both / (max(end, second[1]) - min(first[0], second[0]) + 1)


def _slashed(path: str) -> str:
    text = path.strip().replace("\\", "/")
    return unquote(text[len(_FILE) :]) if text.lower().startswith(_FILE) else text


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""
_LIMITS: Final = (
    "maxResults",
    "max_results",
    "limit",
    "k",
    "top_k",
    "topK",
    "n_results",
    "num_results",
    "count",
)
"""What memory tools call the number of results, OpenClaw's own first."""


class Asked(Protocol):
    """What asking again needs of an engine."""

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer."""

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Where the chunks of a file are."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the memory beside the list that a search gives."""

    names: PathNames
    root: Path
    transcripts: Callable[[], frozenset[str]] = frozenset
    """Tells the stored paths of the transcripts that are there, indexed or not."""


def results_wanted(call: MemoryCall) -> int | None:
    """How many results a call asked for, 1 to 200; `None` when it does not say."""
    for name in _LIMITS:
        value = call.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if 1 <= value < float("inf"):
            return min(int(value), MOST_RESULTS)
    return None


def without_limit(call: MemoryCall) -> MemoryCall:
    """The call as if it had not said how many results it wanted."""
    kept = {name: value for name, value in call.arguments.items() if name not in _LIMITS}
    return replace(call, arguments=kept)


def replay(engine: Asked, call: MemoryCall, ranking: Ranking, around: Surroundings) -> Replayed:
    """Search for the query of a call, and put what came back then beside what comes back now.

    As many results as the call asked for, else as the ranking gives. What an engine raises is the
    `problem` of the answer. Where it is not known what came back then, every row has entered.
    """
    if not call.query.strip():
        return Replayed(call, (), "the call has no query")
    wanted = results_wanted(call)
    asked = ranking if wanted is None else replace(ranking, k=wanted)
    try:
        ranked = engine.search(call.query, ranking=asked, typing=False)
        then = [as_stored(recalled, around.names) for recalled in call.returned or ()]
        rows = [
            _explained(engine, row, ranked, around) if row.change is RecallChange.LEFT else row
            for row in compare(then, ranked.hits)
        ]
    except MemtuiError as error:
        return Replayed(call, (), " ".join(str(error).split()))
    return Replayed(call, tuple(rows))


def _explained(engine: Asked, row: RecallRow, ranked: Ranked, around: Surroundings) -> RecallRow:
    """A row that left, with why, and with the chunk that is at its place now."""
    drop = _dropped(row, ranked.drops)
    if drop is not None:
        return replace(row, why=drop.reason, chunk_id=drop.chunk.id)
    shown = [hit.chunk for hit in ranked.hits if hit.chunk.path == row.path]
    ranges = engine.chunk_ranges(row.path)
    place = row.start_line, row.end_line
    here = [found for found in ranges if overlap(place, (found.start_line, found.end_line)) > 0]
    if here:
        best = max(here, key=lambda found: overlap(place, (found.start_line, found.end_line)))
        is_shown = any(chunk.id == best.chunk_id for chunk in shown)
        # Its lines are in the list within a chunk that was, and is, another place of it.
        why = Reason.DUPLICATE_TEXT if is_shown else Reason.OUTSIDE_CANDIDATES
        return replace(row, why=why, chunk_id=best.chunk_id)
    if ranges:
        return replace(row, why=Reason.NO_CHUNK_AT_LINE)
    if not row.path:
        # A result that names no file: nothing can be told about it.
        return row
    is_there = _exists(around.root, row.path) or row.path in around.transcripts()
    return replace(row, why=Reason.NOT_INDEXED if is_there else Reason.NO_FILE)


def _dropped(row: RecallRow, drops: Sequence[Drop]) -> Drop | None:
    """The candidate at the place that came furthest."""
    place = row.start_line, row.end_line
    for drop in drops:
        chunk = drop.chunk
        if chunk.path == row.path and overlap(place, (chunk.start_line, chunk.end_line)) > 0:
            return drop
    return None


def _exists(root: Path, path: str) -> bool:
    try:
        return bool(path) and (root / path).is_file()
    except (OSError, ValueError):
        # A name that no file can have, or a folder that may not be looked into.
        return False
