"""The notes of an agent, by the rules of its program's release: listed, and each by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.own_files import WORKSPACE
from memtui.engine.places import meant
from memtui.engine.ports import FileStanding
from memtui.engine.source import SourceText, read_source
from memtui.errors import Cancelled
from memtui.index.foreign.discovery import Listing, Why, list_memory
from memtui.index.foreign.drift import SOURCE as MEMORY
from memtui.index.foreign.drift import Look, compare, moment
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import FileRow
from memtui.index.foreign.sessions import (
    DELTA_BYTES,
    Sessions,
    compare_sessions,
    list_sessions,
    sessions_folder,
)
from memtui.index.foreign.sessions import SOURCE as SESSIONS
from memtui.memory.dates import day_of_path
from memtui.memory.discover import absent
from memtui.memory.documents import read_document, reason_of, split_lines
from memtui.memory.paths import absolute_path, said
from memtui.model import Document, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.status import FileState as Compared
from memtui.model.status import FileTruth
from memtui.settings.openclaw import effective

if TYPE_CHECKING:
    from memtui.engine.foreign.agent import ForeignFacts
    from memtui.settings.openclaw import MemorySearchConfig

NOT_COMPARED: Final = "not compared with the disk yet"
_NO_FILE_NAME: Final = "no file can have this name; indexed text"
NO_WORKSPACE: Final = "the workspace is not known"
REASONS: Final[Mapping[Why, Reason]] = {
    Why.LINK: Reason.SYMLINK,
    Why.NOT_MARKDOWN: Reason.NOT_A_NOTE,
    Why.REPAIR: Reason.IGNORED,
    Why.LOWER_CASE: Reason.IGNORED,
    Why.NOT_YET: Reason.IGNORED,
    Why.OUTSIDE: Reason.OUTSIDE_ROOT,
    Why.PATTERN: Reason.OUTSIDE_ROOT,
    Why.DUPLICATE: Reason.DUPLICATE_FILE,
    Why.NOT_REGULAR: Reason.NOT_REGULAR,
    Why.UNREADABLE: Reason.UNREADABLE,
    Why.TOO_LARGE: Reason.TOO_LARGE,
    Why.SOURCE_OFF: Reason.DISABLED,
}
_STATES: Final[Mapping[Compared, FileState]] = {
    Compared.CURRENT: FileState.CURRENT,
    Compared.STALE: FileState.CHANGED,
    Compared.ORPHAN: FileState.STALE,
    Compared.NEVER_INDEXED: FileState.NOT_INDEXED,
    Compared.SKIPPED: FileState.NOT_INDEXED,
}


class AgentFiles:
    """The files of an agent's workspace, and those that only its index tells of; any thread."""

    def __init__(self, facts: ForeignFacts) -> None:
        self._target = target = facts.target
        self._release = facts.choice.profile
        self.config: MemorySearchConfig | None = None
        """What the agent is configured for, as it is written; `None` where nothing is."""
        if target.is_configured and target.search is not None:
            self.config = target.search.search
        self.sources = facts.identity.sources or (MEMORY, SESSIONS)
        """The sources that the agent indexes, as far as anybody knows."""
        if self.config is not None:
            self.sources = effective(self.config, self._release).search.sources

    @property
    def missing(self) -> str:
        """Why no note can be read, in one line; empty when they can."""
        return "" if self._target.workspace is not None else NO_WORKSPACE

    def files(
        self,
        held: Sequence[FileRow],
        counts: Mapping[tuple[str, str], tuple[int, int]],
        compared: Sequence[FileTruth],
        cancelled: Callable[[], bool],
    ) -> list[MemoryFile]:
        """Return every file of the workspace or of the index, by path and source."""
        notes = [row for row in held if row.source == MEMORY]
        files = self._notes(notes, counts, cancelled)
        known = {(one.path, one.source): one for one in compared}
        for row in held:
            if row.source != MEMORY:
                files.append(self._other(row, counts, known.get((row.path, row.source))))
        return sorted(files, key=lambda file: (file.path, file.source))

    def file_of(self, path: str, held: Sequence[FileRow]) -> Path | None:
        """Return where a note is; `None` for other sources, and without a workspace."""
        workspace = self._target.workspace
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

    def source(self, path: str, indexed: tuple[str | None, str]) -> SourceText:
        """The note for the preview: from the workspace when it is what was indexed.

        A file that changed since is shown as it was indexed, with the present text beside it.
        """
        indexed_hash, text = indexed
        workspace = self._target.workspace
        if workspace is None:
            return SourceText(
                path, split_lines(text), "gone", indexed_hash or "", f"{NO_WORKSPACE}; indexed text"
            )
        if "\0" in path:
            return SourceText(path, split_lines(text), "gone", "", _NO_FILE_NAME)
        found = read_source(workspace, path, indexed_hash, text)
        if found.state != "changed":
            return found
        detail = "changed since it was indexed; this is the indexed text"
        return replace(found, lines=split_lines(text), detail=detail, on_disk=found.lines)

    def standing(self, path: str, row: FileRow | None) -> FileStanding:
        """Look at one note of the workspace; `row` is what the index has of it. Any thread."""
        workspace = self._target.workspace
        if workspace is None:
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, NO_WORKSPACE, checked=False)
        place = os.path.normpath(os.path.join(os.path.abspath(workspace), path))
        if "\0" in path:
            return FileStanding(path, Reason.NO_FILE, "no file can have this name")
        listing = list_memory(
            workspace, self.config, self._release, home=self._target.home, only=place
        )
        if listing.problem:
            detail = f"the workspace cannot be listed: {listing.problem.lower()}"
            return FileStanding(path, Reason.UNREADABLE, detail, checked=False)
        truths = compare(
            [row] if row is not None else [],
            listing,
            {},
            workspace,
            Look(deep=True),
            enabled=MEMORY in self.sources,
            scope_known=self.config is not None,
        )
        truth = next((truth for truth in truths if truth.path == path), None)
        if truth is None:
            return _passed_over(path, place, listing)
        return _standing(
            truth, listing.left_out[path].why if path in listing.left_out else None, place
        )

    def named_on_disk(self, spelled: Sequence[str]) -> str | None:
        """The one note of the workspace whose path ends in one of the spellings; any thread."""
        workspace, home = self._target.workspace, self._target.home
        if workspace is None:
            return None
        listing = list_memory(workspace, self.config, self._release, home=home)
        return meant(spelled, [*listing.found, *listing.left_out]).path

    def transcript_standing(
        self, opened: Opened, path: str, row: FileRow | None, now: datetime
    ) -> FileStanding:
        """Look at one transcript, on the engine thread: the newest are rows of the database."""
        target = self._target
        folder = target.sessions
        if folder is None and target.is_configured and target.search is not None:
            folder = sessions_folder(opened, target.search.name)
        listed = list_sessions(opened, folder, self._release)
        if listed is None:
            detail = "the folder of the transcripts is not known"
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, detail, checked=False)
        name = path.rpartition("/")[2]
        found = {name: listed.found[name]} if name in listed.found else {}
        truth = compare_sessions(
            [row] if row is not None else [],
            Sessions(found),
            {},
            enabled=SESSIONS in self.sources,
            delta_bytes=DELTA_BYTES,
            now=now,
        )
        if not truth.files:
            return FileStanding(path, Reason.NO_FILE, "no such transcript")
        return _standing(truth.files[0], None, None)

    def _listing(self, cancelled: Callable[[], bool]) -> Listing | None:
        workspace = self._target.workspace
        if workspace is None:
            return None
        return list_memory(
            workspace, self.config, self._release, home=self._target.home, cancelled=cancelled
        )

    def _notes(
        self,
        held: Sequence[FileRow],
        counts: Mapping[tuple[str, str], tuple[int, int]],
        cancelled: Callable[[], bool],
    ) -> list[MemoryFile]:
        listing, workspace = self._listing(cancelled), self._target.workspace
        if listing is None or workspace is None:
            return [self._other(row, counts, None, NO_WORKSPACE) for row in held]
        truths = compare(
            held,
            listing,
            {key: count for key, (count, _) in counts.items()},
            workspace,
            Look(),
            enabled=MEMORY in self.sources,
            scope_known=self.config is not None,
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
            place=WORKSPACE if row.source == MEMORY else self._target.agent or row.source,
            state=_STATES[state],
            size=row.size,
            changed=moment(row.mtime),
            chunks=chunks,
            lines=lines,
            day=day_of_path(row.path) if row.source == MEMORY else None,
            reason=_reason(state),
            detail=truth.reason if truth is not None else detail,
        )


def _standing(truth: FileTruth, why: Why | None, place: str | None) -> FileStanding:
    path, detail = truth.path, truth.reason
    match truth.state:
        case Compared.CURRENT | Compared.NEVER_INDEXED:
            return FileStanding(path, detail=detail)
        case Compared.STALE:
            return FileStanding(path, detail=detail, stale=True, lines=_lines(path, place))
        case _ if why is not None:
            return FileStanding(path, REASONS[why], detail)
        case _ if detail == Why.SOURCE_OFF.value:
            return FileStanding(path, Reason.DISABLED, detail)
        case Compared.SKIPPED:
            return FileStanding(path, Reason.UNREADABLE, detail)
        case _:
            is_there = place is not None and os.path.lexists(place)
            return FileStanding(path, Reason.OUTSIDE_ROOT if is_there else Reason.VANISHED, detail)


def _lines(path: str, place: str | None) -> tuple[str, ...] | None:
    """The file as it is now; `None` when it cannot be read any more."""
    if place is None:
        return None
    try:
        state = os.lstat(place)
        file = SourceFile(path, Path(place), MEMORY, state.st_size, state.st_mtime_ns, state.st_ino)
        return tuple(split_lines(read_document(file).text))
    except OSError:
        return None


def _passed_over(path: str, place: str, listing: Listing) -> FileStanding:
    """A path that the program's rules say nothing about: what is there, or what it lies below."""
    nothing = absent(place)
    if nothing is not None:
        return FileStanding(path, *nothing)
    above = [left for left in listing.left_out.values() if path.startswith(f"{left.path}/")]
    if above:
        nearest = max(above, key=lambda left: len(left.path))
        return FileStanding(path, REASONS[nearest.why], f"{nearest.path}: {nearest.reason}")
    if os.path.isdir(place):
        return FileStanding(path, Reason.NOT_A_NOTE, "folder")
    if not place.endswith(".md"):
        return FileStanding(path, Reason.NOT_A_NOTE, Why.NOT_MARKDOWN.value)
    return FileStanding(path, Reason.OUTSIDE_ROOT, Why.OUTSIDE.value)


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
