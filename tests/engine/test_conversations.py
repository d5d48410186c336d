"""Conversations through the engine: listed, counted, read again by offset, searched, damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
import zstandard

from memtui.engine import Engine
from memtui.engine.conversations.turns import masked_text
from memtui.errors import Cancelled, MemtuiError
from memtui.memory.transcripts.formats import SHOWN, beginning
from memtui.model import Reason
from memtui.model.conversations import ConversationListing, TranscriptKind, Turn, TurnKind
from memtui.settings.schema import Settings
from tests.support.conversations import (
    LIMIT,
    SECRET,
    Homes,
    asked,
    began,
    claude,
    codex,
    line,
    reset,
    said,
)

PATH = "sessions/main/a.jsonl"
EVENTS = "CREATE TABLE transcript_events(session_id, seq, event_json, event_zstd, created_at)"
TOOL = "x" * 5_000


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


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


# --- the list -----------------------------------------------------------------------------------


def test_nothing_is_read_twice_and_a_change_is_seen(
    homes: Homes, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = homes.openclaw("a.jsonl", [began(), said("user", "one"), asked("gate")])
    assert [(one.turns, one.calls) for one in counted(engine).values()] == [(1, 1)]

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr("memtui.engine.conversations.turns.open_lines", refuse)
        patch.setattr("memtui.engine.conversations.turns.open_stream", refuse)
        assert len(engine.conversations.memory_calls()) == 1
        assert listed(engine)[PATH].turns == 1
    with file.open("ab") as stream:
        stream.write(asked("shed", "c2"))
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


# --- one conversation ---------------------------------------------------------------------------


def tool_answer(text: str, call: str = "c1") -> bytes:
    message = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "exec",
        "content": [{"type": "text", "text": text}],
    }
    return line({"type": "message", "message": message})


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
        ],
    )
    conversation = engine.conversations.read(PATH)
    assert [(turn.line, turn.kind) for turn in conversation.turns] == [
        (1, TurnKind.OTHER),
        (2, TurnKind.MESSAGE),
        (3, TurnKind.TOOL_CALL),
        (4, TurnKind.TOOL_RESULT),
        (5, TurnKind.RESET),
        (6, TurnKind.COMPACTION),
        (7, TurnKind.MALFORMED),
        (8, TurnKind.MESSAGE),
    ]
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
    with file.open("ab") as stream:
        stream.write(b',"message":{"role":"user","content":"two"}}\n' + said("user", "one more"))
    assert conversation.whole(1).text == "one"
    assert conversation.find("one") == [1]
    again = engine.conversations.read(PATH)
    assert [turn.text for turn in again.turns[1:]] == ["one", "two", "one more"]
    assert not again.malformed


def test_all_of_a_conversation_that_grew_or_shrank(homes: Homes, engine: Engine) -> None:
    file = homes.openclaw("a.jsonl", [began(), said("user", "one"), b'{"type":"message"'])
    conversation = engine.conversations.read(PATH)
    with file.open("ab") as stream:
        stream.write(b',"message":{"role":"user","content":"two"}}\n' + said("user", "three"))
    assert list(conversation.wholes()) == list(conversation.turns)
    again = engine.conversations.read(PATH)
    os.truncate(file, len(began()))
    with pytest.raises(MemtuiError, match="rewritten"):
        list(again.wholes())


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
    database = homes.write("openclaw/agents/rows/agent/openclaw-agent.sqlite", b"")
    database.unlink()
    connection = apsw.Connection(str(database))
    connection.execute(EVENTS)
    for number, record in enumerate(lines):
        body = record.decode().rstrip("\n")
        row = (
            (None, zstandard.ZstdCompressor().compress(body.encode()))
            if number % 2
            else (body, None)
        )
        connection.execute(
            "INSERT INTO transcript_events VALUES('s9', ?, ?, ?, 1790000000000)", (number, *row)
        )
    connection.close()
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
    file = homes.openclaw("a.jsonl", began())
    with file.open("ab") as stream:
        for _ in range(100):
            stream.write(much.encode() + b"\n")
        stream.write(said("assistant", "z" * 2 * LIMIT))
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


def test_words_are_found_wherever_a_line_keeps_them(homes: Homes, engine: Engine) -> None:
    homes.openclaw(
        "a.jsonl",
        [
            began(),
            said("user", "The Gate, and the shed"),
            line({"type": "custom", "id": "c", "customType": "openclaw"}),
            line({"type": "message", "message": {"role": "user", "content": "gl\u00fcck"}}),
            b'{"type":"message","message":{"role":"user","content":"\\u0067ate"}}\n',
        ],
    )
    find = engine.conversations.read(PATH).find
    assert [
        find(text) for text in ("gate", "the shed", "custom openclaw", "gate shed", "Gl\u00fcck")
    ] == [
        *([1, 4], [1], [2], [], [3]),
    ]


# --- masking ------------------------------------------------------------------------------------


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
