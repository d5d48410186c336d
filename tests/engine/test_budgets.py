"""Budgets for what strangers supply: packed transcripts, databases and JSON that cost too much."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import zstandard

from memtui.embedding.http import Reply, RequestContext, json_in
from memtui.embedding.services import Address
from memtui.engine.foreign.query_vectors import load_given
from memtui.engine.foreign.verify import load_recording
from memtui.index import database
from memtui.index.database import Access, TooSlow, open_beside
from memtui.index.foreign.rows import parse_vector
from memtui.index.transcripts.reading import registered_sessions
from memtui.memory.transcripts.records import parse_line
from memtui.memory.transcripts.stream import RawLine
from memtui.settings.openclaw.read import read_config
from tests.support.command_line import Run, command_line, own_home
from tests.support.conversations import Homes, began, said
from tests.support.openclaw import State, edit, make_state

PACKED = "s1.jsonl.reset.2026-10-01T10-00-00Z.zst"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in a memory that opts in to the agent's conversations."""
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "openclaw"))
    monkeypatch.setenv("MEMTUI_TRANSCRIPTS__SOURCES", "openclaw")
    Path("MEMORY.md").write_text("# Memory\n", encoding="utf-8")
    return command_line(capsys)


@pytest.mark.parametrize(
    ("piece", "excess"),
    [(b"\n", "1,000,000 lines"), (b" ", "1,000 times its size and 16,000,000 bytes")],
)
def test_what_unpacks_to_too_much_is_named_and_not_read_again(
    tmp_path: Path, run: Run, piece: bytes, excess: str
) -> None:
    two_gigabytes = zstandard.compress(piece * (2**26 // len(piece)), 1) * 32
    path = Homes(tmp_path).openclaw(PACKED, two_gigabytes)
    os.utime(path, (1_790_000_000, 1_790_000_000))
    detail = f"unpacks to more than {excess}"
    skipped = [{"path": f"sessions/main/{PACKED}", "reason": "too_large", "detail": detail}]

    def listed() -> tuple[str, str, object]:
        (listing,) = run("sessions", "--json").document["conversations"]
        return listing["state"], listing["detail"], listing["turns"]

    assert listed()[:2] == ("too_large", f"cannot be read to its end: {detail}")
    for _ in range(2):
        assert run("index", "--json").document["skipped"] == skipped
        status = run("status", "--json").document
        assert (status["skipped"], status["pending"]) == (skipped, [])
        assert listed() == ("too_large", detail, None)
    sources = run("sessions", "--coverage", "--json").document["sources"]
    assert [one for source in sources for one in source["skipped"]] == skipped

    path.write_bytes(zstandard.compress(began() + said("user", "hi")))
    assert run("index", "--json").document["skipped"] == []
    assert listed()[0] == "ok"


def test_packed_events_of_a_session_have_the_same_budget(tmp_path: Path, run: Run) -> None:
    Homes(tmp_path).events(*[b'{"a": "%b"}' % (b"a" * 10**7)] * 4, packed=lambda number: True)
    (skipped,) = run("index", "--json").document["skipped"]
    assert skipped["detail"] == "unpacks to more than 1,000 times its size and 16,000,000 bytes"
    status = run("status", "--json").document
    assert (status["skipped"], status["pending"]) == ([skipped], [])


def test_an_endless_view_is_named_and_the_rest_is_told(sidecar: State, run: Run) -> None:
    sql = "SELECT sql FROM sqlite_master WHERE name = 'chunks_fts'"
    with closing(apsw.Connection(str(sidecar.database))) as connection:
        ((created,),) = connection.execute(sql).fetchall()
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
    columns = "n, 'a' AS text, n AS id, 'a' AS path, 'a' AS source, 'm' AS model, n AS start_line"
    edit(
        sidecar.database,
        "DROP TABLE chunks_fts",
        f"CREATE VIEW texts AS {endless} SELECT {columns}, n AS end_line FROM c",
        f"{str(created).rstrip(')')}, content='texts', content_rowid='n')",
        "INSERT INTO chunks_fts(rowid, text) VALUES(1, 'a')",
    )
    status = run("status", "--index", str(sidecar.database), "--json")
    truth = status.document["foreign"]["truth"]
    (line,) = [one["message"] for one in truth["findings"] if one["code"] == "damaged"]
    assert line.startswith("chunks_fts cannot be read: texts is a view, which no release")
    assert (status.code, truth["vector_state"]) == (0, "complete")
    error = run("search", "a", "--index", str(sidecar.database), "--json").error
    assert error["exit_code"] == 3
    assert "is damaged: texts is a view" in error["message"]


def test_statements_have_a_deadline_and_see_only_expected_tables(
    sidecar: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_S", 0.05)
    edit(sidecar.database, "CREATE VIRTUAL TABLE boxes USING rtree(id, low, high)")
    many = ", ".join(f"json_each('[1,2,3,4,5,6,7,8,9]') n{at}" for at in range(12))
    with closing(open_beside(sidecar.database, Access.IMMUTABLE)) as connection:
        for sql, error, words in (
            (f"SELECT count(*) FROM {many}", TooSlow, "ran for more than"),
            ("SELECT * FROM boxes", apsw.SQLError, "no such module: rtree"),
            ("SELECT hex(zeroblob(40000000))", apsw.TooBigError, "too big"),
            ("DELETE FROM chunks_fts_data", apsw.SQLError, "may not be modified"),
        ):
            with pytest.raises(error, match=words):
                connection.execute(sql).fetchall()
        assert connection.execute("SELECT count(*) FROM chunks").fetchall()


@pytest.mark.parametrize("how", [Access.IMMUTABLE, Access.COPY])
def test_nothing_that_a_table_computes_is_evaluated(sidecar: State, how: Access) -> None:
    """One such call can take hours, in which no deadline is looked at."""
    failing = "abs(-9223372036854775807 - one)"
    ignored = "PRAGMA ignore_check_constraints = ON"
    checked = f"CREATE TABLE checked(one, CHECK({failing}))"
    edit(sidecar.database, ignored, checked, "INSERT INTO checked VALUES('1')")
    with closing(open_beside(sidecar.database, how)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    edit(
        sidecar.database,
        f"CREATE TABLE Computed(one, text AS ({failing}))",
        "CREATE VIRTUAL TABLE words USING fts5(text, content='computed')",
    )
    with closing(open_beside(sidecar.database, how)) as connection:
        for sql in ("SELECT * FROM words", "SELECT one FROM computed", "PRAGMA quick_check(files)"):
            with pytest.raises(apsw.CorruptError, match="Computed has a generated column, which"):
                connection.execute(sql).fetchall()
        assert connection.execute("SELECT count(*) FROM chunks").fetchall()


def test_status_says_what_took_too_long_and_what_it_knows(
    sidecar: State, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_S", -60.0)
    status = run("status", "--index", str(sidecar.database), "--json")
    truth = status.document["foreign"]["truth"]
    slow = [one["message"] for one in truth["findings"] if one["code"] == "part_too_slow"]
    assert "chunks was not read to its end: a query of it ran for more than" in slow[1]
    assert "files_without_chunks" not in {one["code"] for one in truth["findings"]}
    newest = make_state(tmp_path / "newest", "2026.9.6").database
    error = run("search", "a", "--index", str(newest), "--json").error
    assert error["exit_code"] == 3
    assert "does not answer: a query of it ran for more than" in error["message"]


def _configured(path: Path) -> object:
    return read_config({"OPENCLAW_STATE_DIR": str(path.parent)}, path.parent).problems


def _answered(path: Path) -> object:
    address = Address("https://m.example", "m.example", None, is_own=False)
    return json_in(Reply(200, {}, path.read_bytes()), RequestContext(address))


def _recorded(path: Path) -> object:
    return parse_line(RawLine(1, 0, 9, path.read_bytes(), complete=True))


HOSTILE = (
    b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"a":' + b"7" * 10**7 + b"}",
    b'{"a": 1, "a": 2}',
    gzip.compress(b" " * 100_000_000, 1),
)
DEEP = "broken JSON: it holds what cannot be read"
NO_JSON = "m.example answers with what is not JSON"


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (
            load_recording,
            (DEEP, *("field `queries`",) * 2, "larger than 67108864 bytes once unpacked"),
        ),
        (
            load_given,
            (DEEP, "`array`, got `float`", "`array`, got `int`", "broken JSON: Expecting value"),
        ),
        (_configured, ("nesting level exceeded", "larger than 2097152 bytes", "()", "not UTF-8")),
        (registered_sessions, ("{}",) * 4),
        (_recorded, (*("(None, 'no JSON')",) * 2, "({'a': 2}, '')", "(None, 'no JSON')")),
        (lambda path: parse_vector(path.read_text("latin-1")), (*("not a JSON",) * 3, "not JSON")),
        (_answered, (NO_JSON, NO_JSON, "{'a': 2}", NO_JSON)),
    ],
)
def test_hostile_json_gives_one_line_at_every_entrance(
    tmp_path: Path, read: Callable[[Path], object], expected: tuple[str, ...]
) -> None:
    path = tmp_path / "openclaw.json"
    for data, words in zip(HOSTILE, expected, strict=True):
        path.write_bytes(data)
        try:
            line = str(read(path))
        except Exception as error:
            line = str(error)
        assert words in line
        assert "\n" not in line
