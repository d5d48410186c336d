"""Asking a search of the memory again, and what came back then beside what comes back now."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from memtui.errors import MemtuiError
from memtui.memory.paths import stored_path
from memtui.model import Hit, Ranked, Ranking, Reason
from memtui.model.conversations import MemoryCall, RecallChange, Recalled, RecallRow, Replayed

if TYPE_CHECKING:
    from memtui.engine.browse import Browse
    from memtui.engine.search import Search

MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""

_LIMITS: Final = (
    *("maxResults", "max_results", "limit", "k", "top_k", "topK"),
    *("n_results", "num_results", "count"),
)
"""What memory tools call the number of results, OpenClaw's own first."""
_CITED = re.compile(
    r"(?P<path>.+?)(?:#L|:)(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?\Z", re.DOTALL | re.IGNORECASE
)
_FILE: Final = "file://"
_COLLECTION: Final = "qmd://"


class Replay:
    """Asks the present index what was asked of it in a conversation."""

    def __init__(
        self, search: Search, browse: Browse, root: Path, transcripts: Callable[[], Collection[str]]
    ) -> None:
        """`transcripts` returns the stored paths of those that are there, indexed or not."""
        self._search = search
        self._browse = browse
        self._root = root
        self._transcripts = transcripts
        self._names = PathNames(root, ())

    def ask(self, call: MemoryCall, ranking: Ranking) -> Replayed:
        """Search for the query of a call; put what came back then beside what comes back now.

        As many results as the call asked for, else as the ranking gives. What the search raises is
        the `problem` of the answer. Where it is not known what came back then, every row has
        entered.
        """
        if not call.query.strip():
            return Replayed(call, (), "the call has no query")
        paths = tuple(self._browse.paths())
        if self._names.paths != paths:
            self._names = PathNames(self._root, paths)
        count = results_wanted(call)
        ranking = ranking if count is None else replace(ranking, k=count)
        # Looked for once for all the places of an answer, and only if one asks.
        transcripts = cache(self._transcripts)
        try:
            ranked = self._search.ask(call.query, ranking=ranking)
            then = [as_stored(recalled, self._names) for recalled in call.returned or ()]
            rows = [
                self._explained(row, ranked, transcripts)
                if row.change is RecallChange.LEFT
                else row
                for row in compare(then, ranked.hits)
            ]
        except MemtuiError as error:
            return Replayed(call, (), " ".join(str(error).split()))
        return Replayed(call, tuple(rows))

    def _explained(
        self, row: RecallRow, ranked: Ranked, transcripts: Callable[[], Collection[str]]
    ) -> RecallRow:
        """Return a row that left with why, and with the chunk that is at its place now."""
        for drop in ranked.drops:
            # The candidate at the place that came furthest.
            chunk = drop.chunk
            if chunk.path == row.path and _shared(row, chunk.start_line, chunk.end_line) > 0:
                return replace(row, why=drop.reason, chunk_id=chunk.id)
        ranges = self._browse.chunk_ranges(row.path)
        shared = {one.chunk_id: _shared(row, one.start_line, one.end_line) for one in ranges}
        best = max(shared, key=lambda chunk_id: shared[chunk_id], default="")
        if best and shared[best] > 0:
            # Its lines are in the list within a chunk that was, and is, another place of it.
            is_shown = any(hit.chunk.id == best for hit in ranked.hits)
            why = Reason.DUPLICATE_TEXT if is_shown else Reason.OUTSIDE_CANDIDATES
            return replace(row, why=why, chunk_id=best)
        if ranges:
            return replace(row, why=Reason.NO_CHUNK_AT_LINE)
        if not row.path:
            # A result that names no file: nothing can be told about it.
            return row
        is_there = _is_file(self._root / row.path) or row.path in transcripts()
        return replace(row, why=Reason.NOT_INDEXED if is_there else Reason.NO_FILE)


def results_wanted(call: MemoryCall) -> int | None:
    """Return how many results a call asked for, 1 to 200; `None` when it does not say."""
    for name in _LIMITS:
        value = call.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if 1 <= value < float("inf"):
            return min(int(value), MOST_RESULTS)
    return None


def without_limit(call: MemoryCall) -> MemoryCall:
    """Return the call as if it had not said how many results it wanted."""
    others = {name: value for name, value in call.arguments.items() if name not in _LIMITS}
    return replace(call, arguments=others)


def _shared(place: RecallRow | Recalled, start_line: int, end_line: int) -> float:
    return overlap((place.start_line, place.end_line), (start_line, end_line))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A name that no file can have, or a folder that may not be looked into.
        return False


# --- two lists of places ------------------------------------------------------------------


def as_stored(recalled: Recalled, names: PathNames) -> Recalled:
    """Return the place with the path that the index has for it, and the lines that it cites.

    A path that the index does not hold loses its citation alone.
    """
    known = names.stored(recalled.path)
    if known is not None:
        return replace(recalled, path=known)
    cited = _CITED.fullmatch(recalled.path)
    if cited is None:
        return recalled
    path, start = cited["path"], int(cited["start"])
    end = max(start, int(cited["end"] or start))
    if recalled.start_line:
        start, end = recalled.start_line, recalled.end_line
    return Recalled(names.stored(path) or path, start, end, recalled.score, recalled.snippet)


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
        change = RecallChange.ENTERED
        if before is not None:
            change = RecallChange.SAME if before == at else RecallChange.MOVED
        rows.append(
            RecallRow(
                path=hit.chunk.path,
                start_line=hit.chunk.start_line,
                end_line=hit.chunk.end_line,
                change=change,
                rank_then=None if before is None else before + 1,
                rank_now=at + 1,
                score_then=None if before is None else then[before].score,
                score_now=hit.score,
                chunk_id=hit.chunk.id,
            )
        )
    matched = set(partner.values())
    rows += [
        RecallRow(
            path=recalled.path,
            start_line=recalled.start_line,
            end_line=recalled.end_line,
            change=RecallChange.LEFT,
            rank_then=at + 1,
            rank_now=None,
            score_then=recalled.score,
        )
        for at, recalled in enumerate(then)
        if at not in matched
    ]
    return rows


def _matched(then: Sequence[Recalled], now: Sequence[Hit]) -> dict[int, int]:
    """Return, by position, for places of now the place of then that each is."""
    positions: dict[str, list[int]] = {}
    for position, hit in enumerate(now):
        positions.setdefault(hit.chunk.path, []).append(position)
    pairs = [
        # The best pair first: by the lines in common, then by how near the ranks are.
        (-shared, abs(before - after), after, before)
        for before, recalled in enumerate(then)
        for after in positions.get(recalled.path, ())
        if (shared := _shared(recalled, now[after].chunk.start_line, now[after].chunk.end_line)) > 0
    ]
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, after, before in sorted(pairs):
        if after not in partner and before not in taken:
            partner[after] = before
            taken.add(before)
    return partner


def overlap(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the share of the lines of two places that both have; small for unknown lines."""
    if first[0] <= 0:
        return 1e-9
    end = max(first)
    both = min(end, second[1]) - max(first[0], second[0]) + 1
    if both <= 0:
        return 0.0
    return both / (max(end, second[1]) - min(first[0], second[0]) + 1)


# --- paths as other programs write them ---------------------------------------------------


class PathNames:
    """Finds the file of the index that a path means, as the tools of other programs write it.

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
        """Return the path in the index; `None` when it holds no such file, or several could be."""
        for form in self._forms(path):
            if form in self._known:
                return form
        text = _slashed(path)
        if text.lower().startswith(_COLLECTION):
            within = text[len(_COLLECTION) :].partition("/")[2]
            return _only(self._alike(within, ends_in=True))
        alike = [found for form in self._forms(path) for found in self._alike(form)]
        if not alike and not self._is_elsewhere(text):
            alike = self._below(text) or (
                self._alike(text, ends_in=True) if "/" not in text else []
            )
        return _only(alike)

    def _forms(self, path: str) -> Iterator[str]:
        """Iterate over how the index could store the path, the most literal first."""
        yield path
        text = _slashed(path)
        yield text
        if not text or "\0" in text:
            return
        expanded = os.path.expanduser(text)
        for root in self._roots:
            yield stored_path(os.path.normpath(os.path.join(root, expanded)), root)

    def _alike(self, path: str, *, ends_in: bool = False) -> list[str]:
        """Return the files of that path in any case; with `ends_in` those that end in it."""
        folded = _folded(path)
        files = self._by_name.get(folded.rpartition("/")[2], [])
        if ends_in:
            return [one for one in files if f"/{_folded(one)}".endswith(f"/{folded}")]
        return [one for one in files if _folded(one) == folded]

    def _below(self, path: str) -> list[str]:
        """Return the files whose stored path is the end of the path: the longest."""
        folded = _folded(path)
        files = [
            one
            for one in self._by_name.get(folded.rpartition("/")[2], [])
            if folded.endswith(f"/{_folded(one)}")
        ]
        longest = max(map(len, files), default=0)
        return [one for one in files if len(one) == longest]

    def _is_elsewhere(self, path: str) -> bool:
        """Return whether the path is that of another file of this machine."""
        try:
            expanded = os.path.expanduser(path)
            return os.path.isabs(expanded) and os.path.lexists(expanded)
        except ValueError:
            # A NUL in the name: no file can be called so.
            return False


def _only(paths: Iterable[str]) -> str | None:
    several = tuple(dict.fromkeys(paths))
    return several[0] if len(several) == 1 else None


def _slashed(path: str) -> str:
    text = path.strip().replace("\\", "/")
    return unquote(text[len(_FILE) :]) if text.lower().startswith(_FILE) else text


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
