"""Which of OpenClaw's sessions are runs of its own, as its list of sessions says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import DatabaseError
from memtui.index.transcripts.events import reading
from memtui.memory.documents import open_regular
from memtui.memory.transcripts.generated import Run, is_cron_run, is_dreaming
from memtui.memory.transcripts.names import REGISTRY, FileKind, file_kind, session_id
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.model import SourceFile
from memtui.model.conversations import TranscriptKind

_NODES: Final = "session_nodes"
_LARGEST: Final = 64 * 2**20


def registered_run(file: SourceFile, rules: TranscriptRules) -> Run | None:
    """The run that a session is, by the keys that it has in the list; `None` for a conversation.

    Archives are told by their records, as their session may have been begun anew since.
    """
    registry = registry_of(file, rules)
    if registry is None:
        return None
    session = file.session or session_id(file.absolute.name)
    return _run(_registered(registry, _stamp(registry)).get(session, ()))


def registry_of(file: SourceFile, rules: TranscriptRules) -> Path | None:
    """The list, or the database, that may tell what a session is; it need not exist."""
    if file.kind != TranscriptKind.OPENCLAW or not rules.drops_generated:
        return None
    if file.session:
        return file.absolute
    name = file.absolute.name
    return file.absolute.with_name(REGISTRY) if file_kind(name) is FileKind.TRANSCRIPT else None


@dataclass(frozen=True, slots=True)
class Registered:
    """What the lists say now, against what they said when the index was made."""

    differing: tuple[SourceFile, ...]
    """The sessions that are something else by now."""
    stamps: str
    """The state of every list, for the next time; the same as before when none has changed."""


def look_at_registries(
    files: Sequence[SourceFile],
    registered: Callable[[], Mapping[str, str]],
    seen: str,
    rules: TranscriptRules,
) -> Registered:
    """Find what has to be read again because a list has changed and not the session.

    `registered` gives, by path, what each session in the index was registered as; `seen` the
    stamps of then. Only lists with another stamp are opened.
    """
    registries: dict[Path, list[SourceFile]] = {}
    for file in files:
        if (registry := registry_of(file, rules)) is not None:
            registries.setdefault(registry, []).append(file)
    known = json.loads(seen or "{}")
    stamps = {str(registry): [*_stamp(registry)] for registry in sorted(registries)}
    changed = [at for at in registries if known.get(str(at)) != stamps[str(at)]]
    before = registered() if changed else {}
    differing = [
        file
        for registry in changed
        for file in registries[registry]
        if file.path in before and before[file.path] != (registered_run(file, rules) or "")
    ]
    return Registered(tuple(differing), json.dumps(stamps))


def _run(keys: Iterable[str]) -> Run | None:
    for key in keys:
        if is_dreaming(key):
            return Run.DREAMING
        if is_cron_run(key):
            return Run.CRON
    return None


def _stamp(registry: Path) -> tuple[int, ...]:
    """The state of a list, of a database with its log; empty when there is none."""
    found: list[int] = []
    for path in (registry, registry.with_name(f"{registry.name}-wal")):
        try:
            state = path.lstat()
        except OSError:
            # Without a list nothing is said about any session.
            continue
        found += (state.st_ino, state.st_size, state.st_mtime_ns)
    return tuple(found)


@lru_cache(maxsize=8)
def _registered(path: Path, stamp: tuple[int, ...]) -> Mapping[str | None, tuple[str, ...]]:
    """The keys of each session in the list as it was then."""
    if not stamp:
        return {}
    return _in_list(path) if path.name == REGISTRY else _in_database(path)


def _in_list(path: Path) -> Mapping[str | None, tuple[str, ...]]:
    try:
        with open(open_regular(path), "rb") as stream:
            data = stream.read(_LARGEST + 1)
        listed = json.loads(data.decode("utf-8", "replace")) if len(data) <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        # A list that cannot be read says nothing, as one that is not there.
        listed = None
    found: dict[str | None, tuple[str, ...]] = {}
    for key, entry in listed.items() if isinstance(listed, dict) else ():
        session = entry.get("sessionId") if isinstance(entry, dict) else None
        if isinstance(session, str):
            found[session] = (*found.get(session, ()), key)
    return found


def _in_database(database: Path) -> Mapping[str | None, tuple[str, ...]]:
    found: dict[str | None, tuple[str, ...]] = {}
    try:
        with reading(database) as connection:
            columns = connection.execute(
                "SELECT count(*) FROM pragma_table_info(?)"
                " WHERE name IN ('session_key', 'current_session_id')",
                (_NODES,),
            ).fetchall()[0][0]
            if columns != 2:
                return {}
            rows = connection.execute(
                f"SELECT current_session_id, session_key FROM {_NODES}"
                " WHERE current_session_id IS NOT NULL"
            ).fetchall()
    except (IndexMissing, IndexUnusable, DatabaseError, OSError):
        # Who reads the session itself says what is wrong with the database.
        return {}
    for session, key in rows:
        found[str(session)] = (*found.get(str(session), ()), str(key))
    return found
