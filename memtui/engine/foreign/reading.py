"""What screens read from another program's index besides search: notes, chunk ranges, recency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path

from memtui.engine.source import RecentFile, SourceText, read_source
from memtui.index.foreign.opening import Opened
from memtui.index.reader import ChunkRange
from memtui.memory.documents import split_lines
from memtui.retrieval.pool import CONVERSATIONS
from memtui.text.redact import redact_spoken

_NO_WORKSPACE = "the workspace is not known; indexed text"
_NO_FILE_NAME = "no file can have this name; indexed text"
_MAX_BLANKS = 10_000
_MAX_LINE = 2**31 - 1


def indexed_text(opened: Opened, path: str) -> tuple[str | None, str]:
    """The hash of a file and its text as the chunks hold it; (`None`, "") when not indexed.

    Of a path in several sources, the one that `_source_of` prefers; what is said in a conversation
    is as it may be shown, credentials masked.
    """
    layout = opened.layout
    source = _source_of(opened, path)
    same_source = " AND source = ?" if layout.files_have_source else ""
    stored = opened.connection.execute(
        f"SELECT hash FROM {layout.files} WHERE path = ?{same_source}",
        (path, source) if same_source else (path,),
    ).fetchall()
    same_source = " AND source = ?" if layout.chunks_have_source else ""
    pieces = opened.connection.execute(
        f"SELECT start_line, text FROM {layout.chunks} WHERE path = ?{same_source} "
        "ORDER BY start_line DESC",
        (path, source) if same_source else (path,),
    ).fetchall()
    shown = redact_spoken if source == CONVERSATIONS else str
    lines: dict[int, str] = {}
    for start, text in pieces:
        lines.update(enumerate(shown(str(text)).split("\n"), start=_line(start)))
    return (str(stored[0][0]) if stored else None), "\n".join(_without_gaps(lines))


def _source_of(opened: Opened, path: str) -> object:
    """The source whose file of this path is shown: `memory` before all others."""
    layout = opened.layout
    for table, has_source in (
        (layout.files, layout.files_have_source),
        (layout.chunks, layout.chunks_have_source),
    ):
        if has_source:
            found = opened.connection.execute(
                f"SELECT source FROM {table} WHERE path = ? "
                "ORDER BY source != 'memory', source LIMIT 1",
                (path,),
            ).fetchall()
            if found:
                return found[0][0]
    return "memory"


def _without_gaps(lines: dict[int, str]) -> Iterator[str]:
    """The lines in order; one that no chunk holds is blank, as far as that makes sense."""
    blanks, last = _MAX_BLANKS, 0
    for number in sorted(number for number in lines if number > 0):
        gap = number - last - 1
        if gap <= blanks:
            blanks -= gap
            yield from repeat("", gap)
        else:
            yield f"… no chunk holds the lines {last + 1}–{number - 1} …"
        yield lines[number]
        last = number


def source_text(
    opened_text: tuple[str | None, str], path: str, workspace: Path | None
) -> SourceText:
    """The note for the preview: from the workspace when it is what was indexed.

    A file that changed since is shown as it was indexed, with the present text beside it.
    """
    indexed_hash, text = opened_text
    if workspace is None:
        return SourceText(path, split_lines(text), "gone", indexed_hash or "", _NO_WORKSPACE)
    if "\0" in path:
        return SourceText(path, split_lines(text), "gone", "", _NO_FILE_NAME)
    found = read_source(workspace, path, indexed_hash, text)
    if found.state != "changed":
        return found
    detail = "changed since it was indexed; this is the indexed text"
    return replace(found, lines=split_lines(text), detail=detail, on_disk=found.lines)


def chunk_ranges(opened: Opened, path: str) -> Sequence[ChunkRange]:
    """Where the chunks of a file are, in order; of the source that `indexed_text` shows."""
    layout = opened.layout
    same_source = " AND source = ?" if layout.chunks_have_source else ""
    found = opened.connection.execute(
        f"SELECT start_line, end_line, id FROM {layout.chunks} WHERE path = ?{same_source} "
        "ORDER BY start_line, end_line",
        (path, _source_of(opened, path)) if same_source else (path,),
    ).fetchall()
    return [ChunkRange(_line(start), _line(end), str(chunk_id)) for start, end, chunk_id in found]


def recent_files(opened: Opened, limit: int) -> list[RecentFile]:
    """The files that changed last, by the times in the index; those without one come last."""
    layout = opened.layout
    found = opened.connection.execute(
        f"SELECT f.path, f.mtime, (SELECT max(c.end_line) FROM {layout.chunks} c "
        f"WHERE c.path = f.path) FROM {layout.files} f "
        "ORDER BY typeof(f.mtime) IN ('integer', 'real') DESC, f.mtime DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        RecentFile(str(path), _moment(mtime), _line(lines) if lines is not None else 0)
        for path, mtime, lines in found
    ]


def _line(stored: object) -> int:
    """A line number in a column that holds anything; 1 for what is none."""
    try:
        number = int(float(str(stored)))
    except (OverflowError, ValueError):
        return 1
    return number if 0 <= number <= _MAX_LINE else 1


def _moment(milliseconds: object) -> datetime:
    value = milliseconds if isinstance(milliseconds, int | float) else 0
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # A time outside the calendar, in a column that holds anything.
        return datetime.fromtimestamp(0, UTC)
