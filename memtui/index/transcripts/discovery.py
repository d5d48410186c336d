"""Opted-in places that are not there: a disk that is not mounted is no deletion."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from memtui.errors import Cancelled, IndexMissing, IndexUnusable
from memtui.index.database import DatabaseError
from memtui.index.foreign.opening import Fingerprint, fingerprint_of
from memtui.index.transcripts.scope import (
    AGENTS,
    ARCHIVED,
    EVENTS_DATABASE,
    PROJECTS,
    SESSIONS,
    TranscriptPlace,
    TranscriptScope,
    places_of,
)
from memtui.index.transcripts.streams import EventSession, sessions_in
from memtui.memory.discover import Discovery
from memtui.memory.documents import reason_of
from memtui.memory.paths import (
    Glob,
    first_link,
    has_magic,
    kind,
    link_target,
    said,
    stored_path,
    written,
)
from memtui.memory.transcripts import openclaw_files
from memtui.memory.transcripts.openclaw_files import FileKind
from memtui.model import Reason, SkippedFile, SourceFile
from memtui.model.conversations import TranscriptKind
from memtui.text.sanitize import safe_line

_KEPT = "what was indexed of it stays"


@dataclass(frozen=True, slots=True)
class AbsentPlace:
    """A folder of an opted-in program that cannot be listed."""

    unread: str
    """The beginning of the stored paths of what would be in it."""
    skipped: SkippedFile


def absent_places(scope: TranscriptScope) -> Iterator[AbsentPlace]:
    """The folders of opted-in programs and agents that are not there, or cannot be listed.

    Of those that are opted out nothing stays, wherever their folder is.
    """
    for source in scope.sources:
        name, _, part = source.partition(":")
        kind = TranscriptKind(name)
        home = scope.homes.of(kind)
        if home is None:
            continue
        match kind:
            case TranscriptKind.OPENCLAW:
                yield from _openclaw(scope, home / AGENTS, source, part)
            case TranscriptKind.CLAUDE_CODE:
                yield from _absent(home / PROJECTS, source, f"{name}/{_literal(part)}")
            case TranscriptKind.CODEX:
                yield from _absent(home / SESSIONS, source, f"{name}/")


def _openclaw(
    scope: TranscriptScope, agents: Path, source: str, part: str
) -> Iterator[AbsentPlace]:
    above = f"{SESSIONS}/"
    if (problem := _problem(agents)) is not None:
        tail = f"{_literal(part)}{'' if not part or has_magic(part) else '/'}"
        yield _place(agents, source, f"{above}{tail if scope.rules.stores_agent else ''}", problem)
        return
    with os.scandir(agents) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    for name in names:
        agent, folder = written(name), agents / name / SESSIONS
        wanted = scope.source_of(TranscriptKind.OPENCLAW, agent) == source
        if wanted and os.path.isdir(agents / name) and not (agents / name).is_symlink():
            prefix = f"{above}{agent}/" if scope.rules.stores_agent else above
            if not os.path.isfile(agents / name / EVENTS_DATABASE):
                yield from _absent(folder, f"{TranscriptKind.OPENCLAW}:{agent}", prefix)


def _absent(folder: Path, source: str, unread: str) -> Iterator[AbsentPlace]:
    # One that is there and may not be listed is found so by who looks into it.
    if not os.path.isdir(folder) and (problem := _problem(folder)) is not None:
        yield _place(folder, source, unread, problem)


def _problem(folder: Path) -> OSError | None:
    try:
        with os.scandir(folder):
            return None
    except OSError as error:
        return error


def _place(folder: Path, source: str, unread: str, problem: OSError) -> AbsentPlace:
    detail = f"{written(str(folder))}: {said(problem)}; {_KEPT}"
    return AbsentPlace(unread, SkippedFile(source, reason_of(problem), detail))


def _literal(pattern: str) -> str:
    """What of a pattern comes before its first wildcard."""
    at = next((n for n, letter in enumerate(pattern) if letter in "*?["), len(pattern))
    return pattern[:at]


SOURCE = "sessions"

_INT64_MAX = 2**63 - 1
# Within this time of a commit, a second one may leave sizes and modification times as they were.
_RACY_NS = 2 * 10**9
_MARK = ".jsonl"
_PASSED_OVER = {
    FileKind.BACKUP: "a copy made before a repair",
    FileKind.CHECKPOINT: "a copy made before a compaction",
    FileKind.TRAJECTORY: "what the program did, not what was said",
}


@dataclass(frozen=True, slots=True)
class Located:
    """A place and what was found in it."""

    place: TranscriptPlace
    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]
    unread: tuple[str, ...] = ()
    """Beginnings of stored paths below which nothing could be listed."""


def discover_transcripts(
    scope: TranscriptScope,
    *,
    everything: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> Discovery:
    """Find the transcripts that are opted in, or all of this machine with `everything`.

    Sorted by path; a file that two places hold is kept once. Links are never followed; whatever
    looks like a transcript and is left out is listed. A place that is not there, as when its disk
    is not mounted, counts as one that cannot be looked at. Raises `Cancelled` when `cancelled()`
    turns true.
    """
    if scope.is_empty and not everything:
        return Discovery((), ())
    located = locate(scope, everything=everything, cancelled=cancelled)
    files: dict[str, SourceFile] = {}
    skipped: dict[tuple[str, Reason], SkippedFile] = {}
    for found in located:
        for left in found.skipped:
            skipped.setdefault((left.path, left.reason), left)
        files.update({file.path: file for file in found.files})
    absent = tuple(absent_places(scope))
    for one in absent:
        skipped.setdefault((one.skipped.path, one.skipped.reason), one.skipped)
    return Discovery(
        tuple(files[path] for path in sorted(files)),
        tuple(skipped[key] for key in sorted(skipped)),
        (
            *(prefix for found in located for prefix in found.unread),
            *(one.unread for one in absent),
        ),
    )


def with_transcripts(
    notes: Discovery,
    scope: TranscriptScope | None,
    *,
    cancelled: Callable[[], bool] | None = None,
) -> Discovery:
    """Add the transcripts that are opted in to the notes that were found; a note wins."""
    if scope is None or scope.is_empty:
        return notes
    found = discover_transcripts(scope, cancelled=cancelled)
    taken = {file.path for file in notes.files}
    return Discovery(
        (*notes.files, *(file for file in found.files if file.path not in taken)),
        (*notes.skipped, *found.skipped),
        found.unread,
    )


def locate(
    scope: TranscriptScope,
    *,
    everything: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Located, ...]:
    """Find the transcripts place by place; a file counts where it is found first."""
    taken: dict[str, str] = {}
    stored: set[str] = set()
    found = []
    for place in places_of(scope):
        if place.is_indexed or everything:
            search = _Search(scope, place, cancelled, everything=everything)
            search.run()
            found.append(_without(search, taken, stored))
    return tuple(found)


def taken_in(
    scope: TranscriptScope, place: TranscriptPlace, path: str, stored: str
) -> SourceFile | None:
    """The file of a program at an absolute path, if it is one of its transcripts."""
    search = _Search(scope, place, None)
    search.one(path, stored)
    return search.files.get(stored)


def _without(search: _Search, taken: dict[str, str], stored: set[str]) -> Located:
    """What was found and is not in an earlier place; an agent's file is one wherever it is."""
    files = []
    skipped = list(search.skipped.values())
    for file in search.files.values():
        key = f"{file.absolute}\0{file.session}"
        if key in taken:
            if taken[key] != file.path:
                detail = f"already found as {taken[key]}"
                skipped.append(SkippedFile(file.path, Reason.DUPLICATE_FILE, detail))
        elif file.path in stored:
            where = written(str(file.absolute))
            skipped.append(SkippedFile(where, Reason.DUPLICATE_FILE, f"{file.path} is another"))
        else:
            taken[key] = file.path
            stored.add(file.path)
            files.append(file)
    return Located(search.place, tuple(files), tuple(skipped), tuple(search.unread))


@dataclass(slots=True)
class _Search:
    """One look into one place."""

    scope: TranscriptScope
    place: TranscriptPlace
    cancelled: Callable[[], bool] | None
    everything: bool = False
    files: dict[str, SourceFile] = field(default_factory=dict)
    skipped: dict[tuple[str, Reason], SkippedFile] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def run(self) -> None:
        match self.place.kind:
            case TranscriptKind.OPENCLAW:
                self._openclaw()
            case TranscriptKind.CLAUDE_CODE:
                self._claude_code()
            case TranscriptKind.CODEX:
                self._codex()
            case None:
                self._path()

    # --- one program after the other ------------------------------------------------------

    def _openclaw(self) -> None:
        agent, rules = self.place.agent, self.scope.rules
        prefix = f"{SOURCE}/{agent}/" if rules.stores_agent else f"{SOURCE}/"
        for folder in (os.path.dirname(self.place.folder), self.place.folder):
            if os.path.islink(folder):
                self.skip(f"{SOURCE}/{agent}", Reason.SYMLINK, link_target(folder))
                return
        in_rows = self._events(prefix)
        for entry in self._list(self.place.folder, prefix):
            name = written(entry.name)
            form = openclaw_files.file_kind(entry.name)
            if form in _PASSED_OVER:
                self.skip(prefix + name, Reason.IGNORED, _PASSED_OVER[form])
            elif not openclaw_files.is_listed(entry.name, rules):
                continue
            elif in_rows and form not in openclaw_files.ARCHIVES:
                detail = "the agent's database holds its conversations"
                self.skip(prefix + name, Reason.IGNORED, detail)
            else:
                self._file(entry, prefix + name)

    def _events(self, prefix: str) -> bool:
        """Take in the sessions of the agent's database; whether it holds any, or may do so."""
        if not self.place.database or not self.scope.rules.stores_agent:
            return False
        database = Path(self.place.database)
        try:
            if database.is_symlink():
                self.skip(prefix + database.name, Reason.SYMLINK, link_target(self.place.database))
                return False
            inode = database.stat().st_ino & _INT64_MAX
            sessions = listed_sessions(database)
        except (OSError, DatabaseError, IndexUnusable, IndexMissing) as error:
            self.skip(prefix + database.name, Reason.UNREADABLE, safe_line(str(error)))
            self.unread.append(prefix)
            return True
        for found in sessions:
            path = f"{prefix}{written(found.session)}{_MARK}"
            self.files[path] = SourceFile(
                path=path,
                absolute=database,
                source=SOURCE,
                size=found.size,
                mtime_ns=max(0, min(_INT64_MAX, found.changed_ms * 10**6)),
                inode=inode,
                kind=TranscriptKind.OPENCLAW,
                session=found.session,
            )
        return bool(sessions)

    def _claude_code(self) -> None:
        projects = os.path.join(self.place.folder, PROJECTS)
        prefix = f"{TranscriptKind.CLAUDE_CODE}/"
        for entry in self._list(projects, prefix):
            project = written(entry.name)
            opted = self.scope.source_of(TranscriptKind.CLAUDE_CODE, project) is not None
            if opted or self.everything:
                self._below(entry, prefix)

    def _codex(self) -> None:
        prefix = f"{TranscriptKind.CODEX}/"
        for name, below in ((SESSIONS, prefix), (ARCHIVED, f"{prefix}{ARCHIVED}/")):
            for entry in self._list(os.path.join(self.place.folder, name), below):
                self._below(entry, below)

    def _path(self) -> None:
        path = self.place.folder
        root = os.path.abspath(self.scope.root)
        try:
            state = os.lstat(path)
        except (OSError, ValueError) as error:
            if has_magic(path) and isinstance(error, FileNotFoundError):
                self._glob(Glob.parse(path), root)
            else:
                reason = reason_of(error) if isinstance(error, OSError) else Reason.VANISHED
                self.skip(self.place.name, reason, f"path of transcripts: {said(error)}")
                # If it was a folder, it may be one that is not mounted.
                self.unread.append(f"{stored_path(path, root)}/")
            return
        name = stored_path(path, root)
        if (link := first_link(path, root)) is not None:
            self.skip(name, Reason.SYMLINK, link_target(link))
        elif stat.S_ISDIR(state.st_mode):
            for entry in self._list(path, f"{name}/"):
                self._below(entry, "" if name == "." else f"{name}/")
        else:
            self._take(Path(path), name, state)

    def _glob(self, glob: Glob, root: str) -> None:
        name = stored_path(glob.base, root)
        if (link := first_link(glob.base, root)) is not None:
            self.skip(name, Reason.SYMLINK, link_target(link))
            return
        if not os.path.isdir(glob.base):
            self.skip(name, Reason.VANISHED, "path of transcripts: no such folder")
            self.unread.append(f"{name}/")
            return
        waiting = [(glob.base, glob.start)]
        while waiting:
            folder, at = waiting.pop()
            prefix = stored_path(folder, root)
            prefix = "" if prefix == "." else f"{prefix}/"
            for entry in self._list(folder, prefix):
                moved = glob.step(at, entry.name)
                if moved and glob.done(moved):
                    self._below(entry, prefix)
                elif moved and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, moved))

    # --- files ----------------------------------------------------------------------------

    def _below(self, entry: os.DirEntry[str], prefix: str) -> None:
        """Take in a file, or every transcript below a folder."""
        waiting = [(entry, prefix)]
        while waiting:
            here, above = waiting.pop()
            stored = above + written(here.name)
            if here.is_symlink():
                if _MARK in here.name or _is_folder(here):
                    self.skip(stored, Reason.SYMLINK, link_target(here.path))
            elif here.is_dir(follow_symlinks=False):
                waiting += [(e, f"{stored}/") for e in self._list(here.path, f"{stored}/")]
            elif _MARK in here.name:
                self._named(here, stored)

    def one(self, path: str, stored: str) -> None:
        """Take in the file of a program that is there, if it is one of its transcripts."""
        name = os.path.basename(path)
        is_openclaw = self.place.kind is TranscriptKind.OPENCLAW
        listed = openclaw_files.is_listed(name, self.scope.rules) if is_openclaw else _MARK in name
        if listed and openclaw_files.file_kind(name) not in _PASSED_OVER:
            try:
                self._take(Path(path), stored, os.lstat(path))
            except OSError:
                # Whoever looks through the whole place says what is wrong.
                return

    def _named(self, entry: os.DirEntry[str], stored: str) -> None:
        form = openclaw_files.file_kind(entry.name)
        if form in _PASSED_OVER:
            self.skip(stored, Reason.IGNORED, _PASSED_OVER[form])
        else:
            self._file(entry, stored)

    def _file(self, entry: os.DirEntry[str], stored: str) -> None:
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError as error:
            self.skip(stored, reason_of(error), said(error))
            return
        if stat.S_ISLNK(state.st_mode):
            self.skip(stored, Reason.SYMLINK, link_target(entry.path))
        else:
            self._take(Path(entry.path), stored, state)

    def _take(self, path: Path, stored: str, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            self.skip(stored, Reason.NOT_REGULAR, kind(state.st_mode))
            return
        if not state.st_mode & stat.S_IROTH and not os.access(path, os.R_OK):
            self.skip(stored, Reason.UNREADABLE, "permission denied")
            return
        self.files[stored] = SourceFile(
            path=stored,
            absolute=path,
            source=SOURCE,
            size=state.st_size,
            mtime_ns=max(-_INT64_MAX, min(_INT64_MAX, state.st_mtime_ns)),
            inode=state.st_ino & _INT64_MAX,
            kind=self.place.kind or "",
        )

    def _list(self, folder: str, prefix: str) -> Iterator[os.DirEntry[str]]:
        if self.cancelled is not None and self.cancelled():
            raise Cancelled
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self.skip(prefix.rstrip("/") or ".", reason_of(error), said(error))
            if prefix:
                self.unread.append(prefix)
            return
        yield from found

    def skip(self, path: str, reason: Reason, detail: str) -> None:
        self.skipped.setdefault((path, reason), SkippedFile(path, reason, written(detail)))


def listed_sessions(database: Path) -> tuple[EventSession, ...]:
    """The sessions of a database, which is opened again only when it has changed.

    Raises what `sessions_in` raises, and `OSError`.
    """
    seen = fingerprint_of(database)
    times = [stamp.mtime_ns for stamp in (seen.database, seen.log) if stamp is not None]
    if not times or max(times) >= time.time_ns() - _RACY_NS:
        return sessions_in(database)
    return _sessions_then(database, seen)


@lru_cache(maxsize=64)
def _sessions_then(database: Path, seen: Fingerprint) -> tuple[EventSession, ...]:
    return sessions_in(database)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def file_at(scope: TranscriptScope, path: str) -> SourceFile | None:
    """The transcript of that stored path, opted in or not; `None` when there is none."""
    if (named := _named_by(scope, path)) is not None:
        return named
    for file in discover_transcripts(scope, everything=True).files:
        if file.path == path:
            return file
    return None


def _named_by(scope: TranscriptScope, path: str) -> SourceFile | None:
    """The transcript of a program that its stored path leads to by itself; nothing is listed."""
    for place in places_of(scope):
        if place.kind is None or place.database:
            continue
        for prefix, folder in _folders_of(place, scope):
            rest = path.removeprefix(prefix)
            parts = rest.split("/")
            below = len(parts) == 1 or place.kind is not TranscriptKind.OPENCLAW
            if rest == path or not below or not all(written(part) == part for part in parts):
                continue
            absolute = os.path.join(folder, *parts)
            if {"", ".", ".."} & set(parts) or first_link(absolute, folder) is not None:
                continue
            if (file := taken_in(scope, place, absolute, path)) is not None:
                return file
    return None


def _folders_of(place: TranscriptPlace, scope: TranscriptScope) -> Iterator[tuple[str, str]]:
    """What the stored paths of a program begin with, and the folder that this stands for."""
    match place.kind:
        case TranscriptKind.OPENCLAW:
            if not (os.path.islink(place.folder) or os.path.islink(os.path.dirname(place.folder))):
                agent = f"{place.agent}/" if scope.rules.stores_agent else ""
                yield f"{SOURCE}/{agent}", place.folder
        case TranscriptKind.CLAUDE_CODE:
            yield f"{TranscriptKind.CLAUDE_CODE}/", os.path.join(place.folder, PROJECTS)
        case TranscriptKind.CODEX:
            below = f"{TranscriptKind.CODEX}/"
            yield f"{below}{ARCHIVED}/", os.path.join(place.folder, ARCHIVED)
            yield below, os.path.join(place.folder, SESSIONS)
