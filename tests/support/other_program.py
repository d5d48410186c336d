"""The other program that has an OpenClaw database open; a script of few imports, to start soon.

    python -m tests.support.other_program DATABASE MODE

It prints a line when it is ready and obeys the lines it is given: `commit`, `close`, `die`.
`tests.support.openclaw.other_program` starts it and says what the modes are.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import apsw

WORD = "zebrafish"
"""In no note: what the other program writes can be found by it."""
_COLUMNS = "path, source, start_line, end_line, hash, model, embedding, updated_at"


def connect(database: str | Path) -> apsw.Connection:
    """Open for writing, with sqlite-vec."""
    connection = apsw.Connection(str(database))
    connection.enable_load_extension(True)
    connection.load_extension(_extension())
    return connection


def _extension() -> str:
    # What `sqlite_vec.loadable_path` says; importing that package imports numpy.
    package = find_spec("sqlite_vec")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).with_name("vec0"))


@dataclass
class Writer:
    """Writes chunks with `WORD` in them."""

    connection: apsw.Connection
    prefix: str = ""
    number: int = 0

    def __post_init__(self) -> None:
        named = "SELECT 1 FROM sqlite_schema WHERE name = 'memory_index_chunks'"
        self.prefix = "memory_index_" if self.connection.execute(named).fetchall() else ""
        written = f"SELECT count(*) FROM {self.prefix}chunks WHERE id LIKE 'written-%'"
        (number,) = self.connection.execute(written).fetchall()[0]
        assert isinstance(number, int)
        self.number = number

    @property
    def _has_blobs(self) -> bool:
        table = f"PRAGMA table_info({self.prefix}chunks)"
        types = {str(row[1]): str(row[2]) for row in self.connection.execute(table)}
        return types["embedding"].upper() == "BLOB"

    def write(self, number: int) -> None:
        """Write a chunk like the first one into every table."""
        chunks, vectors = f"{self.prefix}chunks", f"{self.prefix}chunks_vec"
        name, run = f"written-{number}", self.connection.execute
        (first,) = run(f"SELECT id FROM {chunks} ORDER BY rowid LIMIT 1").fetchall()[0]
        run(
            f"INSERT INTO {chunks}(id, text, {_COLUMNS})"
            f" SELECT ?, ?, {_COLUMNS} FROM {chunks} WHERE id = ?",
            (name, f"{WORD} {number}", first),
        )
        run(
            f"INSERT INTO {vectors}(id, embedding) SELECT ?, embedding FROM {vectors} WHERE id = ?",
            (name, first),
        )
        if not self._has_blobs:
            run(
                f"INSERT INTO {chunks}_fts(text, id, path, source, model, start_line, end_line)"
                " SELECT text, id, path, source, model, start_line, end_line"
                f" FROM {chunks} WHERE id = ?",
                (name,),
            )

    def commit(self) -> None:
        """Write one more chunk, and commit it."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.write(self.number)
        self.connection.execute("COMMIT")
        self.number += 1


def _start(connection: apsw.Connection, mode: str) -> Writer:
    if mode == "exclusive":
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    journal = "delete" if mode in ("journal", "locked") else "wal"
    connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    writer = Writer(connection)
    if journal == "wal":
        writer.commit()
    if mode == "uncommitted":
        connection.execute("BEGIN IMMEDIATE")
        writer.write(writer.number)
    if mode == "locked":
        connection.execute("BEGIN EXCLUSIVE")
    if mode == "journal":
        # So small a cache that half of the change is in the file before the commit.
        connection.execute("PRAGMA cache_size = 5").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"UPDATE {writer.prefix}chunks SET text = 'torn', hash = 'torn'")
    return writer


def _main(database: str, mode: str) -> None:
    connection = connect(database)
    writer = _start(connection, mode)
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "commit\n":
            writer.commit()
            print("ready", flush=True)
        elif line == "die\n":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            break
    connection.close()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
