"""The notes that a release of OpenClaw indexes, and how they compare with the rows of an index."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import translate
from pathlib import Path
from typing import Final

from memtui.errors import Cancelled
from memtui.index.foreign.findings import Code, finding, of_things
from memtui.index.foreign.rows import MEMORY, FileRow
from memtui.memory.discover import spellings
from memtui.memory.documents import open_regular, reason_of
from memtui.memory.paths import parts_below
from memtui.model import Reason
from memtui.model.status import FileState, FileTruth, Finding
from memtui.settings.openclaw import MemorySearchConfig, effective, known_release
from memtui.settings.openclaw.document import expanded

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


class Why(StrEnum):
    """Why something on disk is left out, as a phrase."""

    LINK = "a link, which the program never follows"
    NOT_MARKDOWN = "its name does not end in .md"
    REPAIR = "below .openclaw-repair, which the program does not enter"
    LOWER_CASE = "this release indexes only a file named exactly MEMORY.md"
    NOT_YET = "this release does not index USER.md"
    OUTSIDE = "outside memory/ and the extra paths"
    PATTERN = "outside the pattern of its extra path"
    DUPLICATE = "reached before under another path"
    NOT_REGULAR = "not a regular file"
    UNREADABLE = "cannot be read"
    TOO_LARGE = "larger than multimodal.maxFileBytes"
    SOURCE_OFF = "its source is not enabled"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that belongs to the index; `mtime_ms` in ms since the epoch, `size` in bytes."""

    path: str
    """As the index would store it."""
    absolute: str
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
    def reason(self) -> str:
        """The reason as one phrase."""
        return f"{self.why.value} ({self.detail})" if self.detail else self.why.value


@dataclass(slots=True)
class Listing:
    """What the disk holds: files by stored path, what was left out, and what is odd about it."""

    found: dict[str, Found] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    problem: str = ""
    """Why the workspace itself cannot be listed."""


@dataclass(frozen=True, slots=True)
class _Root:
    label: str
    suffixes: tuple[str, ...] = (".md",)
    pattern: re.Pattern[str] | None = None
    base: str = ""


def list_memory(
    workspace: Path,
    config: MemorySearchConfig | None,
    release: str,
    *,
    home: Path | None = None,
    only: str | None = None,
    cancelled: Callable[[], bool] | None = None,
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
        cancelled: Callable[[], bool] | None,
        only: str | None,
    ) -> None:
        self.listing = Listing()
        self._only = None if only is None else spellings(only)
        self._release = known_release(release)
        self._workspace = os.path.abspath(workspace)
        self._config = effective(config, release).search if config is not None else None
        self._home = home
        self._cancelled = cancelled
        self._seen: set[str] = set()
        self._media: tuple[str, ...] = ()
        if self._config is not None and self._config.multimodal_enabled:
            kinds = self._config.multimodal_modalities
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
            refusal = self._root_refusal(entry.name)
            if refusal is None:
                self._entry(entry, "", _Root(f"root file {entry.name}"))
            elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
                self._leave(as_stored(entry.name), refusal)
        return True

    def _root_refusal(self, name: str) -> Why | None:
        if name == _ROOT_FILE or (name == _LOWER_CASE and self._release == "2026.2"):
            return None
        if name == _USER_FILE:
            return None if self._release == "2026.9" else Why.NOT_YET
        return Why.LOWER_CASE if name.lower() == _LOWER_CASE else Why.OUTSIDE

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
                compiled = compile_glob(pattern) if pattern else None
                root = _Root(f"extra path {text}", (".md", *media), compiled, path)
                self._extra(text, path, root)

    def _extra(self, text: str, path: str, root: _Root) -> None:
        try:
            state = os.lstat(path)
        except (OSError, ValueError) as error:
            self._extra_error(text, path, error)
            return
        stored = as_stored(os.path.relpath(path, self._workspace))
        if stat.S_ISLNK(state.st_mode):
            self._note(
                Code.EXTRA_PATH_LINK,
                f"extra path {text} is a link ({_target(path)}): the program skips it, nothing"
                " below it is indexed; name the folder that it leads to",
                text,
            )
            self._leave(stored, Why.LINK, _target(path))
        elif stat.S_ISDIR(state.st_mode):
            self._walk(path, "" if stored == "." else f"{stored}/", root)
        elif stat.S_ISREG(state.st_mode) and path.endswith(root.suffixes):
            self._file(path, stored, root, state)
        else:
            self._leave(stored, Why.NOT_MARKDOWN)
            message = f"extra path {text} is neither a folder nor a .md file: it adds nothing"
            self._note(Code.EXTRA_PATH_SKIPPED, message, text)

    def _extra_error(self, text: str, path: str, error: Exception) -> None:
        if text.startswith("~") and self._release != "2026.9":
            message = (
                f"extra path {text} is looked for at {path}: this release does not expand ~;"
                " write the whole path"
            )
            self._note(Code.EXTRA_PATH_TILDE, message, text)
        else:
            message = f"extra path {text} adds nothing: {path}: {_said(error)}"
            self._note(Code.EXTRA_PATH_MISSING, message, text)

    def _note(self, code: Code, message: str, name: str) -> None:
        self.listing.findings.append(finding(code, message, [name]))

    def _walk(self, folder: str, prefix: str, root: _Root) -> None:
        waiting = [(folder, prefix)]
        while waiting:
            place, stored = waiting.pop()
            for entry in self._list(place, stored):
                if self._entry(entry, stored, root):
                    waiting.append((entry.path, f"{stored}{as_stored(entry.name)}/"))

    def _list(self, folder: str, prefix: str) -> list[os.DirEntry[str]]:
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        try:
            with os.scandir(folder) as entries:
                every = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._leave(prefix.rstrip("/") or ".", Why.UNREADABLE, _said(error))
            return []
        only = self._only
        if only is None:
            return every
        return [e for e in every if any(parts_below(o, e.path) is not None for o in only)]

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
            self._leave(stored, Why.UNREADABLE, _said(error))
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
        self.listing.found[stored] = Found(
            stored, path, root.label, state.st_size, state.st_mtime_ns / 1e6, media
        )

    def _refusal(self, path: str, root: _Root, state: os.stat_result, media: bool) -> Why | None:
        if not stat.S_ISREG(state.st_mode):
            return Why.NOT_REGULAR
        if root.pattern is not None:
            below = as_stored(os.path.relpath(path, root.base))
            if root.pattern.fullmatch(below) is None:
                return Why.PATTERN
        if self._release != "2026.2" and path == os.path.join(self._workspace, _LOWER_CASE):
            return Why.LOWER_CASE
        limit = self._config.multimodal_max_file_bytes if self._config is not None else 0
        if media and state.st_size > limit:
            return Why.TOO_LARGE
        return None if _may_read(path) else Why.UNREADABLE

    def _leave(self, stored: str, why: Why, detail: str = "") -> None:
        if stored not in self.listing.found:
            self.listing.left_out[stored] = LeftOut(stored, why, detail)


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a POSIX glob relative to its folder: `**` is any number of folders.

    What stands between two `**` is looked for once, as near to the beginning as it is: what fits
    the rest behind a later place does so behind that one. So the time is linear in the path.
    """
    runs: list[list[str]] = [[]]
    for part in pattern.strip("/").split("/"):
        if part == "**":
            runs.append([])
        else:
            # fnmatch knows no folders: its "any character" must stop at the slash.
            name = translate(part).removeprefix("(?s:").rpartition(")")[0]
            runs[-1].append(name.replace(".*", "[^/]*"))
    if len(runs) == 1:
        return re.compile("/".join(runs[0]))
    text = "".join(f"{name}/" for name in runs[0])
    for names in filter(None, runs[1:-1]):
        text += f"(?>(?:[^/]+/)*?{''.join(f'{name}/' for name in names)})"
    return re.compile(text + (f"(?:[^/]+/)*{'/'.join(runs[-1])}" if runs[-1] else ".+"))


def _may_read(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def _target(path: str) -> str:
    try:
        return f"to {as_stored(os.readlink(path))}"
    except OSError as error:
        return _said(error)


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()


# --- against the rows: no stored flag is believed ---------------------------------------------

_PIECE: Final = 1 << 20
_SAME_MS: Final = 1.0
"""Some releases store whole milliseconds, others fractions."""

Counts = Mapping[tuple[str, str], int]
"""Chunks of each (path, source)."""


@dataclass(frozen=True, slots=True)
class Look:
    """How files are looked at: `deep` reads every one of them."""

    deep: bool = False
    cancelled: Callable[[], bool] | None = None

    def check(self) -> None:
        """Raise `Cancelled` when the caller wants no answer any more."""
        if self.cancelled is not None and self.cancelled():
            raise Cancelled


def compare(
    rows: Iterable[FileRow],
    listing: Listing,
    chunks: Counts,
    workspace: Path,
    look: Look,
    *,
    enabled: bool = True,
    scope_known: bool = True,
) -> tuple[FileTruth, ...]:
    """Compare the notes on disk with the rows of the source `memory`, by path.

    A file whose time (to the millisecond) and size are those of its row is taken as current
    without being read; others are hashed. `scope_known` is false when nobody knows which extra
    paths there are; a row beyond the usual places is then judged by its file alone.
    Raises `Cancelled`.
    """
    truths: list[FileTruth] = []
    indexed: set[str] = set()
    for row in rows:
        look.check()
        indexed.add(row.path)
        file = listing.found.get(row.path) if enabled else None
        if file is None and enabled and not scope_known:
            file = _beyond(row.path, workspace, listing)
        if file is None:
            state, reason = _why_gone(row.path, listing, workspace, enabled)
            on_disk = _time_of(os.path.join(workspace, row.path))
        else:
            state, reason = _verdict(file, row, look)
            reason, on_disk = f"{reason}; from {file.root}", moment(file.mtime_ms)
        count, in_index = chunks.get((row.path, row.source), 0), moment(row.mtime)
        truths.append(FileTruth(row.path, row.source, state, reason, count, on_disk, in_index))
    truths += [
        missing(file, MEMORY, enabled=enabled)
        for path, file in listing.found.items()
        if path not in indexed
    ]
    truths += [
        FileTruth(path, MEMORY, FileState.SKIPPED, left.reason)
        for path, left in listing.left_out.items()
        if path not in indexed
    ]
    return tuple(sorted(truths, key=lambda truth: (truth.path, truth.state)))


def missing(file: Found, source: str, *, enabled: bool) -> FileTruth:
    """Judge a file that has no row."""
    state = FileState.NEVER_INDEXED if enabled else FileState.SKIPPED
    reason = f"no row in the index; from {file.root}" if enabled else Why.SOURCE_OFF.value
    return FileTruth(file.path, source, state, reason, on_disk=moment(file.mtime_ms))


def _beyond(path: str, workspace: Path, listing: Listing) -> Found | None:
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
    return Found(path, absolute, root, state.st_size, state.st_mtime_ns / 1e6)


def _verdict(file: Found, row: FileRow, look: Look) -> tuple[FileState, str]:
    if file.size != row.size:
        change = f"{row.size:,} bytes when it was indexed, {file.size:,} now"
        return FileState.STALE, change
    if abs(file.mtime_ms - row.mtime) < _SAME_MS and not look.deep:
        return FileState.CURRENT, "same time and size as indexed, not read"
    if file.media:
        return FileState.CURRENT, "same size as indexed; media are not hashed here"
    try:
        digest = content_hash(file.absolute, look)
    except OSError as error:
        if reason_of(error) in {Reason.UNREADABLE, Reason.TOO_LARGE}:
            return FileState.SKIPPED, f"{Why.UNREADABLE.value} ({_said(error)})"
        return FileState.ORPHAN, f"vanished while it was looked at ({_said(error)})"
    if digest == row.hash:
        return FileState.CURRENT, "same content as indexed, read and hashed"
    return FileState.STALE, "same size as indexed, other content (hash)"


def content_hash(path: str, look: Look) -> str:
    """Hash a file as the program does: SHA-256 of its text, bad bytes read as U+FFFD.

    Never follows a link or waits for a pipe. Raises `OSError`, `Cancelled`.
    """
    with os.fdopen(open_regular(Path(path)), "rb") as file:
        digest = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := file.read(_PIECE):
            look.check()
            digest.update(decoder.decode(piece).encode())
        digest.update(decoder.decode(b"", final=True).encode())
    return digest.hexdigest()


def _why_gone(path: str, listing: Listing, workspace: Path, enabled: bool) -> tuple[FileState, str]:
    left = listing.left_out.get(path)
    if not enabled:
        return FileState.ORPHAN, Why.SOURCE_OFF.value
    if left is not None and left.why is Why.UNREADABLE:
        return FileState.SKIPPED, f"{left.reason}; the index keeps what it has"
    if left is not None:
        return FileState.ORPHAN, f"indexed before, now left out: {left.reason}"
    if _time_of(os.path.join(workspace, path)) is not None:
        return FileState.ORPHAN, f"on disk, but {Why.OUTSIDE.value}"
    return FileState.ORPHAN, "no longer on disk"


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


_DRIFT: Final = (
    (FileState.STALE, Code.FILES_STALE, "changed since indexed: searches show the old text"),
    (FileState.ORPHAN, Code.FILES_ORPHANED, "in the index, no longer part of the memory"),
    (FileState.NEVER_INDEXED, Code.FILES_NEVER_INDEXED, "not in the index: no search finds it"),
)


def drift_findings(files: Sequence[FileTruth], listing: Listing) -> list[Finding]:
    """Sum the files of the source `memory` up by what is wrong with them, by name."""
    findings: list[Finding] = []
    for state, code, text in _DRIFT:
        paths = [file.path for file in files if file.state is state]
        findings += of_things(code, paths, "file", text)
    locked = [
        file.path
        for file in files
        if file.state is FileState.SKIPPED and file.reason.startswith(Why.UNREADABLE.value)
    ]
    findings += of_things(Code.FILES_UNREADABLE, locked, "path", "cannot be read")
    return findings + listing.findings + _left_out_findings(listing)


def _left_out_findings(listing: Listing) -> list[Finding]:
    by_why: dict[Why, list[str]] = defaultdict(list)
    for path in sorted(listing.left_out):
        by_why[listing.left_out[path].why].append(path)
    memory = [path for path in by_why[Why.LINK] if path in {_FOLDER, _ROOT_FILE, _USER_FILE}]
    others = [path for path in by_why[Why.LINK] if path not in memory]
    roots = sorted(by_why[Why.LOWER_CASE] + by_why[Why.NOT_YET])
    text = "{names} is a link, which the program leaves out: put the real one there"
    findings = of_things(Code.MEMORY_LINKED, memory, text=text)
    findings += of_things(Code.LINKS_SKIPPED, others, "link", "left out without a word")
    text = "this release does not index {names} in the workspace's root"
    return findings + of_things(Code.ROOT_FILE_SKIPPED, roots, text=text)
