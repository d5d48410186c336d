"""Conversations through the engine: listed, read again, searched, and asked again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import zstandard

from memtui.engine import Engine
from memtui.engine.conversations import results_wanted
from memtui.errors import Cancelled, IndexUnusable, MemtuiError
from memtui.index.foreign.agents import find_target
from memtui.index.transcripts.turns import masked_text
from memtui.memory.transcripts.formats import SHOWN, beginning
from memtui.model import Ranking, Reason
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    Recalled,
    TranscriptKind,
    Turn,
    TurnKind,
)
from memtui.ranking.trace import cited_lines
from memtui.report.conversations import replay_lines
from memtui.settings.schema import Settings
from tests.support.conversations import (
    LIMIT,
    SECRET,
    Homes,
    answered,
    append,
    asked,
    began,
    claude,
    codex,
    line,
    reset,
    said,
)
from tests.support.openclaw import AGENT_BLOB, SIDECAR, connect, hash_tree, make_state
from tests.support.small_memory import write_notes

PATH = "sessions/main/a.jsonl"


TOOL = "x" * 5_000


def opened(homes: Homes, *sources: str, write: bool = False, **fields: object) -> Engine:
    folder = homes.folder.parent
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    (notes / "MEMORY.md").write_text("# Garden\n\nThe gate code is in the shed.\n")
    settings = Settings.parse(
        {
            "embedding": {"provider": "none"},
            "transcripts": {"sources": sources, "max_line_bytes": LIMIT, **fields},
        }
    )
    return Engine.open(notes, settings, data_dir=folder / "data", homes=homes.homes, write=write)


@pytest.fixture
def engine(homes: Homes) -> Iterator[Engine]:
    with opened(homes) as engine:
        yield engine


def listed(engine: Engine) -> dict[str, ConversationListing]:
    return {listing.path: listing for listing in engine.conversations.listings()}


def counted(engine: Engine) -> dict[str, ConversationListing]:
    found: dict[str, ConversationListing] = {}
    engine.conversations.count(
        engine.conversations.listings(), lambda listing: found.update({listing.path: listing})
    )
    return found


def test_nothing_is_read_twice_and_a_change_is_seen(
    homes: Homes, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = homes.openclaw("a.jsonl", [began(), said("user", "one"), asked("gate")])
    assert [(one.turns, one.calls) for one in counted(engine).values()] == [(1, 1)]
    with monkeypatch.context() as patch:
        refuse = Mock(side_effect=AssertionError("read again"))
        patch.setattr("memtui.index.transcripts.reading.open_lines", refuse)
        assert len(engine.conversations.memory_calls()) == 1
        assert listed(engine)[PATH].turns == 1
    append(file, asked("shed", "c2"))
    assert listed(engine)[PATH].turns is None
    assert [call.query for call in engine.conversations.memory_calls([PATH])] == ["gate", "shed"]


def test_counting_and_reading_stop_when_they_are_told(homes: Homes, engine: Engine) -> None:
    for number in range(3):
        homes.openclaw(f"{number}.jsonl", [began(), said("user", "x")])
    seen: list[str] = []
    with pytest.raises(Cancelled):
        engine.conversations.count(
            engine.conversations.listings(),
            lambda one: seen.append(one.path),
            cancelled=lambda: bool(seen),
        )
    assert len(seen) == 1
    for stopped in (
        engine.conversations.read,
        lambda path, **named: engine.conversations.memory_calls([path], **named),
    ):
        with pytest.raises(Cancelled):
            stopped("sessions/main/1.jsonl", cancelled=lambda: True)


def tool_answer(text: str) -> bytes:
    content = [{"type": "text", "text": text}]
    return said("toolResult", content, toolCallId="c1", toolName="exec")


def test_turns_are_cut_and_read_again_whole(homes: Homes, engine: Engine) -> None:
    secret = f"{TOOL} token={SECRET}"
    homes.openclaw(
        "a.jsonl",
        [
            began(),
            said("user", "first\nsecond"),
            asked("gate"),
            tool_answer(secret),
            reset(),
            line({"type": "compaction", "id": "k", "summary": "what was"}),
            b"{cut\n",
            said("assistant", "the END"),
            said(
                "assistant",
                [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "far"}],
            ),
        ],
    )
    conversation = engine.conversations.read(PATH)
    kinds = (
        "other message tool_call tool_result reset compaction malformed message thinking message"
    )
    assert [turn.kind for turn in conversation.turns] == kinds.split()
    assert [turn.line for turn in conversation.turns] == [*range(1, 10), 9]
    places = range(len(conversation.turns))
    assert list(map(conversation.whole, places)) == list(conversation.wholes())
    result = conversation.turns[3]
    assert (len(result.text), result.size) == (SHOWN, len(conversation.whole(3).text))
    assert conversation.whole(3).text.startswith(TOOL)
    assert SECRET not in conversation.whole(3).text
    assert conversation.turns[1].text == "first\nsecond"
    assert conversation.find("end") == [7]
    assert conversation.find("TOKEN=") == [3]
    assert not conversation.find(SECRET)
    assert conversation.find(SECRET[-4:]) == [3]
    assert conversation.find("…") == [3], "as it is shown"
    assert conversation.malformed == [(7, "no JSON")]


def test_a_conversation_that_grows_stays_what_was_read(homes: Homes, engine: Engine) -> None:
    file = homes.openclaw("a.jsonl", [began(), said("user", "one"), b'{"type":"message"'])
    conversation = engine.conversations.read(PATH)
    assert conversation.malformed == [(3, "cut off: no line end")]
    append(file, b',"message":{"role":"user","content":"two"}}\n' + said("user", "one more"))
    assert conversation.whole(1).text == "one"
    assert conversation.find("one") == [1]
    again = engine.conversations.read(PATH)
    assert [turn.text for turn in again.turns[1:]] == ["one", "two", "one more"]
    assert not again.malformed


def test_names_of_tools_and_ids_are_masked_and_read_again(homes: Homes, engine: Engine) -> None:
    block = {"type": "toolCall", "id": SECRET, "name": f"mcp__{SECRET}__find", "arguments": {}}
    message = {"role": "assistant", "content": [block]}
    homes.openclaw("a.jsonl", [began(), line({"type": "message", "message": message})])
    conversation = engine.conversations.read(PATH)
    whole = list(conversation.wholes())
    assert whole == [conversation.turns[0], conversation.whole(1)]
    assert (whole[1].tool, whole[1].call_id) == ("mcp__sk-pro…b1a0__find", "sk-pro…b1a0")


def test_a_conversation_that_is_rewritten_or_gone_is_one_clear_error(
    homes: Homes, engine: Engine
) -> None:
    file = homes.openclaw("a.jsonl", [began(), said("user", "one"), said("user", "two")])
    conversation = engine.conversations.read(PATH)
    homes.openclaw("a.jsonl", [began(), said("user", "six"), said("user", "two")])
    with pytest.raises(MemtuiError, match=r"was rewritten since it was read \(open it again\)"):
        conversation.whole(1)
    assert conversation.whole(2).text == "two"
    with pytest.raises(MemtuiError, match="rewritten"):
        list(conversation.wholes())
    homes.openclaw("a.jsonl", [began(), b"\n", said("user", "two")])
    assert conversation.whole(2).text == "two", "read from its own line on"
    file.write_bytes(b"")
    with pytest.raises(MemtuiError, match="rewritten"):
        conversation.whole(2)
    file.unlink()
    for ask in (lambda: conversation.whole(2), lambda: conversation.find("one")):
        with pytest.raises(MemtuiError, match="cannot be read any more: no such file"):
            ask()
    with pytest.raises(MemtuiError, match=r"no conversation sessions/main/a\.jsonl"):
        engine.conversations.read(PATH)


def test_packed_files_and_rows_of_a_database_read_the_same(homes: Homes, engine: Engine) -> None:
    lines = [began(), said("user", "the gate"), asked("gate"), tool_answer(TOOL), b"{bad\n"]
    data = b"".join(lines)
    homes.openclaw("plain.jsonl", data, agent="files")
    packed = zstandard.ZstdCompressor().compress(data)
    homes.openclaw("p.jsonl.reset.2026-10-01T10-00-00Z.zst", packed, agent="files")
    database = homes.events(*lines, start=0, packed=lambda number: number % 2 == 1, agent="rows")
    before = database.stat().st_mtime_ns
    paths = [
        "sessions/files/plain.jsonl",
        "sessions/files/p.jsonl.reset.2026-10-01T10-00-00Z.zst",
        "sessions/rows/s9.jsonl",
    ]
    read = [engine.conversations.read(path) for path in paths]
    assert [turn.kind for turn in read[0].turns][-2:] == [TurnKind.TOOL_RESULT, TurnKind.MALFORMED]
    for other in read[1:]:
        assert list(other.turns)[:-1] == list(read[0].turns)[:-1]
        assert other.whole(3) == read[0].whole(3)
        assert other.find("xxx") == read[0].find("xxx") == [3]
        assert other.listing.malformed == 1
    assert [call.query for call in engine.conversations.memory_calls([paths[2]])] == ["gate"]
    assert read[2].listing.session == "s9"
    assert database.stat().st_mtime_ns == before
    assert not list(database.parent.glob("*-wal"))


def test_memory_of_a_huge_conversation_is_bounded(homes: Homes, engine: Engine) -> None:
    much = json.dumps({"type": "message", "message": {"role": "user", "content": "y" * 7_000}})
    lines = [began(), *[much.encode() + b"\n"] * 100, said("assistant", "z" * 2 * LIMIT)]
    homes.openclaw("a.jsonl", lines)
    conversation = engine.conversations.read(PATH)
    assert sum(len(turn.text) for turn in conversation.turns) < 101 * SHOWN
    assert conversation.turns[-1].kind is TurnKind.MALFORMED
    assert conversation.turns[-1].text.startswith("longer than a line may be")
    assert conversation.turns[5].size == 7_000
    assert len(conversation.find("y" * 6_000)) == 100


@pytest.mark.parametrize("size", [100_000, 2_000_000])
def test_a_long_first_line_is_no_reason_to_refuse_a_transcript(
    homes: Homes, tmp_path: Path, size: int
) -> None:
    first = {"timestamp": "2026-10-01T10:00:00Z", "type": "session_meta"}
    meta = first | {"payload": {"id": "x", "instructions": "x" * size}}
    file = tmp_path / "elsewhere" / "rollout-1.jsonl"
    file.parent.mkdir()
    file.write_bytes(line(meta) + codex("user", "hello"))
    with opened(homes, paths=[str(file)], max_line_bytes=1 << 22) as engine:
        (listing,) = engine.conversations.listings()
        assert listing.state is Reason.NOT_YET_INDEXED
        (known,) = counted(engine).values()
    assert (known.kind, known.turns, known.title) == (TranscriptKind.CODEX, 1, "hello")


def test_what_is_recorded_twice_and_by_which_model(homes: Homes, engine: Engine) -> None:
    def answer(number: int, model: str) -> bytes:
        record = json.loads(claude("assistant", "yes", number))
        record["message"]["model"] = model
        return line(record)

    homes.claude(
        "c.jsonl", [claude("user", "hi", 1), answer(2, "a"), answer(2, "a"), answer(3, "b")]
    )
    conversation = engine.conversations.read("claude-code/-garden/c.jsonl")
    assert [turn.left_out for turn in conversation.turns] == ["", "", "duplicate", ""]
    assert conversation.listing.model == "b", "the one that is used now"


def seen_of(secret: str, text: str) -> int:
    """The length of the longest part of a secret that stands in a text."""
    return max(
        (
            end - start
            for start in range(len(secret))
            for end in range(start, len(secret) + 1)
            if secret[start:end] in text
        ),
        default=0,
    )


def test_no_credential_is_seen_by_half_wherever_a_text_is_cut() -> None:
    for edge in (SHOWN, 16_384):
        for at in range(edge - 45, edge + 5, 3):
            text = ("w " * at)[:at] + f" token={SECRET} " + "and so on " * 4_000
            assert seen_of(SECRET, beginning(text)[0]) <= 6, at
            assert len(beginning(text)[0]) == SHOWN
    body = "\n".join(["MIIEpAIBAAKCAQEA7w9x" * 3] * 500)
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    for before in (0, 1_900, 9_000, 16_370):
        shown = beginning("v " * (before // 2) + key + " after" * 5_000)[0]
        assert "MIIEpAIBAAKCAQEA7w9x" not in shown
    arguments = json.dumps({"command": "x " * 9_000, "password": "hunter2"})
    turn = Turn(1, TurnKind.TOOL_CALL, "assistant", arguments, len(arguments))
    assert "hunter2" not in masked_text(turn)
    assert beginning("x" * 30_000) == ("x" * SHOWN, 30_000)
    assert beginning("a plain line") == ("a plain line", 12)


NOTES = {
    "MEMORY.md": "# Memory\n\nThe gate code is 4711, since spring.\n",
    "memory/shed.md": "# Shed\n\nThe gate code hangs in the shed as well.\n",
    "memory/kyoto.md": "# Kyoto\n\nThe host is Mrs. Sato.\n",
    "memory/gates.md": "# Gates\n\nThere is a gate to the orchard.\n",
}


@pytest.fixture
def noted(tmp_path: Path, homes: Homes) -> Iterator[Engine]:
    root = tmp_path / "notes"
    write_notes(root, NOTES)
    settings = Settings.parse({"embedding": {"provider": "none"}})
    with Engine.open(root, settings, data_dir=tmp_path / "d", homes=homes.homes) as noted:
        noted.index.sync(wait=True)
        yield noted


def call_of(query: str, *returned: Recalled, **arguments: int) -> MemoryCall:
    return MemoryCall(
        *(PATH, 3, TranscriptKind.OPENCLAW, "memory_search", query, None),
        arguments=arguments,
        returned=returned,
    )


def test_what_came_back_then_is_beside_what_comes_back_now(homes: Homes, noted: Engine) -> None:
    root = noted.root
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
    [call] = noted.conversations.memory_calls()
    assert (call.query, call.path, call.line, call.answer_line) == ("gate code", PATH, 3, 4)
    replayed = noted.conversations.replay(call)
    assert not replayed.problem
    assert not replayed.is_same
    now = [hit.chunk.path for hit in noted.search.ask("gate code").hits]
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
    [kyoto] = noted.browse.chunks_of("memory/kyoto.md")
    assert rows["memory/kyoto.md", 2].chunk_id == kyoto.id


def test_as_many_are_asked_for_as_the_call_asked_for(noted: Engine) -> None:
    hits = noted.search.ask("gate").hits
    spans = [(hit.chunk.path, hit.chunk.start_line, hit.chunk.end_line) for hit in hits]
    then = [Recalled(*span) for span in spans]
    assert len(then) == 3
    replayed = noted.conversations.replay(call_of("gate", *then))
    assert replayed.is_same
    cited = [(row.start_line, row.end_line) for row in replayed.rows]
    assert cited == [cited_lines(hit) for hit in hits] != [one[1:] for one in spans]
    one = noted.conversations.replay(call_of("gate", *then, maxResults=1))
    assert [row.change.value for row in one.rows] == ["same", "left", "left"]
    assert [(row.why, row.rank_below) for row in one.rows[1:]] == [
        *((Reason.CUT_AT_K, 2), (Reason.CUT_AT_K, 3))
    ]
    assert any(line.endswith("now rank 2, the call asked for 1") for line in replay_lines(one, 100))
    assert noted.conversations.replay(one.call, as_many=False).is_same
    floor = Ranking(k=3, min_score=50.0)
    low = noted.conversations.replay(call_of("gate", *then), ranking=floor)
    assert {row.why for row in low.rows} == {Reason.BELOW_MIN_SCORE}
    reversed_ = noted.conversations.replay(call_of("gate", *reversed(then)))
    assert [row.change.value for row in reversed_.rows] == ["moved", "same", "moved"]
    # Of chunks that overlap, each place has the rank of its own.
    long = "\n".join(f"gate {'x ' * 30} latch {'gate ' * (at % 7)}" for at in range(150))
    write_notes(noted.root, {"memory/long.md": long})
    noted.index.sync(wait=True)
    drops = {
        (drop.chunk.path, drop.chunk.start_line): drop for drop in noted.search.ask("gate").drops
    }
    places = [Recalled(*key, drop.chunk.end_line) for key, drop in drops.items()]
    below = noted.conversations.replay(call_of("gate", *places), as_many=False).rows
    left = {(row.path, row.start_line): row.rank_below for row in below if row.rank_now is None}
    assert left == {key: drops[key].stages[-1].rank for key in left}
    assert len(left) > 3


def test_a_search_of_another_project_is_of_another_memory(homes: Homes, noted: Engine) -> None:
    use = {"type": "tool_use", "id": "t", "name": "memory_search", "input": {"query": "gate"}}
    message = {"role": "assistant", "content": [use]}
    record = line({"type": "assistant", "cwd": "/src/web", "sessionId": "c", "message": message})
    # As long as the folder that is open is no project, its memory may be that of any.
    for project, others in (("-src-web", 0), (re.sub(r"\W|_", "-", str(noted.root)), 1)):
        homes.claude("c.jsonl", record, project)
        calls = noted.conversations.memory_calls()
        verdicts = [noted.conversations.replay(call).verdict for call in calls]
        assert (verdicts.count("elsewhere"), calls[0].agent) == (others, "web")


def test_how_many_results_a_call_wants() -> None:
    calls = [call_of("x"), call_of("x", limit=9999)]
    calls += [call_of("x", maxResults=number) for number in (5, 0, -3, True)]
    assert list(map(results_wanted, calls)) == [None, 200, 5, None, None, None]


def test_what_cannot_be_asked_again_is_said(tmp_path: Path, homes: Homes, noted: Engine) -> None:
    assert noted.conversations.replay(call_of(" ")).problem == "the call has no query"
    unknown = MemoryCall(PATH, 3, TranscriptKind.OPENCLAW, "memory_search", "gate", None)
    rows = noted.conversations.replay(unknown).rows
    assert {row.change for row in rows} == {RecallChange.ENTERED}
    settings = Settings.parse({"embedding": {"provider": "none"}})
    with Engine.open(noted.root, settings, data_dir=tmp_path / "none", write=False) as other:
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
    with Engine.open_agent(state.target(), env={}, examine=False) as noted:
        [listing] = noted.conversations.listings()
        stored = "sessions/main/a.jsonl" if release == AGENT_BLOB else "sessions/a.jsonl"
        assert (listing.path, listing.agent, listing.chunks) == (stored, "main", None)
        assert listing.state in {Reason.DISABLED, Reason.NOT_YET_INDEXED}
        [call] = noted.conversations.memory_calls()
        replayed = noted.conversations.replay(call)
        assert not replayed.problem
        now = [row for row in replayed.rows if row.rank_now is not None]
        hits = noted.search.ask("router").hits
        assert [row.chunk_id for row in now] == [hit.chunk.id for hit in hits]
        assert sum(row.rank_then is not None for row in replayed.rows) == 1
        assert noted.conversations.read(stored).find("which") == [1]
        [source] = noted.conversations.sources()
        assert (source.name, source.found, source.for_run) == ("openclaw:main", 1, "agent")
        with pytest.raises(IndexUnusable, match="memtui only reads it"):
            noted.index.transcripts.use_sources(["openclaw"])
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
        target = find_target(agent=None, index=index, workspace=None, env={}, home=tmp_path)
        with Engine.open_agent(target, env={}, examine=False) as noted:
            [listing] = noted.conversations.listings()
            assert (listing.path, listing.session) == ("sessions/main/s1.jsonl", "s1")
            assert (listing.chunks, listing.agent) == (2, "main")
            assert [call.query for call in noted.conversations.memory_calls()] == ["router"]
            assert noted.conversations.read(listing.path).turns[1].text == "which router?"
            [source] = noted.conversations.sources()
            assert (source.found, source.indexed, source.chunks) == (1, 1, 2)
    assert hash_tree(tmp_path) == before
