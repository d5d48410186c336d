"""What lies around an OpenClaw index: other databases, and files that reindexing left."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from memtui.errors import MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.discovery import Databases
from memtui.index.foreign.findings import Code, finding
from memtui.index.foreign.opening import KNOWN_SCHEMA, Opened, fingerprint_of, open_foreign
from memtui.model.status import Finding, Severity
from memtui.text.sanitize import safe_line

_LOCK: Final = ".reindex-lock.sqlite"
_SIDES: Final = ("-wal", "-shm", "-journal")
_BUSY_S: Final = 120.0
"""What was written to within this time may be a rebuild under way."""


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
_KINDS: Final = {
    LeftoverKind.LOCK: (Code.LOCK_FILE, "reindex lock: searches may wait for it and time out"),
    LeftoverKind.SHADOW: (Code.SHADOW_FILE, "shadow file of a rebuild that did not end"),
    LeftoverKind.TEMPORARY: (Code.TEMPORARY_FILE, "new index of a full reindex that did not end"),
    LeftoverKind.BACKUP: (Code.BACKUP_FILE, "index from before a full reindex"),
    LeftoverKind.LOG: (Code.LOG_BESIDE, "log: a program has the database open, or was killed"),
}


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file beside a database; `size` in bytes, with the logs that belong to it."""

    path: Path
    kind: LeftoverKind
    size: int
    age_s: float
    """Seconds since it was last written to; 0 when that lies in the future."""
    holds: str = ""
    """The chunks of an index that was being built or replaced, or why it cannot be read."""


def find_leftovers(database: Path, now: float) -> tuple[Leftover, ...]:
    """List what lies beside a database (links followed), by name.

    `now` is in seconds since the epoch. A log with content, or shared memory, is listed whether
    or not a program has the database open: from outside nobody can tell without touching it.
    Raises nothing: a folder that cannot be listed has no leftovers.
    """
    real = Path(os.path.realpath(database))
    try:
        present = frozenset(os.listdir(real.parent))
    except OSError:
        return ()
    leftovers = []
    for name in sorted(present):
        kind = kind_of(name, real.name)
        if kind is not None:
            sides = [name + side for side in _SIDES if name + side in present]
            names = [name] if kind is LeftoverKind.LOG else [name, *sides]
            leftovers.append(_leftover([real.with_name(each) for each in names], kind, now))
    return tuple(filter(None, leftovers))


def kind_of(name: str, database: str) -> LeftoverKind | None:
    """Tell what a file name beside `database` means; `None`: nothing to report."""
    rest = name.removeprefix(database) if name.startswith(database) else ""
    is_rebuild = name.startswith("memory-reindex-")
    if rest in _SIDES:
        return LeftoverKind.LOG
    if name.endswith(_SIDES):
        return None
    if rest == _LOCK or (is_rebuild and name.endswith(_LOCK)):
        return LeftoverKind.LOCK
    if rest.startswith(".tmp-"):
        return LeftoverKind.TEMPORARY
    if rest.startswith(".backup-"):
        return LeftoverKind.BACKUP
    if rest.startswith(".memory-reindex-") or (is_rebuild and name.endswith(".sqlite")):
        return LeftoverKind.SHADOW
    return None


def _leftover(paths: Iterable[Path], kind: LeftoverKind, now: float) -> Leftover | None:
    """Describe a file and the logs behind it."""
    path, *_ = paths
    try:
        states = [os.lstat(each) for each in paths]
    except OSError:
        # Removed by its owner between the listing and here.
        return None
    size = sum(state.st_size for state in states)
    if not stat.S_ISREG(states[0].st_mode) or (kind is LeftoverKind.LOG and size == 0):
        return None
    age = max(0.0, now - max(state.st_mtime for state in states))
    return Leftover(path, kind, size, age, _holds(path) if kind in _HOLDS_CHUNKS else "")


def _holds(path: Path) -> str:
    try:
        opened = open_foreign(path)
        try:
            with opened.errors():
                chunks = sum(rows.chunk_counts(opened.connection, opened.layout).values())
                return f"{chunks:,} chunks"
        finally:
            opened.close()
    except MemtuiError as error:
        return error.message


def leftover_findings(database: Path, now: datetime) -> tuple[list[Finding], tuple[str, ...]]:
    """List what reindexing left beside a database, as findings and as lines."""
    findings: list[Finding] = []
    lines: list[str] = []
    for leftover in find_leftovers(database, now.timestamp()):
        code, text = _KINDS[leftover.kind]
        holds = f", {leftover.holds}" if leftover.holds else ""
        line = f"{leftover.path.name}: {leftover.size:,} bytes, {_age(leftover.age_s)} old{holds}"
        lines.append(safe_line(line))
        busy = leftover.kind is not LeftoverKind.LOG and leftover.age_s < _BUSY_S
        if busy:
            text += "; written to just now, so it may be under way"
        severity = Severity.INFO if busy else None
        findings.append(finding(code, f"{line}: {text}", [leftover.path.name], severity=severity))
    return findings, tuple(lines)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def database_findings(opened: Opened, databases: Databases | None) -> tuple[list[Finding], str]:
    """Tell which database the program would read, and what is odd about this one."""
    findings: list[Finding] = []
    line = f"{opened.path}: as it was asked for"
    if databases is not None and databases.read is not None:
        line = f"{databases.read}: {databases.reason}"
        if os.path.realpath(databases.read) != os.path.realpath(opened.path):
            text = f"the program reads {databases.read} and not {opened.path}: {databases.reason}"
            findings.append(finding(Code.OTHER_DATABASE_READ, text, [str(databases.read)]))
        elif databases.sidecar is not None and databases.agent is not None:
            other = databases.agent if databases.read == databases.sidecar else databases.sidecar
            text = f"{databases.reason}: {other} is not read"
            findings.append(finding(Code.BOTH_GENERATIONS, text, [str(other)]))
    version = rows.origin(opened.connection, opened.layout).schema_version
    if version is not None and version > KNOWN_SCHEMA:
        text = f"the agent's database has schema {version}, memtui knows {KNOWN_SCHEMA}"
        findings.append(finding(Code.SCHEMA_NEWER, f"{text}: what it adds is not shown"))
    if not _may_write(opened.real) or not _may_write(opened.real.parent):
        text = f"this user may not write {opened.real}: a program run by this user cannot index"
        findings.append(finding(Code.DATABASE_NOT_WRITABLE, text, [str(opened.real)]))
    return findings, safe_line(line)


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
