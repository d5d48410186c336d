"""The notes of an agent and its program's index of them, for browsing; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from memtui.engine.browsing.files import WORKSPACE
from memtui.engine.browsing.shelf import Holdings, never
from memtui.engine.foreign.holdings import ForeignHoldings, chunks_by_file
from memtui.engine.foreign.standing import NO_WORKSPACE, REASONS, configured, enabled_sources
from memtui.errors import Cancelled, IndexMissing
from memtui.index.foreign import rows
from memtui.index.foreign.discovery import Listing, list_memory
from memtui.index.foreign.drift import SOURCE as MEMORY
from memtui.index.foreign.drift import Look, compare, moment
from memtui.index.foreign.rows import FileRow
from memtui.memory.dates import day_of_path
from memtui.memory.documents import read_document, reason_of
from memtui.memory.paths import absolute_path, said
from memtui.model import Document, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.status import FileState as Compared
from memtui.model.status import FileTruth, Truth

if TYPE_CHECKING:
    from memtui.engine.foreign.facts import ForeignFacts
    from memtui.engine.foreign.retriever import ForeignIndex, ForeignRetriever
    from memtui.engine.searching import SearchLoop
    from memtui.index.foreign.opening import Opened
    from memtui.model import Decay

T = TypeVar("T")

DEFAULT_TOKENS: Final = 400
NOT_COMPARED: Final = "not compared with the disk yet"
_STATES: Final[Mapping[Compared, FileState]] = {
    Compared.CURRENT: FileState.CURRENT,
    Compared.STALE: FileState.CHANGED,
    Compared.ORPHAN: FileState.STALE,
    Compared.NEVER_INDEXED: FileState.NOT_INDEXED,
    Compared.SKIPPED: FileState.NOT_INDEXED,
}


class ForeignShelf:
    """What `Shelf` asks, of an agent's workspace and index; any thread."""

    def __init__(
        self,
        facts: ForeignFacts,
        loop: SearchLoop,
        index: ForeignIndex,
        retriever: ForeignRetriever,
        truth: Callable[[], Truth | None],
        decay: Decay,
    ) -> None:
        self._facts = facts
        self._loop = loop
        self._index = index
        self._retriever = retriever
        self._truth = truth
        self._decay = decay

    @property
    def chunk_tokens(self) -> int:
        """As the index says it was made; the program's default where it does not."""
        return self._facts.identity.chunk_tokens or DEFAULT_TOKENS

    @property
    def notes_missing(self) -> str:
        """Why no note can be read, in one line; empty when they can."""
        return "" if self._facts.target.workspace is not None else NO_WORKSPACE

    def files(self, cancelled: Callable[[], bool] = never) -> list[MemoryFile]:
        """Every file of the workspace or of the index, by path and source."""
        held = self._read(lambda opened: rows.files(opened.connection, opened.layout))
        counts = self._read(chunks_by_file)
        notes = [row for row in held if row.source == MEMORY]
        files = self._notes(notes, counts, cancelled)
        known = {(one.path, one.source): one for one in self._compared()}
        for row in held:
            if row.source != MEMORY:
                files.append(self._other(row, counts, known.get((row.path, row.source))))
        return sorted(files, key=lambda file: (file.path, file.source))

    def file_of(self, path: str) -> Path | None:
        """Where a note is in the workspace; `None` for other sources, and without a workspace."""
        workspace = self._facts.target.workspace
        held = self._read(lambda opened: rows.files(opened.connection, opened.layout, path))
        if workspace is None or (held and all(row.source != MEMORY for row in held)):
            return None
        return Path(absolute_path(path, str(workspace.absolute())))

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        """Read the notes that the release would index, by path."""
        listing = self._listing(cancelled)
        for path in sorted(listing.found if listing is not None else ()):
            if cancelled():
                raise Cancelled
            found = listing.found[path] if listing is not None else None
            if found is None or found.media:
                continue
            mtime_ns = int(found.mtime_ms * 1e6)
            file = SourceFile(path, Path(found.absolute), MEMORY, found.size, mtime_ns, 0)
            try:
                yield read_document(file)
            except OSError as error:
                yield SkippedFile(path, reason_of(error), said(error))

    def read(self, function: Callable[[Holdings], T]) -> T | None:
        """Read the index on the engine thread."""
        return self._read(
            lambda opened: function(
                ForeignHoldings(opened, self._facts, self._retriever, self._decay)
            )
        )

    def stamp(self) -> Hashable:
        """The state of the file and what lies beside it."""
        return self._read(lambda opened: opened.fingerprint)

    def _listing(self, cancelled: Callable[[], bool]) -> Listing | None:
        workspace = self._facts.target.workspace
        if workspace is None:
            return None
        home, release = self._facts.target.home, self._facts.choice.profile
        return list_memory(
            workspace, configured(self._facts), release, home=home, cancelled=cancelled
        )

    def _notes(
        self,
        held: list[FileRow],
        counts: Mapping[tuple[str, str], tuple[int, int]],
        cancelled: Callable[[], bool],
    ) -> list[MemoryFile]:
        listing, workspace = self._listing(cancelled), self._facts.target.workspace
        if listing is None or workspace is None:
            return [self._other(row, counts, None, NO_WORKSPACE) for row in held]
        truths = compare(
            held,
            listing,
            {key: count for key, (count, _) in counts.items()},
            workspace,
            Look(),
            enabled=MEMORY in enabled_sources(self._facts),
            scope_known=configured(self._facts) is not None,
        )
        by_path = {row.path: row for row in held}
        return [self._note(one, by_path.get(one.path), listing, counts) for one in truths]

    def _note(
        self,
        truth: FileTruth,
        row: FileRow | None,
        listing: Listing,
        counts: Mapping[tuple[str, str], tuple[int, int]],
    ) -> MemoryFile:
        found, left = listing.found.get(truth.path), listing.left_out.get(truth.path)
        chunks, lines = counts.get((truth.path, MEMORY), (0, 0))
        reason = REASONS[left.why] if left is not None else _reason(truth.state)
        is_broken = reason is Reason.UNREADABLE
        root = found.root if found is not None else WORKSPACE
        return MemoryFile(
            path=truth.path,
            source=MEMORY,
            place=root if _is_extra(truth.path) else WORKSPACE,
            state=FileState.ERROR if is_broken else _STATES[truth.state],
            size=found.size if found is not None else row.size if row is not None else None,
            changed=truth.on_disk or truth.in_index,
            chunks=chunks,
            lines=lines,
            day=day_of_path(truth.path),
            reason=reason,
            detail="" if truth.state is Compared.CURRENT else truth.reason,
        )

    def _other(
        self,
        row: FileRow,
        counts: Mapping[tuple[str, str], tuple[int, int]],
        truth: FileTruth | None,
        detail: str = NOT_COMPARED,
    ) -> MemoryFile:
        """A file that only the index tells of, as the last examination found it."""
        chunks, lines = counts.get((row.path, row.source), (0, 0))
        state = truth.state if truth is not None else Compared.CURRENT
        return MemoryFile(
            path=row.path,
            source=row.source,
            place=WORKSPACE if row.source == MEMORY else self._facts.target.agent or row.source,
            state=_STATES[state],
            size=row.size,
            changed=moment(row.mtime),
            chunks=chunks,
            lines=lines,
            day=day_of_path(row.path) if row.source == MEMORY else None,
            reason=_reason(state),
            detail=truth.reason if truth is not None else detail,
        )

    def _compared(self) -> tuple[FileTruth, ...]:
        truth = self._truth()
        return truth.files if truth is not None else ()

    def _read(self, function: Callable[[Opened], T]) -> T:
        try:
            return self._loop.call(lambda: self._index.read(function)).result()
        except (Cancelled, CancelledError):
            raise IndexMissing("the index is closed") from None


def _is_extra(path: str) -> bool:
    return not (path.startswith("memory/") or "/" not in path)


def _reason(state: Compared) -> Reason:
    match state:
        case Compared.CURRENT:
            return Reason.OK
        case Compared.STALE:
            return Reason.STALE
        case Compared.ORPHAN:
            return Reason.VANISHED
        case Compared.NEVER_INDEXED:
            return Reason.NOT_YET_INDEXED
        case Compared.SKIPPED:
            return Reason.DISABLED
