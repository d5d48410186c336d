"""What the index holds about a chunk, as labelled facts."""

from __future__ import annotations

from datetime import datetime

from textual.content import Content

from memtui.model import Chunk, Reason
from memtui.model.browsing import ChunkRecord
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.widgets.facts import Fact

LABEL = 12
"""Cells of the labels."""
_SHORT = 32


def record_facts(record: ChunkRecord, now: datetime, *, short: bool = False) -> list[Fact]:
    """Everything that is one line: identity, size, vector, date, importance, last change.

    `short` writes only the beginning of the id and the hash.
    """
    chunk = record.chunk
    digits = _SHORT if short else None
    return [
        ("id", _hexadecimal(chunk.id, digits)),
        ("text hash", _hexadecimal(chunk.hash, digits)),
        ("holds", Content(_size(record))),
        ("model", _model(record)),
        ("vector", _vector(record)),
        ("date", _date(chunk, now)),
        ("importance", _importance(record)),
        ("changed", _changed(record.changed, now)),
        ("source", Content(_source(record))),
    ]


def _hexadecimal(value: str, digits: int | None) -> Content:
    shown = safe_line(value[:digits])
    return Content(shown if digits is None or len(value) <= digits else f"{shown}…")


def _size(record: ChunkRecord) -> str:
    chunk = record.chunk
    lines = chunk.end_line - chunk.start_line + 1
    return ", ".join(
        (
            fmt.counted(record.tokens, "token"),
            fmt.counted(len(record.terms), "term"),
            fmt.counted(record.characters, "character"),
            fmt.counted(lines, "line"),
        )
    )


def _model(record: ChunkRecord) -> Content:
    if not record.chunk.model and not record.provider:
        return Content.styled("none", fmt.MUTED)
    provider = safe_line(record.provider)
    return Content.assemble(
        safe_line(record.chunk.model), (f"  by {provider}" if provider else "", fmt.MUTED)
    )


def _vector(record: ChunkRecord) -> Content:
    if record.vector_state is not Reason.OK:
        return Content.styled(f"none: {fmt.reason_words(record.vector_state)}", "$state-warn")
    parts = []
    if record.dimensions is not None:
        parts.append(f"{fmt.count(record.dimensions)} dimensions")
    if record.norm is not None:
        parts.append(f"norm {fmt.number(record.norm, 4)}")
    return Content(", ".join(parts) or fmt.NOTHING)


def _date(chunk: Chunk, now: datetime) -> Content:
    origin = fmt.reason_words(chunk.day_from) if chunk.day_from is not None else ""
    if chunk.day is None:
        return Content.styled(origin or "none of its own", fmt.MUTED)
    days = (now.date() - chunk.day).days
    age = f"{fmt.days(days)} ago" if days > 0 else fmt.days(days)
    told = f"  {age}, from the {origin}" if origin else f"  {age}"
    return Content.assemble(chunk.day.isoformat(), (told, fmt.MUTED))


def _importance(record: ChunkRecord) -> Content:
    if record.importance is None:
        return Content.styled("not set", fmt.MUTED)
    return Content(fmt.short_number(record.importance, 3))


def _changed(when: datetime | None, now: datetime) -> Content:
    if when is None:
        return Content.styled("not known", fmt.MUTED)
    local = when.astimezone(now.tzinfo)
    return Content.assemble(f"{local:%Y-%m-%d %H:%M}", (f"  {fmt.ago(when, now)}", fmt.MUTED))


def _source(record: ChunkRecord) -> str:
    keys = ", ".join(record.chunk.project_keys)
    project = f"  project {keys}" if keys else ""
    return safe_line(f"{record.chunk.source}  row {record.rowid}{project}")
