"""State folders as OpenClaw lays them out, around the databases that the real program made."""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from memtui.index.database import number
from memtui.index.foreign import rows
from memtui.index.foreign.agents import ForeignTarget, find_target
from memtui.index.foreign.opening import Opened, foreign_errors
from memtui.index.foreign.rows import read_indexed, read_vectors
from memtui.retrieval.connection import snapshot
from tests.support.interrupted import running_python
from tests.support.other_program import WORD as WORD
from tests.support.other_program import connect as connect

DATA = Path(__file__).parent.parent / "data" / "openclaw"
SIDECAR, AGENT, AGENT_BLOB = RELEASES = ("2026.4.26", "2026.7.1", "2026.9.6")
FILES = 16
CHUNKS = {SIDECAR: 65, AGENT: 65, AGENT_BLOB: 118}
DIMS = 256
NOBODY = 65534
_CHANGED = 1_793_956_000
Tree = dict[str, tuple[str | int, ...]]


class State(Struct, frozen=True):
    """A state folder with one agent."""

    folder: Path
    database: Path
    workspace: Path

    def beside(self, suffix: str) -> Path:
        """Name a file beside the database."""
        return self.database.with_name(self.database.name + suffix)

    def configure(self, search: Any) -> None:
        """Write a configuration that says this of the memory search of every agent."""
        content = {"agents": {"defaults": {"memorySearch": search}}}
        (self.folder / "openclaw.json").write_text(json.dumps(content), encoding="utf-8")

    def target(self) -> ForeignTarget:
        """What `Engine.open_agent` opens."""
        return find_target(
            agent="main",
            index=None,
            workspace=None,
            env={"OPENCLAW_STATE_DIR": str(self.folder)},
            home=self.folder.parent,
        )


def make_state(folder: Path, release: str, agent: str = "main") -> State:
    """Lay out a state folder (or add an agent to it) with the index that `release` made."""
    if release == SIDECAR:
        database = folder / "memory" / f"{agent}.sqlite"
    else:
        database = folder / "agents" / agent / "agent" / "openclaw-agent.sqlite"
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_bytes(database_of(release))
    workspace = folder / ("workspace" if agent == "main" else f"workspace-{agent}")
    shutil.copytree(DATA / "workspace", workspace, dirs_exist_ok=True)
    for note in workspace.rglob("*.md"):
        os.utime(note, (_CHANGED, _CHANGED))
    return State(folder, database, workspace)


@functools.cache
def database_of(release: str) -> bytes:
    """The database that a release made, as it was left."""
    return lzma.decompress((DATA / f"openclaw-{release}.sqlite.xz").read_bytes())


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
    with closing(connect(database)) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()


def use_everything(opened: Opened) -> int:
    """Read through every door: rows, full text, vectors of both tables; the number of chunks."""
    connection, layout = opened.connection, opened.layout
    with foreign_errors(opened.path, opened.is_current), snapshot(opened.connection):
        chunks = connection.execute(f"SELECT * FROM {layout.chunks}").fetchall()
        assert sum(rows.counts(opened, opened.layout.chunks).values()) == len(chunks)
        assert sum(rows.counts(opened, opened.layout.files).values()) == FILES
        assert rows.identity(opened).problems == ()
        hits = connection.execute(
            f"SELECT id, bm25({layout.fts}) FROM {layout.fts}"
            f" WHERE {layout.fts} MATCH '\"the\"' ORDER BY 2"
        ).fetchall()
        assert hits
        stored = np.concatenate([part.vectors for part in read_vectors(opened)])
        indexed = read_indexed(opened)
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
    return number(opened.connection, f"SELECT count(*) FROM {fts} WHERE {fts} MATCH ?", word)


class OtherProgram:
    """Another process that has a database open."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
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


@contextmanager
def other_program(database: Path, mode: str = "live") -> Iterator[OtherProgram]:
    """Have another process open the database for the block.

    `live`: one chunk committed to the log. `uncommitted`: one more that is not. `exclusive`: the
    log without shared memory. `journal`: a rollback journal, half of a transaction in the file.
    `locked`: the file held exclusively, nothing written.
    """
    command = ("-m", "tests.support.other_program", str(database), mode)
    with running_python(*command) as process:
        yield OtherProgram(process)


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
