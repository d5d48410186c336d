"""Notes that change all the time, each telling in every line whose it is and of which round."""

from __future__ import annotations

import os
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memtui.index.database import Connection, damage, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.memory.workspace import workspace_id
from tests.e2e.terminal import Terminal
from tests.trust.processes_actors import Actor, Interface, Place, Reader, Writer
from tests.trust.report import Options, Outcome

PARTS = 3
TOKENS = "24"
"""The size of a chunk, in tokens, with which every line of a note is a chunk of its own."""

_WORDS = (
    *[
        "anchor",
        "barley",
        "candle",
        "drawer",
        "engine",
        "falcon",
        "garden",
        "harbor",
        "island",
        "jacket",
        "kettle",
    ],
    *[
        "ladder",
        "meadow",
        "needle",
        "orchard",
        "pepper",
        "quarry",
        "ribbon",
        "saddle",
        "timber",
        "velvet",
        "window",
    ],
)
_LINE = re.compile(r"(nest\d+) (\d+) (\d) ")
_PAUSE = 0.4


def line(name: str, round_: int, part: int) -> str:
    """One line of a note; each is a chunk. The same name, round and part give the same line."""
    chosen = random.Random(f"{name} {round_} {part}").sample(_WORDS, 9)
    return f"{name} {round_} {part} {' '.join(chosen)}"


def told_by(text: str) -> tuple[str, int, int] | None:
    """Name, round and part of a line; `None` when it is not as it was written."""
    found = _LINE.match(text)
    if found is None:
        return None
    told = found[1], int(found[2]), int(found[3])
    return told if text.strip() == line(*told) else None


@dataclass
class Editor(threading.Thread):
    """Creates, edits, renames, swaps and deletes notes until it is told to stop."""

    root: Path
    seed: int
    stopping: threading.Event
    notes: int = 60
    done: dict[str, int] = field(default_factory=dict)
    """How often each kind of edit was made."""

    def __post_init__(self) -> None:
        super().__init__(name="editor", daemon=True)
        self._random = random.Random(self.seed)
        self._round = 0
        (self.root / "memory").mkdir(parents=True, exist_ok=True)
        (self.root / "MEMORY.md").write_text("- The nests are numbered.\n", encoding="utf-8")
        for number in range(self.notes):
            self._write(self._path(number), f"nest{number}")

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Edit at random intervals."""
        kinds = (self.edit, self.edit, self.save_as_editors_do, self.rename, self.swap, self.delete)
        while not self.stopping.wait(self._random.uniform(0, 2 * _PAUSE)):
            kind = self._random.choice((*kinds, *(self.create,) * 4, self.edit_many))
            kind()
            self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1

    def create(self) -> None:
        """Write a note where one may be or not."""
        number = self._random.randrange(self.notes)
        self._write(self._path(number), f"nest{number}")

    def edit(self) -> None:
        """Write a note anew, into the file itself."""
        path = self._any()
        if path is not None:
            self._write(path, f"nest{self._random.randrange(self.notes)}")

    def edit_many(self) -> None:
        """Write many notes at once, as a `git checkout` does."""
        for _ in range(20):
            self.edit()

    def save_as_editors_do(self) -> None:
        """Write beside a note and put that in its place."""
        path = self._any()
        if path is not None:
            beside = path.with_name(f".{path.name}.swp")
            self._write(beside, path.stem)
            os.replace(beside, path)

    def rename(self) -> None:
        """Give a note another name, perhaps one that is taken."""
        path = self._any()
        if path is not None:
            os.replace(path, self._path(self._random.randrange(self.notes)))

    def swap(self) -> None:
        """Let two notes change their places."""
        one, other = self._any(), self._any()
        if one is not None and other is not None and one != other:
            beside = one.with_name(".swapping")
            os.replace(one, beside)
            os.replace(other, one)
            os.replace(beside, other)

    def delete(self) -> None:
        """Remove a note."""
        path = self._any()
        if path is not None:
            path.unlink()

    def _any(self) -> Path | None:
        present = sorted((self.root / "memory").glob("*.md"))
        return self._random.choice(present) if present else None

    def _path(self, number: int) -> Path:
        return self.root / "memory" / f"nest{number}.md"

    def _write(self, path: Path, name: str) -> None:
        self._round += 1
        lines = [line(name, self._round, part) for part in range(PARTS)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


MINUTES = 10.0
_EXPECTED_FILES = re.compile(
    r"index-\d+\.db(-wal|-shm)?|cache\.db(-wal|-shm)?|CURRENT|writer\.lock|provider\.json"
)


def run(options: Options) -> Iterator[Outcome]:
    """Let all act for some minutes; then everything has to agree and nobody may hold anything."""
    minutes = MINUTES if options.minutes is None else options.minutes
    repeat = f"python -m tests.trust processes --minutes {minutes:g}"
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
        "SELECT f.path, c.chunk_id, c.start_line, c.end_line, c.text, v.embedding FROM chunks c "
        "JOIN files f ON f.id = c.file_id LEFT JOIN chunks_vec v ON v.rowid = c.id"
    ).fetchall()
    found = {}
    for *key, vector in rows:
        found[tuple(key)] = vector if isinstance(vector, bytes) else b""
    return found
