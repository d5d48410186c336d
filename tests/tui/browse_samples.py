"""A memory to browse in values: files of every state, days, chunks, and an engine that has them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from memtui.engine.browse import IsCancelled, Progressed, days_of
from memtui.engine.ports import SourceText
from memtui.errors import Cancelled
from memtui.model import Chunk, Ranking, Reason
from memtui.model.browsing import DayTotals, FileState, MemoryFile
from tests.tui.samples import NOW, SampleEngine, SampleSource, make_chunk


def memory_file(
    path: str,
    *,
    source: str = "memory",
    place: str = "workspace",
    state: FileState = FileState.CURRENT,
    size: int | None = 1200,
    days_ago: float = 5.0,
    chunks: int = 1,
    lines: int = 10,
    reason: Reason = Reason.OK,
    detail: str = "",
) -> MemoryFile:
    """A file whose day is the date in its name."""
    try:
        day: date | None = date.fromisoformat(path.rpartition("/")[2][:10])
    except ValueError:
        day = None
    changed = NOW - timedelta(days=days_ago)
    return MemoryFile(path, source, place, state, size, changed, chunks, lines, day, reason, detail)


def note_lines(title: str, sections: int) -> list[str]:
    """A note of a title and sections of five lines each."""
    lines = [f"# {title}", ""]
    for number in range(1, sections + 1):
        lines += [f"## Section {number}", f"- [x] item {number}", "some **bold** text", "", ""]
    return lines


HOSTILE_NAME = "memory/\x1b]2;PWNED\x07\u202eevil\nname [/] [@click=app.quit]x[/].md"

FILES: tuple[MemoryFile, ...] = (
    memory_file("MEMORY.md", days_ago=10, chunks=3, size=5000, lines=17),
    memory_file("memory/2026-02-10.md", days_ago=3, chunks=2, lines=12, size=2000),
    memory_file("memory/2026-02-09.md", state=FileState.CHANGED, days_ago=4, size=900),
    memory_file("memory/2026-02-10-dentist.md", days_ago=3, size=300),
    memory_file("memory/projects/router.md", days_ago=40, size=800),
    memory_file("memory/projects/2026-02-10.md", days_ago=3, size=400),
    memory_file("memory/gone.md", state=FileState.STALE, size=None),
    memory_file(
        "memory/locked.md",
        state=FileState.ERROR,
        reason=Reason.UNREADABLE,
        detail="Permission denied",
        chunks=0,
    ),
    memory_file(
        "memory/link.md", state=FileState.NOT_INDEXED, reason=Reason.SYMLINK, chunks=0, size=None
    ),
    memory_file("memory/big.md", size=50_000_000, chunks=0, state=FileState.NOT_INDEXED,
                reason=Reason.TOO_LARGE, days_ago=-2),
    memory_file(HOSTILE_NAME, size=10),
    memory_file("/home/ann/vault/ideas.md", place="/home/ann/vault", size=700),
    memory_file("sessions/main/3f9a.jsonl", source="sessions", place="agent main", chunks=8),
)  # fmt: skip


def chunks_in(file: MemoryFile, lines: Sequence[str]) -> list[Chunk]:
    """A file cut into as many chunks as it is said to have, each overlapping the next by a line."""
    if not file.chunks:
        return []
    length = -(-len(lines) // file.chunks)
    chunks = []
    for number in range(file.chunks):
        start = number * length + 1
        end = min(len(lines), (number + 1) * length + 1)
        if start <= len(lines):
            text = "\n".join(lines[start - 1 : end])
            chunks.append(make_chunk(file.path, start, end, text))
    return chunks


@dataclass
class BrowseEngine(SampleEngine):
    """The sample engine with files to browse."""

    files: Sequence[MemoryFile] = FILES
    texts: dict[str, list[str]] = field(default_factory=dict)
    folder: Path | None = None
    fails: str = ""
    """Why the files cannot be listed."""
    waits: bool = False
    """Whether counting recalls stops after the first query until it is cancelled."""
    goes_on: threading.Event = field(default_factory=threading.Event)

    def memory_files(self) -> Sequence[MemoryFile]:
        self.calls.append("files")
        if self.fails:
            raise OSError(self.fails)
        return self.files

    def source(self, path: str) -> SourceText:
        self.calls.append(f"source {path}")
        if path in self.sources:
            return self.sources[path]
        return SampleSource(path, self.lines_of(path))

    def lines_of(self, path: str) -> list[str]:
        """The text of a file."""
        return self.texts.get(path) or note_lines(path.rpartition("/")[2], 3)

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        for file in self.files:
            if file.path == path:
                return chunks_in(file, self.lines_of(path))
        return ()

    def file_of(self, path: str) -> Path | None:
        return self.folder / path if self.folder is not None else None

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: IsCancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Mapping[str, int]:
        self.calls.append(f"recalled {len(queries)}")
        progressed(1, len(queries))
        while self.waits and not self.goes_on.wait(0.01):
            if cancelled():
                self.calls.append("recall cancelled")
                raise Cancelled
        return {"memory/2026-02-10.md": len(queries)}

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        return days_of(self.files, recalled)
