"""Transcripts in the index: appended to, resumed, void, damaged, absent, secret."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apsw
import pytest
from msgspec.structs import replace

from memtui.bus import Bus, SyncFinished
from memtui.engine import Engine
from memtui.errors import Cancelled, IndexUnusable
from memtui.index.database import Recipe
from memtui.index.transcripts import discovery, phase
from memtui.index.transcripts.discovery import file_at, locate
from memtui.index.transcripts.reading import TranscriptRow
from memtui.memory.transcripts.formats import SHOWN
from memtui.memory.transcripts.generated import normalise
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.memory.transcripts.stream import HashingStream
from memtui.model import Ranked, Reason, SourceCount
from memtui.model.conversations import TranscriptKind
from memtui.model.inquiry import Place
from memtui.ranking.mmr import snippet_text
from memtui.report.chunk_record import masked_record
from memtui.report.conversations import source_lines, source_state
from memtui.report.json_text import document_text, hit_entry
from memtui.report.status import status_sections
from memtui.settings.load import SettingsFiles
from memtui.settings.schema import Settings
from tests.support.conversations import (
    LIMIT,
    SECRET,
    Homes,
    append,
    asked,
    began,
    claude,
    codex,
    codex_began,
    line,
    planted,
    reset,
    said,
)
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.indexing import Workspace
from tests.support.interrupted import measure_sync, run_forked
from tests.support.known import cases, load

PATH = "sessions/main/a.jsonl"


@pytest.fixture
def workspace(tmp_path: Path, homes: Homes) -> Iterator[Workspace]:
    root = tmp_path / "notes"
    scope = homes.scope(root, "openclaw", "claude-code", "codex", max_line_bytes=50_000)
    recipe = Recipe(None, chunk_tokens=60, chunk_overlap=10)
    with closing(Workspace(root, tmp_path / "index", recipe=recipe, transcripts=scope)) as made:
        made.write("MEMORY.md", "# Garden\n\nThe gate code is in the shed.\n")
        yield made


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
    append(file, new)
    assert workspace.sync().stats.files_changed == 1
    assert b"".join(read) == new
    assert len(before.keys() - workspace.contents().chunks.keys()) == 1, "the open chunk alone"
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_reset_late_in_a_conversation_cuts_its_chunks(workspace: Workspace, homes: Homes) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "before"), said("assistant", "the reset")])
    workspace.sync()
    append(file, reset() + said("user", "after"))
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
    append(file, said("user", "one more"))
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


def test_events_of_the_agents_database_are_read_without_a_trace(
    workspace: Workspace, homes: Homes
) -> None:
    homes.openclaw("s9.jsonl", said("user", "the old file of the session"))
    events = said("user", "first event"), b'{"pretty":\n 1}', said("user", "third")
    database = homes.events(*events)
    before, state = database.read_bytes(), database.stat()
    path = "sessions/main/s9.jsonl"
    workspace.sync()
    assert texts(workspace, path) == "User: first event\nUser: third"
    spans = [row[1:3] for row in workspace.contents().chunks.values() if row[0] == path]
    assert spans == [(1, 3)]
    homes.events(said("assistant", "packed answer"), start=4, packed=lambda number: True)
    homes.events(b"x" * 60_000, start=5)
    after = database.read_bytes()
    workspace.sync()
    assert database.read_bytes() == after != before
    assert "Assistant: packed answer" in texts(workspace, path)
    assert rows(workspace)[path].facts.reason is Reason.LINE_TOO_LONG
    assert sorted(os.listdir(database.parent)) == [database.name]
    assert database.stat().st_ino == state.st_ino
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_second_commit_within_a_tick_of_the_clock_is_seen(homes: Homes) -> None:
    tick = time.time_ns()
    for number in (1, 2):
        database = homes.events(said("user", "one more"), start=number)
        os.utime(database, ns=(tick, tick))
        assert [session.events for session in discovery.listed_sessions(database)] == [number]


def test_a_database_that_cannot_be_read_now_loses_nothing(
    workspace: Workspace, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes.events(said("user", "first event"))
    workspace.sync()
    before = workspace.contents().chunks
    assert len(before) == 2
    locked = Mock(side_effect=IndexUnusable("openclaw-agent.sqlite is locked"))
    homes.events(said("user", "second event"), start=2)
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "sessions_in", locked)
        skipped = workspace.sync().skipped
        assert [(file.path, file.reason) for file in skipped if "/" in file.path] == [
            ("sessions/main/openclaw-agent.sqlite", Reason.UNREADABLE)
        ]
        assert workspace.contents().chunks == before
    with monkeypatch.context() as patched:
        patched.setattr("memtui.index.transcripts.reading._read", locked)
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
    database = homes.events(said("user", "an event of a cron run"))
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute("CREATE TABLE session_nodes(session_key, current_session_id)")
        connection.execute("INSERT INTO session_nodes VALUES('agent:main:cron:j:run:9', 's9')")
    workspace.sync()
    assert rows(workspace)["sessions/main/s9.jsonl"].facts.reason is Reason.GENERATED_RUN


def test_a_long_transcript_is_read_in_little_memory(tmp_path: Path) -> None:
    """60 MB with lines of 5 MB, in a process of its own that says how much it held."""

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
    (grown, chunks), _ = run_forked(measure_sync, tmp_path)
    assert chunks > 0
    assert grown < 80 * 2**20


RUN = "agent:main:cron:backup:run:1"


def of_sources(folder: Path, homes: Homes, *sources: str, paths: tuple[str, ...] = ()) -> Workspace:
    root = folder / "notes"
    scope = homes.scope(root, *sources, paths=paths)
    filled = Workspace(root, folder / "index", recipe=Recipe(None), transcripts=scope)
    filled.write("MEMORY.md", "# Garden\n")
    return filled


@pytest.fixture
def filled(tmp_path: Path, homes: Homes) -> Iterator[Workspace]:
    logs = str(homes.folder / "logs")
    made = of_sources(tmp_path, homes, "openclaw", "claude-code", "codex", paths=(logs,))
    homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    homes.openclaw("b.jsonl", [said("user", "beans")], agent="other")
    homes.claude("c.jsonl", [claude("user", "basil")])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "roses")])
    homes.write("logs/any.jsonl", [said("user", "mint")])
    made.sync()
    assert len(made.contents().files) == 6
    yield made
    made.close()


@pytest.mark.parametrize(("folder", "name"), cases("agents", "folders of transcripts"))
def test_a_folder_that_is_not_mounted_is_no_deletion(
    filled: Workspace, homes: Homes, folder: str, name: str
) -> None:
    before = filled.contents()
    away = homes.folder / "away"
    (homes.folder / folder).rename(away)
    skipped = filled.sync().skipped
    assert filled.contents() == before
    assert [file.reason for file in skipped if file.path.endswith(name)] == [Reason.VANISHED]
    away.rename(homes.folder / folder)
    filled.sync()
    assert filled.contents() == before


def test_what_is_opted_out_goes_wherever_its_folder_is(
    filled: Workspace, homes: Homes, tmp_path: Path
) -> None:
    homes.folder.rename(tmp_path / "away")
    filled.transcripts = homes.scope(filled.root, "openclaw:main", "claude-code:-gar*")
    filled.sync()
    assert sorted(filled.contents().files) == [
        "MEMORY.md",
        "claude-code/-garden/c.jsonl",
        "sessions/main/a.jsonl",
    ]
    filled.transcripts = homes.scope(filled.root)
    filled.sync()
    assert sorted(filled.contents().files) == ["MEMORY.md"]


def test_a_deleted_conversation_is_gone_although_others_are_away(
    filled: Workspace, homes: Homes
) -> None:
    (homes.folder / "codex").rename(homes.folder / "away")
    (homes.folder / "openclaw/agents/main/sessions/a.jsonl").unlink()
    filled.sync()
    files = filled.contents().files
    assert "sessions/main/a.jsonl" not in files
    assert "codex/2026/10/01/rollout-x.jsonl" in files


@pytest.mark.parametrize("path", ["link/logs", "link/logs/a.jsonl", "link/l*"])
def test_a_path_below_the_memory_leads_through_no_link(
    tmp_path: Path, homes: Homes, path: str
) -> None:
    homes.write("logs/a.jsonl", [said("user", "what is elsewhere")])
    with closing(of_sources(tmp_path, homes, paths=(path,))) as filled:
        (filled.root / "link").symlink_to(homes.folder)
        skipped = filled.sync().skipped
        assert list(filled.contents().files) == ["MEMORY.md"]
        assert [file.reason for file in skipped] == [Reason.SYMLINK]


def test_a_list_of_sessions_that_changes_later_counts(tmp_path: Path, homes: Homes) -> None:
    with closing(of_sources(tmp_path, homes, "openclaw")) as filled:
        file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
        homes.openclaw("b.jsonl", [said("user", "beans")])
        os.utime(file, (1.7e9, 1.7e9))
        filled.sync()
        listed = homes.openclaw("sessions.json", json.dumps({RUN: {"sessionId": "a"}}).encode())
        stats = filled.sync().stats
        assert (stats.files_seen, stats.files_skipped) == (2, 1), "either, as the index has it"
        assert filled.contents() == filled.fresh(tmp_path / "fresh-1")
        assert "tomatoes" not in str(filled.contents().chunks)
        append(file, said("assistant", "and basil"))
        listed.write_bytes(b'{"cut')
        filled.sync()
        assert filled.contents() == filled.fresh(tmp_path / "fresh-2")
        assert "tomatoes" in str(filled.contents().chunks)
        listed.unlink()
        filled.sync()
        assert filled.contents() == filled.fresh(tmp_path / "fresh-3")


def test_a_list_of_sessions_that_is_a_pipe_holds_nothing_up(tmp_path: Path, homes: Homes) -> None:
    with closing(of_sources(tmp_path, homes, "openclaw")) as filled:
        file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
        os.mkfifo(file.with_name("sessions.json"))
        filled.sync()
        assert "sessions/main/a.jsonl" in filled.contents().files


def test_a_transcript_is_found_by_its_path_as_a_look_through_all_finds_it(
    filled: Workspace, homes: Homes
) -> None:
    homes.openclaw("deep/d.jsonl", [said("user", "peas")])
    homes.openclaw("a.jsonl.bak.17", [said("user", "peas")])
    homes.openclaw("odd\nname.jsonl", [said("user", "peas")])
    homes.write("codex/archived_sessions/rollout-o.jsonl", [codex_began()])
    (homes.folder / "claude/projects/linked").symlink_to(homes.folder / "logs")
    scope = filled.transcripts
    assert scope is not None
    everything = {one.path: one for place in locate(scope, everything=True) for one in place.files}
    assert len(everything) == 7
    absent = ("sessions/main/deep/d.jsonl", "sessions/main/a.jsonl.bak.17", "sessions/main/")
    beside = ("claude-code/linked/any.jsonl", "sessions/main/../../other/sessions/b.jsonl", "codex")
    for path in (*everything, *absent, *beside):
        assert file_at(scope, path) == everything.get(path), path


@pytest.mark.parametrize("kind", list(TranscriptKind))
@pytest.mark.parametrize("pieces", [1, 9])
def test_what_was_planted_is_what_the_index_holds(
    tmp_path: Path, kind: TranscriptKind, pieces: int
) -> None:
    """Read at once, or while it is written piece by piece with a sync after each."""
    data, known = planted(kind)
    homes = Homes(tmp_path / "homes")
    root = tmp_path / "notes"
    scope = homes.scope(root, "openclaw", "claude-code", "codex", max_line_bytes=LIMIT)
    recipe = Recipe(None, chunk_tokens=400, chunk_overlap=0)
    workspace = Workspace(root, tmp_path / "index", recipe=recipe, transcripts=scope)
    step = -(-len(data) // pieces)
    homes.plant(kind, b"")
    (file,) = homes.folder.rglob(known["name"])
    for start in range(0, len(data), step):
        append(file, data[start : start + step])
        workspace.sync()
    # The chunks do not overlap.
    chunks = sorted(workspace.contents().chunks.values(), key=lambda row: (row[1], row[2]))
    assert [text for row in chunks for text in str(row[3]).split("\n")] == [
        text for _, text in known["lines"]
    ]
    (row,) = workspace.contents().transcripts.values()
    facts = row.facts
    assert (facts.kind, facts.messages) == (kind, known["messages"])
    assert dict(facts.left_out) == known["dropped"]
    assert facts.malformed == known["malformed"] + known["too_long"]
    # One that is recorded twice is counted where it stands.
    assert facts.calls >= len(known["calls"]) > 0
    assert facts.started_ms <= known["started_ms"] <= known["ended_ms"] <= facts.ended_ms
    for build in (workspace.sync, workspace.rebuild):
        build()
        paths = [path for path in (tmp_path / "index").rglob("*") if path.is_file()]
        held = b"".join(path.read_bytes() for path in paths)
        assert not [secret for secret in known["secrets"] if secret.encode() in held]
    workspace.close()


@pytest.mark.parametrize("kind", list(TranscriptKind))
def test_what_was_planted_is_what_is_shown(tmp_path: Path, kind: TranscriptKind) -> None:
    known, homes = planted(kind)[1], Homes(tmp_path / "homes")
    path = homes.plant(kind)
    (tmp_path / "notes").mkdir()
    chosen, data = settings(max_line_bytes=LIMIT), tmp_path / "data"
    with Engine.open(tmp_path / "notes", chosen, data_dir=data, homes=homes.homes) as engine:
        calls = sorted(engine.conversations.memory_calls(), key=lambda call: call.line)
        (listing,) = engine.conversations.listings()
        conversation = engine.conversations.read(path)
        wholes = list(conversation.wholes())
    assert conversation.listing == listing
    assert [
        [
            *(call.line, call.tool, call.query, call.answer_line),
            None if call.returned is None else [place.path for place in call.returned],
        ]
        for call in calls
    ] == known["calls"]
    assert listing.calls == len(calls)
    assert (
        len(conversation.malformed) == listing.malformed == known["malformed"] + known["too_long"]
    )
    assert [turn.text[:SHOWN] for turn in wholes] == [turn.text for turn in conversation.turns]
    assert [turn.line for turn in wholes] == sorted(turn.line for turn in wholes)
    shown = repr([calls, listing, conversation.turns, wholes, conversation.malformed])
    assert not [secret for secret in known["secrets"] if secret in shown]


AWS = "AKIAIOSFODNN7EXAMPLE"


MASKED_AWS = "AKIAIO…MPLE"


SECRETS = f"the harbor key is {AWS} and OPENAI_API_KEY=sk-1234567890abcdef"


RELEASE = f"User: the harbor key is {AWS} and OPENAI_API_KEY=sk-123…cdef"


RELEASED = load("sessions")


@contextmanager
def indexed(tmp_path: Path, homes: Homes, **more: Any) -> Iterator[Engine]:
    (tmp_path / "notes").mkdir(exist_ok=True)
    chosen, data = settings("openclaw", "codex", **more), tmp_path / "data"
    with Engine.open(tmp_path / "notes", chosen, data_dir=data, homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        yield engine


def held(tmp_path: Path) -> dict[str, str]:
    """The text of every transcript as the index itself holds it, by name of the file."""
    (file,) = (tmp_path / "data").rglob("index-*.db")
    with closing(apsw.Connection(str(file), apsw.SQLITE_OPEN_READONLY)) as connection:
        rows = connection.execute(
            "SELECT f.path, c.text FROM chunks c JOIN files f ON f.id = c.file_id ORDER BY c.id"
        ).fetchall()
    return {str(path).rpartition("/")[2]: str(text) for path, text in rows}


def shown(ranked: Ranked) -> str:
    """Everything that is shown of a list, as JSON."""
    entries = [hit_entry(ranked, hit) for hit in ranked.hits]
    return document_text({"hits": entries, "texts": [hit.chunk.text for hit in ranked.hits]})


@pytest.mark.parametrize("profile", ["openclaw-2026.4", "openclaw-2026.9"])
def test_the_index_of_a_release_holds_exactly_its_text(
    tmp_path: Path, homes: Homes, profile: str
) -> None:
    wanted: dict[str, str] = {}
    for number, case in enumerate(RELEASED["entry_cases"]):
        name = case.get("file", "x.jsonl").replace("x.jsonl", "").partition(".jsonl")[2]
        name = f"case-{number}.jsonl{name}"
        homes.openclaw(name, [json.dumps(record).encode() + b"\n" for record in case["records"]])
        is_later = case.get("since") is not None and profile == "openclaw-2026.4"
        is_archive = ".reset." in name or ".deleted." in name
        if case["content"] and not (is_later and is_archive):
            wanted[name] = case["content"]
    for number, case in enumerate(RELEASED["redaction_2026_4_26"]):
        homes.openclaw(f"masked-{number}.jsonl", said("user", case["input"]))
        # A key on lines of its own is on one line by then.
        folded = normalise(case["input"]) == case["input"]
        wanted[f"masked-{number}.jsonl"] = f"User: {case['output'] if folded else '***'}"
    with indexed(tmp_path, homes, profile=profile) as engine:
        assert not engine.index.status().errors
        assert held(tmp_path) == wanted


@pytest.mark.parametrize(
    ("profile", "redaction", "is_exact"), load("agents")["credentials by release"]
)
def test_what_a_release_lets_through_is_in_its_index_and_never_shown(
    tmp_path: Path, homes: Homes, profile: str, redaction: str, is_exact: bool
) -> None:
    homes.openclaw("a.jsonl", said("user", SECRETS))
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", f"harbor code {AWS}")])
    with indexed(tmp_path, homes, profile=profile, redaction=redaction) as engine:
        texts = held(tmp_path)
        assert texts["a.jsonl"] == (RELEASE if is_exact else RELEASE.replace(AWS, MASKED_AWS))
        assert AWS not in texts["rollout-x.jsonl"], "other programs have no list of their own"
        ranked = engine.search.ask("harbor")
        assert len(ranked.hits) == 2
        assert MASKED_AWS in shown(ranked)
        assert AWS not in shown(ranked)
        chunk = next(hit.chunk for hit in ranked.hits if "OPENAI" in hit.chunk.text)
        assert snippet_text(chunk) == texts["a.jsonl"], "MMR compares what the index holds"
        record = engine.browse.chunk_record(chunk.id)
        assert record is not None
        assert AWS not in document_text({"record": masked_record(record)})
        (homes.folder / "openclaw/agents/main/sessions/a.jsonl").unlink()
        assert AWS not in "".join(engine.index.files.source(chunk.path).lines)


def test_a_credential_is_masked_where_a_word_of_the_query_is_nearest_to_it(
    tmp_path: Path, homes: Homes
) -> None:
    """Words of the same length are near for the provider of tests."""
    homes.openclaw("a.jsonl", said("user", SECRETS))
    with (
        registered_hashed(HashedProvider(word_pieces=True)),
        indexed(tmp_path, homes, redaction="openclaw", provider="hashed") as engine,
    ):
        assert AWS in held(tmp_path)["a.jsonl"]
        ranked = engine.search.ask(f"harbor {'x' * len(AWS)}")
        table = engine.explain.word_matches(ranked, ranked.hits[0].chunk.id)
        assert isinstance(table, tuple)
        assert [one.nearest for one in table] == [("harbor",), ("***",)]


def test_a_credential_in_the_name_of_a_file_is_masked_in_its_path(
    tmp_path: Path, homes: Homes
) -> None:
    # Two that begin and end alike are still two conversations.
    keys = ("ghp_Zk81QpX0vT7mWb42LdYc8dHnQ2rS1uVx4yZ7", "ghp_Zk5QpX0vT7mWb42LdYc8dHnQ2rS1uV34yZ7")
    for key in keys:
        homes.codex(f"rollout-{key}.jsonl", [codex_began(), codex("user", f"harbor {key[6:9]}")])
    with indexed(tmp_path, homes) as engine:
        stored = held(tmp_path)
        listed = engine.conversations.listings()
        assert {one.path.rpartition("/")[2] for one in listed} == set(stored)
        assert len(stored) == len(keys)
        told = f"{shown(engine.search.ask('harbor'))} {stored} {[one.path for one in listed]}"
        assert not [key for key in keys if key in told]
        for one in listed:
            assert engine.conversations.read(one.path).turns


def test_a_change_of_lists_that_was_stopped_leaves_nothing_mixed(
    tmp_path: Path, homes: Homes
) -> None:
    for number in range(6):
        homes.openclaw(f"{number}.jsonl", said("user", f"{SECRETS} {number}"))
    exact, wide = (
        homes.scope(
            tmp_path / "notes", "openclaw", rules=replace(RULES["openclaw-2026.9"], masks_more=more)
        )
        for more in (False, True)
    )
    with closing(Workspace(tmp_path / "notes", tmp_path / "index", transcripts=exact)) as workspace:
        workspace.sync()
        before = workspace.contents()
        workspace.transcripts = wide
        with pytest.raises(Cancelled):
            workspace.sync(lambda: masked_files(workspace) >= 2)
        assert 0 < masked_files(workspace) < 6
        workspace.transcripts = exact
        assert workspace.sync().stats.files_changed == 6
        assert workspace.contents().chunks.keys() == before.chunks.keys()


def masked_files(workspace: Workspace) -> int:
    """How many chunks have the wide list's mask."""
    return sum(MASKED_AWS in str(row[3]) for row in workspace.contents().chunks.values())


_opened: list[str] | None = None


def _note_opening(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_note_opening)


def settings(
    *sources: str, provider: str = "none", profile: str = "memtui", **transcripts: Any
) -> Settings:
    return Settings.parse(
        {
            "embedding": {"provider": provider},
            "ranking": {"profile": profile},
            "transcripts": {"sources": list(sources), **transcripts},
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/MEMORY.md").write_text("# Garden\n\nThe gate code is 4711.\n")
    return tmp_path / "notes"


@pytest.fixture
def engine(tmp_path: Path, root: Path, homes: Homes) -> Iterator[Engine]:
    chosen = settings(max_line_bytes=50_000)
    with Engine.open(root, chosen, data_dir=tmp_path / "data", homes=homes.homes) as opened:
        yield opened


def test_a_path_that_is_off_for_a_run_can_be_chosen_again(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    logs = str(homes.openclaw("a.jsonl", [began(), said("user", "who waters the leeks")]).parent)
    given: Any = {"data_dir": tmp_path / "data", "homes": homes.homes}
    with Engine.open(root, settings(paths=[logs]), **given) as engine:
        engine.index.sync(wait=True)
        for names, state in (([], "off for this run"), ([logs], "on, 1 indexed")):
            engine.index.transcripts.use_sources(names)
            engine.wait_idle()
            states = {one.name: one for one in engine.conversations.sources()}
            assert source_state(states[logs], "source") == state


def test_a_source_is_indexed_once_it_is_chosen(engine: Engine, root: Path, homes: Homes) -> None:
    homes.openclaw("a.jsonl", [began(), said("user", "who waters the tomatoes")])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "who waters the roses")])
    engine.index.sync(wait=True)
    assert engine.index.status().sources == (SourceCount("memory", 1, 1),)
    engine.index.transcripts.use_sources(["openclaw:main"])
    engine.wait_idle()
    assert engine.index.status().sources[1:] == (SourceCount("sessions", 1, 1),)
    hits = engine.search.ask("source:sessions tomatoes").hits
    assert [hit.chunk.path for hit in hits] == [PATH]
    assert engine.search.ask("source:memory tomatoes").hits == ()
    engine.index.transcripts.use_sources(["codex"])
    engine.wait_idle()
    hits = engine.search.ask("waters").hits
    assert [hit.chunk.path for hit in hits] == ["codex/2026/10/01/rollout-x.jsonl"]
    assert engine.index.status().conversations == (SourceCount("codex", 1, 1),)
    given: Any = {"data_dir": root.parent / "data", "homes": homes.homes, "write": False}
    with Engine.open(root, settings(), **given) as reader:
        reader.index.refresh_status()
        status = reader.index.status()
        assert status.state == "ready", "another memtui has it on"
        shown = "\n".join(row.cells[1] for row in next(status_sections(status)).rows)
        assert "codex (on for the run of the other memtui) 1 conversation" in shown
        sources = [source_state(one, "source") for one in reader.conversations.sources()]
        assert sources == ["off", "on elsewhere, 1 indexed", "off"]
        reader.index.transcripts.use_sources(["openclaw:main"])
        assert reader.index.status().for_run == {"openclaw:main": "run", "codex": "other"}
        reader.index.transcripts.use_sources([])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("memtui.engine.own_index.WriterLock.writer", lambda lock: "none")
            reader.index.refresh_status()
        status = reader.index.status()
        assert status.removals == {"codex/2026/10/01/rollout-x.jsonl": "codex is off"}
        assert status.pending == tuple(status.removals)
    engine.index.transcripts.use_sources(["openclaw"])
    assert engine.index.status().for_run == {"openclaw": "run"}, "what is off is to be taken out"
    engine.index.transcripts.use_sources(["openclaw:main", "codex"])
    engine.wait_idle()
    homes.openclaw("b.jsonl", [began(), said("user", "who waters the leeks")], agent="new")
    homes.openclaw("d.jsonl", said("user", "dream"), agent="new")
    homes.openclaw("sessions.json", b'{"dreaming-narrative-1": {"sessionId": "d"}}', agent="new")
    engine.index.sync(wait=True)
    assert len(engine.search.ask("waters").hits) == 3, "a wider name takes in an agent that is new"
    status = engine.index.status()
    assert status.last_sync is not None
    assert (status.last_sync.files_added, status.last_sync.files_skipped) == (1, 1)
    assert [file.reason for file in status.skipped] == [Reason.GENERATED_RUN]
    assert status.sources[1:] == (SourceCount("sessions", 3, 3),)
    with Engine.open(root, settings(), **given) as reader, pytest.MonkeyPatch.context() as patch:
        patch.setattr("memtui.engine.own_index.WriterLock.writer", lambda lock: "none")
        reader.index.refresh_status()
        status = reader.index.status()
    assert (status.pending_count, status.skipped) == (3, ()), "no text, so nothing to take out"
    with Engine.open(root, settings("openclaw", "claude-code"), **given) as reader:
        (off,) = (one for one in reader.conversations.sources() if one.name == "codex")
        assert (off.indexed, off.detail.split(":")[0].split("; ")[1]) == (1, "indexed of each")
        told = {file.detail for file in reader.index.files.entries(lambda: False)}
    assert told == {"", "an automatic run (dreaming)", "gone; the next sync drops it"}
    homes.claude("e.jsonl", claude("user", "who mows", project="/home/me/garden"), "-home-garden")
    engine.index.transcripts.use_sources(["claude-code:-home-garden"])
    engine.wait_idle()
    status = engine.index.status()
    assert status.conversations == (SourceCount("claude-code:-home-garden", 1, 1),)
    assert status.last_sync is not None
    assert status.last_sync.files_removed == 3
    engine.index.transcripts.use_sources([])
    engine.wait_idle()
    assert engine.index.status().sources == (SourceCount("memory", 1, 1),)
    files = [path for path in Path(engine.index.status().index_dir).iterdir() if path.is_file()]
    held = b"".join(path.read_bytes() for path in files)
    assert [word for word in (b"tomatoes", b"tomato", b"roses", b"leeks") if word in held] == []
    assert b"garden" in held, "words are read as they are stored"


def test_a_preview_has_a_line_for_each_line_of_the_file(engine: Engine, homes: Homes) -> None:
    parts = [
        began(),
        said("user", f"my key is\nOPENAI_API_KEY={SECRET} \x1b[31mred"),
        asked("gate"),
        b"{cut\n",
        b"\n",
        b"x" * 60_000 + b"\n",
        said("assistant", "word " * 2000),
        said("toolResult", "gone", toolName="memory_search", isError=True),
    ]
    file = homes.openclaw("a.jsonl", parts)
    engine.index.transcripts.use_sources(["openclaw"])
    engine.wait_idle()
    shown = engine.index.files.source(PATH)
    assert (shown.state, len(shown.lines)) == ("current", len(parts))
    assert shown.lines[1].startswith("User: my key is OPENAI_API_KEY=sk-pro…")
    assert shown.lines[2] == "· tool call memory_search 17 B"
    assert shown.lines[3] == "· no JSON"
    assert shown.lines[4] == ""
    assert shown.lines[5] == "· longer than a line may be: 0.1 MB"
    assert len(shown.lines[6]) == 2000
    assert shown.lines[7] == "· tool result memory_search failed 4 B"
    assert SECRET not in "".join(shown.lines)
    assert "\x1b" not in "".join(shown.lines)
    first = engine.browse.chunks_of(PATH)[0]
    assert (first.start_line, first.end_line) == (2, 7)
    append(file, said("user", "more"))
    assert engine.index.files.source(PATH).state == "changed"
    assert engine.index.files.source(PATH).lines[8] == "User: more"
    file.unlink()
    gone = engine.index.files.source(PATH)
    assert gone.state == "gone"
    assert gone.lines[1].startswith("User: my key is")
    assert [at for at, line in enumerate(gone.lines, 1) if line] == [2, 7]


def test_a_conversation_that_is_not_indexed_can_be_previewed(engine: Engine, homes: Homes) -> None:
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "the fence")])
    shown = engine.index.files.source("codex/2026/10/01/rollout-x.jsonl")
    assert (shown.state, shown.lines[1]) == ("current", "User: the fence")


def test_a_chunk_of_a_conversation_can_be_asked_about(engine: Engine, homes: Homes) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes and basil")])
    engine.index.transcripts.use_sources(["openclaw"])
    engine.wait_idle()
    ranked = engine.search.ask("tomatoes")
    chunk = ranked.hits[0].chunk
    engine.explain.inquire(ranked, chunk.id)
    here = engine.explain.inquire_at(ranked, Place(PATH, 1))
    assert here.place.path == PATH
    assert Reason.NO_FILE not in {step.reason for step in here.steps}
    file.unlink()
    gone = engine.explain.inquire_at(ranked, Place(PATH, 1))
    assert Reason.VANISHED in {step.reason for step in gone.steps}


def test_a_start_without_changes_opens_no_transcript(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    global _opened
    for number in range(2000):
        file = homes.openclaw(f"{number}.jsonl", b"")
        if number % 100 == 0:
            file.write_bytes(said("user", f"question {number}"))
        os.utime(file, (1_700_000_000, 1_700_000_000))
    chosen, data = settings("openclaw"), tmp_path / "data"
    with Engine.open(root, chosen, data_dir=data, homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        assert engine.index.status().sources[-1] == SourceCount("sessions", 20, 20)
    _opened = []
    try:
        with Engine.open(root, chosen, data_dir=data, homes=homes.homes) as engine:
            engine.index.sync(wait=True)
            stats = engine.index.status().last_sync
            engine.index.refresh_status()
            assert engine.index.status().pending_count == 0
        assert not [name for name in _opened if name.endswith(".jsonl")]
    finally:
        _opened = None
    assert stats is not None
    assert (stats.files_seen, stats.files_changed, stats.chunks_written) == (21, 0, 0)


def test_a_conversation_is_followed_while_it_grows(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    file = homes.openclaw("a.jsonl", [said("user", "tomatoes")])
    chosen = settings("openclaw", debounce_seconds=0.1, delta_messages=0)
    bus, ended = Bus(), threading.Semaphore(0)
    bus.subscribe(SyncFinished, lambda event: ended.release())
    with Engine.open(
        root, chosen, data_dir=tmp_path / "data", homes=homes.homes, bus=bus, watch=True
    ) as engine:
        assert ended.acquire(timeout=20)
        append(file, said("assistant", "and basil"))
        while not engine.search.ask("basil").hits:
            assert ended.acquire(timeout=20)
        assert engine.search.ask("basil").hits[0].chunk.path == PATH


def test_what_is_written_is_taken_in_by_who_keeps_the_index(
    tmp_path: Path, root: Path, homes: Homes
) -> None:
    homes.openclaw("a.jsonl", [began(), said("user", "tomatoes")])
    homes.codex("rollout-x.jsonl", [codex_began(), codex("user", "roses")])
    config, bus, ended = tmp_path / "config.toml", Bus(), threading.Semaphore(0)
    config.touch()
    bus.subscribe(SyncFinished, lambda event: ended.release())
    files = SettingsFiles({"MEMTUI_CONFIG": str(config)})
    chosen = settings(debounce_seconds=0.1)
    given: Any = {"data_dir": tmp_path / "data", "homes": homes.homes, "files": files}
    with Engine.open(root, chosen, **given) as first:
        first.index.transcripts.use_sources(["codex"])
        config.write_text('[transcripts]\nsources = ["openclaw:main"]\n')
        first.index.sync(wait=True)
        sources = [one.source for one in first.index.status().conversations]
        assert sources == ["codex", "openclaw:main"], "what was chosen for this run stays"
        first.index.transcripts.use_sources(["codex"])
        first.wait_idle()
        assert first.index.status().for_run == {"codex": "run", "openclaw:main": "off"}
        (facts, *_) = status_sections(first.index.status())
        assert "openclaw:main (off for this run) 0 conv" in str(facts.rows)
        shown = [source_state(one, "source") for one in first.conversations.sources()]
        assert shown == ["off for this run", "on for this run, 1 indexed", "off"]
        first.index.transcripts.use_sources(["codex", "openclaw:main"])
        first.wait_idle()
        second = Engine.open(root, chosen, bus=bus, watch=True, **given)
        index: Any = second.index
        index.watcher.follower.due()
        assert index.watcher.follower.waiting == (), (
            "what the first has on for its run does not wait"
        )
    with second:
        assert ended.acquire(timeout=20), "it takes over"
        assert second.search.ask("tomatoes").hits[0].chunk.path == PATH
        append(homes.folder / "openclaw/agents/main/sessions/a.jsonl", said("user", "more"))
        while second.index.status().pending != (PATH,):
            assert second.search.ask("tomatoes").hits
        (source,) = (one for one in second.conversations.sources() if one.indexed)
        assert source_state(source, "source") == "on, 1 indexed, 1 waiting"
        assert f"    waiting {PATH}: changed since it was indexed" in source_lines(source, 100)
        second.index.sync(wait=True)
        assert second.index.status().state == "ready", "it has grown by too little to be due"
        config.write_text("")
        while second.search.ask("tomatoes").hits:
            assert ended.acquire(timeout=20), "nobody asked for it"
