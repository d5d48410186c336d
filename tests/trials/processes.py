"""Two interfaces, a command that indexes and one that searches, on notes that never rest."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from memtui.index.database import Connection, damage, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.memory.workspace import workspace_id
from tests.e2e.terminal import Terminal
from tests.trials.processes_actors import Actor, Interface, Place, Reader, Writer
from tests.trials.processes_notes import Editor
from tests.trials.report import Options, Outcome

MINUTES = 10.0
_EXPECTED_FILES = re.compile(
    r"index-\d+\.db(-wal|-shm)?|cache\.db(-wal|-shm)?|CURRENT|writer\.lock|provider\.json"
)


def run(options: Options) -> Iterator[Outcome]:
    """Let all act for some minutes; then everything has to agree and nobody may hold anything."""
    minutes = MINUTES if options.minutes is None else options.minutes
    repeat = f"python -m tests.trials processes --minutes {minutes:g}"
    place = Place(options.place / "workspace", options.place / "home")
    place.home.mkdir()
    stopping = threading.Event()
    editor = Editor(place.root, options.seed, stopping)
    began = place.memtui("index")
    actors: list[Actor] = [
        Interface(place, options.seed, stopping),
        Interface(place, options.seed + 1, stopping),
        Writer(place, options.seed, stopping),
        Reader(place, options.seed, stopping),
    ]
    for thread in (editor, *actors):
        thread.start()
    stopping.wait(minutes * 60)
    stopping.set()
    for thread in (editor, *actors):
        thread.join()
    failed = [one for actor in actors for one in actor.failed]
    if began.returncode:
        failed.append(f"the first index ended with {began.returncode}: {began.stderr}")
    facts: Counter[str] = Counter()
    for actor in actors:
        facts.update(actor.counted)
    facts["edits"] = sum(editor.done.values())
    facts["generations seen"] = len({*_reader(actors).generations})
    yield Outcome("four processes, errors shown", 4, tuple(failed), dict(facts), repeat)
    yield _converging(place, options, repeat)


def _reader(actors: list[Actor]) -> Reader:
    return next(actor for actor in actors if isinstance(actor, Reader))


def _converging(place: Place, options: Options, repeat: str) -> Outcome:
    """After the last edit: both screens, the command line and a fresh index agree."""
    failed: list[str] = []
    quiet = threading.Event()
    faces = [Interface(place, options.seed, quiet) for _ in range(2)]
    fresh = Place(place.root, options.place / "fresh")
    fresh.home.mkdir()
    made = fresh.memtui("index")
    if made.returncode:
        failed.append(f"a fresh index ended with {made.returncode}: {made.stderr}")
    wanted = _content(_folder(fresh))
    total = f"{len({row[0] for row in wanted})} files {len(wanted)} chunks"
    with ExitStack() as stack:
        windows: list[Terminal] = [stack.enter_context(face.opened()) for face in faces]
        for window in windows:
            try:
                window.until(lambda shown: total in shown and "ready" in shown, total)
            except AssertionError as error:
                failed.append(f"a screen does not say {total}: {error}")
        told = place.memtui("status")
        if total.replace(" files ", " files, ") not in told.stdout:
            failed.append(f"the command line does not say {total}: {told.stdout}")
        for face, window in zip(faces, windows, strict=True):
            face.leave(window)
            failed += face.failed
    last = place.memtui("index")
    if last.returncode or " changed" in last.stdout:
        failed.append(f"there was something left to index: {last.stdout}")
    failed += _left_behind(_folder(place), wanted)
    facts = {"files": len({row[0] for row in wanted}), "chunks": len(wanted)}
    return Outcome("four processes, converged", 1, tuple(failed), facts, repeat)


def _folder(place: Place) -> IndexFolder:
    return IndexFolder(place.home / "data" / "memtui" / workspace_id(place.root))


def _left_behind(folder: IndexFolder, wanted: Mapping[tuple[Any, ...], bytes]) -> list[str]:
    """What is wrong with an index that nobody has open."""
    failed = []
    lock = WriterLock(folder)
    if not lock.try_acquire():
        failed.append(f"a lock is left: {lock.refusal()}")
    lock.release()
    if folder.owner_path.exists():
        failed.append("writer.json is left")
    for path in sorted(folder.folder.iterdir()):
        if not _EXPECTED_FILES.fullmatch(path.name):
            failed.append(f"{path.name} is left")
    live = folder.current()
    for path in folder.folder.glob("index-*.db"):
        if live is None or path != folder.path(live):
            failed.append(f"{path.name} is left of an older generation")
    if _content(folder) != wanted:
        failed.append("the index is not what a fresh one is")
    for path in (folder.path(live or 0), folder.cache_path):
        connection = open_database(path, readonly=True)
        try:
            wrong = damage(connection)
        finally:
            connection.close()
        if wrong is not None:
            failed.append(f"{path.name}: {wrong}")
    return failed


def _content(folder: IndexFolder) -> dict[tuple[Any, ...], bytes]:
    """Every chunk with its vector: (path, chunk id, lines, text) -> the vector's bytes."""
    connection = open_database(folder.path(folder.current() or 0), readonly=True)
    try:
        return _rows(connection)
    finally:
        connection.close()


def _rows(connection: Connection) -> dict[tuple[Any, ...], bytes]:
    rows = connection.execute(
        "SELECT f.path, c.chunk_id, c.start_line, c.end_line, c.text, v.vector FROM chunks c "
        "JOIN files f ON f.id = c.file_id LEFT JOIN vectors v ON v.id = c.id"
    ).fetchall()
    found = {}
    for *key, vector in rows:
        found[tuple(key)] = vector if isinstance(vector, bytes) else b""
    return found
