"""Searches of a memory asked again: known answers, why a place left, an agent's own index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from memtui.engine import Engine
from memtui.engine.conversations.replay import results_wanted, without_limit
from memtui.errors import IndexUnusable
from memtui.index.foreign.agents import find_target
from memtui.index.transcripts.discovery import Located
from memtui.model import Ranking, Reason
from memtui.model.conversations import MemoryCall, RecallChange, Recalled, TranscriptKind
from memtui.settings.schema import Settings
from tests.support.conversations import Homes, asked, began, line, said
from tests.support.openclaw import AGENT_BLOB, SIDECAR, connect, hash_tree, make_state

NOTES = {
    "MEMORY.md": "# Memory\n\nThe gate code is 4711, since spring.\n",
    "memory/shed.md": "# Shed\n\nThe gate code hangs in the shed as well.\n",
    "memory/kyoto.md": "# Kyoto\n\nThe host is Mrs. Sato.\n",
    "memory/gates.md": "# Gates\n\nThere is a gate to the orchard.\n",
}
PATH = "sessions/main/a.jsonl"


def answered(*places: tuple[str, int, int, float], call: str = "c1") -> bytes:
    """The answer of OpenClaw's memory search."""
    results = [
        {"path": path, "startLine": start, "endLine": end, "score": score, "snippet": "…"}
        for path, start, end, score in places
    ]
    text = json.dumps({"results": results, "provider": "openai"})
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "memory_search"}
    return line({"type": "message", "message": {**message, "content": content}})


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
def engine(tmp_path: Path, homes: Homes) -> Iterator[Engine]:
    root = tmp_path / "notes"
    for path, text in NOTES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    settings = Settings.parse({"embedding": {"provider": "none"}})
    with Engine.open(root, settings, data_dir=tmp_path / "d", homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        yield engine


def call_of(query: str, *returned: Recalled, **arguments: int) -> MemoryCall:
    return MemoryCall(
        *(PATH, 3, TranscriptKind.OPENCLAW, "memory_search", query, None),
        arguments=arguments,
        returned=returned,
    )


def test_what_came_back_then_is_beside_what_comes_back_now(homes: Homes, engine: Engine) -> None:
    root = engine.root
    homes.openclaw(
        "a.jsonl",
        [
            began(),
            said("user", "let me in"),
            asked("gate code"),
            answered(
                (str(root / "memory/shed.md"), 1, 3, 0.9),
                ("memory/kyoto.md#L3-L3", 0, 0, 0.8),
                ("memory/gone.md", 1, 9, 0.7),
                ("memory/shed.md", 40, 60, 0.6),
            ),
        ],
    )
    [call] = engine.conversations.memory_calls()
    assert (call.query, call.path, call.line, call.answer_line) == ("gate code", PATH, 3, 4)
    replayed = engine.conversations.replay(call)
    assert not replayed.problem
    assert not replayed.is_same
    now = [hit.chunk.path for hit in engine.search.ask("gate code").hits]
    assert set(now) == {"MEMORY.md", "memory/shed.md", "memory/gates.md"}
    rows = {(row.path, row.rank_then): row for row in replayed.rows}
    assert [row.path for row in replayed.rows if row.rank_now] == now
    shed = rows["memory/shed.md", 1]
    assert (shed.rank_now, shed.score_then) == (now.index("memory/shed.md") + 1, 0.9)
    assert rows["MEMORY.md", None].change is RecallChange.ENTERED
    left = {key[0] + str(key[1]): row.why for key, row in rows.items() if row.rank_now is None}
    assert left == {
        "memory/kyoto.md2": Reason.OUTSIDE_CANDIDATES,
        "memory/gone.md3": Reason.NO_FILE,
        "memory/shed.md4": Reason.NO_CHUNK_AT_LINE,
    }
    assert rows["memory/kyoto.md", 2].chunk_id
    [kyoto] = engine.browse.chunk_ranges("memory/kyoto.md")
    assert rows["memory/kyoto.md", 2].chunk_id == kyoto.chunk_id


def test_as_many_are_asked_for_as_the_call_asked_for(engine: Engine) -> None:
    hits = engine.search.ask("gate").hits
    then = [Recalled(hit.chunk.path, hit.chunk.start_line, hit.chunk.end_line) for hit in hits]
    assert len(then) == 3
    assert engine.conversations.replay(call_of("gate", *then)).is_same
    one = engine.conversations.replay(call_of("gate", *then, maxResults=1))
    assert [row.change.value for row in one.rows] == ["same", "left", "left"]
    assert [row.why for row in one.rows] == [None, Reason.CUT_AT_K, Reason.CUT_AT_K]
    assert engine.conversations.replay(without_limit(call_of("gate", *then, maxResults=1))).is_same
    floor = Ranking(k=3, min_score=2.0)
    low = engine.conversations.replay(call_of("gate", *then), ranking=floor)
    assert {row.why for row in low.rows} == {Reason.BELOW_MIN_SCORE}
    reversed_ = engine.conversations.replay(call_of("gate", *reversed(then)))
    assert [row.change.value for row in reversed_.rows] == ["moved", "same", "moved"]


def test_transcripts_are_looked_for_once_for_all_places(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []
    locate: Callable[[], Sequence[Located]] = engine.memory.transcripts.locate

    def counted() -> Sequence[Located]:
        looked.append(None)
        return locate()

    monkeypatch.setattr(engine.memory.transcripts, "locate", counted)
    gone = [Recalled(f"memory/gone{number}.md", 1, 2) for number in range(20)]
    replayed = engine.conversations.replay(call_of("orchard", *gone))
    assert sum(row.change is RecallChange.LEFT for row in replayed.rows) == 20
    assert len(looked) == 1


def test_how_many_results_a_call_wants() -> None:
    assert results_wanted(call_of("x", maxResults=5)) == 5
    assert results_wanted(call_of("x", limit=9999)) == 200
    for value in (0, -3, True):
        assert results_wanted(call_of("x", maxResults=value)) is None
    assert results_wanted(call_of("x")) is None


def test_what_cannot_be_asked_again_is_said(tmp_path: Path, homes: Homes, engine: Engine) -> None:
    assert engine.conversations.replay(call_of(" ")).problem == "the call has no query"
    unknown = MemoryCall(PATH, 3, TranscriptKind.OPENCLAW, "memory_search", "gate", None)
    rows = engine.conversations.replay(unknown).rows
    assert {row.change for row in rows} == {RecallChange.ENTERED}
    settings = Settings.parse({"embedding": {"provider": "none"}})
    with Engine.open(engine.root, settings, data_dir=tmp_path / "none", write=False) as other:
        replayed = other.conversations.replay(call_of("gate", Recalled("MEMORY.md", 1, 3)))
    assert replayed.rows == ()
    assert "no index" in replayed.problem
    assert "\n" not in replayed.problem


@pytest.mark.parametrize("release", [SIDECAR, AGENT_BLOB])
def test_an_agents_conversations_over_its_own_index(tmp_path: Path, release: str) -> None:
    state = make_state(tmp_path / ".openclaw", release)
    sessions = state.folder / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    parts = [
        began(),
        said("user", "which router?"),
        asked("router"),
        answered(("MEMORY.md", 1, 2, 0.5)),
    ]
    (sessions / "a.jsonl").write_bytes(b"".join(parts))
    other = state.folder / "agents" / "other" / "sessions"
    other.mkdir(parents=True)
    (other / "b.jsonl").write_bytes(b"".join(parts))
    before = hash_tree(state.folder)
    target = find_target(
        agent="main", index=None, workspace=None, env={"HOME": str(tmp_path)}, home=tmp_path
    )
    with Engine.open_agent(target, env={}, examine=False) as engine:
        [listing] = engine.conversations.listings()
        stored = "sessions/main/a.jsonl" if release == AGENT_BLOB else "sessions/a.jsonl"
        assert (listing.path, listing.agent, listing.chunks) == (stored, "main", None)
        assert listing.state in {Reason.DISABLED, Reason.NOT_YET_INDEXED}
        [call] = engine.conversations.memory_calls()
        replayed = engine.conversations.replay(call)
        assert not replayed.problem
        now = [row for row in replayed.rows if row.rank_now is not None]
        hits = engine.search.ask("router").hits
        assert [row.chunk_id for row in now] == [hit.chunk.id for hit in hits]
        assert sum(row.rank_then is not None for row in replayed.rows) == 1
        assert engine.conversations.read(stored).find("which") == [1]
        [source] = engine.conversations.sources()
        assert (source.name, source.found) == ("openclaw:main", 1)
        with pytest.raises(IndexUnusable, match="memtui only reads it"):
            engine.conversations.use_sources(["openclaw"])
    assert hash_tree(state.folder) == before


def test_conversations_in_the_rows_of_an_agents_database(tmp_path: Path) -> None:
    state = make_state(tmp_path / ".openclaw", AGENT_BLOB)
    parts = [began(), said("user", "which router?"), asked("router"), answered(("x.md", 1, 2, 0.5))]
    connection = connect(state.database)
    for number, part in enumerate(parts):
        connection.execute(
            "INSERT INTO transcript_events(session_id, seq, event_json, created_at)"
            " VALUES('s1', ?, ?, 1790000000000)",
            (number, part.decode().strip()),
        )
    connection.execute(
        "INSERT INTO memory_index_sources(path, source, hash, mtime, size)"
        " VALUES('sessions/main/s1.jsonl', 'sessions', 'h', 1790000000000, 3)"
    )
    connection.execute(
        "UPDATE memory_index_chunks SET source = 'sessions', path = 'sessions/main/s1.jsonl'"
        " WHERE chunk_rowid IN (SELECT chunk_rowid FROM memory_index_chunks LIMIT 2)"
    )
    connection.close()
    copy = tmp_path / "elsewhere" / "copy.sqlite"
    copy.parent.mkdir()
    copy.write_bytes(state.database.read_bytes())
    before = hash_tree(tmp_path)
    for index in (state.database, copy):
        target = find_target(
            agent=None, index=index, workspace=None, env={"HOME": str(tmp_path)}, home=tmp_path
        )
        with Engine.open_agent(target, env={}, examine=False) as engine:
            [listing] = engine.conversations.listings()
            assert (listing.path, listing.session) == ("sessions/main/s1.jsonl", "s1")
            assert (listing.chunks, listing.agent) == (2, "main")
            assert [call.query for call in engine.conversations.memory_calls()] == ["router"]
            assert [turn.text for turn in engine.conversations.read(listing.path).turns][
                1
            ] == "which router?"
            [source] = engine.conversations.sources()
            assert (source.found, source.indexed, source.chunks) == (1, 1, 2)
    assert hash_tree(tmp_path) == before
