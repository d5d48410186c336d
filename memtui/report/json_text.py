"""Values, searches and their results as JSON: every number and name as in the code."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Struct

from memtui.model import Chunk, Drop, FileState, Hit, Ranked, Stage
from memtui.ranking.strength import strength
from memtui.ranking.trace import best_passage, cited_lines, shares_of, stage_score
from memtui.report import words

SCHEMA_VERSION: Final = 1
"""Version of every JSON document; rises when a field changes its meaning or goes away."""
SNIPPET: Final = 300
"""Cells of a hit's snippet."""
FileStates: TypeAlias = Mapping[str, FileState]
"""By path, how the files of an agent's index agree with it."""
_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: enums by value, times as ISO 8601, NaN and infinity as null.

    Raises TypeError for a value that JSON has no form for.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name.rstrip("_"): plain(item) for name, item in fields if item is not UNSET}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"not a value for JSON: {type(value).__name__}")


def document_text(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """Return a document as JSON that no terminal acts on, with the version of its schema.

    Control and bidi characters are escaped.
    """
    whole = {"schema_version": SCHEMA_VERSION, **document}
    text = json.dumps(plain(whole), ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def search_entry(ranked: Ranked) -> dict[str, Any]:
    """Return a search: what was asked with which parameters, and how each leg answered."""
    ranking, pool = ranked.ranking, ranked.pool
    states: dict[str, Any] = plain(pool.states)
    return {
        "query": pool.query,
        "now": ranked.trace.now,
        "ranking": {**plain(ranking), "candidates": ranking.candidates},
        "search_mode": pool.search_mode,
        "legs": {leg: {"state": state.pop("status"), **state} for leg, state in states.items()},
    }


def hit_entry(ranked: Ranked, hit: Hit, states: FileStates | None = None) -> dict[str, Any]:
    """Return a result; with `states`, of an agent's index, also how its file is.

    `strength`, whatever the others score, is null where nothing was measured. `passage` is the best
    one of its chunk, and only there with context.
    `file_state` is null for a file that nobody could compare.
    """
    file_state = {} if states is None else {"file_state": states.get(hit.chunk.path)}
    numbers = {name: getattr(hit, name) for name in ("score", "effective", "legs", "stages")}
    return {
        "rank": hit.rank,
        **_place(hit.chunk),
        "strength": strength(ranked, hit),
        **numbers,
        "snippet": words.excerpt_of(hit, SNIPPET)[0],
        **_passage(hit),
        **file_state,
    }


def drop_entry(ranked: Ranked, drop: Drop) -> dict[str, Any]:
    names = ("stage", "reason", "score", "effective", "numbers", "legs", "stages")
    numbers = {name: getattr(drop, name) for name in names}
    return {**_place(drop.chunk), "strength": strength(ranked, drop), **numbers, **_passage(drop)}


def _passage(scored: Hit | Drop) -> dict[str, Any]:
    stage, characters = stage_score(scored, Stage.CONTEXT), best_passage(scored)
    if stage is None or characters is None:
        return {}
    (first, last), (start, end) = cited_lines(scored), characters
    about = {"start_line": first, "end_line": last, "text": scored.chunk.text[start:end]}
    return {"passage": {**about, "score": stage.after, "shares": shares_of(stage)}}


def _place(chunk: Chunk) -> dict[str, Any]:
    lines = {name: getattr(chunk, name) for name in ("path", "source", "start_line", "end_line")}
    return {"chunk_id": chunk.id, **lines, "citation": chunk.citation, "model": chunk.model}
