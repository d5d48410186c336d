"""Where a file stands: whether it belongs to the memory, and whether the index has it as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memtui.index.reader import ChunkRange
from memtui.index.scan import KnownFile, plan_changes
from memtui.index.transcripts.discovery import SOURCE as TRANSCRIPTS
from memtui.index.transcripts.discovery import file_at
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.discover import Scope, look_at
from memtui.memory.documents import read_document, reason_of, split_lines
from memtui.memory.paths import absolute_path, said
from memtui.model import Numbers, Reason, SourceFile

MOST_NAMED = 5
"""So many files are named where several could be meant."""


@dataclass(frozen=True, slots=True)
class FileStanding:
    """What is known of one file, on disk and in the index."""

    path: str
    reason: Reason = Reason.OK
    """Why it does not belong to the memory; `OK` when it does."""
    detail: str = ""
    """One line about `reason`, or about how the file changed."""
    numbers: Numbers = field(default_factory=dict)
    stale: bool = False
    """Whether the index holds another version than the disk."""
    lines: tuple[str, ...] | None = None
    """The text as it is now, where it was read because it changed."""
    checked: bool = True
    """False when nobody knows where the file would be."""


def standing_of(
    scope: Scope,
    path: str,
    known: KnownFile | None,
    transcripts: TranscriptScope | None = None,
) -> FileStanding:
    """Look at one file; `known` is its row in the index, if there is one.

    Reads the file only where its state is not the one that was indexed. Any thread.
    """
    if known is not None and known.source == TRANSCRIPTS and transcripts is not None:
        return _transcript_standing(transcripts, known)
    found = look_at(scope, path)
    if not isinstance(found, SourceFile):
        reason = found.reason
        if known is not None and reason is Reason.NO_FILE:
            reason = Reason.VANISHED
        return FileStanding(found.path, reason, found.detail, _sizes(scope, path, reason))
    if known is not None and not plan_changes((found,), {found.path: known}).read:
        return FileStanding(found.path)
    try:
        document = read_document(found, max_bytes=scope.max_file_bytes)
    except OSError as error:
        return FileStanding(found.path, reason_of(error), said(error))
    if known is None or document.hash == known.hash:
        return FileStanding(found.path)
    change = "changed since it was indexed"
    lines = tuple(split_lines(document.text))
    return FileStanding(found.path, detail=change, stale=True, lines=lines)


def _transcript_standing(scope: TranscriptScope, known: KnownFile) -> FileStanding:
    """Compare by stat alone: a transcript that grew still says what was indexed of it."""
    file = file_at(scope, known.path)
    if file is None:
        return FileStanding(known.path, Reason.VANISHED, "the transcript is gone")
    if file.size < known.size or file.inode != known.inode:
        return FileStanding(known.path, detail="changed since it was indexed", stale=True)
    return FileStanding(known.path)


def _sizes(scope: Scope, path: str, reason: Reason) -> Numbers:
    if reason is not Reason.TOO_LARGE:
        return {}
    try:
        size = os.lstat(absolute_path(path, os.path.abspath(scope.root))).st_size
    except (OSError, ValueError):
        # Gone in the meantime: the limit alone still says why.
        return {"limit_bytes": scope.max_file_bytes}
    return {"bytes": size, "limit_bytes": scope.max_file_bytes}


@dataclass(frozen=True, slots=True)
class Sought:
    """The chunks at a line, or of a whole file; `missing` says why there are none."""

    ids: tuple[str, ...]
    missing: Reason
    numbers: Numbers


def sought(
    file: FileStanding,
    line: int | None,
    ranges: Sequence[ChunkRange],
    indexed_text: Callable[[], str],
) -> Sought:
    """Find the chunks of `ranges` at a line of the file as it is now; all of them without a line.

    `indexed_text` is asked for the version in the index where the file is another one.
    """
    place, missing = line, Reason.NO_CHUNK_AT_LINE
    if line is not None and file.lines is not None:
        place = indexed_line(line, file.lines, split_lines(indexed_text()))
        if place is None and 1 <= line <= len(file.lines) and file.lines[line - 1].strip():
            missing = Reason.STALE
    ids = tuple(
        found.chunk_id
        for found in ranges
        if line is None or (place is not None and found.start_line <= place <= found.end_line)
    )
    numbers: dict[str, float | int | str | None] = {"chunks": len(ranges)}
    if line is not None:
        numbers["line"] = line
    if ranges:
        numbers["last_line"] = max(found.end_line for found in ranges)
    return Sought(ids, missing, numbers)


def indexed_line(line: int, now: Sequence[str], indexed: Sequence[str]) -> int | None:
    """The line of the indexed version that a line of the changed file was, both 1-based.

    The same text at the same place, or else nearest to it; `None` when the index never had it.
    """
    if not 1 <= line <= len(now):
        return None
    wanted = now[line - 1]
    if line <= len(indexed) and indexed[line - 1].removesuffix("\r") == wanted:
        return line
    if not wanted.strip():
        return None
    same = [n for n, text in enumerate(indexed, start=1) if text.removesuffix("\r") == wanted]
    return min(same, key=lambda number: (abs(number - line), number), default=None)


def ambiguous(file: FileStanding, several: Sequence[str]) -> FileStanding:
    """A file that is not there under a name that several others end in."""
    named = ", ".join(several[:MOST_NAMED])
    rest = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
    return replace(file, detail=f"it could be {named}{rest}", numbers={"files": len(several)})
