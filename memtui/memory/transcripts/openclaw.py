"""OpenClaw's sessions: turns for reading, and the exact lines of a release for the index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from memtui.memory.transcripts import generated, records
from memtui.memory.transcripts.openclaw_files import TranscriptRules, is_read
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import well_formed
from memtui.text.redact import openclaw_redact, redact

_OURS: Final = generated.WRITTEN["openclaw"]
_KEPT_IDS: Final = 64
"""A reset keeps some of the last messages before it, at most half a dozen."""


class OpenClaw(records.TranscriptFormat):
    kind = TranscriptKind.OPENCLAW

    def recognises(self, record: records.Record) -> bool:
        """Look for a message under its own key, or the type of another entry of the tree."""
        kind = records.text_in(record, "type")
        if "payload" in record:
            return False
        if kind == "message":
            return isinstance(records.mapping_in(record, "message").get("role"), str)
        if kind == "session":
            return "id" in record or "version" in record
        return kind in _OURS["entries"] and ("id" in record or "parentId" in record)

    def facts(self, record: records.Record) -> records.RecordFacts:
        """Take the agent from a session key."""
        model = records.text_in(record, "modelId") or records.text_in(
            records.mapping_in(record, "message"), "model"
        )
        return records.RecordFacts(
            agent=_agent(record) or _agent(records.mapping_in(record, "data")),
            model="" if model in _OURS["internal_models"] else model,
            timestamp_ms=_time(record),
        )

    def run_of(
        self, record: records.Record, *, archived: bool, is_first: bool
    ) -> generated.Run | None:
        """Know a run by any of its records.

        A cron run is told only in an archive: of a live session the list of sessions knows it.
        """
        data = records.mapping_in(record, "data")
        is_custom = record.get("type") == "custom"
        is_bootstrap = is_custom and record.get("customType") == _OURS["bootstrap"]
        if is_bootstrap and records.text_in(data, "runId").startswith(_OURS["dreaming"]):
            return generated.Run.DREAMING
        for place in (record, data):
            run = generated.run_of_key(place.get("runId"))
            of_session = generated.run_of_key(place.get("sessionKey"))
            if generated.Run.DREAMING in (run, of_session):
                return generated.Run.DREAMING
            if archived and of_session:
                return of_session
        return None

    def turns(self, record: records.Record, line: int) -> list[Turn]:
        """Return the blocks of a message, or the one entry that another record is."""
        build = records.TurnBuilder(line, _time(record))
        kind = records.text_in(record, "type")
        if kind == "message":
            return list(_message_turns(records.mapping_in(record, "message"), build))
        if kind == "compaction":
            return [build.turn(TurnKind.COMPACTION, "system", records.text_in(record, "summary"))]
        if kind == "reset":
            return [build.turn(TurnKind.RESET, "system", records.text_in(record, "reason"))]
        text = records.text_in(record, "summary", "modelId", "thinkingLevel", "name", "label")
        text = text or records.texts_of(record.get("content"))
        return [build.other(kind, records.text_in(record, "customType"), text=text)]


class OpenClawLines(records.SpokenLines):
    """Makes the lines of one session record by record, as one release does.

    More shapes of credentials are masked than the release masks, unless its rules say otherwise.
    A release that does not read the file gives no lines.
    """

    def __init__(self, state: records.ReadState, name: str, rules: TranscriptRules) -> None:
        """`name` is that of the file, by which a release tells archives."""
        super().__init__(state)
        self._rules = rules
        self.is_read = is_read(name, rules)
        self.finds_runs = self.is_read and rules.drops_generated

    def add(self, record: records.Record, number: int, turns: Iterable[Turn]) -> list[str]:
        if not self.is_read:
            return []
        message, rules, state = records.mapping_in(record, "message"), self._rules, self.state
        role = records.text_in(message, "role")
        entry, kept_entry = record.get("id"), record.get("firstKeptEntryId")
        if rules.cuts_at_reset and record.get("type") == "reset":
            # The first line that the last reset left to the present conversation: the entry that
            # it names as kept, else its own. One that cannot be found cuts nothing (2026.9).
            state.cutoff = state.ids.get(kept_entry, 0) if isinstance(kept_entry, str) else 0
            if "firstKeptEntryId" not in record:
                state.cutoff = number
        elif rules.cuts_at_reset and role in generated.SPEAKERS and isinstance(entry, str):
            state.ids.setdefault(entry, number)
            if len(state.ids) > _KEPT_IDS:
                del state.ids[next(iter(state.ids))]
        if record.get("type") != "message" or role not in generated.SPEAKERS:
            return []
        texts, text = records.message_texts(message.get("content")), ""
        if not rules.drops_generated:
            # Up to 2026.2 every block is folded by itself; later the blocks are joined first.
            text = " ".join(filter(None, map(generated.normalise, texts)))
            why = None if text else generated.Dropped.NO_TEXT
        else:
            origin = records.mapping_in(message, "provenance")
            if role == "user":
                is_internal = rules.drops_whole_turns and origin.get("kind") == "internal_system"
                tool = records.text_in(origin, "sourceTool") if is_internal else ""
                reason = _OURS["internal_turns"].get(tool)
                state.generated = generated.Dropped(reason) if reason else None
            why = generated.Dropped.GENERATED_RUN if state.run else state.generated
            if role == "user" and origin.get("kind") == "inter_session":
                why = generated.Dropped.INTER_SESSION
            if why is None:
                text, why = generated.spoken_line("\n".join(texts), role)
        if why is not None:
            self.count(why)
            return []
        text = redact(text) if rules.masks_more else openclaw_redact(text)
        pieces = generated.wrap(text) if rules.drops_generated else (text,)
        lines = [well_formed(f"{generated.SPEAKERS[role]}: {piece}") for piece in pieces]
        if lines:
            self.count("")
        return lines


def _message_turns(message: records.Record, build: records.TurnBuilder) -> Iterator[Turn]:
    role = records.text_in(message, "role")
    content = message.get("content")
    if role == "toolResult":
        # What a search of the memory came back with may be in the details alone.
        text, details = records.texts_of(content), records.mapping_in(message, "details")
        if isinstance(details.get("results"), list) and not text.lstrip().startswith(("{", "[")):
            text = json.dumps(details, ensure_ascii=False)
        tool, call = records.text_in(message, "toolName", "name"), message.get("toolUseId")
        is_error = message.get("isError") is True
        yield build.result(tool, message.get("toolCallId", call), text, is_error=is_error)
        return
    if role not in generated.SPEAKERS:
        text = records.texts_of(content) or records.text_in(message, "command", "summary")
        entry = TurnKind.COMPACTION if role == "compactionSummary" else TurnKind.OTHER
        yield build.turn(entry, "system", f"{role}: {text}" if text else role)
        return
    origin = records.mapping_in(message, "provenance")
    if role == "user" and origin.get("kind") == "inter_session":
        why: str = generated.Dropped.INTER_SESSION
    else:
        why = generated.spoken_line(records.texts_of(content), role)[1] or ""
    for block in records.spoken_and_blocks(content):
        if isinstance(block, str):
            yield build.message(role, block, why)
            continue
        kind = records.text_in(block, "type")
        if kind in _OURS["calls"]:
            arguments = block.get("arguments", block.get("input"))
            yield build.call(records.text_in(block, "name"), block.get("id"), arguments)
        elif kind.endswith("thinking"):
            yield build.turn(TurnKind.THINKING, role, records.text_in(block, "thinking"))
        else:
            yield build.other(kind, role=role)


def _agent(record: records.Record) -> str:
    key = records.text_in(record, "sessionKey").split(":")
    return key[1] if len(key) > 2 and key[0] == "agent" else ""


def _time(record: records.Record) -> int:
    return records.first_date(
        records.mapping_in(record, "message").get("timestamp"), record.get("timestamp")
    )
