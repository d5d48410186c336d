"""Opening database files: settings, broken files, permissions, the extension."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index import database, schema
from memtui.index.database import (
    DatabaseError,
    IndexDamaged,
    Interrupted,
    damage,
    interruptible,
    mapped_errors,
    number,
    numbers,
    open_database,
    transaction,
    vector_extension,
)


def test_a_new_file_has_the_measured_settings(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db")
    connection.execute("CREATE TABLE t(x)")
    assert number(connection, "PRAGMA page_size") == 16384
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert number(connection, "PRAGMA synchronous") == 1
    assert number(connection, "PRAGMA cache_size") == -64 * 1024
    assert number(connection, "PRAGMA busy_timeout") == 5000
    assert number(connection, "PRAGMA journal_size_limit") == 64 * 2**20
    assert number(connection, "PRAGMA foreign_keys") == 1
    assert damage(connection) is None
    connection.close()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = open_database(path)
    connection.execute("CREATE TABLE t(x)")
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    connection.close()


def test_the_extension_is_loaded_without_numpy(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from memtui.index.database import open_database, vector_extension\n"
        f"connection = open_database(Path({str(tmp_path / 'a.db')!r}))\n"
        "print(vector_extension(connection))\n"
        "print([name for name in ('numpy', 'sqlite_vec', 'sqlite3') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    version, modules = done.stdout.splitlines()
    assert version.startswith("v0.")
    assert modules == "[]"


def test_without_the_extension_everything_but_the_vector_table_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_vector_library", lambda: None)
    connection = open_database(tmp_path / "a.db")
    schema.create(connection, 8)
    assert vector_extension(connection) is None
    assert not schema.has_vector_table(connection)
    assert not schema.create_vector_table(connection, 8)
    connection.close()


def test_an_extension_that_does_not_load_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "vec0.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(database, "_vector_library", lambda: str(broken))
    connection = open_database(tmp_path / "a.db")
    assert vector_extension(connection) is None
    connection.close()


def test_reading_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(IndexMissing):
        open_database(tmp_path / "a.db", readonly=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"no database at all, " * 5000, b"SQLite format 3\0" + b"\xff" * 40000]
)
@pytest.mark.parametrize("readonly", [True, False])
def test_what_is_no_database_is_named_in_one_line(
    tmp_path: Path, content: bytes, readonly: bool
) -> None:
    path = tmp_path / "index-1.db"
    path.write_bytes(content)
    with pytest.raises(IndexDamaged) as caught:
        open_database(path, readonly=readonly)
    assert "index-1.db" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_damaged_page_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "index-1.db"
    connection = open_database(path)
    connection.execute("CREATE TABLE t(x)")
    with transaction(connection):
        connection.executemany("INSERT INTO t VALUES(?)", [("x" * 1000,) for _ in range(1000)])
    connection.close()
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 16384):
        content[page * 16384 : page * 16384 + 200] = b"\xff" * 200
    path.write_bytes(content)
    connection = open_database(path, readonly=True)
    with pytest.raises(IndexDamaged), mapped_errors(path):
        connection.execute("SELECT count(x) FROM t").fetchall()
    connection.close()


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "index-1.db").mkdir()
    with pytest.raises(IndexUnusable, match=r"index-1\.db"):
        open_database(tmp_path / "index-1.db")


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db")
    schema.create(connection, None)
    schema.write_meta(connection, {"schema_version": "99"})
    with pytest.raises(IndexUnusable, match=r"schema 99.*newer memtui"):
        schema.check_version(schema.read_meta(connection), tmp_path / "a.db")
    schema.write_meta(connection, {"schema_version": "nonsense"})
    with pytest.raises(IndexUnusable, match="nonsense"):
        schema.check_version(schema.read_meta(connection), tmp_path / "a.db")
    connection.close()


def test_a_transaction_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db")
    connection.execute("CREATE TABLE t(x NOT NULL)")
    with pytest.raises(DatabaseError), transaction(connection):
        connection.executemany("INSERT INTO t VALUES(?)", [(1,), (None,)])
    assert not connection.in_transaction
    with transaction(connection):
        connection.execute("INSERT INTO t VALUES(2)")
    assert numbers(connection, "SELECT x FROM t") == [2]
    connection.close()


def test_a_writer_waits_for_another_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    first = open_database(path)
    first.execute("CREATE TABLE t(x)")
    begun = threading.Event()
    done = threading.Event()

    def second_writer() -> None:
        second = open_database(path)
        begun.set()
        with transaction(second):
            second.execute("INSERT INTO t VALUES(2)")
        second.close()
        done.set()

    thread = threading.Thread(target=second_writer)
    with transaction(first):
        first.execute("INSERT INTO t VALUES(1)")
        thread.start()
        assert begun.wait(10)
        assert not done.is_set()
    assert done.wait(10)
    thread.join()
    assert numbers(first, "SELECT x FROM t ORDER BY x") == [1, 2]
    first.close()


def test_a_long_statement_can_be_stopped(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db")
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    )
    with pytest.raises(Interrupted), interruptible(connection, lambda: True):
        connection.execute(endless).fetchall()
    assert number(connection, "SELECT 1") == 1
    connection.close()


def test_the_tables_take_rows_and_give_them_back(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db")
    schema.create(connection, 4)
    assert schema.read_meta(connection)["schema_version"] == str(schema.SCHEMA_VERSION)
    connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(7, 'hello running')")
    assert numbers(connection, "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'run'") == [7]
    connection.execute("DELETE FROM chunks_fts WHERE rowid = 7")
    assert numbers(connection, "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'run'") == []
    assert connection.execute("SELECT term FROM chunks_terms").fetchall() == []
    vector = np.array([1, 0, 0, 0], dtype=np.float32)
    connection.execute("INSERT INTO chunks_vec(rowid, embedding) VALUES(7, ?)", (vector.tobytes(),))
    found = connection.execute("SELECT rowid, embedding FROM chunks_vec").fetchall()
    assert found == [(7, vector.tobytes())]
    connection.close()
