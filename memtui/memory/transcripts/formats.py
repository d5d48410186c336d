"""Every program whose transcripts can be read, and how a transcript is told to be one's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from memtui.memory.transcripts.base import (
    LineReader,
    Record,
    RecordFacts,
    TranscriptFormat,
    TranscriptLine,
)
from memtui.memory.transcripts.claude_code import ClaudeCode
from memtui.memory.transcripts.codex import Codex
from memtui.memory.transcripts.openclaw_format import OpenClaw
from memtui.model.conversations import TranscriptKind

__all__ = [
    "FORMATS",
    "LineReader",
    "Record",
    "RecordFacts",
    "TranscriptFormat",
    "TranscriptLine",
    "format_of",
    "recognise",
]

FORMATS: Final[tuple[TranscriptFormat, ...]] = (OpenClaw(), ClaudeCode(), Codex())
"""In the order in which they are tried."""

_BY_KIND: Final[Mapping[TranscriptKind, TranscriptFormat]] = {one.kind: one for one in FORMATS}


def format_of(kind: TranscriptKind) -> TranscriptFormat:
    """The format of a program's transcripts."""
    return _BY_KIND[kind]


def recognise(records: Iterable[Record]) -> TranscriptFormat | None:
    """Tell whose transcript it is by some of its records: whose most of them are.

    The first record decides between equals; `None` when no program would have written any.
    """
    counts: dict[TranscriptKind, int] = {}
    for record in records:
        kind = next((one.kind for one in FORMATS if one.recognises(record)), None)
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + 1
    return format_of(max(counts, key=lambda kind: counts[kind])) if counts else None
