"""Searches, explanations, chunks and findings as JSON: every number and name as in the code."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from memtui.memory.care.duplicates import words_of
from memtui.memory.care.masking import masked
from memtui.model import (
    Chunk,
    Drop,
    Hit,
    Ranked,
    Ranking,
    citation,
)
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    ChunkTerm,
    Neighbour,
    Neighbours,
)
from memtui.model.inquiry import Passages
from memtui.model.status import FileState
from memtui.report import words
from memtui.report.explanation import Explained, flags_of

if TYPE_CHECKING:
    from memtui.engine.what_if import LeastChanges
    from memtui.ranking.trace import Explanation


SCHEMA_VERSION: Final = 1
"""Version of every JSON document; rises when a field changes its meaning or goes away."""

_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: Any) -> Any:
    """A value as JSON holds it: enums by value, times as ISO 8601, NaN and infinity as null."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name.rstrip("_"): plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"not a value for JSON: {type(value).__name__}")


def json_text(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A document as JSON that no terminal acts on: control and bidi characters are escaped."""
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def document_text(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A whole document as JSON, with the version of its schema."""
    return json_text({"schema_version": SCHEMA_VERSION, **document}, indent=indent)


FileStates = Mapping[str, FileState]
"""By path, how the files of an agent's index agree with it."""


def legs_entry(ranked: Ranked) -> dict[str, Any]:
    """How each leg answered, and what it searched for."""
    states: dict[str, Any] = plain(ranked.pool.states)
    return {leg: {"state": state.pop("status"), **state} for leg, state in states.items()}


def ranking_entry(ranked: Ranked) -> dict[str, Any]:
    """Every parameter of the ranking, and how many candidates of each leg that makes."""
    entry: dict[str, Any] = plain(ranked.ranking)
    return {**entry, "candidates": ranked.ranking.candidates}


def hit_entry(hit: Hit, snippet: str, states: FileStates | None = None) -> dict[str, Any]:
    """A result; with `states`, of an agent's index, also how its file is.

    `file_state` is null for a file that nobody could compare.
    """
    file_state = {} if states is None else {"file_state": states.get(hit.chunk.path)}
    return {
        "rank": hit.rank,
        **_chunk(hit.chunk),
        "score": hit.score,
        "effective": hit.effective,
        "legs": plain(hit.legs),
        "stages": plain(hit.stages),
        "snippet": snippet,
        **file_state,
    }


def drop_entry(drop: Drop) -> dict[str, Any]:
    """A candidate that is not in the list."""
    return {
        **_chunk(drop.chunk),
        "stage": drop.stage,
        "reason": drop.reason,
        "score": drop.score,
        "numbers": drop.numbers,
        "legs": plain(drop.legs),
        "stages": plain(drop.stages),
    }


def _chunk(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "path": chunk.path,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "citation": citation(chunk.path, chunk.start_line, chunk.end_line),
        "model": chunk.model,
    }


SNIPPET = 300
"""Cells of a hit's snippet."""


def search_entry(ranked: Ranked, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The search that is explained, and nothing of any chunk yet."""
    return {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "legs": legs_entry(ranked),
        "shown": False,
        "place": None,
        "trace": [],
        "first_failure": None,
        "chunk_id": None,
        "citation": None,
        "hit": None,
        "drop": None,
        "terms": None,
        "ranks": [],
        "leg_ranks": {},
        "leg_ranks_of_all": {},
        "without": {},
        "similar": None,
        "least_changes": [],
        "without_change": [],
        "needs": None,
        "word_changes": None,
        "passages": None,
        "warnings": warnings,
    }


def explanation_document(
    explained: Explained, *, states: FileStates | None = None, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The document of one place; `states` as for `hit_entry`.

    Every key is always there: null or empty for what nobody looked for or a place has not.
    """
    inquiry = explained.inquiry
    assert inquiry is not None, "only what the engine was asked about is written"
    document: dict[str, Any] = {
        **search_entry(explained.ranked, warnings),
        "shown": inquiry.shown,
        "place": inquiry.place,
        "citation": inquiry.citation,
        "trace": inquiry.steps,
        "first_failure": inquiry.first_failure,
        "word_changes": explained.words,
        "passages": None if explained.passages is None else _passages(explained.passages),
    }
    if inquiry.chunk is None:
        return document
    document |= {
        "chunk_id": inquiry.chunk.id,
        "terms": inquiry.terms,
        "leg_ranks_of_all": inquiry.leg_places,
        **_least_entry(explained.least, explained.ranking),
    }
    if explained.explanation is not None:
        document |= _ranked_entry(explained.explanation, states)
    return document


def _ranked_entry(told: Explanation, states: FileStates | None) -> dict[str, Any]:
    """What the ranking says of a chunk of its pool."""
    scored = told.scored
    if isinstance(scored, Hit):
        entry = {"hit": hit_entry(scored, excerpt_of(scored, SNIPPET).text, states)}
    else:
        entry = {"drop": drop_entry(scored)}
    return {
        **entry,
        "ranks": [{"stage": stage, "rank": rank} for stage, rank in told.ranks],
        "leg_ranks": told.leg_ranks,
        "without": told.without,
        "similar": told.similar,
    }


def _least_entry(least: LeastChanges | None, ranking: Ranking) -> dict[str, Any]:
    """The changes by their fields, each with the options that make it."""
    found = () if least is None else least.found.changes
    return {
        "least_changes": [{**plain(one), "flags": flags_of(ranking, one)} for one in found],
        "without_change": () if least is None else least.found.without,
        "needs": None if least is None else least.needs,
    }


def _passages(passages: Passages) -> dict[str, Any]:
    """The passages with their text; `start` and `end` count characters of the whole `text`."""
    return {
        **plain(passages),
        "found": [
            {**plain(one), "text": passages.text[one.start : one.end]} for one in passages.found
        ],
    }


HIDDEN = "***"
_PLACE = ("id", "path", "source", "start_line", "end_line")


def masked_record(record: ChunkRecord) -> ChunkRecord:
    """The same without credentials: in the text, and in the terms that they were cut into."""
    text = masked(record.chunk.text)
    if text == record.chunk.text and record.chunk.snippet is None:
        return record
    lost = set(words_of(record.chunk.text)) - set(words_of(text))
    terms = tuple(
        replace(term, term=HIDDEN) if _is_of(term, lost) else term for term in record.terms
    )
    return replace(record, chunk=replace(record.chunk, text=text, snippet=None), terms=terms)


def record_entry(record: ChunkRecord) -> dict[str, Any]:
    """A chunk with the fields of `ChunkRecord`."""
    entry: dict[str, Any] = plain(masked_record(record))
    return entry


def neighbours_entry(found: Neighbours) -> dict[str, Any]:
    """The chunks like one, each with its place and its text."""
    return {
        "by_vector": [_neighbour(one) for one in found.by_vector],
        "vector_state": found.vector_state,
        "by_words": [_neighbour(one) for one in found.by_words],
        "duplicates": [_neighbour(one) for one in found.duplicates],
    }


def queries_entry(answered: Sequence[AnsweredQuery]) -> list[dict[str, Any]]:
    """The queries that a chunk answers."""
    return [{**plain(one), "query": masked(one.query)} for one in answered]


def care_entry(report: CareReport) -> dict[str, Any]:
    """A report with the fields of `CareReport`, and how many findings each rule has."""
    entry: dict[str, Any] = plain(report)
    counts: dict[str, int] = {}
    for finding in report.findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    return {**entry, "counts": counts}


def _neighbour(neighbour: Neighbour) -> dict[str, Any]:
    return {
        **{name: getattr(neighbour.chunk, name) for name in _PLACE},
        "score": neighbour.score,
        "shared": neighbour.shared,
        "text": masked(neighbour.chunk.text),
    }


def _is_of(term: ChunkTerm, words: set[str]) -> bool:
    # A term may be the stem of a word.
    return any(word.startswith(term.term) for word in words)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a chunk that is shown, and where query terms are in it."""

    text: str
    spans: tuple[tuple[int, int], ...] = field(default=())


def excerpt_of(hit: Hit, width: int) -> Excerpt:
    """The part of a hit's text around its matched terms, at most `width` cells."""
    from memtui.retrieval.marks import snippet

    terms = tuple(dict.fromkeys(term for part in hit.legs.values() for term in part.terms))
    cut = snippet(hit.chunk.text, terms, width)
    fitting = words.fitting(cut.text, width)
    if fitting < len(cut.text):
        fitting = words.fitting(cut.text, width - 1)
        spans = tuple(span for span in cut.spans if span[1] <= fitting)
        return Excerpt(cut.text[:fitting] + "…", spans)
    return Excerpt(cut.text, tuple(cut.spans))
