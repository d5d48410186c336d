"""Asking a search of the memory again, and what came back then beside what comes back now."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from memtui.engine.places import spellings
from memtui.model import Chunk, Hit
from memtui.model.browsing import ChunkRange
from memtui.model.conversations import MemoryCall, RecallChange, Recalled, RecallRow

MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""

_LIMITS: Final = (
    *("maxResults", "max_results", "limit", "k", "top_k", "topK"),
    *("n_results", "num_results", "count"),
)
"""Names of the number of results in memory tools, OpenClaw's own first."""
_CITED = re.compile(
    r"(?P<path>.+?)(?:#L|:)(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?\Z", re.DOTALL | re.IGNORECASE
)
_FILE: Final = "file://"
_COLLECTION: Final = "qmd://"


def results_wanted(call: MemoryCall) -> int | None:
    """Return how many results a call asked for, 1 to 200; `None` when it does not say."""
    values = (call.arguments.get(name) for name in _LIMITS)
    numbers = (one for one in values if isinstance(one, int | float) and not isinstance(one, bool))
    return next((min(int(one), MOST_RESULTS) for one in numbers if 1 <= one < math.inf), None)


def as_stored(recalled: Recalled, names: PathNames) -> Recalled:
    """Return the place with the path that the index has for it, and the lines that it cites.

    A path that the index does not hold loses its citation alone.
    """
    stored = names.stored(recalled.path)
    if stored is not None:
        return replace(recalled, path=stored)
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
    is any part of its file. Where several fit, the one with the most lines in common counts, then
    the one with the nearest rank. Rows come by the rank now, then by the rank then. Paths must be
    as the index stores them.
    """
    positions: dict[str, list[int]] = {}
    for position, hit in enumerate(now):
        positions.setdefault(hit.chunk.path, []).append(position)
    pairs = [
        (-shared, abs(before - after), after, before)
        for before, recalled in enumerate(then)
        for after in positions.get(recalled.path, ())
        if (shared := overlap(recalled, now[after].chunk)) > 0
    ]
    partner: dict[int, int] = {}
    for _, _, after, before in sorted(pairs):
        if after not in partner and before not in partner.values():
            partner[after] = before
    rows = []
    for at, hit in enumerate(now):
        chunk, match = hit.chunk, partner.get(at)
        change = RecallChange.SAME if match == at else RecallChange.MOVED
        row = RecallRow(
            path=chunk.path,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            change=RecallChange.ENTERED if match is None else change,
            rank_then=None if match is None else match + 1,
            rank_now=at + 1,
            score_then=None if match is None else then[match].score,
            score_now=hit.score,
            chunk_id=chunk.id,
        )
        rows.append(row)
    for at, recalled in enumerate(then):
        if at not in partner.values():
            place = recalled.path, recalled.start_line, recalled.end_line
            rows.append(RecallRow(*place, RecallChange.LEFT, at + 1, None, recalled.score))
    return rows


def overlap(place: Recalled | RecallRow, chunk: Chunk | ChunkRange) -> float:
    """Return the share of the lines of two places that both have; small for unknown lines."""
    start, end = place.start_line, max(place.start_line, place.end_line)
    if start <= 0:
        return 1e-9
    both = min(end, chunk.end_line) - max(start, chunk.start_line) + 1
    return max(0, both) / (max(end, chunk.end_line) - min(start, chunk.start_line) + 1)


class PathNames:
    """Finds the file of the index that a path means, as the tools of other programs write it.

    Understands paths relative to the root, absolute ones (of another machine, too), `~`, `\\`
    between folders, `file://`, `qmd://COLLECTION/PATH` and other cases of letters.
    """

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        """Every file of the index."""
        self._root = root
        self._known = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        """By the folded name of the file."""
        for path in paths:
            self._by_name.setdefault(_folded(path.rpartition("/")[2]), []).append(path)

    def stored(self, path: str) -> str | None:
        """Return the path in the index; `None` when it holds no such file, or several could be."""
        text = path.strip().replace("\\", "/")
        if text.lower().startswith(_FILE):
            text = unquote(text[len(_FILE) :])
        forms = dict.fromkeys((path, text, *spellings(text, self._root)))
        for form in forms:
            if form in self._known:
                return form
        if text.lower().startswith(_COLLECTION):
            within = f"/{_folded(text[len(_COLLECTION) :].partition('/')[2])}"
            alike = [one for one in self._named(within) if f"/{_folded(one)}".endswith(within)]
        else:
            folded = {_folded(form) for form in forms}
            alike = [one for form in forms for one in self._named(form) if _folded(one) in folded]
            is_settled = bool(alike)
            # A file elsewhere is none of the index; with a NUL in its name there can be no file.
            with suppress(ValueError):
                expanded = os.path.expanduser(text)
                is_settled = is_settled or (os.path.isabs(expanded) and os.path.lexists(expanded))
            if not is_settled:
                end = f"/{_folded(text)}"
                alike = [one for one in self._named(text) if end.endswith(f"/{_folded(one)}")]
                # Of those whose stored path is its end, the longest.
                longest = max(map(len, alike), default=0)
                alike = [one for one in alike if len(one) == longest]
                if not alike and "/" not in text:
                    alike = self._named(text)
        several = list(dict.fromkeys(alike))
        return several[0] if len(several) == 1 else None

    def _named(self, path: str) -> list[str]:
        """Return the files of the index with the name that a path ends in, in any case."""
        return self._by_name.get(_folded(path.rpartition("/")[2]), [])


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
