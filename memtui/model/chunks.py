"""Files, documents and the chunks they are cut into."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from memtui.model.reasons import Reason

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The beginning of the times of files; stands for one that is not known."""


class SourceFile(Struct, frozen=True):
    """A file that discovery found; `path` is relative to the workspace root with `/` separators."""

    path: str
    place: str
    source: str
    size: int
    mtime_ns: int
    inode: int
    kind: str = ""
    """Of a transcript: the `TranscriptKind` that its place suggests; empty: told by its content."""
    session: str = ""
    """The session whose events `place`, a database, holds; empty for a file of its own."""
    base: str = ""
    """The folder below which no link is followed to open it; empty: the one that holds it."""

    @property
    def absolute(self) -> Path:
        """Its absolute path; made when asked for, as a scan makes thousands of files."""
        return Path(self.place)


class SkippedFile(Struct, frozen=True):
    """A file or folder that discovery left out, and why."""

    path: str
    reason: Reason
    detail: str = ""


class Document(Struct, frozen=True):
    """A file that was read: decoded text, sha256 of its UTF-8 form, its own date if it has one."""

    file: SourceFile
    text: str
    hash: str
    day: date | None
    day_from: Reason | None
    """`FILE_NAME` or `FRONT_MATTER`; `None` when the document has no date of its own."""
    importance: float | None
    """`importance` of the front matter, 0 to 1 (values above 1 are read as 1 to 10)."""
    warnings: tuple[str, ...] = ()
    """One line each: undecodable bytes replaced."""
    bad_line: int = 0
    """The first line with bytes that were replaced; 0 for none."""


class ChunkSpan(Struct, frozen=True):
    """A piece of a document as the chunker cut it; lines are 1-based and inclusive."""

    start_line: int
    end_line: int
    text: str
    hash: str
    """sha256 hex of `text`."""


class Chunk(Struct, frozen=True):
    """A piece of a document as the index holds it; lines are 1-based and inclusive."""

    id: str
    """sha256 hex of `source:path:start_line:end_line:hash:model`."""
    path: str
    source: str
    start_line: int
    end_line: int
    text: str
    hash: str
    model: str
    day: date | None = None
    day_from: Reason | None = None
    mtime_ns: int = 0
    importance: float | None = None
    project_keys: tuple[str, ...] = ()
    snippet: str | None = None
    """The text MMR compares; `None` means the first 700 UTF-16 units of `text`."""

    @property
    def citation(self) -> str:
        """The place in the source file, as `path#L12-L31`."""
        return citation(self.path, self.start_line, self.end_line)


def citation(path: str, start_line: int, end_line: int) -> str:
    """Name a place as `path#L12` or `path#L12-L31`."""
    lines = f"#L{start_line}" if start_line == end_line else f"#L{start_line}-L{end_line}"
    return path + lines
