"""Whose transcript a file is: told by what it holds, else by where it is."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from memtui.index.transcripts.opening import open_lines
from memtui.memory.paths import written
from memtui.memory.transcripts.base import TranscriptFormat, parse_record
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.stream import RawLine, text_of
from memtui.model import SourceFile
from memtui.model.conversations import TranscriptKind

_LINES = 50
_BYTES = 1 << 20


def format_for(
    file: SourceFile, known: object = None, *, limit: int = _BYTES
) -> TranscriptFormat | None:
    """How the file is read; `known` is the kind that an earlier reading found.

    By its first records, else as its place suggests; `None` when neither tells. Raises `OSError`.
    """
    if isinstance(known, str) and known in set(TranscriptKind):
        return format_of(TranscriptKind(known))
    found = recognise(_first_records(file, limit))
    if found is None and file.kind:
        return format_of(TranscriptKind(file.kind))
    return found


def is_settled(next_line: int, next_byte: int) -> bool:
    """Whether what is before that line decides whose transcript it is, whatever follows."""
    return next_line > _LINES or next_byte > _BYTES


def _first_records(file: SourceFile, limit: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    with open_lines(file, limit=min(limit, _BYTES)) as lines:
        try:
            for raw in lines:
                record = _record(raw)
                if record is not None:
                    records.append(record)
                if raw.number >= _LINES or raw.offset >= _BYTES:
                    break
        except OSError:
            # A packed file that is cut: who reads all of it says so.
            return records
    return records


def _record(raw: RawLine) -> dict[str, Any] | None:
    try:
        record = parse_record(text_of(raw))
    except ValueError:
        # Counted when the file is read; here the next line is asked.
        return None
    return record if isinstance(record, dict) else None


def name_of(file: SourceFile) -> str:
    """The file's name, by which a release tells archives; of a session's events, as it would be."""
    return f"{file.session}.jsonl" if file.session else file.absolute.name


def agent_of(file: SourceFile) -> str:
    """The agent or project that the place of a transcript names; empty when it names none."""
    parts = PurePosixPath(file.path).parts
    if file.kind == TranscriptKind.OPENCLAW:
        # agents/<agent>/sessions/<file>, agents/<agent>/agent/<database>
        return written(file.absolute.parent.parent.name)
    return parts[1] if file.kind == TranscriptKind.CLAUDE_CODE and len(parts) > 2 else ""
