"""Files on disk against the rows of an OpenClaw index; no stored flag is believed."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memtui.errors import Cancelled
from memtui.index.foreign.discovery import MEMORY_FOLDER, ROOT_FILE, Found, Listing, Why
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.rows import FileRow
from memtui.memory.documents import NotRegularFile, reason_of
from memtui.model import Reason
from memtui.model.status import FileState, FileTruth, Finding

SOURCE: Final = "memory"
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
        held = chunks.get((row.path, row.source), 0)
        found = listing.found.get(row.path) if enabled else None
        if found is None and enabled and not scope_known:
            found = _beyond(row.path, workspace, listing)
        if found is None:
            truths.append(_gone(row, held, listing, workspace, enabled))
        else:
            truths.append(_judged(found, row, held, look))
    for path, found in listing.found.items():
        if path not in indexed:
            truths.append(_new(found, enabled))
    for path, left in listing.left_out.items():
        if path not in indexed:
            truths.append(FileTruth(path, SOURCE, FileState.SKIPPED, left.reason))
    return tuple(sorted(truths, key=lambda truth: (truth.path, truth.state)))


def _new(found: Found, enabled: bool) -> FileTruth:
    if not enabled:
        reason, state = Why.SOURCE_OFF.value, FileState.SKIPPED
    else:
        reason, state = f"no row in the index; from {found.root}", FileState.NEVER_INDEXED
    return FileTruth(found.path, SOURCE, state, reason, on_disk=moment(found.mtime_ms))


def _beyond(path: str, workspace: Path, listing: Listing) -> Found | None:
    """A file outside the usual places that an extra path may have brought in."""
    if path == ROOT_FILE or path.startswith(f"{MEMORY_FOLDER}/"):
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


def _judged(found: Found, row: FileRow, chunks: int, look: Look) -> FileTruth:
    state, reason = _verdict(found, row, look)
    return FileTruth(
        row.path,
        row.source,
        state,
        f"{reason}; from {found.root}",
        chunks,
        moment(found.mtime_ms),
        moment(row.mtime),
    )


def _verdict(found: Found, row: FileRow, look: Look) -> tuple[FileState, str]:
    same_size = found.size == row.size
    if same_size and abs(found.mtime_ms - row.mtime) < _SAME_MS and not look.deep:
        return FileState.CURRENT, "same time and size as indexed, not read"
    if not same_size:
        change = f"{row.size:,} bytes when it was indexed, {found.size:,} now"
        return FileState.STALE, change
    if found.media:
        return FileState.CURRENT, "same size as indexed; media are not hashed here"
    try:
        digest = content_hash(found.absolute, look)
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
    flags = os.O_RDONLY
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotRegularFile(errno.EINVAL, "not a regular file", path)
        digest = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := file.read(_PIECE):
            look.check()
            digest.update(decoder.decode(piece).encode())
        digest.update(decoder.decode(b"", final=True).encode())
    return digest.hexdigest()


def _gone(row: FileRow, chunks: int, listing: Listing, workspace: Path, enabled: bool) -> FileTruth:
    left = listing.left_out.get(row.path)
    state = FileState.ORPHAN
    on_disk = _time_of(os.path.join(workspace, row.path))
    if not enabled:
        reason = Why.SOURCE_OFF.value
    elif left is not None and left.why is Why.UNREADABLE:
        state, reason = FileState.SKIPPED, f"{left.reason}; the index keeps what it has"
    elif left is not None:
        reason = f"indexed before, now left out: {left.reason}"
    elif on_disk is not None:
        reason = f"on disk, but {Why.OUTSIDE.value}"
    else:
        reason = "no longer on disk"
    indexed = moment(row.mtime)
    return FileTruth(row.path, row.source, state, reason, chunks, on_disk, indexed)


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


def drift_findings(files: Sequence[FileTruth], listing: Listing) -> list[Finding]:
    """Sum the files of the source `memory` up by what is wrong with them, by name."""
    by_state: dict[FileState, list[str]] = {}
    for truth in files:
        by_state.setdefault(truth.state, []).append(truth.path)
    found: list[Finding] = []
    texts = (
        (FileState.STALE, Code.FILES_STALE, "changed since indexed: searches show the old text"),
        (FileState.ORPHAN, Code.FILES_ORPHANED, "in the index, no longer part of the memory"),
        (FileState.NEVER_INDEXED, Code.FILES_NEVER_INDEXED, "not in the index: no search finds it"),
    )
    for state, code, text in texts:
        names = by_state.get(state, [])
        if names:
            found.append(
                finding(code, f"{counted(len(names), 'file')} {text}: {listed(names)}", names)
            )
    locked = [file.path for file in files if file.state is FileState.SKIPPED and _is_locked(file)]
    if locked:
        text = f"{counted(len(locked), 'path')} cannot be read: {listed(locked)}"
        found.append(finding(Code.FILES_UNREADABLE, text, locked))
    return found + _left_out_findings(listing)


def _is_locked(file: FileTruth) -> bool:
    return file.reason.startswith(Why.UNREADABLE.value)


def _left_out_findings(listing: Listing) -> list[Finding]:
    by_why: dict[Why, list[str]] = {}
    for path, left in listing.left_out.items():
        by_why.setdefault(left.why, []).append(path)
    found = list(listing.findings)
    links = sorted(by_why.get(Why.LINK, []))
    memory = [path for path in links if path in {MEMORY_FOLDER, ROOT_FILE, "USER.md"}]
    if memory:
        text = f"{listed(memory)} is a link, which the program leaves out: put the real one there"
        found.append(finding(Code.MEMORY_LINKED, text, memory))
    others = [path for path in links if path not in memory]
    if others:
        text = f"{counted(len(others), 'link')} left out without a word: {listed(others)}"
        found.append(finding(Code.LINKS_SKIPPED, text, others))
    roots = sorted(by_why.get(Why.LOWER_CASE, []) + by_why.get(Why.NOT_YET, []))
    if roots:
        text = f"this release does not index {listed(roots)} in the workspace's root"
        found.append(finding(Code.ROOT_FILE_SKIPPED, text, roots))
    return found


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
