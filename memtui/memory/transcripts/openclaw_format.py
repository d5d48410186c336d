"""OpenClaw's sessions for reading: turns, and the exact lines of a release for the index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from memtui.memory.transcripts.base import (
    LineReader,
    Record,
    RecordFacts,
    TranscriptLine,
    mapping_in,
    parse_record,
    text_in,
    whole,
)
from memtui.memory.transcripts.generated import Dropped, Role, Run, said
from memtui.memory.transcripts.openclaw import OpenClawTranscript
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.memory.transcripts.text import message_texts
from memtui.memory.transcripts.times import first_date
from memtui.memory.transcripts.turns import TurnMaker, blocks_of, texts_of
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import trim
from memtui.text.redact import openclaw_redact, redact

_TYPES: Final = frozenset(
    {
        *("compaction", "branch_summary", "custom", "custom_message", "label", "leaf", "reset"),
        *("model_change", "thinking_level_change", "session_info"),
    }
)
"""Records of the tree of entries, beside messages; each has an id and a parent's id."""
_CALLS: Final = frozenset({"toolCall", "toolUse", "tool_use", "functionCall"})
_INTERNAL_MODELS: Final = frozenset({"delivery-mirror", "gateway-injected"})
_KEPT_IDS: Final = 64
"""A reset keeps some of the last messages before it, at most half a dozen."""


class OpenClaw:
    """How OpenClaw writes its transcripts."""

    kind: Final = TranscriptKind.OPENCLAW
    records_calls: Final = True
    calls_note: Final = (
        "Calls of tools are recorded with what came back, unless a clean-up took the answers out"
    )

    def recognises(self, record: Record) -> bool:
        """By a message under its own key, or by the type of another entry of the tree."""
        kind = text_in(record, "type")
        if "payload" in record:
            return False
        if kind == "message":
            return isinstance(mapping_in(record, "message").get("role"), str)
        if kind == "session":
            return "id" in record or "version" in record
        return kind in _TYPES and ("id" in record or "parentId" in record)

    def identity(self, record: Record) -> str:
        """Nothing: OpenClaw indexes what is there twice, twice."""
        return ""

    def run_of(self, record: Record) -> Run | None:
        """None: the reader of the lines tells it from every record."""
        return None

    def facts(self, record: Record) -> RecordFacts:
        """The session by its first record, the agent by a session key, the model by messages."""
        message = mapping_in(record, "message")
        model = text_in(record, "modelId") or text_in(message, "model")
        return RecordFacts(
            agent=_agent(record) or _agent(mapping_in(record, "data")),
            model="" if model in _INTERNAL_MODELS else model,
            session=text_in(record, "id") if record.get("type") == "session" else "",
            timestamp_ms=_time(record),
        )

    def turns(self, record: Record, line: int, *, redacts: bool = True) -> list[Turn]:
        """The blocks of a message, or the one entry that another record is."""
        make = TurnMaker(line, _time(record), redacts)
        kind = text_in(record, "type")
        if kind == "message":
            return list(_message_turns(mapping_in(record, "message"), make))
        if kind == "compaction":
            return [make.turn(TurnKind.COMPACTION, "system", text_in(record, "summary"))]
        if kind == "reset":
            return [make.turn(TurnKind.RESET, "system", text_in(record, "reason"))]
        text = text_in(record, "summary", "modelId", "thinkingLevel", "name", "label")
        text = text or texts_of(record.get("content"))
        name = " ".join(filter(None, (kind, text_in(record, "customType"))))
        return [make.other(f"{name}: {text}" if text else name)]

    def line_reader(
        self,
        name: str,
        rules: TranscriptRules,
        *,
        redacts: bool = True,
        state: Mapping[str, Any] | None = None,
    ) -> LineReader:
        """The lines of the release whose rules are given."""
        return OpenClawLines(name, rules, redacts=redacts, state=state)


class OpenClawLines:
    """An `OpenClawTranscript` that can go on another day, as a `LineReader`.

    More shapes of credentials are masked than the release masks, unless its rules say otherwise.
    """

    def __init__(
        self,
        name: str,
        rules: TranscriptRules,
        *,
        redacts: bool = True,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        held = state or {}
        run, turn = held.get("run"), held.get("turn")
        self._transcript = OpenClawTranscript(
            name,
            rules,
            run=Run(run) if run else None,
            redacts=redacts,
            masked=redact if rules.masks_more else openclaw_redact,
        )
        self._transcript.malformed = held.get("malformed", 0)
        self._transcript.dropped.update(
            {Dropped(why): count for why, count in held.get("dropped", {}).items()}
        )
        self._transcript.turn = Dropped(turn) if turn else None
        self.messages: int = held.get("messages", 0)
        self.cutoff: int = held.get("cutoff", 0) if rules.cuts_at_reset else 0
        self._planned = 0 if held.get("is_cut") else self.cutoff
        self._cuts = rules.cuts_at_reset
        self._ids: dict[str, int] = dict(held.get("ids", ()))
        """Of the last messages, oldest first: the line of each."""

    @property
    def run(self) -> Run | None:
        """What the whole transcript is, when nobody speaks in it."""
        return self._transcript.run

    @property
    def malformed(self) -> int:
        """How many lines were no JSON."""
        return self._transcript.malformed

    @property
    def dropped(self) -> Counter[str]:
        """How many messages have no line, by why."""
        return Counter({why.value: count for why, count in self._transcript.dropped.items()})

    def add_line(self, text: str, number: int) -> list[TranscriptLine]:
        """Read the next line of the file."""
        if not self._transcript.is_read or not trim(text):
            return []
        try:
            record = parse_record(text)
        except ValueError:
            # Counted: a cut or damaged line must not end the reading of a transcript.
            self._transcript.malformed += 1
            return []
        if not isinstance(record, dict):
            return []
        if self._cuts:
            self._see(record, number)
        lines = self._transcript.add(record, number)
        if lines:
            self.messages += 1
        return [
            TranscriptLine(line.role, whole(line.text), line.line, line.timestamp_ms)
            for line in lines
        ]

    def cuts_before(self, number: int) -> bool:
        """Whether the chunk ends before the line, which is the first behind the last reset."""
        if not 0 < self._planned <= number:
            return False
        self._planned = 0
        return True

    def state(self) -> dict[str, Any]:
        """What is known so far."""
        turn = self._transcript.turn
        return {
            "run": self.run,
            "turn": turn,
            "messages": self.messages,
            "malformed": self.malformed,
            "dropped": dict(self.dropped),
            "cutoff": self.cutoff,
            "is_cut": not self._planned,
            "ids": [list(pair) for pair in self._ids.items()],
        }

    def _see(self, record: Record, number: int) -> None:
        """Find the first line that the last reset left to the present conversation.

        OpenClaw 2026.9: the first entry that the reset names as kept, else the reset itself. One
        that it cannot find cuts nothing.
        """
        if record.get("type") == "reset":
            kept = record.get("firstKeptEntryId")
            if "firstKeptEntryId" not in record:
                self.cutoff = number
            else:
                self.cutoff = self._ids.get(kept, 0) if isinstance(kept, str) else 0
            return
        name = record.get("id")
        speaks = mapping_in(record, "message").get("role") in (Role.USER, Role.ASSISTANT)
        if speaks and isinstance(name, str) and name not in self._ids:
            self._ids[name] = number
            if len(self._ids) > _KEPT_IDS:
                del self._ids[next(iter(self._ids))]


def _message_turns(message: Record, make: TurnMaker) -> Iterator[Turn]:
    role = text_in(message, "role")
    content = message.get("content")
    if role == "toolResult":
        yield _result(message, make)
        return
    if role not in (Role.USER, Role.ASSISTANT):
        text = texts_of(content) or text_in(message, "command", "summary")
        entry = TurnKind.COMPACTION if role == "compactionSummary" else TurnKind.OTHER
        yield make.turn(entry, "system", f"{role}: {text}" if text else role)
        return
    why = _left_out(message, Role(role))
    spoken: list[str] = []
    for block in blocks_of(content):
        kind = text_in(block, "type")
        if kind == "text":
            spoken.append(text_in(block, "text"))
            continue
        if spoken:
            yield make.message(role, "\n".join(spoken), why)
            spoken = []
        if kind in _CALLS:
            arguments = block.get("arguments", block.get("input"))
            yield make.call(text_in(block, "name"), block.get("id"), arguments)
        elif kind.endswith("thinking"):
            yield make.turn(TurnKind.THINKING, role, text_in(block, "thinking"))
        else:
            yield make.other(kind, role)
    if spoken:
        yield make.message(role, "\n".join(spoken), why)


def _left_out(message: Record, role: Role) -> str:
    """Why the index has nothing of a message, as far as the message itself tells."""
    origin = mapping_in(message, "provenance")
    if role is Role.USER and origin.get("kind") == "inter_session":
        return Dropped.INTER_SESSION
    _, why = said("\n".join(message_texts(message.get("content"))), role)
    return why or ""


def _result(message: Record, make: TurnMaker) -> Turn:
    """What a tool answered; what a search of the memory found may stand in the details alone."""
    text = texts_of(message.get("content"))
    details = mapping_in(message, "details")
    if isinstance(details.get("results"), list) and not text.lstrip().startswith(("{", "[")):
        text = json.dumps(details, ensure_ascii=False)
    return make.result(
        text_in(message, "toolName", "name"),
        message.get("toolCallId", message.get("toolUseId")),
        text,
        is_error=message.get("isError") is True,
    )


def _agent(record: Record) -> str:
    key = text_in(record, "sessionKey").split(":")
    return key[1] if len(key) > 2 and key[0] == "agent" else ""


def _time(record: Record) -> int:
    return first_date(mapping_in(record, "message").get("timestamp"), record.get("timestamp"))
