"""`memtui sessions` and `memtui replay`: what they print, what they write, what they never show."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memtui.memory.transcripts.generated import Dropped
from memtui.model import Reason
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
    Turn,
    TurnKind,
)
from memtui.report.conversations import listing_lines, replay_lines, source_lines, turn_lines
from memtui.report.words import LEFT_OUT_WORDS, cells_of, reason_words, wrapped
from memtui.settings.load import load_settings
from memtui.text.sanitize import HOSTILE
from memtui.tui import format as fmt
from memtui.tui.screens.transcripts import source_facts
from tests.support.command_line import Answer, Run, command_line, own_home, set_up
from tests.support.conversations import SECRET, Homes, asked, began, claude, line, said
from tests.support.hostile import ALL

ID = "3f9a0000-7d0e-4b6a-9f2b-51c6e0a7d431"
PATH = f"sessions/main/{ID}.jsonl"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = own_home(tmp_path, monkeypatch)
    notes = home / "notes"
    notes.mkdir()
    (notes / "MEMORY.md").write_text("# Memory\n\nThe gate code is 4711.\n")
    monkeypatch.setenv("MEMTUI_ROOT", str(notes))
    set_up(monkeypatch, provider="none")
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return home


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


def answered(path: str, call: str = "c1") -> bytes:
    result = {"path": path, "startLine": 1, "endLine": 3, "score": 0.5, "snippet": f"key {SECRET}"}
    content = [{"type": "text", "text": json.dumps({"results": [result]})}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "memory_search"}
    return line({"type": "message", "message": {**message, "content": content}})


def hostile(text: str) -> bytes:
    """A message with characters that only escapes can write."""
    message = {"role": "user", "content": text}
    return json.dumps({"type": "message", "message": message}).encode() + b"\n"


@pytest.fixture
def planted(home: Path) -> Homes:
    """Two searches in one session, a secret wherever one can be, and a transcript of a project."""
    homes = Homes(home)
    parts = [
        began(ID),
        hostile(f"{ALL} my token={SECRET} \x1b[31mred\n" + "long " * 600),
        asked(f"gate code {SECRET}"),
        answered("MEMORY.md"),
        asked("gate", "c2"),
        answered("memory/gone.md", "c2"),
        b"{cut\n",
        said("assistant", "4711", 40),
    ]
    homes.write(f".openclaw/agents/main/sessions/{ID}.jsonl", parts)
    project = [claude("user", "the lamps", 1), claude("assistant", "are lit", 2)]
    homes.write(".claude/projects/-garden/c0ffee.jsonl", project)
    return homes


def checked(answer: Answer) -> Answer:
    """Nothing secret and nothing that a terminal acts on."""
    assert SECRET not in answer.out + answer.err
    assert not HOSTILE.search(answer.out + answer.err)
    return answer


# --- the list and one of them -------------------------------------------------------------------


def test_hostile_names_reach_no_terminal(memtui: Run, planted: Homes) -> None:
    name = "a\x1b[31m\u202e\nb.jsonl"
    planted.write(f".openclaw/agents/main/sessions/{name}", began() + asked("gate", "c9"))
    planted.write(f".openclaw/agents/main/sessions/{name}.checkpoint.jsonl", began())
    assert memtui("index").code == 0
    for arguments in (("sessions",), ("sessions", "--coverage"), ("replay",), ("sessions", name)):
        for form in ((), ("--json",)):
            answer = checked(memtui(*arguments, *form))
            assert answer.code == 0
    assert checked(memtui("sessions", f"{name}x", "--json")).code == 1


# --- which are indexed --------------------------------------------------------------------------


def test_what_is_opted_in_is_written_and_found_without_credentials(
    memtui: Run, planted: Homes
) -> None:
    assert checked(memtui("sessions", "enable", "openclaw", "claude-code")).code == 0
    assert memtui("index").code == 0
    for flags in (("--json",), ()):
        checked(memtui("search", "token", "source:sessions", *flags))
    answer = memtui("sessions", "disable", "openclaw:main", "--json")
    assert (answer.code, "is opted in by openclaw" in answer.error["message"]) == (2, True)
    assert memtui("sessions", "disable", "openclaw").code == 0
    assert load_settings(env=os.environ).settings.transcripts.sources == ("claude-code",)


def test_opting_in_says_which_machine_gets_the_text(
    memtui: Run, planted: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = "credentials masked; all of it stays on this machine"
    assert stays in memtui("sessions", "enable", "openclaw").err
    assert stays in memtui("sessions", "--coverage", "--json").document["sources"][0]["detail"]
    chosen = {"base_url": "https://vectors.example/v1", "model": "m", "allow_remote": True}
    set_up(monkeypatch, provider="openai", **chosen)
    sent = "it is sent to vectors.example, which makes the vectors"
    assert sent in memtui("sessions", "enable", "openclaw").err
    assert sent in memtui("sessions", "--coverage", "--json").document["sources"][0]["detail"]
    set_up(monkeypatch, provider="minilm", fallback="openai", **chosen)
    assert "it is sent to " in memtui("sessions", "enable", "openclaw").err


def test_a_source_that_the_environment_decides_is_told(
    memtui: Run, planted: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTUI_TRANSCRIPTS__SOURCES", "codex")
    assert "wins over this file" in memtui("sessions", "enable", "openclaw").err


# --- lines --------------------------------------------------------------------------------------


def test_lines_fit_into_80_columns() -> None:
    call = MemoryCall(PATH, 3, TranscriptKind.OPENCLAW, "memory_search", "路由器 " * 40, None)
    row = RecallRow("memory/" + "長" * 60 + ".md", 1, 9, RecallChange.LEFT, 1, None, 0.5)
    listing = ConversationListing(
        *(PATH * 3, "/x", TranscriptKind.CODEX, "長" * 60, 10**9, datetime(2026, 1, 1, tzinfo=UTC)),
        title="t" * 120,
        state=Reason.DISABLED,
        detail="d" * 120,
    )
    source = TranscriptSource("codex", None, "/f" * 60, True, detail="word " * 60)
    long = Turn(4, TurnKind.MESSAGE, "user", "路由器" * 80, 240)
    lines = [
        *replay_lines(Replayed(call, (row,)), 80),
        *listing_lines(listing, 80),
        *source_lines(source, 80),
        *turn_lines(long, full=False, width=80),
    ]
    for kind in TurnKind:
        turn = Turn(10**5, kind, "tool", "x" * 900, 10**9, 1, "t" * 90)
        lines += [*turn_lines(turn, full=False, width=80), *turn_lines(turn, full=True, width=80)]
    assert max(cells_of(each) for each in lines) <= 80
    assert "".join(wrapped("路由器" * 80, 80)) == "路由器" * 80
    assert list(wrapped("a b", 1)) == ["a", "b"]
    marks = "e" + "\u0301" * 500
    assert list(wrapped(f"{marks}{marks}b", 2)) == [marks * 2, "b"]


def test_what_is_left_out_is_said_as_on_the_screen() -> None:
    assert set(LEFT_OUT_WORDS) == set(Dropped)
    left_out = {"cron_prompt": 8, "inter_session": 2000, "of_tomorrow": 1}
    source = TranscriptSource(
        "main", TranscriptKind.OPENCLAW, "/sessions", is_indexed=True, left_out=left_out
    )
    told = "from another session 2 000, a scheduled prompt 8, of tomorrow 1"
    assert f"left out: {told}" in [line.strip() for line in source_lines(source, 80)]
    shown = {label: content.plain for label, content in source_facts(source)}
    assert shown["left out"] == told
    turn = Turn(1, TurnKind.MESSAGE, "user", "x", 1, left_out="cron_prompt")
    assert "(not indexed: a scheduled prompt)" in next(turn_lines(turn, full=False, width=80))
    assert reason_words(Reason.CUT_AT_K) == fmt.reason_words(Reason.CUT_AT_K)
