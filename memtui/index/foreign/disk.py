"""The notes and transcripts that a release of OpenClaw indexes, compared with the rows."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from memtui.errors import IsCancelled, never, stop_if
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.consistency import Findings
from memtui.index.foreign.opening import Opened, columns_in, index_format
from memtui.index.foreign.rows import FileRow
from memtui.index.transcripts.discovery import SESSIONS
from memtui.index.transcripts.reading import TABLE, registered_sessions
from memtui.memory.documents import open_regular, text_hash, utc_time
from memtui.memory.paths import Glob, link_target, message_of
from memtui.memory.transcripts.openclaw_files import ARCHIVES, REGISTRY, RULES, file_kind, is_listed
from memtui.model import CONVERSATIONS, NOTES, Reason, SourceFile
from memtui.model.status import FileState, FileTruth
from memtui.retrieval.openclaw.tables import whole
from memtui.settings.openclaw.read import expanded
from memtui.settings.openclaw.releases import PREFIX, effective, release_named
from memtui.settings.openclaw.schema import MemorySearchConfig

DELTA_BYTES: Final = 100_000
"""Growth that the program waits for before it indexes a transcript again."""
_ROOT_FILE: Final = "MEMORY.md"
_LOWER_CASE: Final = "memory.md"
_USER_FILE: Final = "USER.md"
_FOLDER: Final = "memory"
_REPAIR_FOLDER: Final = ".openclaw-repair"

Counts: TypeAlias = Mapping[tuple[str, str], tuple[int, int]]
"""Chunks of each (path, source), and the last line that they reach."""
Verdict: TypeAlias = tuple[FileState, Reason, str]
"""The state of a file of the index, and why: as a code and in one line."""


class Why(Enum):
    """The rules that leave something out: a phrase, and the reason by which it is known."""

    LINK = "a link, which the program never follows", Reason.SYMLINK
    NOT_MARKDOWN = "its name does not end in .md", Reason.NOT_A_NOTE
    REPAIR = "below .openclaw-repair, which the program does not enter", Reason.IGNORED
    LOWER_CASE = "this release indexes only a file named exactly MEMORY.md", Reason.IGNORED
    NOT_YET = "this release does not index USER.md", Reason.IGNORED
    OUTSIDE = "outside memory/ and the extra paths", Reason.OUTSIDE_ROOT
    PATTERN = "outside the pattern of its extra path", Reason.OUTSIDE_ROOT
    DUPLICATE = "reached before under another path", Reason.DUPLICATE_FILE
    NOT_REGULAR = "not a regular file", Reason.NOT_REGULAR
    UNREADABLE = "cannot be read", Reason.UNREADABLE
    TOO_LARGE = "larger than multimodal.maxFileBytes", Reason.TOO_LARGE
    SOURCE_OFF = "its source is not enabled", Reason.DISABLED

    def __init__(self, phrase: str, reason: Reason) -> None:
        self.phrase, self.reason = phrase, reason


class DiskFile(SourceFile, frozen=True, kw_only=True):
    """A file that belongs to the index; of a session of the database `size` is the last event."""

    root: str
    """Its root: the root file, `memory/` or the extra path as it is written."""

    @property
    def mtime_ms(self) -> float:
        """The time of its last change in ms since the epoch."""
        return self.mtime_ns / 1e6

    @property
    def is_media(self) -> bool:
        """True for an image or a sound."""
        return self.source == NOTES and not self.path.endswith(".md")


def _disk_file(
    path: str, absolute: str | Path, source: str, root: str, state: os.stat_result, base: str = ""
) -> DiskFile:
    times = state.st_size, state.st_mtime_ns, state.st_ino
    return DiskFile(path, str(absolute), source, *times, base=base, root=root)


class LeftOut(NamedTuple):
    """The rule that leaves something on disk out, and the reason as one phrase."""

    why: Why
    phrase: str


class Listing(Struct):
    """The files on disk: notes by stored path, or transcripts by the last part of theirs."""

    files: dict[str, DiskFile] = {}
    left_out: dict[str, LeftOut] = {}
    findings: Findings = field(default_factory=Findings)
    problem: str = ""
    """The reason why the workspace itself cannot be listed."""
    unregistered: tuple[str, ...] = ()
    """Transcripts whose session the program's own list does not name."""


class _Root(Struct, frozen=True):
    label: str
    suffixes: tuple[str, ...] = (".md",)
    pattern: str = ""
    base: str = ""


def list_memory(target: ForeignTarget, release: str, *, cancelled: IsCancelled = never) -> Listing:
    """List the notes of a workspace as `release` finds them (OPENCLAW.md section 1).

    None where no workspace is known, no extra path without a configuration. Raises `Cancelled`
    when `cancelled()` turns true, `SettingsError` for a release without a profile.
    """
    return _NoteSearch(target, release, cancelled).listing


def _target(path: str) -> str:
    return as_stored(link_target(path).removeprefix("link "))


def as_stored(path: str) -> str:
    """Write a path as the program does: `/` between parts, bytes that are no UTF-8 as U+FFFD."""
    text = path.replace(os.sep, "/")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _NoteSearch:
    def __init__(self, target: ForeignTarget, release: str, cancelled: IsCancelled) -> None:
        self.listing = Listing()
        self._workspace = os.path.abspath(target.workspace or "")
        self._release = release_named(release).name
        written = target.expected.search if target.expected is not None else MemorySearchConfig()
        self._config = effective(written, release)
        self._cancelled = cancelled
        self._real_paths: set[str] = set()
        kinds = self._config.multimodal_modalities if self._config.multimodal_enabled else ()
        media: dict[str, list[str]] = index_format()["media"]
        self._media = tuple(suffix for kind in kinds for suffix in media.get(kind, ()))
        self._note_like = tuple(index_format()["note_like"])
        if target.workspace is not None:
            self._list_notes(target.home)

    def _list_notes(self, home: Path | None) -> None:
        """List the usual places, then the extra paths, unless the workspace cannot be listed."""
        also = {"2026.2": _LOWER_CASE, "2026.9": _USER_FILE}.get(self._release)
        try:
            names = sorted(os.listdir(self._workspace))
        except OSError as error:
            self.listing.problem = error.strerror or str(error)
            return
        for name in names:
            path = os.path.join(self._workspace, name)
            if name in {_ROOT_FILE, also} and (os.path.islink(path) or not os.path.isdir(path)):
                self._walk(path, name, _Root(f"root file {name}"))
            elif name.endswith(".md") and os.path.isfile(path) and not os.path.islink(path):
                why = Why.LOWER_CASE if name.lower() == _LOWER_CASE else Why.OUTSIDE
                self._leave(as_stored(name), Why.NOT_YET if name == _USER_FILE else why)
            elif name == _FOLDER:
                media = () if self._release == "2026.9" else self._media
                self._walk(path, _FOLDER, _Root(f"{_FOLDER}/", (".md", *media)))
        patterns, findings = dict(self._config.extra_path_patterns), self.listing.findings
        expands = self._release == "2026.9"
        places: set[tuple[str, str]] = set()
        for written in self._config.extra_paths:
            text, pattern = written.strip(), patterns.get(written, "")
            path = os.path.abspath(os.path.join(self._workspace, text))
            if expands and text.startswith("~") and home is not None:
                path = str(expanded(text, home))
            if not text or (path, pattern) in places:
                continue
            places.add((path, pattern))
            try:
                mode = os.lstat(path).st_mode
            except (OSError, ValueError) as error:
                is_tilde = text.startswith("~") and not expands
                code = "extra_path_tilde" if is_tilde else "extra_path_missing"
                findings.add(code, [text], path=text, place=path, problem=message_of(error))
                continue
            root = _Root(f"extra path {text}", (".md", *self._media), pattern, path)
            stored = as_stored(os.path.relpath(path, self._workspace))
            is_note = stat.S_ISREG(mode) and path.endswith(root.suffixes)
            if stat.S_ISLNK(mode):
                findings.add("extra_path_link", [text], path=text, target=_target(path))
            elif not is_note and not stat.S_ISDIR(mode):
                self._leave(stored, Why.NOT_MARKDOWN)
                findings.add("extra_path_skipped", [text], path=text)
                continue
            self._walk(path, stored, root)

    def _walk(self, start: str, stored: str, root: _Root) -> None:
        """Take in a file or all that a folder holds, or say why it is left out."""
        waiting = [(start, stored)]
        while waiting:
            path, stored = waiting.pop()
            stop_if(self._cancelled)
            name, is_start = os.path.basename(path), path == start
            is_note_like = name.lower().endswith(self._note_like)
            try:
                state = os.lstat(path)
                if stat.S_ISLNK(state.st_mode):
                    if is_start or is_note_like or os.path.isdir(path):
                        self._leave(stored, Why.LINK, _target(path))
                elif not stat.S_ISDIR(state.st_mode):
                    self._take_file(path, stored, root, state)
                elif name == _REPAIR_FOLDER and self._release != "2026.2" and not is_start:
                    self._leave(stored, Why.REPAIR)
                else:
                    prefix = "" if stored == "." else f"{stored}/"
                    for below in sorted(os.listdir(path), reverse=True):
                        waiting.append((os.path.join(path, below), prefix + as_stored(below)))
            except FileNotFoundError:
                # Gone since it was listed.
                continue
            except OSError as error:
                self._leave(stored, Why.UNREADABLE, message_of(error))

    def _take_file(self, path: str, stored: str, root: _Root, state: os.stat_result) -> None:
        if not path.endswith(root.suffixes):
            if path.lower().endswith(self._note_like):
                self._leave(stored, Why.NOT_MARKDOWN)
            return
        media, real = not path.endswith(".md"), os.path.realpath(path)
        below = as_stored(os.path.relpath(path, root.base)) if root.pattern else ""
        is_lower_case = path == os.path.join(self._workspace, _LOWER_CASE)
        effective_ids = os.access in os.supports_effective_ids
        if not stat.S_ISREG(state.st_mode):
            self._leave(stored, Why.NOT_REGULAR)
        elif root.pattern and not matches_glob(root.pattern, below):
            self._leave(stored, Why.PATTERN)
        elif is_lower_case and self._release != "2026.2":
            self._leave(stored, Why.LOWER_CASE)
        elif media and state.st_size > self._config.multimodal_max_file_bytes:
            self._leave(stored, Why.TOO_LARGE)
        elif not os.access(path, os.R_OK, effective_ids=effective_ids):
            self._leave(stored, Why.UNREADABLE)
        elif real in self._real_paths:
            self._leave(stored, Why.DUPLICATE)
        else:
            self._real_paths.add(real)
            self.listing.left_out.pop(stored, None)
            base = root.base or self._workspace
            self.listing.files[stored] = _disk_file(stored, path, NOTES, root.label, state, base)

    def _leave(self, stored: str, why: Why, detail: str = "") -> None:
        if stored not in self.listing.files:
            phrase = f"{why.phrase} ({detail})" if detail else why.phrase
            self.listing.left_out[stored] = LeftOut(why, phrase)


def matches_glob(pattern: str, path: str) -> bool:
    """Match a path below a folder against a POSIX glob: `**` is any number of folders.

    Name by name, so that nothing but `**` crosses a slash; in time linear in the path. Unlike an
    extra path of memtui, a pattern that names a folder does not stand for what it holds.
    """
    parts = pattern.strip("/").split("/")
    glob = Glob("", (*parts, "*") if parts[-1] == "**" else tuple(parts))
    at = glob.start
    for name in path.split("/"):
        at = glob.step(at - {len(glob.parts)}, name)
    return glob.done(at)


_SAME_MS: Final = 1.0
"""Some releases store whole milliseconds, others fractions."""


def compare_notes(
    rows: Iterable[FileRow],
    listing: Listing,
    counts: Counts,
    target: ForeignTarget,
    *,
    deep: bool = False,
    enabled: bool = True,
) -> tuple[FileTruth, ...]:
    """Compare the notes on disk with the rows of the source `memory`, by path.

    Nothing where no workspace is known. A file whose time (to the millisecond) and size are those
    of its row is taken as current without being read unless `deep`; others are hashed. Without a
    configuration nobody knows which extra paths there are: a row beyond the usual places is then
    judged by its file alone.
    """
    if (workspace := target.workspace) is None:
        return ()
    by_path, unlisted = {row.path: row for row in rows}, dict[str, DiskFile]()
    for path in by_path.keys() - listing.files.keys():
        place, root = os.path.join(workspace, path), "an extra path that is not known here"
        with suppress(OSError, ValueError):
            unlisted[path] = _disk_file(path, place, NOTES, root, os.lstat(place))

    def judge(row: FileRow, file: DiskFile | None) -> Verdict:
        left = listing.left_out.get(row.path)
        is_usual = row.path == _ROOT_FILE or row.path.startswith(f"{_FOLDER}/")
        is_outside = not is_usual and (left is None or left.why is Why.OUTSIDE)
        if file is not None and (
            row.path not in unlisted or (is_outside and target.expected is None)
        ):
            state, cause, reason = _note_verdict(file, row, deep)
            return state, cause, f"{reason}; from {file.root}"
        if left is not None and left.why is Why.UNREADABLE:
            reason = f"{left.phrase}; the index keeps what it has"
            return FileState.SKIPPED, left.why.reason, reason
        if left is not None:
            reason = f"indexed before, now left out: {left.phrase}"
            return FileState.ORPHAN, left.why.reason, reason
        if file is not None:
            return FileState.ORPHAN, Reason.OUTSIDE_ROOT, f"on disk, but {Why.OUTSIDE.phrase}"
        return FileState.ORPHAN, Reason.VANISHED, "no longer on disk"

    left_out = [
        FileTruth(path, NOTES, FileState.SKIPPED, left.phrase, cause=left.why.reason)
        for path, left in listing.left_out.items()
        if path not in by_path
    ]
    return _compared(by_path, listing.files | unlisted, counts, NOTES, enabled, judge, left_out)


def _compared(
    rows: Mapping[str, FileRow],
    files: Mapping[str, DiskFile],
    counts: Counts,
    source: str,
    enabled: bool,
    judge: Callable[[FileRow, DiskFile | None], Verdict],
    others: Iterable[FileTruth] = (),
) -> tuple[FileTruth, ...]:
    """Pair rows with files of the same key, and say how each stands, beside `others`; by path."""
    truths = [*others]
    for key in {*rows, *files}:
        row, file = rows.get(key), files.get(key)
        path, in_index, chunks = file.path if file is not None else key, None, 0
        if row is not None:
            path, in_index = row.path, row.changed
            chunks, _ = counts.get((path, source), (0, 0))
        if not enabled:
            state = FileState.ORPHAN if row is not None else FileState.SKIPPED
            cause, reason = Why.SOURCE_OFF.reason, Why.SOURCE_OFF.phrase
        elif row is not None:
            state, cause, reason = judge(row, file)
        else:
            state, cause = FileState.NEVER_INDEXED, Reason.NOT_YET_INDEXED
            reason = f"no row in the index; from {files[key].root}"
        on_disk = utc_time(file.mtime_ms / 1000) if file is not None else None
        truths.append(FileTruth(path, source, state, reason, cause, chunks, on_disk, in_index))
    return tuple(sorted(truths, key=lambda truth: (truth.path, truth.state)))


def _note_verdict(file: DiskFile, row: FileRow, deep: bool) -> Verdict:
    if file.size != row.size:
        change = f"{row.size:,} bytes when it was indexed, {file.size:,} now"
        return FileState.STALE, Reason.STALE, change
    if abs(file.mtime_ms - row.mtime) < _SAME_MS and not deep:
        return FileState.CURRENT, Reason.OK, "same time and size as indexed, not read"
    if file.is_media:
        return FileState.CURRENT, Reason.OK, "same size as indexed; media are not hashed here"
    try:
        # Never follows a link or waits for a pipe. The program reads bad bytes as U+FFFD.
        with open(open_regular(file.absolute, file.base), "rb") as stream:
            digest = text_hash(stream.read().decode("utf-8", "replace"))
    except (FileNotFoundError, NotADirectoryError) as error:
        reason = f"vanished while it was looked at ({message_of(error)})"
        return FileState.ORPHAN, Reason.VANISHED, reason
    except OSError as error:
        reason = f"{Why.UNREADABLE.phrase} ({message_of(error)})"
        return FileState.SKIPPED, Reason.UNREADABLE, reason
    if digest == row.hash:
        return FileState.CURRENT, Reason.OK, "same content as indexed, read and hashed"
    return FileState.STALE, Reason.STALE, "same size as indexed, other content (hash)"


_TURN_MS: Final = 60_000.0
"""Most time from the last event of a turn back to the time that the program keeps of it."""
_EARLIEST_MS: Final = 1e11


def list_sessions(opened: Opened, target: ForeignTarget, release: str) -> Listing | None:
    """List the transcripts that count; `None` when there is no place to count them.

    From 2026.9 on they are rows of the agent's database, and files only when archived.
    """
    rules = RULES[PREFIX + release_named(release).name]
    folder = Path()
    files: dict[str, DiskFile] | None = None
    if target.state_dir is not None and target.agent is not None:
        folder = target.state_dir / "agents" / target.agent / SESSIONS
        # No such folder, or none that may be listed: the report says that it cannot be counted.
        with suppress(OSError):
            names = [name for name in sorted(os.listdir(folder)) if is_listed(name, rules)]
            states = {name: os.lstat(folder / name) for name in names}
            files, root = {}, "the agent's transcripts"
            for name, state in states.items():
                if stat.S_ISREG(state.st_mode):
                    path = f"{CONVERSATIONS}/{(stored := as_stored(name))}"
                    files[stored] = _disk_file(path, folder / name, CONVERSATIONS, root, state)
    needed = {"session_id", "seq", "created_at"}
    if rules.stores_agent and columns_in(opened.connection, TABLE).keys() >= needed:
        listed = {n: file for n, file in (files or {}).items() if file_kind(n) in ARCHIVES}
        last_events = f"SELECT session_id, max(created_at), max(seq) FROM {TABLE} GROUP BY 1"
        for session, changed, last in opened.select(f"{last_events} ORDER BY 1"):
            listed[f"{session}.jsonl"] = DiskFile(
                f"{CONVERSATIONS}/{session}.jsonl",
                str(opened.real),
                CONVERSATIONS,
                last if isinstance(last, int) else 0,
                whole(changed) * 10**6,
                0,
                session=str(session),
                root="the agent's database",
            )
        return Listing(listed)
    if files is None:
        return None
    registered = registered_sessions(folder / REGISTRY)
    sessions = {name: name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")}
    unregistered = [name for name, one in sessions.items() if registered and one not in registered]
    return Listing(files, unregistered=tuple(unregistered))


def compare_sessions(
    rows: Iterable[FileRow], sessions: Listing, counts: Counts, *, enabled: bool
) -> tuple[FileTruth, ...]:
    """Compare transcripts with their rows, by file name.

    Their hash is that of the cleaned conversation and cannot be told from the file: a transcript
    only grows, so its size (from 2026.9 on the time of its last event) decides.
    """

    def judge(row: FileRow, file: DiskFile | None) -> Verdict:
        if file is None:
            return FileState.ORPHAN, Reason.VANISHED, "its transcript is gone"
        if file.session:
            # The time of a row is that of the session, or the number of its last event.
            is_time = row.mtime >= _EARLIEST_MS
            if file.mtime_ms > row.mtime + _TURN_MS if is_time else file.size > row.mtime:
                return FileState.STALE, Reason.STALE, "events were added since it was indexed"
            return FileState.CURRENT, Reason.OK, "no event since it was indexed"
        if grown := file.size - row.size:
            change = f"grew by {grown:,} bytes" if grown > 0 else f"shrank by {-grown:,} bytes"
            return FileState.STALE, Reason.STALE, f"{change} since it was indexed"
        same = "same size as indexed; its hash cannot be told from the file"
        return FileState.CURRENT, Reason.OK, same

    by_name = {row.path.rpartition("/")[2]: row for row in rows}
    return _compared(by_name, sessions.files, counts, CONVERSATIONS, enabled, judge)
