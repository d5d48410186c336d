"""What lies around an OpenClaw index: other databases, left-over files, the configuration."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from memtui.errors import MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.discovery import Databases
from memtui.index.foreign.findings import (
    Code,
    counted,
    finding,
    listed,
)
from memtui.index.foreign.opening import KNOWN_SCHEMA, Opened, fingerprint_of, open_foreign
from memtui.index.foreign.rows import chunk_counts
from memtui.model.status import Finding, Identity, Severity
from memtui.settings.openclaw import (
    MemorySearchConfig,
    OpenClawConfig,
    effective,
    known_release,
)
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL, NO_PROVIDER
from memtui.text.sanitize import safe_line

_LOCK: Final = ".reindex-lock.sqlite"
_SIDES: Final = ("-wal", "-shm", "-journal")


class LeftoverKind(StrEnum):
    """What a file beside a database is."""

    TEMPORARY = "temporary"
    """`<db>.tmp-<uuid>`: a full reindex up to 2026.5, under way or cut off."""
    BACKUP = "backup"
    """`<db>.backup-<uuid>`: the index before a full reindex, which was not removed."""
    SHADOW = "shadow"
    """`<db>.memory-reindex-<uuid>`, `memory-reindex-*.sqlite`: a rebuild since 2026.6."""
    LOCK = "lock"
    """`<db>.reindex-lock.sqlite`: searches wait for it, even when it is empty."""
    LOG = "log"
    """`-wal`, `-shm`, `-journal` of the database: it is open somewhere, or was not closed."""


_HOLDS_CHUNKS: Final = frozenset({LeftoverKind.TEMPORARY, LeftoverKind.BACKUP, LeftoverKind.SHADOW})


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file beside a database; `size` in bytes, with the logs that belong to it."""

    path: Path
    kind: LeftoverKind
    size: int
    age_s: float
    """Seconds since it was last written to; 0 when that lies in the future."""
    chunks: int | None = None
    """Chunks in an index that was being built or replaced; `None`: not an index."""
    problem: str = ""
    """One line when it should be an index and cannot be read."""


def find_leftovers(database: Path, now: float) -> tuple[Leftover, ...]:
    """List what lies beside a database (links followed), by name.

    `now` is in seconds since the epoch. A log with content, or shared memory, is listed whether
    or not a program has the database open: from outside nobody can tell without touching it.
    Raises nothing: a folder that cannot be listed has no leftovers.
    """
    real = Path(os.path.realpath(database))
    try:
        names = os.listdir(real.parent)
    except OSError:
        return ()
    present = frozenset(names)
    found: list[Leftover] = []
    for name in sorted(present):
        kind = kind_of(name, real.name)
        if kind is not None:
            sides = () if kind is LeftoverKind.LOG else _sides(name, present)
            leftover = _leftover(real.parent / name, kind, sides, now)
            if leftover is not None:
                found.append(leftover)
    return tuple(found)


def kind_of(name: str, database: str) -> LeftoverKind | None:
    """Tell what a file name beside `database` means; `None`: nothing to report."""
    rest = name.removeprefix(database) if name.startswith(database) else ""
    if rest in _SIDES:
        return LeftoverKind.LOG
    if name.endswith(_SIDES):
        return None
    if rest == _LOCK or (name.startswith("memory-reindex") and name.endswith(_LOCK)):
        return LeftoverKind.LOCK
    if rest.startswith(".tmp-"):
        return LeftoverKind.TEMPORARY
    if rest.startswith(".backup-"):
        return LeftoverKind.BACKUP
    if rest.startswith(".memory-reindex-"):
        return LeftoverKind.SHADOW
    if name.startswith("memory-reindex-") and name.endswith(".sqlite"):
        return LeftoverKind.SHADOW
    return None


def _sides(name: str, present: frozenset[str]) -> tuple[str, ...]:
    return tuple(name + side for side in _SIDES if name + side in present)


def _leftover(path: Path, kind: LeftoverKind, sides: Iterable[str], now: float) -> Leftover | None:
    try:
        found = [os.lstat(path), *(os.lstat(path.with_name(side)) for side in sides)]
    except OSError:
        # Removed by its owner between the listing and here.
        return None
    if not stat.S_ISREG(found[0].st_mode):
        return None
    size = sum(item.st_size for item in found)
    if kind is LeftoverKind.LOG and size == 0:
        return None
    age = max(0.0, now - max(item.st_mtime for item in found))
    chunks, problem = _chunks_in(path) if kind in _HOLDS_CHUNKS else (None, "")
    return Leftover(path, kind, size, age, chunks, problem)


def _chunks_in(path: Path) -> tuple[int | None, str]:
    try:
        opened = open_foreign(path)
        try:
            with opened.errors():
                return sum(chunk_counts(opened.connection, opened.layout).values()), ""
        finally:
            opened.close()
    except MemtuiError as error:
        return None, error.message


_BUSY_S: Final = 120.0
"""What was written to within this time may be a rebuild under way."""
_QMD_UNTIL: Final = frozenset({"2026.4", "2026.7"})

_KINDS: Final = {
    LeftoverKind.LOCK: (Code.LOCK_FILE, "reindex lock: searches may wait for it and time out"),
    LeftoverKind.SHADOW: (Code.SHADOW_FILE, "shadow file of a rebuild that did not end"),
    LeftoverKind.TEMPORARY: (Code.TEMPORARY_FILE, "new index of a full reindex that did not end"),
    LeftoverKind.BACKUP: (Code.BACKUP_FILE, "index from before a full reindex"),
    LeftoverKind.LOG: (Code.LOG_BESIDE, "log: a program has the database open, or was killed"),
}


def leftover_findings(database: Path, now: datetime) -> tuple[list[Finding], tuple[str, ...]]:
    """List what reindexing left beside a database, as findings and as lines."""
    found: list[Finding] = []
    lines: list[str] = []
    for leftover in find_leftovers(database, now.timestamp()):
        code, text = _KINDS[leftover.kind]
        line = f"{leftover.path.name}: {_described(leftover)}"
        lines.append(safe_line(line))
        busy = leftover.kind is not LeftoverKind.LOG and leftover.age_s < _BUSY_S
        if busy:
            text += "; written to just now, so it may be under way"
        severity = Severity.INFO if busy else None
        found.append(finding(code, f"{line}: {text}", [leftover.path.name], severity=severity))
    return found, tuple(lines)


def _described(leftover: Leftover) -> str:
    parts = [f"{leftover.size:,} bytes", f"{_age(leftover.age_s)} old"]
    if leftover.chunks is not None:
        parts.append(f"{leftover.chunks:,} chunks")
    elif leftover.problem:
        parts.append(leftover.problem)
    return ", ".join(parts)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def database_findings(opened: Opened, databases: Databases | None) -> tuple[list[Finding], str]:
    """Tell which database the program would read, and what is odd about this one."""
    found: list[Finding] = []
    line = f"{opened.path}: as it was asked for"
    if databases is not None and databases.read is not None:
        line = f"{databases.read}: {databases.reason}"
        if os.path.realpath(databases.read) != os.path.realpath(opened.path):
            text = f"the program reads {databases.read} and not {opened.path}: {databases.reason}"
            found.append(finding(Code.OTHER_DATABASE_READ, text, [str(databases.read)]))
        elif databases.sidecar is not None and databases.agent is not None:
            other = databases.agent if databases.read == databases.sidecar else databases.sidecar
            text = f"{databases.reason}: {other} is not read"
            found.append(finding(Code.BOTH_GENERATIONS, text, [str(other)]))
    version = rows.origin(opened.connection, opened.layout).schema_version
    if version is not None and version > KNOWN_SCHEMA:
        text = f"the agent's database has schema {version}, memtui knows {KNOWN_SCHEMA}"
        found.append(finding(Code.SCHEMA_NEWER, f"{text}: what it adds is not shown"))
    if not _may_write(opened.real) or not _may_write(opened.real.parent):
        text = f"this user may not write {opened.real}: a program run by this user cannot index"
        found.append(finding(Code.DATABASE_NOT_WRITABLE, text, [str(opened.real)]))
    return found, safe_line(line)


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def replaced_findings(opened: Opened) -> list[Finding]:
    """Say whether the file at this path is still the one that is open."""
    seen, current = opened.fingerprint.database, fingerprint_of(opened.real).database
    if seen is None or (current is not None and current.inode == seen.inode):
        return []
    text = f"{opened.path} was exchanged for another file while it was open: open it again;"
    text += " an agent that has run since before may still search the deleted one"
    return [finding(Code.DATABASE_REPLACED, text, [str(opened.path)])]


def problem_findings(written: OpenClawConfig | None) -> list[Finding]:
    """Say what of the agent's configuration file cannot be read or used."""
    if written is None or not written.problems:
        return []
    names = [str(written.path)]
    if written.broken:
        text = f"{written.problems[0]}: what the agent is configured for is not known,"
        text += " so the index is not compared with it; put the file right"
        return [finding(Code.CONFIGURATION_UNREADABLE, text, names)]
    entries = counted(len(written.problems), "entry", "entries")
    text = f"{written.path}: {entries} cannot be used as written: {listed(written.problems)}"
    return [finding(Code.CONFIGURATION_PROBLEMS, text, written.problems)]


def configuration_findings(
    search: MemorySearchConfig | None, stored: Identity, release: str, backend: str
) -> list[Finding]:
    """Say what of the configuration keeps this index from answering."""
    known = known_release(release)
    found: list[Finding] = []
    if backend == "qmd" and known in _QMD_UNTIL:
        text = "memory.backend is qmd: that program answers, and this index only when it fails"
        found.append(finding(Code.QMD_BACKEND, text, [backend]))
    if search is None:
        return found
    held = effective(search, release).search
    if not held.enabled:
        text = "memory search is switched off for this agent (enabled: false)"
        found.append(finding(Code.SEARCH_DISABLED, text))
    vectors = held.provider != NO_PROVIDER and stored.model != KEYWORD_ONLY_MODEL
    if held.hybrid_enabled and vectors:
        found += _dropped(held, known)
    return found


def _dropped(held: MemorySearchConfig, release: str) -> Sequence[Finding]:
    """Say when hits of the keywords alone are lost: from 2026.7 on they are not.

    2026.2 gives each the text score 1 and has no lower minimum. In 2026.4 the lower minimum is
    the smaller of minScore and the text weight, which no text score below 1 reaches.
    """
    best, least = held.text_weight, held.min_score
    plain = f"a hit of the keywords alone scores at most {best:g}"
    if release == "2026.2" and best < least:
        text = f"{plain}, and minScore is {least:g}: no such hit is ever returned"
    elif release == "2026.4" and 0 < best <= least:
        text = f"{plain} * textScore, and minScore is {least:g}: no such hit with a textScore"
        text += " below 1 is ever returned"
    else:
        return []
    return [finding(Code.KEYWORD_HITS_DROPPED, f"{text}; lower minScore")]
