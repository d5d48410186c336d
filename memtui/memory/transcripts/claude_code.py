"""Claude Code's transcripts: `~/.claude/projects/<project>/<session>.jsonl`.

A record has a `type`, a `uuid` and the `sessionId`; `message` is that of the model's interface,
with its content a text or a list of blocks. What a tool answers comes in a user's message. The
program puts its own words into the user's mouth, too: told by fields of the record and by the tags
that it writes word for word.
"""

from __future__ import annotations

import re
from typing import Final

from memtui.memory.transcripts import records
from memtui.memory.transcripts.generated import SPEAKERS, WRITTEN, Dropped, written_reason
from memtui.model.conversations import TranscriptKind, Turn, TurnKind

_OURS: Final = WRITTEN["claude-code"]


class ClaudeCode(records.TranscriptFormat):
    kind = TranscriptKind.CLAUDE_CODE

    def recognises(self, record: records.Record) -> bool:
        """Look for a message under the type that is its role, or for the id of a session."""
        kind = records.text_in(record, "type")
        if not kind or "payload" in record:
            return False
        if kind in SPEAKERS:
            message = record.get("message")
            return isinstance(message, dict) and ("role" in message or "uuid" in record)
        if kind == "attachment":
            return isinstance(record.get("attachment"), dict)
        return kind in _OURS["without_session"] or isinstance(record.get("sessionId"), str)

    def identity(self, record: records.Record) -> str:
        """Return the record's own id, which stays when a session that is resumed is copied."""
        return records.text_in(record, "uuid")

    def facts(self, record: records.Record) -> records.RecordFacts:
        """Take the project from the working folder, the model from the assistant's messages."""
        model = records.text_in(records.mapping_in(record, "message"), "model")
        return records.RecordFacts(
            agent=records.folder_name(record.get("cwd")),
            model="" if model == _OURS["synthetic"] else model,
            timestamp_ms=records.first_date(record.get("timestamp")),
        )

    def turns(self, record: records.Record, line: int) -> list[Turn]:
        """Return the blocks of a message; texts that follow each other are one."""
        build = records.TurnBuilder(line, records.first_date(record.get("timestamp")))
        kind = records.text_in(record, "type")
        if kind in SPEAKERS:
            message = records.mapping_in(record, "message")
            why = _record_reason(record, kind, message)
            parts = records.spoken_and_blocks(message.get("content"))
            return [_part_turn(part, kind, why, build) for part in parts]
        if kind == "system" and records.text_in(record, "subtype").endswith("compact_boundary"):
            return [build.turn(TurnKind.COMPACTION, "system", records.text_in(record, "content"))]
        if kind == "attachment":
            # What was typed while the assistant was at work is said; everything else is context.
            attachment = records.mapping_in(record, "attachment")
            kind = records.text_in(attachment, "type")
            prompt = records.texts_of(attachment.get("prompt"))
            is_prompt = attachment.get("commandMode", "prompt") == "prompt"
            if kind != "queued_command" or not prompt or not is_prompt:
                return [build.other("attachment", kind)]
            why = _record_reason(record, "user", {})
            why = why or ("" if _is_human(attachment) else Dropped.NOTIFICATION)
            return [_part_turn(prompt, "user", why, build)]
        text = records.text_in(record, "summary", "content", "customTitle", "aiTitle", "title")
        return [build.other(kind, records.text_in(record, "subtype", "operation"), text=text)]


def _part_turn(
    block: records.Record | str, role: str, why: str, build: records.TurnBuilder
) -> Turn:
    """Return the turn of one part of a message: of a text, without what the program added to it."""
    if isinstance(block, str):
        if why == Dropped.COMPACT_SUMMARY:
            return build.turn(TurnKind.COMPACTION, "system", block, left_out=why)
        if why or role != "user":
            return build.message(role, block, why)
        own_text = block
        for tag in _OURS["asides"]:
            # A tag that is not closed is something that was said.
            before, closing, after = own_text.rpartition(f"</{tag}>")
            own_text = re.sub(f"<{tag}>.*?</{tag}>", "", before + closing, flags=re.DOTALL) + after
        if own_text == block:
            return build.message(role, block, written_reason("claude-code", block))
        if not own_text.strip():
            return build.message(role, block, Dropped.CONTEXT)
        return build.message(role, own_text.strip(), written_reason("claude-code", own_text))
    kind = records.text_in(block, "type")
    if kind in _OURS["calls"]:
        tool, server = records.text_in(block, "name"), records.text_in(block, "server_name")
        name = f"mcp__{server}__{tool}" if server else tool
        return build.call(name, block.get("id"), block.get("input"), why)
    if kind.endswith("tool_result"):
        text, is_error = records.texts_of(block.get("content")), block.get("is_error") is True
        return build.result("", block.get("tool_use_id"), text, is_error=is_error, left_out=why)
    if kind.endswith("thinking"):
        return build.turn(TurnKind.THINKING, role, records.text_in(block, "thinking"), left_out=why)
    return build.other(kind, role=role, left_out=why)


def _record_reason(record: records.Record, role: str, message: records.Record) -> str:
    for flag, why in _OURS["flags"].items():
        if record.get(flag) is True:
            return Dropped(why)
    if role == "user" and not _is_human(record):
        return Dropped.NOTIFICATION
    if record.get("isApiErrorMessage") is True or message.get("model") == _OURS["synthetic"]:
        return Dropped.PROGRAM_REPLY
    return ""


def _is_human(record: records.Record) -> bool:
    return bool(records.mapping_in(record, "origin").get("kind", "human") == "human")
