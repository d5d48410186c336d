"""What is known of one chunk, and what needs care, as JSON: the same names as in code, masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memtui.memory.care.duplicates import words_of
from memtui.memory.care.masking import masked
from memtui.model import Chunk
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    ChunkTerm,
    Neighbour,
    Neighbours,
)
from memtui.report.jsonable import plain

HIDDEN = "***"


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
        **_place(neighbour.chunk),
        "score": neighbour.score,
        "shared": neighbour.shared,
        "text": masked(neighbour.chunk.text),
    }


def _place(chunk: Chunk) -> dict[str, Any]:
    return {
        "id": chunk.id,
        "path": chunk.path,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
    }


def _is_of(term: ChunkTerm, words: set[str]) -> bool:
    # A term may be the stem of a word.
    return any(word.startswith(term.term) for word in words)
