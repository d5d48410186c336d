"""What screens read from another program's index besides search: notes, chunk ranges, recency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from memtui.engine.source import RecentFile, SourceText, read_source
from memtui.index.foreign.opening import Opened
from memtui.index.reader import ChunkRange
from memtui.memory.documents import split_lines

_NO_WORKSPACE = "the workspace is not known; indexed text"


def indexed_text(opened: Opened, path: str) -> tuple[str | None, str]:
    """The hash of a file and its text as the chunks hold it; (`None`, "") when not indexed."""
    layout = opened.layout
    stored = opened.connection.execute(
        f"SELECT hash FROM {layout.files} WHERE path = ?", (path,)
    ).fetchall()
    pieces = opened.connection.execute(
        f"SELECT start_line, text FROM {layout.chunks} WHERE path = ? ORDER BY start_line DESC",
        (path,),
    ).fetchall()
    lines: dict[int, str] = {}
    for start, text in pieces:
        lines.update(enumerate(str(text).split("\n"), start=int(str(start))))
    joined = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    return (str(stored[0][0]) if stored else None), joined


def source_text(
    opened_text: tuple[str | None, str], path: str, workspace: Path | None
) -> SourceText:
    """The note for the preview: from the workspace when it is what was indexed.

    A file that changed since is shown as it was indexed, with the present text beside it.
    """
    indexed_hash, text = opened_text
    if workspace is None:
        return SourceText(path, split_lines(text), "gone", indexed_hash or "", _NO_WORKSPACE)
    found = read_source(workspace, path, indexed_hash, text)
    if found.state != "changed":
        return found
    detail = "changed since it was indexed; this is the indexed text"
    return replace(found, lines=split_lines(text), detail=detail, on_disk=found.lines)


def chunk_ranges(opened: Opened, path: str) -> Sequence[ChunkRange]:
    """Where the chunks of a file are, in order."""
    found = opened.connection.execute(
        f"SELECT start_line, end_line, id FROM {opened.layout.chunks} WHERE path = ? "
        "ORDER BY start_line, end_line",
        (path,),
    ).fetchall()
    return [
        ChunkRange(int(str(start)), int(str(end)), str(chunk_id)) for start, end, chunk_id in found
    ]


def recent_files(opened: Opened, limit: int) -> list[RecentFile]:
    """The files that changed last, by the times in the index."""
    layout = opened.layout
    found = opened.connection.execute(
        f"SELECT f.path, f.mtime, (SELECT max(c.end_line) FROM {layout.chunks} c "
        f"WHERE c.path = f.path) FROM {layout.files} f ORDER BY f.mtime DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        RecentFile(
            str(path), datetime.fromtimestamp(float(str(mtime)) / 1000, UTC), int(str(lines or 0))
        )
        for path, mtime, lines in found
    ]


def _moment(milliseconds: object) -> datetime:
    value = milliseconds if isinstance(milliseconds, int | float) else 0
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # A time outside the calendar, in a column that holds anything.
        return datetime.fromtimestamp(0, UTC)
