"""A transcript for the preview: line N of what is shown stands for line N of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from memtui.engine.own_reading import indexed_note
from memtui.engine.source import SourceText, read_source
from memtui.index.scan import KnownFile, known_file
from memtui.index.transcripts.discovery import SOURCE, file_at
from memtui.index.transcripts.reading import format_for
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.transcripts.streams import HashingStream, open_stream
from memtui.memory.paths import said
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import MAX_LINE_BYTES, RawLine, raw_lines, text_of
from memtui.model import SourceFile
from memtui.model.conversations import Turn, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words

if TYPE_CHECKING:
    from memtui.index.database import Connection

T = TypeVar("T")

_LONGEST = 2000
_SHORTEST = 80
_MASKED = 1 << 16
_BUDGET = 16 * 2**20
_MARKS = {TurnKind.RESET: "— a new conversation —", TurnKind.COMPACTION: "— compacted —"}


class IndexReader(Protocol):
    """Reads the index on the engine thread."""

    def __call__(self, read: Callable[[Connection], T], /) -> T | None:
        """Return what `read` returns; `None` when there is no index yet."""


def own_source(root: Path, scope: TranscriptScope, path: str, read: IndexReader) -> SourceText:
    """Read a note or transcript and say whether it is still what was indexed.

    Line N of a transcript stands for line N of its file, in one readable line. `read` reads the
    index, and returns `None` when there is none.
    """
    known = read(lambda connection: known_file(connection, path))
    is_transcript = known is not None and known.source == SOURCE
    if is_transcript or known is None:
        file = file_at(scope, path)
        if file is not None or is_transcript:
            return transcript_source(
                path,
                file,
                known,
                lambda: read(lambda connection: indexed_lines(connection, path)) or (),
                limit=scope.max_line_bytes,
            )
    text_hash, text = read(lambda connection: indexed_note(connection, path)) or (None, "")
    return read_source(root, path, text_hash, text)


def transcript_source(
    path: str,
    file: SourceFile | None,
    known: KnownFile | None,
    indexed: Callable[[], Sequence[str]],
    *,
    limit: int = MAX_LINE_BYTES,
) -> SourceText:
    """Read a transcript, in memory that does not depend on how long it or its lines are.

    `known` is its row in the index, `None` when it has none; what `indexed` gives is shown of one
    that is gone. Credentials are masked.
    """
    if file is None:
        return SourceText(path, list(indexed()), "gone", "", "transcript gone; indexed text")
    try:
        form = format_for(file, limit=limit)
        with open_stream(file, limit=limit) as stream:
            hashing = HashingStream(stream)
            lines, problem = _lines(hashing, form, limit)
    except OSError as error:
        return SourceText(path, list(indexed()), "gone", "", f"{said(error)}; indexed text")
    is_current = known is None or known.hash == hashing.digest()
    state, detail = ("current", "") if is_current else ("changed", "changed since it was indexed")
    return SourceText(path, lines or [""], state, hashing.digest(), problem or detail)


def _lines(
    hashing: HashingStream, form: TranscriptFormat | None, limit: int
) -> tuple[list[str], str]:
    """The readable lines, and why there are no more of them when the file cannot be read on."""
    lines: list[str] = []
    used = 0
    try:
        for raw in raw_lines(hashing, limit=limit):
            lines.append(_shown(raw, form)[: _LONGEST if used < _BUDGET else _SHORTEST])
            used += len(lines[-1])
    except OSError as error:
        return lines, said(error)
    return lines, ""


def indexed_lines(connection: Connection, path: str) -> tuple[str, ...]:
    """What the index holds of a transcript, each chunk at the line of the file it begins with."""
    rows = connection.execute(
        "SELECT c.start_line, c.text FROM chunks c JOIN files f ON f.id = c.file_id "
        "WHERE f.path = ? ORDER BY c.start_line, c.id",
        (path,),
    ).fetchall()
    lines: list[str] = []
    for start, text in rows:
        at = int(str(start))
        lines += [""] * (at - len(lines))
        shown = safe_line(redact_spoken(str(text)))
        lines[at - 1] = f"{lines[at - 1]} {shown}".strip()[:_LONGEST]
    return tuple(lines)


def _shown(raw: RawLine, form: TranscriptFormat | None) -> str:
    if raw.data is None:
        return f"· a line of {size_words(raw.length)}, too long to be read"
    text = text_of(raw)
    if not text.strip():
        return ""
    try:
        record = parse_record(text)
    except ValueError:
        return f"· malformed: {size_words(raw.length)} that are no record"
    if form is None or not isinstance(record, dict):
        return f"· {size_words(raw.length)} of another kind"
    turns = form.turns(record, raw.number)
    return "  ".join(_turn_words(turn) for turn in turns) or f"· record {size_words(raw.length)}"


def _turn_words(turn: Turn) -> str:
    size = size_words(turn.size)
    tool = f" {safe_line(redact(turn.tool))}" if turn.tool else ""
    match turn.kind:
        case TurnKind.MESSAGE:
            said_by = "User" if turn.role == "user" else "Assistant"
            # Masked first, with far more than is shown: no credential may lose its mask to the cut.
            shown = safe_line(redact(turn.text[:_MASKED]))
            return f"{said_by}: {' '.join(shown.split())[:_LONGEST]}"
        case TurnKind.THINKING:
            return f"· thinking {size}"
        case TurnKind.TOOL_CALL:
            return f"· tool call{tool} {size}"
        case TurnKind.TOOL_RESULT:
            failed = " failed" if turn.is_error else ""
            return f"· tool result{tool}{failed} {size}"
        case TurnKind.RESET | TurnKind.COMPACTION:
            return _MARKS[turn.kind]
        case TurnKind.OTHER | TurnKind.MALFORMED:
            return f"· record {size}"
