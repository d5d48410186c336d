"""Opening OpenClaw indexes in every state they can be in, without leaving a trace."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import Access, create, open_beside, open_database
from memtui.index.foreign import opening, rows
from memtui.index.foreign.opening import (
    IndexChanged,
    Opened,
    foreign_errors,
    open_foreign,
    tokenizer,
)
from memtui.index.foreign.rows import parse_vector, read_indexed, read_vectors
from memtui.index.transcripts.reading import open_lines
from memtui.model import SourceFile
from memtui.retrieval.connection import snapshot
from tests.support.known import load
from tests.support.openclaw import (
    CHUNKS,
    SIDECAR,
    WORD,
    State,
    connect,
    count_of,
    edit,
    hash_tree,
    make_state,
    other_program,
    use_everything,
    without_privileges,
)


def read_unseen(state: State, how: Access, word: int = 0) -> Opened:
    """Open, use everything, close; nothing of the state folder may have changed."""
    before = hash_tree(state.folder)
    with closing(open_foreign(state.database)) as opened:
        assert opened.how is how
        assert opened.is_current()
        if opened.copy is not None:
            assert Path(opened.copy.name).stat().st_mode & 0o077 == 0
        use_everything(opened)
        assert count_of(opened, WORD) == word
    assert hash_tree(state.folder) == before
    assert opened.copy is None or not Path(opened.copy.name).exists()
    return opened


def test_a_live_connection_sees_later_commits(state: State) -> None:
    with other_program(state.database) as program:
        with closing(open_foreign(state.database)) as opened:
            assert count_of(opened, WORD) == 1
            program.commit()
            assert not opened.is_current()
            assert count_of(opened, WORD) == 2
            with snapshot(opened.connection):
                assert count_of(opened, WORD) == 2
                program.commit()
                assert count_of(opened, WORD) == 2
            assert count_of(opened, WORD) == 3
        program.close()
    assert not state.beside("-wal").exists()
    read_unseen(state, Access.IMMUTABLE, word=3)


def test_a_program_that_comes_to_a_log_left_behind(state: State) -> None:
    with other_program(state.database) as program:
        program.die()
    state.beside("-shm").unlink()
    opened = open_foreign(state.database)
    with other_program(state.database) as program:
        assert not opened.is_current()
        opened.close()
        read_unseen(state, Access.LIVE, word=2)


def test_an_empty_log_with_shared_memory(sidecar: State) -> None:
    # What a plain read-only connection leaves beside an idle database.
    with closing(connect(sidecar.database)) as connection:
        connection.execute("SELECT count(*) FROM chunks").fetchall()
        copies = {suffix: sidecar.beside(suffix).read_bytes() for suffix in ("-wal", "-shm")}
    assert copies["-wal"] == b""
    for suffix, content in copies.items():
        sidecar.beside(suffix).write_bytes(content)
    read_unseen(sidecar, Access.LIVE)
    sidecar.beside("-shm").unlink()
    read_unseen(sidecar, Access.IMMUTABLE)


def test_an_older_index_that_keeps_no_log(state: State) -> None:
    edit(state.database, "PRAGMA journal_mode = DELETE")
    read_unseen(state, Access.IMMUTABLE)
    state.beside("-wal").touch()
    read_unseen(state, Access.IMMUTABLE)


def test_a_journal_at_the_beginning_of_a_transaction(sidecar: State) -> None:
    with closing(connect(sidecar.database)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE").fetchall()
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE chunks SET text = 'later'")
        assert sidecar.beside("-journal").exists()
        read_unseen(sidecar, Access.IMMUTABLE)
        with closing(open_foreign(sidecar.database)) as opened:
            writer.execute("COMMIT")
            with pytest.raises(IndexChanged):
                opened.confirm()


def test_two_commits_within_one_tick_of_the_clock(sidecar: State) -> None:
    edit(sidecar.database, "PRAGMA journal_mode = DELETE")
    stamp = sidecar.database.stat()
    with closing(open_foreign(sidecar.database)) as opened:
        edit(sidecar.database, "UPDATE chunks SET updated_at = updated_at + 1")
        os.utime(sidecar.database, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(IndexChanged):
            opened.confirm()


_TAKE_ALL = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        print("free")
    except OSError:
        print("held")
"""


def test_an_opening_takes_no_lock_from_another_connection(sidecar: State) -> None:
    edit(sidecar.database, "PRAGMA journal_mode = DELETE")
    reader = open_beside(sidecar.database, Access.LIVE)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM chunks").fetchall()
    with closing(open_foreign(sidecar.database)) as opened:
        opened.is_current()
    base = str(sidecar.folder)
    with open_lines(SourceFile("", str(sidecar.database), "", 0, 0, 0, session="s1", base=base)):
        pass
    lock = [sys.executable, "-c", _TAKE_ALL, str(sidecar.database)]
    assert subprocess.run(lock, capture_output=True, text=True, check=True).stdout == "held\n"
    reader.close()
    assert subprocess.run(lock, capture_output=True, text=True, check=True).stdout == "free\n"


def test_a_text_that_is_not_utf8_is_damage(sidecar: State) -> None:
    edit(sidecar.database, "UPDATE chunks SET text = CAST(x'61ff62' AS TEXT) WHERE rowid = 3")
    with closing(open_foreign(sidecar.database)) as opened:
        with pytest.raises(IndexUnusable, match=r"is damaged: a text of it is not UTF-8") as raised:
            use_everything(opened)
        assert raised.value.exit_code == 3


@pytest.mark.parametrize("mode", ["journal", "exclusive"])
def test_an_index_that_another_program_holds(state: State, mode: str) -> None:
    with other_program(state.database, mode):
        before = hash_tree(state.folder)
        with pytest.raises(IndexUnusable, match=r"is locked: memtui waited 1 s for another"):
            open_foreign(state.database)
        assert hash_tree(state.folder) == before


def test_a_link_to_an_index(sidecar: State, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(sidecar.database)
    with other_program(sidecar.database):
        before = hash_tree(tmp_path)
        with closing(open_foreign(link)) as opened:
            assert count_of(opened, WORD) == 1
            assert opened.path == link
            assert opened.real == sidecar.database.resolve()
        assert hash_tree(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["a b#c?d%41.sqlite", "new\nline.sqlite", "\udcff.sqlite", "é.sqlite"]
)
def test_odd_file_names(sidecar: State, name: str) -> None:
    path = sidecar.database.with_name(name)
    sidecar.database.rename(path)
    read_unseen(replace(sidecar, database=path), Access.IMMUTABLE)


@pytest.fixture
def readable_by_all(release: str) -> Iterator[State]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield make_state(Path(folder) / "state", release)


def permit(state: State, folders: int, files: int) -> None:
    for path in [state.folder, *state.folder.rglob("*")]:
        path.chmod(folders if path.is_dir() else files)


@pytest.mark.parametrize("may_write", [True, False])
@pytest.mark.parametrize(
    ("mode", "dies", "lost", "how", "word"),
    [
        ("", False, "", Access.IMMUTABLE, 0),
        ("live", False, "", Access.LIVE, 1),
        ("live", True, "", Access.LIVE, 1),
        ("live", True, "-shm", Access.LOG, 1),
        ("journal", True, "", Access.COPY, 0),
    ],
    ids=["idle", "live", "killed", "log", "journal"],
)
def test_an_index_in_every_state_is_read_without_a_trace(
    readable_by_all: State,
    mode: str,
    dies: bool,
    lost: str,
    how: Access,
    word: int,
    may_write: bool,
) -> None:
    state = readable_by_all
    with ExitStack() as stack:
        if mode:
            program = stack.enter_context(other_program(state.database, mode))
            if dies:
                program.die()
        if lost:
            state.beside(lost).unlink()
        if not may_write:
            permit(state, 0o555, 0o444)
            stack.callback(permit, state, 0o755, 0o644)
            stack.enter_context(without_privileges())
        read_unseen(state, how, word)


def test_a_file_that_may_not_be_read(readable_by_all: State) -> None:
    readable_by_all.database.chmod(0)
    with without_privileges(), pytest.raises(IndexUnusable, match="cannot be opened") as raised:
        open_foreign(readable_by_all.database)
    assert raised.value.exit_code == 3


def refusal(path: Path) -> IndexUnusable | IndexMissing:
    before = hash_tree(path.parent)
    with pytest.raises((IndexUnusable, IndexMissing)) as raised:
        open_foreign(path)
    assert hash_tree(path.parent) == before
    error = raised.value
    assert isinstance(error, IndexUnusable | IndexMissing)
    assert error.exit_code == 3
    assert error.hint
    assert "\n" not in str(error)
    return error


def make_own(path: Path) -> None:
    with closing(open_database(path)) as own:
        create(own)


def tables(*statements: str) -> Callable[[Path], None]:
    return lambda path: edit(path, *statements)


HALF = ("CREATE TABLE meta(key, value)", "CREATE TABLE chunks(id, path, text)",
        "CREATE TABLE files(path, hash, mtime, size)")  # fmt: skip


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "is not there"),
        (lambda path: path.symlink_to("none"), "is not there"),
        (Path.touch, "is empty (0 bytes)"),
        (lambda path: path.write_text("# notes\n" * 500), "is not an SQLite database"),
        (lambda path: path.write_bytes(b"SQL"), "is not an SQLite database"),
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.symlink_to(path), "levels of symbolic links"),
        (make_own, "it is an index of memtui"),
        (tables(*(f"CREATE TABLE t{n}(x)" for n in range(6))), "are t0, t1, t2, t3 and 2 more"),
        (tables("CREATE TABLE schema_meta(schema_version INTEGER)"), "has no memory tables"),
        (tables("CREATE TABLE t(x)", "DROP TABLE t"), "the database has no tables"),
        (tables(*HALF), "is not an OpenClaw memory index"),
    ],
)
def test_what_is_no_index(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    make(tmp_path / "an index.sqlite")
    assert said in str(refusal(tmp_path / "an index.sqlite"))


@pytest.mark.parametrize("kept", [100, 4096, 8192, 100_000])
def test_a_truncated_index(state: State, kept: int) -> None:
    with state.database.open("r+b") as file:
        file.truncate(kept)
    assert "is damaged" in str(refusal(state.database))


@pytest.mark.parametrize(("own", "column"), [("rowids", "id"), ("chunks", "validity")])
def test_a_vector_table_whose_own_tables_have_other_columns(
    state: State, own: str, column: str
) -> None:
    with closing(open_foreign(state.database)) as opened:
        table = f"{opened.layout.vec}_{own}"
    edit(state.database, f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    with closing(open_foreign(state.database)) as opened:
        assert opened.layout.vec is not None
        assert not opened.vec_readable


def test_a_half_made_index(state: State) -> None:
    with closing(open_foreign(state.database)) as opened:
        layout = opened.layout
    edit(state.database, f"DELETE FROM {layout.meta}", f"DELETE FROM {layout.chunks}")
    edit(state.database, f"DROP TABLE {layout.fts}", f"DROP TABLE {layout.vec}")
    with closing(open_foreign(state.database)) as opened:
        assert (opened.layout.fts, opened.layout.vec, opened.vec_readable) == (None, None, False)
        found = rows.identity(opened)
        assert not found.present
        assert found.problems == ("the index metadata is missing",)
        assert rows.counts(opened, opened.layout.chunks) == {}
        assert read_indexed(opened) is None
        assert [part.rowids.size for part in read_vectors(opened)] == []


def test_the_oldest_files_have_no_source(sidecar: State) -> None:
    edit(
        sidecar.database,
        "DROP INDEX idx_chunks_source",
        "ALTER TABLE chunks DROP COLUMN source",
        "ALTER TABLE files DROP COLUMN source",
    )
    read_unseen(sidecar, Access.IMMUTABLE)
    with closing(open_foreign(sidecar.database)) as opened:
        layout = opened.layout
        assert not layout.has_source
        assert layout.fts_has_source
        assert rows.counts(opened, opened.layout.chunks) == {"memory": CHUNKS[SIDECAR]}
        assert {file.source for file in rows.files(opened)} == {"memory"}


@pytest.mark.parametrize(("options", "expected"), load("agents")["tokenizers"])
def test_the_tokenizer_is_read_from_the_table(options: str, expected: str) -> None:
    assert tokenizer(f"CREATE VIRTUAL TABLE chunks_fts USING fts5(\n  text{options}\n)") == expected


def test_a_program_that_goes_on_writing_waits_for_the_last_try(sidecar: State) -> None:
    edit(sidecar.database, "PRAGMA journal_mode = DELETE")
    ways: list[Access] = []

    def read(opened: Opened) -> int:
        ways.append(opened.how)
        if opened.how is Access.IMMUTABLE:
            edit(sidecar.database, "UPDATE chunks SET updated_at = updated_at + 1")
        return count_of(opened, WORD)

    assert opening.read_once(sidecar.database, read) == 0
    assert ways == [Access.IMMUTABLE, Access.IMMUTABLE, Access.LIVE]


def test_errors_of_the_system_become_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with pytest.raises(IndexUnusable, match="no space left"), foreign_errors(path):
        raise OSError(28, "No space left on device")
    with (
        pytest.raises(IndexUnusable, match=r"cannot be read: Input/output error"),
        foreign_errors(path),
    ):
        raise OSError(5, "Input/output error")
    with pytest.raises(KeyError), foreign_errors(path):
        raise KeyError


@pytest.mark.parametrize(
    ("stored", "problem"),
    [*load("agents")["odd metadata"], ("[" * 100_000, "is not a JSON object")],
)
def test_odd_metadata_is_a_problem_and_no_failure(
    sidecar: State, stored: str, problem: str
) -> None:
    edit(sidecar.database, "UPDATE meta SET value = '{}'".format(stored.replace("'", "''")))
    with closing(open_foreign(sidecar.database)) as opened:
        found = rows.identity(opened)
        assert found.present
        assert found.model is None
        assert len(found.problems) == 1
        assert problem in found.problems[0]


@pytest.mark.parametrize(
    "stored",
    [None, 5, "{}", "nonsense", "[[1]]", '["1"]', "[1e999]", "[NaN]", "[1, [2]]", b"1234567"],
)
def test_what_is_no_vector(stored: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_vector(stored)


def test_an_exchanged_file_makes_a_connection_old(sidecar: State) -> None:
    with closing(open_foreign(sidecar.database)) as opened:
        other = sidecar.database.with_name("new")
        other.write_bytes(sidecar.database.read_bytes())
        os.utime(other, ns=(0, sidecar.database.stat().st_mtime_ns))
        other.replace(sidecar.database)
        assert not opened.is_current()
