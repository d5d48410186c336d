"""State folders as OpenClaw lays them out, around the databases that the real program made.

Run as a script, it is the other program that has such a database open:

    python -m tests.support.openclaw DATABASE MODE

It prints a line when it is ready and obeys the lines it is given: `commit`, `close`, `die`.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np

from memtui.index.foreign import rows
from memtui.index.foreign.layout import Layout
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.vectors import read_indexed, read_vectors

DATA = Path(__file__).parent.parent / "data" / "openclaw"
SIDECAR, AGENT, AGENT_BLOB = RELEASES = ("2026.4.26", "2026.7.1", "2026.9.6")
FILES = 16
CHUNKS = {SIDECAR: 65, AGENT: 65, AGENT_BLOB: 118}
DIMS = 256
WORD = "zebrafish"
"""In no note: what the other program writes can be found by it."""

NOBODY = 65534
Tree = dict[str, tuple[str | int, ...]]


@dataclass(frozen=True, slots=True)
class State:
    """A state folder with one agent."""

    folder: Path
    database: Path
    workspace: Path

    def beside(self, suffix: str) -> Path:
        """Name a file beside the database."""
        return self.database.with_name(self.database.name + suffix)


def make_state(folder: Path, release: str, agent: str = "main") -> State:
    """Lay out a state folder (or add an agent to it) with the index that `release` made."""
    if release == SIDECAR:
        database = folder / "memory" / f"{agent}.sqlite"
    else:
        database = folder / "agents" / agent / "agent" / "openclaw-agent.sqlite"
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_bytes(lzma.decompress((DATA / f"openclaw-{release}.sqlite.xz").read_bytes()))
    workspace = folder / ("workspace" if agent == "main" else f"workspace-{agent}")
    shutil.copytree(DATA / "workspace", workspace, dirs_exist_ok=True)
    return State(folder, database, workspace)


def hash_tree(folder: Path) -> Tree:
    """Everything that must not change: SHA-256, size, times but that of reading, inode, owner."""
    found: Tree = {}
    for path in sorted([folder, *folder.rglob("*")]):
        state = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        times = (state.st_mtime_ns, state.st_ctime_ns)
        found[str(path)] = (digest, state.st_size, *times, state.st_ino, state.st_uid, state.st_gid)
    return found


def edit(database: Path, *statements: str) -> None:
    """Change a database as its owner would, and leave it idle again: no log, no journal."""
    connection = connect(database)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def connect(database: Path) -> apsw.Connection:
    """Open for writing, with sqlite-vec."""
    import sqlite_vec

    connection = apsw.Connection(str(database))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def use_everything(opened: Opened) -> int:
    """Read through every door: rows, full text, vectors of both tables; the number of chunks."""
    connection, layout = opened.connection, opened.layout
    with opened.errors(), opened.snapshot():
        chunks = list(rows.all_chunks(connection, layout))
        assert chunks[0] == rows.chunks(connection, layout, [chunks[0].rowid])[chunks[0].rowid]
        assert sum(rows.chunk_counts(connection, layout).values()) == len(chunks)
        assert sum(rows.file_counts(connection, layout).values()) == FILES
        assert rows.identity(connection, layout).problems == ()
        hits = connection.execute(
            f"SELECT id, bm25({layout.fts}) FROM {layout.fts}"
            f" WHERE {layout.fts} MATCH '\"the\"' ORDER BY 2"
        ).fetchall()
        assert hits
        stored = np.concatenate([part.vectors for part in read_vectors(connection, layout)])
        indexed = read_indexed(connection, layout)
        assert indexed is not None
        assert stored.shape == (len(chunks), DIMS)
        assert np.array_equal(stored.astype(np.float32), indexed.vectors)
        if opened.vec_readable:
            nearest = connection.execute(
                f"SELECT id FROM {layout.vec} WHERE embedding MATCH ? AND k = 1",
                (indexed.vectors[0].tobytes(),),
            ).fetchall()
            assert len(nearest) == 1
    return len(chunks)


def count_of(opened: Opened, word: str) -> int:
    """Count the chunks that the full text finds a word in."""
    fts = opened.layout.fts
    found = opened.connection.execute(
        f"SELECT count(*) FROM {fts} WHERE {fts} MATCH ?", (word,)
    ).fetchall()[0][0]
    assert isinstance(found, int)
    return found


class OtherProgram:
    """Another process that has a database open."""

    def __init__(self, database: Path, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.openclaw", str(database), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._wait()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def commit(self) -> None:
        """Write and commit one more chunk."""
        self._tell("commit")
        self._wait()

    def close(self) -> None:
        """Close the database in good order, and end."""
        self._end("close", 0)

    def die(self) -> None:
        """End as if killed."""
        self._end("die", -signal.SIGKILL)

    def _end(self, line: str, code: int) -> None:
        self._tell(line)
        assert self._process.wait(60) == code
        self.clean_up()

    def clean_up(self) -> None:
        """End it whatever it does; may be called again."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def other_program(database: Path, mode: str = "live") -> Iterator[OtherProgram]:
    """Have another process open the database for the block.

    `live`: one chunk committed to the log. `uncommitted`: one more that is not. `exclusive`: the
    log without shared memory. `journal`: a rollback journal, half of a transaction in the file.
    `locked`: the file held exclusively, nothing written.
    """
    program = OtherProgram(database, mode)
    try:
        yield program
    finally:
        program.clean_up()


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be nobody for the block when the tests run as root, whom no permission stops."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def write_chunk(connection: apsw.Connection, layout: Layout, number: int) -> None:
    """Write a chunk like the first one, with `WORD` in it, into every table."""
    columns = "path, source, start_line, end_line, hash, model, embedding, updated_at"
    name, text = f"written-{number}", f"{WORD} {number}"
    (first,) = connection.execute(
        f"SELECT id FROM {layout.chunks} ORDER BY rowid LIMIT 1"
    ).fetchall()[0]
    connection.execute(
        f"INSERT INTO {layout.chunks}(id, text, {columns})"
        f" SELECT ?, ?, {columns} FROM {layout.chunks} WHERE id = ?",
        (name, text, first),
    )
    connection.execute(
        f"INSERT INTO {layout.vec}(id, embedding) SELECT ?, embedding FROM {layout.vec} WHERE id = ?",
        (name, first),
    )
    if not layout.blob_vectors:
        connection.execute(
            f"INSERT INTO {layout.fts}(text, id, path, source, model, start_line, end_line)"
            f" SELECT text, id, path, source, model, start_line, end_line FROM {layout.chunks}"
            " WHERE id = ?",
            (name,),
        )


def _main(database: str, mode: str) -> None:
    from memtui.index.foreign.layout import recognise

    connection = connect(Path(database))
    if mode == "exclusive":
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    journal = "delete" if mode in ("journal", "locked") else "wal"
    connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    layout = recognise(connection)
    (number,) = connection.execute(
        f"SELECT count(*) FROM {layout.chunks} WHERE id LIKE 'written-%'"
    ).fetchall()[0]
    assert isinstance(number, int)
    if journal == "wal":
        connection.execute("BEGIN IMMEDIATE")
        write_chunk(connection, layout, number)
        connection.execute("COMMIT")
    if mode == "uncommitted":
        connection.execute("BEGIN IMMEDIATE")
        write_chunk(connection, layout, number + 1)
    if mode == "locked":
        connection.execute("BEGIN EXCLUSIVE")
    if mode == "journal":
        # So small a cache that half of the change is in the file before the commit.
        connection.execute("PRAGMA cache_size = 5").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"UPDATE {layout.chunks} SET text = 'torn', hash = 'torn'")
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "commit\n":
            number += 1
            connection.execute("BEGIN IMMEDIATE")
            write_chunk(connection, layout, number)
            connection.execute("COMMIT")
            print("ready", flush=True)
        elif line == "die\n":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            break
    connection.close()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
