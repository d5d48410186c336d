"""Transcripts in the index: read as streams, appended to, resumed, void, damaged, secret."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import zstandard

from memtui.errors import Cancelled, IndexUnusable
from memtui.index.schema import Recipe
from memtui.index.transcripts import discovery, phase
from memtui.index.transcripts.reading import TranscriptRow
from memtui.memory.transcripts.stream import HashingStream
from memtui.model import Reason
from tests.support.conversations import (
    SECRET,
    Homes,
    began,
    claude,
    codex,
    codex_began,
    line,
    reset,
    said,
)
from tests.support.indexing import Workspace
from tests.support.interrupted import run_interrupted

PATH = "sessions/main/a.jsonl"
EVENTS = "CREATE TABLE transcript_events(session_id, seq, event_json, event_zstd, created_at)"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
def workspace(tmp_path: Path, homes: Homes) -> Iterator[Workspace]:
    root = tmp_path / "notes"
    scope = homes.scope(root, "openclaw", "claude-code", "codex", max_line_bytes=50_000)
    recipe = Recipe(None, chunk_tokens=60, chunk_overlap=10)
    made = Workspace(root, tmp_path / "index", recipe=recipe, transcripts=scope)
    made.write("MEMORY.md", "# Garden\n\nThe gate code is in the shed.\n")
    yield made
    made.close()


def rows(workspace: Workspace) -> dict[str, TranscriptRow]:
    return dict(workspace.contents().transcripts)


def texts(workspace: Workspace, path: str = PATH) -> str:
    """Everything that the chunks of a file say."""
    return "\n".join(str(row[3]) for row in workspace.contents().chunks.values() if row[0] == path)


def aged(*paths: Path) -> None:
    """Let files be older than what a scan may have missed."""
    for path in paths:
        state = path.stat()
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns - 60 * 10**9))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is read of transcripts to be indexed, line by line."""
    lines: list[bytes] = []
    readline = HashingStream.readline

    def noted(self: HashingStream, limit: int = -1, /) -> bytes:
        lines.append(readline(self, limit))
        return lines[-1]

    monkeypatch.setattr(HashingStream, "readline", noted)
    return lines


def test_only_what_was_appended_is_read(
    workspace: Workspace, homes: Homes, read: list[bytes]
) -> None:
    file = homes.openclaw("a.jsonl", [said("user", f"number {n} of many") for n in range(200)])
    aged(file)
    workspace.sync()
    before = workspace.contents().chunks
    read.clear()
    new = said("assistant", "only this is new") + said("user", "and this")
    with file.open("ab") as stream:
        stream.write(new)
    assert workspace.sync().stats.files_changed == 1
    assert b"".join(read) == new
    assert len(before.keys() - workspace.contents().chunks.keys()) == 1, "the open chunk alone"
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_reset_late_in_a_conversation_cuts_its_chunks(workspace: Workspace, homes: Homes) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "before"), said("assistant", "the reset")])
    workspace.sync()
    with file.open("ab") as stream:
        stream.write(reset() + said("user", "after"))
    workspace.sync()
    spans = sorted(row[1:3] for row in workspace.contents().chunks.values() if row[0] == PATH)
    assert spans == [(1, 2), (4, 4)]
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_vectors_stay_with_the_chunks_that_stay(tmp_path: Path, homes: Homes) -> None:
    scope = homes.scope(tmp_path / "notes", "openclaw")
    workspace = Workspace(tmp_path / "notes", tmp_path / "index", transcripts=scope)
    file = homes.openclaw("a.jsonl", [said("user", f"number {n} of many " * 8) for n in range(80)])
    workspace.sync()
    made = workspace.provider.texts
    chunks = len(workspace.contents().chunks)
    with file.open("ab") as stream:
        stream.write(said("user", "one more"))
    assert workspace.sync().stats.chunks_embedded + workspace.sync().stats.cache_hits <= 1
    assert workspace.provider.texts <= made + 1
    replaced = file.read_bytes()
    file.unlink()
    file.write_bytes(replaced)
    assert workspace.sync().stats.chunks_written == 0
    assert len(workspace.contents().vectors) == len(workspace.contents().chunks) >= chunks
    workspace.close()


def test_what_was_written_of_a_reading_that_was_stopped_stays(
    workspace: Workspace, homes: Homes, read: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    homes.openclaw("a.jsonl", [said("user", f"number {n} of many") for n in range(400)])
    monkeypatch.setattr(phase, "_BATCH_CHARACTERS", 2000)
    with pytest.raises(Cancelled):
        workspace.sync(lambda: len(read) > 250)
    chunks = rows(workspace)[PATH].chunks
    assert chunks > 0
    written = workspace.sync().stats.chunks_written
    assert written == rows(workspace)[PATH].chunks - chunks
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_killed_sync_leaves_an_index_that_the_next_one_completes(tmp_path: Path) -> None:
    notes, index = tmp_path / "notes", tmp_path / "index"
    homes = Homes(notes / ".homes")
    file = homes.openclaw("a.jsonl", [said("user", f"number {n} of many") for n in range(90)])
    calls = run_interrupted("sync", notes, tmp_path / "count", 0)
    for instant in (calls // 2, calls // 8):
        assert run_interrupted("sync", notes, index, instant) == -9
    workspace = Workspace(notes, index, transcripts=homes.scope(notes, "openclaw"))
    workspace.sync()
    with file.open("ab") as stream:
        stream.write(said("assistant", "the end"))
    workspace.sync()
    assert workspace.contents() == workspace.fresh(tmp_path / "fresh")
    workspace.close()


def test_no_secret_reaches_a_file_of_the_index(tmp_path: Path, homes: Homes) -> None:
    scope = homes.scope(tmp_path / "notes", "openclaw", "claude-code", "codex")
    workspace = Workspace(tmp_path / "notes", tmp_path / "index", transcripts=scope)
    token = "ghp_" + "a1B2" * 9
    text = f"OPENAI_API_KEY={SECRET} and {token}, password=hunter2hunter2hunter2"
    homes.openclaw("a.jsonl", [began(), said("user", text), said("assistant", f"I saw {token}")])
    homes.openclaw("b.jsonl", said("user", text)[:-1])
    homes.claude("c.jsonl", [claude("user", text), claude("assistant", text, 1)])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", text, 3)])
    workspace.sync()
    assert "OPENAI_API_KEY=" in texts(workspace)
    held = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    workspace.rebuild()
    workspace.close()
    held += b"".join(
        path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()
    )
    for secret in (SECRET, token, "hunter2hunter2"):
        assert secret.encode() not in held
        assert SECRET[8:30].encode() not in held


def _events(homes: Homes) -> Path:
    database = homes.write("openclaw/agents/main/agent/openclaw-agent.sqlite", b"")
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(EVENTS)
    connection.close()
    return database


def _add_events(database: Path, *events: bytes, start: int = 1, packed: bool = False) -> None:
    connection = apsw.Connection(str(database))
    pack = zstandard.ZstdCompressor().compress
    for number, event in enumerate(events, start):
        plain = None if packed else event.decode().strip()
        connection.execute(
            "INSERT INTO transcript_events VALUES('s9', ?, ?, ?, ?)",
            (number, plain, pack(event) if packed else None, 1_790_000_000_000 + number),
        )
    connection.close()


def test_events_of_the_agents_database_are_read_without_a_trace(
    workspace: Workspace, homes: Homes
) -> None:
    database = _events(homes)
    homes.openclaw("s9.jsonl", said("user", "the old file of the session"))
    _add_events(database, said("user", "first event"), b'{"pretty":\n 1}', said("user", "third"))
    before, state = database.read_bytes(), database.stat()
    path = "sessions/main/s9.jsonl"
    workspace.sync()
    assert texts(workspace, path) == "User: first event\nUser: third"
    spans = [row[1:3] for row in workspace.contents().chunks.values() if row[0] == path]
    assert spans == [(1, 3)]
    _add_events(database, said("assistant", "packed answer"), start=4, packed=True)
    _add_events(database, b"x" * 60_000, start=5)
    after = database.read_bytes()
    workspace.sync()
    assert database.read_bytes() == after != before
    assert "Assistant: packed answer" in texts(workspace, path)
    assert rows(workspace)[path].facts.reason is Reason.LINE_TOO_LONG
    assert sorted(os.listdir(database.parent)) == [database.name]
    assert database.stat().st_ino == state.st_ino
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_database_that_cannot_be_read_now_loses_nothing(
    workspace: Workspace, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _events(homes)
    _add_events(database, said("user", "first event"))
    workspace.sync()
    before = workspace.contents().chunks
    assert len(before) == 2

    def locked(*arguments: object, **named: object) -> Any:
        raise IndexUnusable("openclaw-agent.sqlite is locked")

    _add_events(database, said("user", "second event"), start=2)
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "sessions_in", locked)
        skipped = workspace.sync().skipped
        assert [(file.path, file.reason) for file in skipped if "/" in file.path] == [
            ("sessions/main/openclaw-agent.sqlite", Reason.UNREADABLE)
        ]
        assert workspace.contents().chunks == before
    with monkeypatch.context() as patched:
        patched.setattr("memtui.index.transcripts.streams._read", locked)
        skipped = workspace.sync().skipped
        assert [file.path for file in skipped if "/" in file.path] == ["sessions/main/s9.jsonl"]
        assert workspace.contents().chunks == before
    workspace.sync()
    assert "User: second event" in texts(workspace, "sessions/main/s9.jsonl")


def test_runs_that_only_the_list_of_sessions_knows_give_no_text(
    workspace: Workspace, homes: Homes
) -> None:
    names = ("talk", "cron", "dream")
    for name in names:
        homes.openclaw(f"{name}.jsonl", said("user", name))
    keys = {
        "agent:main:main": {"sessionId": "talk"},
        "agent:main:cron:job:run:7": {"sessionId": "cron"},
        "dreaming-narrative-1": {"sessionId": "dream"},
        "broken": 3,
    }
    homes.openclaw("sessions.json", json.dumps(keys).encode())
    workspace.sync()
    found = {name: rows(workspace)[f"sessions/main/{name}.jsonl"] for name in names}
    assert {name: row.facts.reason for name, row in found.items()} == {
        "talk": Reason.OK,
        "cron": Reason.GENERATED_RUN,
        "dream": Reason.GENERATED_RUN,
    }
    assert [row.chunks for row in found.values()] == [1, 0, 0]
    database = _events(homes)
    _add_events(database, said("user", "an event of a cron run"))
    connection = apsw.Connection(str(database))
    connection.execute("CREATE TABLE session_nodes(session_key, current_session_id)")
    connection.execute("INSERT INTO session_nodes VALUES('agent:main:cron:j:run:9', 's9')")
    connection.close()
    workspace.sync()
    assert rows(workspace)["sessions/main/s9.jsonl"].facts.reason is Reason.GENERATED_RUN


def test_a_long_transcript_is_read_in_little_memory(tmp_path: Path) -> None:
    """60 MB with lines of 5 MB, in a process of its own that says how much it held."""
    import subprocess

    homes = Homes(tmp_path / "homes")
    big = homes.openclaw("a.jsonl", b"")
    output = [{"type": "text", "text": "output of a tool\n" * 294_000}]
    record = {"role": "toolResult", "toolCallId": "x", "toolName": "read", "content": output}
    huge = line({"type": "message", "message": record})
    with big.open("wb") as stream:
        for number in range(12):
            stream.write(huge)
            stream.write(b"".join(said("user", f"question {number} {n}") for n in range(40)))
    assert big.stat().st_size > 60 * 10**6
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.measured_sync", tmp_path],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    grown, chunks = map(int, done.stdout.split())
    assert chunks > 0
    assert grown < 80 * 2**20
