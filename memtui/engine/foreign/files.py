"""The notes of an agent, by the rules of its program's release: listed, and each by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.own_reading import WORKSPACE
from memtui.engine.places import meant, read_source
from memtui.engine.ports import FileStanding, SourceText
from memtui.errors import Cancelled
from memtui.index.foreign.notes import Listing, Look, Why, compare, list_memory, moment
from memtui.index.foreign.rows import MEMORY, FileRow
from memtui.index.foreign.sessions import (
    DELTA_BYTES,
    SESSIONS,
    Sessions,
    compare_sessions,
    list_sessions,
    sessions_folder,
)
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
    from memtui.index.foreign.opening import Opened
    from memtui.settings.openclaw import MemorySearchConfig

Counts = Mapping[tuple[str, str], tuple[int, int]]
"""Chunks of each (path, source), and the last line that they reach."""
NOT_COMPARED: Final = "not compared with the disk yet"
NO_WORKSPACE: Final = "the workspace is not known"
_NO_FILE_NAME: Final = "no file can have this name"
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
_STATES: Final[Mapping[Compared, tuple[FileState, Reason]]] = {
    Compared.CURRENT: (FileState.CURRENT, Reason.OK),
    Compared.STALE: (FileState.CHANGED, Reason.STALE),
    Compared.ORPHAN: (FileState.STALE, Reason.VANISHED),
    Compared.NEVER_INDEXED: (FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED),
    Compared.SKIPPED: (FileState.NOT_INDEXED, Reason.DISABLED),
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

    def _list(
        self,
        workspace: Path,
        *,
        only: str | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Listing:
        home = self._target.home
        return list_memory(
            workspace, self.config, self._release, home=home, only=only, cancelled=cancelled
        )

    def _compare(
        self,
        rows: Iterable[FileRow],
        listing: Listing,
        counts: Counts,
        workspace: Path,
        *,
        deep: bool,
    ) -> tuple[FileTruth, ...]:
        return compare(
            rows,
            listing,
            {key: count for key, (count, _) in counts.items()},
            workspace,
            Look(deep),
            enabled=MEMORY in self.sources,
            scope_known=self.config is not None,
        )

    def files(
        self,
        rows: Sequence[FileRow],
        counts: Counts,
        compared: Sequence[FileTruth],
        cancelled: Callable[[], bool],
    ) -> list[MemoryFile]:
        """Return every file of the workspace or of the index, by path and source."""
        workspace = self._target.workspace
        notes = {row.path: row for row in rows if row.source == MEMORY}
        others = [row for row in rows if row.source != MEMORY]
        files: list[MemoryFile] = []
        if workspace is None:
            files += [self._indexed(row, counts, None, NO_WORKSPACE) for row in notes.values()]
        else:
            listing = self._list(workspace, cancelled=cancelled)
            truths = self._compare(notes.values(), listing, counts, workspace, deep=False)
            files += [_note(one, notes.get(one.path), listing, counts) for one in truths]
        truth_of = {(one.path, one.source): one for one in compared}
        for row in others:
            truth = truth_of.get((row.path, row.source))
            files.append(self._indexed(row, counts, truth, NOT_COMPARED))
        return sorted(files, key=lambda file: (file.path, file.source))

    def _indexed(
        self, row: FileRow, counts: Counts, truth: FileTruth | None, detail: str
    ) -> MemoryFile:
        """A file that only the index tells of, as the last examination found it."""
        chunks, lines = counts.get((row.path, row.source), (0, 0))
        state, reason = _STATES[truth.state if truth is not None else Compared.CURRENT]
        is_note = row.source == MEMORY
        return MemoryFile(
            path=row.path,
            source=row.source,
            place=WORKSPACE if is_note else self._target.agent or row.source,
            state=state,
            size=row.size,
            changed=moment(row.mtime),
            chunks=chunks,
            lines=lines,
            day=day_of_path(row.path) if is_note else None,
            reason=reason,
            detail=truth.reason if truth is not None else detail,
        )

    def file_of(self, path: str, rows: Sequence[FileRow]) -> Path | None:
        """Return where a note is; `None` for other sources, and without a workspace."""
        workspace = self._target.workspace
        if workspace is None or (rows and all(row.source != MEMORY for row in rows)):
            return None
        return Path(absolute_path(path, str(workspace.absolute())))

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        """Read the notes that the release would index, by path."""
        workspace = self._target.workspace
        if workspace is None:
            return
        for path, listed in sorted(self._list(workspace, cancelled=cancelled).found.items()):
            if cancelled():
                raise Cancelled
            if listed.media:
                continue
            mtime_ns = int(listed.mtime_ms * 1e6)
            file = SourceFile(path, Path(listed.absolute), MEMORY, listed.size, mtime_ns, 0)
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
        if workspace is None or "\0" in path:
            why, digest = (NO_WORKSPACE, indexed_hash or "")
            if workspace is not None:
                why, digest = _NO_FILE_NAME, ""
            return SourceText(path, split_lines(text), "gone", digest, f"{why}; indexed text")
        source = read_source(workspace, path, indexed_hash, text)
        if source.state != "changed":
            return source
        detail = "changed since it was indexed; this is the indexed text"
        return replace(source, lines=split_lines(text), detail=detail, on_disk=source.lines)

    def standing(self, path: str, row: FileRow | None) -> FileStanding:
        """Look at one note of the workspace; `row` is what the index has of it. Any thread."""
        workspace = self._target.workspace
        if workspace is None:
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, NO_WORKSPACE, checked=False)
        if "\0" in path:
            return FileStanding(path, Reason.NO_FILE, _NO_FILE_NAME)
        place = os.path.normpath(os.path.join(os.path.abspath(workspace), path))
        listing = self._list(workspace, only=place)
        if listing.problem:
            detail = f"the workspace cannot be listed: {listing.problem.lower()}"
            return FileStanding(path, Reason.UNREADABLE, detail, checked=False)
        rows = [row] if row is not None else []
        for truth in self._compare(rows, listing, {}, workspace, deep=True):
            if truth.path == path:
                left = listing.left_out.get(path)
                return _standing(truth, left.why if left is not None else None, place)
        return _passed_over(path, place, listing)

    def named_on_disk(self, spelled: Sequence[str]) -> str | None:
        """The one note of the workspace whose path ends in one of the spellings; any thread."""
        if self._target.workspace is None:
            return None
        listing = self._list(self._target.workspace)
        return meant(spelled, [*listing.found, *listing.left_out]).path

    def transcript_standing(
        self, opened: Opened, path: str, row: FileRow | None, now: datetime
    ) -> FileStanding:
        """Look at one transcript, on the engine thread: the newest are rows of the database."""
        target = self._target
        folder = target.sessions
        if folder is None and target.is_configured and target.search is not None:
            folder = sessions_folder(opened, target.search.name)
        sessions = list_sessions(opened, folder, self._release)
        if sessions is None:
            detail = "the folder of the transcripts is not known"
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, detail, checked=False)
        name = path.rpartition("/")[2]
        truths, _ = compare_sessions(
            [row] if row is not None else [],
            Sessions({name: sessions.found[name]} if name in sessions.found else {}),
            {},
            enabled=SESSIONS in self.sources,
            delta_bytes=DELTA_BYTES,
            now=now,
        )
        if not truths:
            return FileStanding(path, Reason.NO_FILE, "no such transcript")
        return _standing(truths[0], None, None)


def _note(truth: FileTruth, row: FileRow | None, listing: Listing, counts: Counts) -> MemoryFile:
    file, left = listing.found.get(truth.path), listing.left_out.get(truth.path)
    chunks, lines = counts.get((truth.path, MEMORY), (0, 0))
    state, reason = _STATES[truth.state]
    if left is not None:
        reason = REASONS[left.why]
    size = file.size if file is not None else row.size if row is not None else None
    is_usual = truth.path.startswith("memory/") or "/" not in truth.path
    return MemoryFile(
        path=truth.path,
        source=MEMORY,
        place=WORKSPACE if is_usual or file is None else file.root,
        state=FileState.ERROR if reason is Reason.UNREADABLE else state,
        size=size,
        changed=truth.on_disk or truth.in_index,
        chunks=chunks,
        lines=lines,
        day=day_of_path(truth.path),
        reason=reason,
        detail="" if truth.state is Compared.CURRENT else truth.reason,
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
