"""The notes and transcripts that a release of OpenClaw indexes, compared with the rows."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from memtui.errors import Cancelled
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.findings import Findings, counted
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import MEMORY, FileRow
from memtui.memory.documents import open_regular, reason_of
from memtui.memory.paths import parts_below, said
from memtui.memory.transcripts.openclaw_files import (
    ARCHIVES,
    REGISTRY,
    RULES,
    file_kind,
    is_listed,
)
from memtui.model import Reason
from memtui.model.status import FileState, FileTruth, IndexGeneration
from memtui.settings.openclaw.document import expanded
from memtui.settings.openclaw.releases import effective, known_release
from memtui.settings.openclaw.schema import MemorySearchConfig

SESSIONS: Final = "sessions"
"""The source of the transcripts, and the name of their folder."""
DELTA_BYTES: Final = 100_000
"""What the program lets pile up before it indexes a transcript again."""
_ROOT_FILE: Final = "MEMORY.md"
_LOWER_CASE: Final = "memory.md"
_USER_FILE: Final = "USER.md"
_FOLDER: Final = "memory"
_REPAIR_FOLDER: Final = ".openclaw-repair"
_NOTE_LIKE: Final = (".md", ".markdown", ".mdx", ".mdown", ".mkd", ".txt", ".rst", ".org")
_MEDIA: Final = {
    "image": (".jpg", ".jpeg", ".png", ".webp", ".gif", ".heic", ".heif"),
    "audio": (".mp3", ".wav", ".ogg", ".opus", ".m4a", ".aac", ".flac"),
}

Counts = Mapping[tuple[str, str], tuple[int, int]]
"""Chunks of each (path, source), and the last line that they reach."""
Cancels = Callable[[], bool]


def never() -> bool:
    """Cancel nothing."""
    return False


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

    @property
    def phrase(self) -> str:
        """The words for people."""
        return self.value[0]

    @property
    def reason(self) -> Reason:
        """The reason that everything else in memtui calls it by."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file that belongs to the index; `mtime_ms` in ms since the epoch, `size` in bytes."""

    path: str
    """As the index would store it."""
    absolute: str
    """Empty for a transcript that is rows of the database; its `size` is the last event."""
    root: str
    """What brought it in: the root file, `memory/` or the extra path as it is written."""
    size: int
    mtime_ms: float
    media: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something on disk that the rules leave out."""

    path: str
    why: Why
    detail: str = ""

    @property
    def phrase(self) -> str:
        """The reason as one phrase."""
        return f"{self.why.phrase} ({self.detail})" if self.detail else self.why.phrase


@dataclass(slots=True)
class Listing:
    """The notes on disk: files by stored path, those left out, and findings about them."""

    files: dict[str, DiskFile] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    problem: str = ""
    """Why the workspace itself cannot be listed."""


@dataclass(frozen=True, slots=True)
class _Root:
    label: str
    suffixes: tuple[str, ...] = (".md",)
    pattern: str = ""
    base: str = ""


def list_memory(
    workspace: Path,
    config: MemorySearchConfig | None,
    release: str,
    *,
    home: Path | None = None,
    only: str | None = None,
    cancelled: Cancels = never,
) -> Listing:
    """List the notes of a workspace as `release` finds them (OPENCLAW.md section 1).

    Without a configuration no extra path is known. With `only`, an absolute path, folders that do
    not lead to it are not entered. Raises `Cancelled` when `cancelled()` turns true, `ValueError`
    for a release without a profile.
    """
    search = _Search(workspace, config, release, home, cancelled, only)
    if search.root_files():
        search.memory_folder()
        search.extra_paths()
    return search.listing


def as_stored(path: str) -> str:
    """Write a path as the program does: `/` between parts, bytes that are no UTF-8 as U+FFFD."""
    text = path.replace(os.sep, "/")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Search:
    def __init__(
        self,
        workspace: Path,
        config: MemorySearchConfig | None,
        release: str,
        home: Path | None,
        cancelled: Cancels,
        only: str | None,
    ) -> None:
        self.listing = Listing()
        self._only = (only, os.path.realpath(only)) if only is not None else ()
        self._release = known_release(release)
        self._workspace = os.path.abspath(workspace)
        self._config = effective(config, release).search if config is not None else None
        self._home = home
        self._cancelled = cancelled
        self._seen: set[str] = set()
        is_media = self._config is not None and self._config.multimodal_enabled
        kinds = self._config.multimodal_modalities if self._config and is_media else ()
        self._media = tuple(suffix for kind in kinds for suffix in _MEDIA.get(kind, ()))

    def root_files(self) -> bool:
        """Look at the workspace itself; False when it cannot be listed."""
        try:
            with os.scandir(self._workspace) as entries:
                top = list(entries)
        except OSError as error:
            self.listing.problem = error.strerror or str(error)
            return False
        first = (_ROOT_FILE, _LOWER_CASE, _USER_FILE)
        for entry in sorted(top, key=lambda entry: (entry.name not in first, entry.name)):
            name, refusal = entry.name, None
            if name == _USER_FILE:
                refusal = None if self._release == "2026.9" else Why.NOT_YET
            elif name != _ROOT_FILE and (name != _LOWER_CASE or self._release != "2026.2"):
                refusal = Why.LOWER_CASE if name.lower() == _LOWER_CASE else Why.OUTSIDE
            if refusal is None:
                self._entry(entry, "", _Root(f"root file {entry.name}"))
            elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                self._leave(as_stored(entry.name), refusal)
        return True

    def memory_folder(self) -> None:
        """Walk `memory/`, unless it is a link."""
        media = () if self._release in {"2026.2", "2026.9"} else self._media
        path = os.path.join(self._workspace, _FOLDER)
        if os.path.islink(path):
            self._leave(_FOLDER, Why.LINK, _target(path))
        elif os.path.isdir(path):
            self._walk(path, f"{_FOLDER}/", _Root(f"{_FOLDER}/", (".md", *media)))

    def extra_paths(self) -> None:
        """Look at every extra path once."""
        if self._config is None:
            return
        patterns = dict(self._config.extra_path_patterns)
        media = () if self._release == "2026.2" else self._media
        seen: set[tuple[str, str]] = set()
        for written in self._config.extra_paths:
            text, pattern = written.strip(), patterns.get(written, "")
            path = os.path.abspath(os.path.join(self._workspace, text))
            if self._release == "2026.9" and text.startswith("~") and self._home is not None:
                path = str(expanded(text, self._home))
            if text and (path, pattern) not in seen:
                seen.add((path, pattern))
                root = _Root(f"extra path {text}", (".md", *media), pattern, path)
                self._extra(text, path, root)

    def _extra(self, text: str, path: str, root: _Root) -> None:
        findings = self.listing.findings
        try:
            state = os.lstat(path)
        except (OSError, ValueError) as error:
            is_tilde = text.startswith("~") and self._release != "2026.9"
            code = "extra_path_tilde" if is_tilde else "extra_path_missing"
            findings.add(code, [text], path=text, place=path, problem=said(error))
            return
        stored = as_stored(os.path.relpath(path, self._workspace))
        if stat.S_ISLNK(state.st_mode):
            target = _target(path)
            findings.add("extra_path_link", [text], path=text, target=target)
            self._leave(stored, Why.LINK, target)
        elif stat.S_ISDIR(state.st_mode):
            self._walk(path, "" if stored == "." else f"{stored}/", root)
        elif stat.S_ISREG(state.st_mode) and path.endswith(root.suffixes):
            self._file(path, stored, root, state)
        else:
            self._leave(stored, Why.NOT_MARKDOWN)
            findings.add("extra_path_skipped", [text], path=text)

    def _walk(self, folder: str, prefix: str, root: _Root) -> None:
        waiting = [(folder, prefix)]
        while waiting:
            place, stored = waiting.pop()
            if self._cancelled():
                raise Cancelled
            try:
                with os.scandir(place) as entries:
                    every = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._leave(stored.rstrip("/") or ".", Why.UNREADABLE, said(error))
                continue
            for entry in every:
                only = self._only
                if only and not any(parts_below(o, entry.path) is not None for o in only):
                    continue
                if self._entry(entry, stored, root):
                    waiting.append((entry.path, f"{stored}{as_stored(entry.name)}/"))

    def _entry(self, entry: os.DirEntry[str], prefix: str, root: _Root) -> bool:
        """Take an entry in or leave it out; True for a folder to enter."""
        name, stored = entry.name, prefix + as_stored(entry.name)
        try:
            if entry.is_symlink():
                if name.lower().endswith(_NOTE_LIKE) or entry.is_dir():
                    self._leave(stored, Why.LINK, _target(entry.path))
                return False
            if entry.is_dir(follow_symlinks=False):
                if name == _REPAIR_FOLDER and self._release != "2026.2":
                    self._leave(stored, Why.REPAIR)
                    return False
                return True
            if entry.path.endswith(root.suffixes):
                self._file(entry.path, stored, root, entry.stat(follow_symlinks=False))
            elif name.lower().endswith(_NOTE_LIKE):
                self._leave(stored, Why.NOT_MARKDOWN)
        except OSError as error:
            self._leave(stored, Why.UNREADABLE, said(error))
        return False

    def _file(self, path: str, stored: str, root: _Root, state: os.stat_result) -> None:
        media = not path.endswith(".md")
        refusal = self._refusal(path, root, state, media)
        if refusal is not None:
            self._leave(stored, refusal)
            return
        real = os.path.realpath(path)
        if real in self._seen:
            self._leave(stored, Why.DUPLICATE)
            return
        self._seen.add(real)
        self.listing.left_out.pop(stored, None)
        self.listing.files[stored] = DiskFile(
            stored, path, root.label, state.st_size, state.st_mtime_ns / 1e6, media
        )

    def _refusal(self, path: str, root: _Root, state: os.stat_result, media: bool) -> Why | None:
        if not stat.S_ISREG(state.st_mode):
            return Why.NOT_REGULAR
        if root.pattern:
            below = as_stored(os.path.relpath(path, root.base))
            if not matches_glob(root.pattern, below):
                return Why.PATTERN
        if self._release != "2026.2" and path == os.path.join(self._workspace, _LOWER_CASE):
            return Why.LOWER_CASE
        limit = self._config.multimodal_max_file_bytes if self._config is not None else 0
        if media and state.st_size > limit:
            return Why.TOO_LARGE
        effective_ids = os.access in os.supports_effective_ids
        may_read = os.access(path, os.R_OK, effective_ids=effective_ids)
        return None if may_read else Why.UNREADABLE

    def _leave(self, stored: str, why: Why, detail: str = "") -> None:
        if stored not in self.listing.files:
            self.listing.left_out[stored] = LeftOut(stored, why, detail)


def matches_glob(pattern: str, path: str) -> bool:
    """Match a path below a folder against a POSIX glob: `**` is any number of folders.

    Name by name, so that nothing but `**` crosses a slash; in time linear in the path.
    """
    parts = pattern.strip("/").split("/")
    if parts[-1] == "**":
        parts.append("*")
    at = {0}
    for name in path.split("/"):
        for place, part in enumerate(parts):
            if place in at and part == "**":
                at.add(place + 1)
        at = {
            place if parts[place] == "**" else place + 1
            for place in at
            if place < len(parts) and (parts[place] == "**" or fnmatchcase(name, parts[place]))
        }
    return len(parts) in at


def _target(path: str) -> str:
    try:
        return f"to {as_stored(os.readlink(path))}"
    except OSError as error:
        return said(error)


# --- against the rows: no stored flag is believed ---------------------------------------------

_PIECE: Final = 1 << 20
_SAME_MS: Final = 1.0
"""Some releases store whole milliseconds, others fractions."""


def compare_notes(
    rows: Iterable[FileRow],
    listing: Listing,
    counts: Counts,
    workspace: Path,
    *,
    deep: bool = False,
    enabled: bool = True,
    scope_known: bool = True,
    cancelled: Cancels = never,
) -> tuple[FileTruth, ...]:
    """Compare the notes on disk with the rows of the source `memory`, by path.

    A file whose time (to the millisecond) and size are those of its row is taken as current
    without being read unless `deep`; others are hashed. `scope_known` is false when nobody knows
    which extra paths there are; a row beyond the usual places is then judged by its file alone.
    Raises `Cancelled`.
    """
    truths: list[FileTruth] = []
    indexed: set[str] = set()
    for row in rows:
        if cancelled():
            raise Cancelled
        indexed.add(row.path)
        file = listing.files.get(row.path) if enabled else None
        if file is None and enabled and not scope_known:
            file = _beyond(row.path, workspace, listing)
        if file is None:
            on_disk = _time_of(os.path.join(workspace, row.path))
            left = listing.left_out.get(row.path)
            state = FileState.ORPHAN
            if not enabled:
                reason = Why.SOURCE_OFF.phrase
            elif left is not None and left.why is Why.UNREADABLE:
                state, reason = FileState.SKIPPED, f"{left.phrase}; the index keeps what it has"
            elif left is not None:
                reason = f"indexed before, now left out: {left.phrase}"
            elif on_disk is not None:
                reason = f"on disk, but {Why.OUTSIDE.phrase}"
            else:
                reason = "no longer on disk"
        else:
            state, reason = _note_verdict(file, row, deep, cancelled)
            reason, on_disk = f"{reason}; from {file.root}", moment(file.mtime_ms)
        count, in_index = counts.get((row.path, row.source), (0, 0))[0], moment(row.mtime)
        truths.append(FileTruth(row.path, row.source, state, reason, count, on_disk, in_index))
    truths += [
        _without_row(file, MEMORY, enabled)
        for path, file in listing.files.items()
        if path not in indexed
    ]
    truths += [
        FileTruth(path, MEMORY, FileState.SKIPPED, left.phrase)
        for path, left in listing.left_out.items()
        if path not in indexed
    ]
    return tuple(sorted(truths, key=lambda truth: (truth.path, truth.state)))


def _without_row(file: DiskFile, source: str, enabled: bool) -> FileTruth:
    state = FileState.NEVER_INDEXED if enabled else FileState.SKIPPED
    reason = f"no row in the index; from {file.root}" if enabled else Why.SOURCE_OFF.phrase
    return FileTruth(file.path, source, state, reason, on_disk=moment(file.mtime_ms))


def _beyond(path: str, workspace: Path, listing: Listing) -> DiskFile | None:
    """A file outside the usual places that an extra path may have brought in."""
    if path == _ROOT_FILE or path.startswith(f"{_FOLDER}/"):
        return None
    if path in listing.left_out and listing.left_out[path].why is not Why.OUTSIDE:
        return None
    absolute = os.path.join(workspace, path)
    try:
        state = os.lstat(absolute)
    except (OSError, ValueError):
        return None
    root = "an extra path that is not known here"
    return DiskFile(path, absolute, root, state.st_size, state.st_mtime_ns / 1e6)


def _note_verdict(
    file: DiskFile, row: FileRow, deep: bool, cancelled: Cancels
) -> tuple[FileState, str]:
    if file.size != row.size:
        change = f"{row.size:,} bytes when it was indexed, {file.size:,} now"
        return FileState.STALE, change
    if abs(file.mtime_ms - row.mtime) < _SAME_MS and not deep:
        return FileState.CURRENT, "same time and size as indexed, not read"
    if file.media:
        return FileState.CURRENT, "same size as indexed; media are not hashed here"
    try:
        digest = _content_hash(file.absolute, cancelled)
    except OSError as error:
        if reason_of(error) in {Reason.UNREADABLE, Reason.TOO_LARGE}:
            return FileState.SKIPPED, f"{Why.UNREADABLE.phrase} ({said(error)})"
        return FileState.ORPHAN, f"vanished while it was looked at ({said(error)})"
    if digest == row.hash:
        return FileState.CURRENT, "same content as indexed, read and hashed"
    return FileState.STALE, "same size as indexed, other content (hash)"


def _content_hash(path: str, cancelled: Cancels) -> str:
    """Hash a file as the program does: SHA-256 of its text, bad bytes read as U+FFFD.

    Never follows a link or waits for a pipe. Raises `OSError`, `Cancelled`.
    """
    with os.fdopen(open_regular(Path(path)), "rb") as file:
        digest = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := file.read(_PIECE):
            if cancelled():
                raise Cancelled
            digest.update(decoder.decode(piece).encode())
        digest.update(decoder.decode(b"", final=True).encode())
    return digest.hexdigest()


def _time_of(path: str) -> datetime | None:
    try:
        return moment(os.lstat(path).st_mtime_ns / 1e6)
    except (OSError, ValueError):
        return None


def moment(milliseconds: float) -> datetime | None:
    """A time in ms since the epoch as a UTC time; `None` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (OverflowError, ValueError, OSError):
        return None


def report_drift(files: Sequence[FileTruth], listing: Listing, findings: Findings) -> None:
    """Sum the files of the source `memory` up by what is wrong with them, by name."""
    paths: dict[FileState, list[str]] = defaultdict(list)
    for file in files:
        paths[file.state].append(file.path)
    findings.add("files_stale", paths[FileState.STALE])
    findings.add("files_orphaned", paths[FileState.ORPHAN])
    findings.add("files_never_indexed", paths[FileState.NEVER_INDEXED])
    locked = [
        file.path
        for file in files
        if file.state is FileState.SKIPPED and file.reason.startswith(Why.UNREADABLE.phrase)
    ]
    findings.add("files_unreadable", locked)
    findings.items += listing.findings.items
    by_why: dict[Why, list[str]] = defaultdict(list)
    for path in sorted(listing.left_out):
        by_why[listing.left_out[path].why].append(path)
    own = {_FOLDER, _ROOT_FILE, _USER_FILE}
    findings.add("memory_linked", [path for path in by_why[Why.LINK] if path in own])
    findings.add("links_skipped", [path for path in by_why[Why.LINK] if path not in own])
    findings.add("root_file_skipped", sorted(by_why[Why.LOWER_CASE] + by_why[Why.NOT_YET]))


# --- transcripts ------------------------------------------------------------------------------

_EVENTS: Final = "transcript_events"
_RECENT_S: Final = 86_400.0
_TURN_MS: Final = 60_000.0
"""How far the last event of a turn may lie behind the time that the program keeps of it."""
_EARLIEST_MS: Final = 1e11


@dataclass(frozen=True, slots=True)
class Sessions:
    """The transcripts that count, by the last part of their stored path."""

    files: dict[str, DiskFile]
    unregistered: tuple[str, ...] = ()
    """Transcripts whose session the program's own list does not name."""


def list_sessions(
    opened: Opened, target: ForeignTarget, release: str, *, cancelled: Cancels = never
) -> Sessions | None:
    """List the transcripts that count; `None` when there is no place to count them.

    From 2026.9 on they are rows of the agent's database, and files only when archived.
    """
    folder: Path | None = None
    if target.state_dir is not None and target.agent is not None:
        folder = target.state_dir / "agents" / target.agent / SESSIONS
    elif target.expected is not None:
        # The database is at the usual place.
        folder = opened.real.parent.parent
        if opened.layout.generation is IndexGeneration.SIDECAR:
            folder = folder / "agents" / target.expected.name
        folder = folder / SESSIONS
    in_rows = _in_rows(opened) if known_release(release) == "2026.9" else None
    in_files = _in_files(folder, release, cancelled) if folder is not None else None
    if in_rows is not None:
        archived = in_files or {}
        archived = {name: file for name, file in archived.items() if file_kind(name) in ARCHIVES}
        return Sessions(archived | in_rows)
    if in_files is None or folder is None:
        return None
    registered = _registered(folder)
    if registered is None:
        return Sessions(in_files)
    transcripts = (name for name in in_files if name.endswith(".jsonl"))
    unregistered = (n for n in transcripts if n.removesuffix(".jsonl") not in registered)
    return Sessions(in_files, tuple(unregistered))


def _in_files(folder: Path, release: str, cancelled: Cancels) -> dict[str, DiskFile] | None:
    rules = RULES[f"openclaw-{known_release(release)}"]
    files: dict[str, DiskFile] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if cancelled():
                    raise Cancelled
                if not is_listed(entry.name, rules):
                    continue
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode):
                    name, root = as_stored(entry.name), "the agent's transcripts"
                    mtime_ms = state.st_mtime_ns / 1e6
                    path = f"{SESSIONS}/{name}"
                    files[name] = DiskFile(path, entry.path, root, state.st_size, mtime_ms)
    except OSError:
        # No such folder, or none that may be listed: the report says that it cannot be counted.
        return None
    return files


def _in_rows(opened: Opened) -> dict[str, DiskFile] | None:
    """Transcripts of the database; `size` is the number of the last event, not bytes."""
    columns = opened.connection.execute(
        "SELECT count(*) FROM pragma_table_info(?)"
        " WHERE name IN ('session_id', 'seq', 'created_at')",
        (_EVENTS,),
    ).fetchall()[0][0]
    if columns != 3:
        return None
    rows = opened.connection.execute(
        f"SELECT session_id, max(created_at), max(seq) FROM {_EVENTS} GROUP BY 1 ORDER BY 1"
    ).fetchall()
    files: dict[str, DiskFile] = {}
    for session, changed, last in rows:
        name = f"{session}.jsonl"
        size = last if isinstance(last, int) else 0
        time = float(changed) if isinstance(changed, int | float) else 0.0
        files[name] = DiskFile(f"{SESSIONS}/{name}", "", "the agent's database", size, time)
    return files


def _registered(folder: Path) -> frozenset[str] | None:
    try:
        entries = json.loads((folder / REGISTRY).read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        # Without a readable list nothing can be said about what it lacks.
        return None
    if not isinstance(entries, dict):
        return None
    values = [entry for entry in entries.values() if isinstance(entry, dict)]
    return frozenset(str(entry["sessionId"]) for entry in values if "sessionId" in entry)


def compare_sessions(
    rows: Iterable[FileRow],
    sessions: Sessions,
    counts: Counts,
    findings: Findings,
    *,
    enabled: bool,
    delta_bytes: float,
    now: datetime,
) -> tuple[FileTruth, ...]:
    """Compare transcripts with their rows, by file name, and add what is to be said about them.

    Their hash is that of the cleaned conversation and cannot be told from the file: a transcript
    only grows, so its size (from 2026.9 on the time of its last event) decides.
    """
    by_name = {row.path.rpartition("/")[2]: row for row in rows}
    behind: dict[str, int] = {}
    """How many bytes of a transcript are not indexed, by path."""
    files: list[FileTruth] = []
    for name, row in by_name.items():
        file = sessions.files.get(name)
        state, reason = _session_verdict(row, file, enabled)
        if file is not None:
            behind[row.path] = file.size - row.size if file.absolute else 0
        count = counts.get((row.path, row.source), (0, 0))[0]
        on_disk = moment(file.mtime_ms) if file is not None else None
        in_index = moment(row.mtime)
        files.append(FileTruth(row.path, row.source, state, reason, count, on_disk, in_index))
    for name, file in sessions.files.items():
        if name not in by_name:
            behind[file.path] = file.size
            files.append(_without_row(file, SESSIONS, enabled))
    pending: list[str] = []
    paths: dict[FileState, list[str]] = defaultdict(list)
    for truth in files:
        late = behind.get(truth.path, 0)
        age = now.timestamp() - truth.on_disk.timestamp() if truth.on_disk else _RECENT_S
        is_new = truth.state in {FileState.NEVER_INDEXED, FileState.STALE}
        if is_new and late < delta_bytes and age < _RECENT_S:
            # Merely waiting for the next sync.
            pending.append(f"{truth.path} (+{late:,} bytes)")
        else:
            paths[truth.state].append(truth.path)
    orphans = paths[FileState.ORPHAN]
    if enabled:
        never_indexed, stale = paths[FileState.NEVER_INDEXED], paths[FileState.STALE]
        total = counted(len(sessions.files), "transcript")
        number = len(never_indexed)
        findings.add("sessions_never_indexed", never_indexed, number=number, total=total)
        added = sum(behind.get(path, 0) for path in stale)
        findings.add("sessions_stale", stale, added=added)
        findings.add("sessions_orphaned", orphans)
        findings.add("sessions_pending", pending)
        findings.add("sessions_unregistered", sessions.unregistered)
    else:
        findings.add("sessions_disabled", paths[FileState.SKIPPED])
        findings.add("sessions_orphaned", orphans, form="source_off")
    return tuple(sorted(files, key=lambda truth: (truth.path, truth.state)))


def _session_verdict(row: FileRow, file: DiskFile | None, enabled: bool) -> tuple[FileState, str]:
    if not enabled:
        return FileState.ORPHAN, Why.SOURCE_OFF.phrase
    if file is None:
        return FileState.ORPHAN, "its transcript is gone"
    if not file.absolute:
        # The time of a row is that of the session, or the number of its last event.
        is_time = row.mtime >= _EARLIEST_MS
        newer = file.mtime_ms > row.mtime + _TURN_MS if is_time else file.size > row.mtime
        if newer:
            return FileState.STALE, "events were added since it was indexed"
        return FileState.CURRENT, "no event since it was indexed"
    grown = file.size - row.size
    if grown:
        change = f"grew by {grown:,} bytes" if grown > 0 else f"shrank by {-grown:,} bytes"
        return FileState.STALE, f"{change} since it was indexed"
    return FileState.CURRENT, "same size as indexed; its hash cannot be told from the file"
