"""Claude Code's transcripts: `~/.claude/projects/<project>/<session>.jsonl`.

A record has a `type`, a `uuid` and the `sessionId`; `message` is that of the model's interface,
with its content a text or a list of blocks. What a tool answers comes in a user's message. The
program puts its own words into the user's mouth, too: told by fields of the record and by the tags
that it writes word for word.
"""

from __future__ import annotations

from typing import Final

from memtui.memory.transcripts.generated import SPEAKERS, WRITTEN, Dropped, written_reason
from memtui.memory.transcripts.records import (
    Record,
    RecordFacts,
    TranscriptFormat,
    TurnBuilder,
    first_date,
    folder_name,
    mapping_in,
    spoken_and_blocks,
    text_in,
    texts_of,
)
from memtui.model.conversations import TranscriptKind, Turn, TurnKind

_BY_TYPE: Final = frozenset({"summary", "file-history-snapshot", "queue-operation"})
"""Records that may come without a session's id."""
_SYNTHETIC: Final = "<synthetic>"
"""The model that the program names when it answers in the model's place."""
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class ClaudeCode(TranscriptFormat):
    """How Claude Code writes its transcripts."""

    kind = TranscriptKind.CLAUDE_CODE
    calls_note = (
        "Calls of tools are recorded with what came back; long answers may stand in files beside it"
    )

    def recognises(self, record: Record) -> bool:
        """Look for a message under the type that is its role, or for the id of a session."""
        kind = text_in(record, "type")
        if not kind or "payload" in record:
            return False
        if kind in SPEAKERS:
            message = record.get("message")
            return isinstance(message, dict) and ("role" in message or "uuid" in record)
        if kind == "attachment":
            return isinstance(record.get("attachment"), dict)
        return kind in _BY_TYPE or isinstance(record.get("sessionId"), str)

    def identity(self, record: Record) -> str:
        """Return the record's own id, which stays when a session that is resumed is copied."""
        return text_in(record, "uuid")

    def facts(self, record: Record) -> RecordFacts:
        """Take the project from the working folder, the model from the assistant's messages."""
        model = text_in(mapping_in(record, "message"), "model")
        return RecordFacts(
            agent=folder_name(record.get("cwd")),
            model="" if model == _SYNTHETIC else model,
            timestamp_ms=first_date(record.get("timestamp")),
        )

    def turns(self, record: Record, line: int) -> list[Turn]:
        """Return the blocks of a message; texts that follow each other are one."""
        build = TurnBuilder(line, first_date(record.get("timestamp")))
        kind = text_in(record, "type")
        if kind in SPEAKERS:
            message = mapping_in(record, "message")
            why = _record_reason(record, kind, message)
            return [
                _message(part, kind, why, build)
                if isinstance(part, str)
                else _block_turn(part, kind, why, build)
                for part in spoken_and_blocks(message.get("content"))
            ]
        if kind == "system" and text_in(record, "subtype").endswith("compact_boundary"):
            return [build.turn(TurnKind.COMPACTION, "system", text_in(record, "content"))]
        if kind == "attachment":
            return [_attachment(mapping_in(record, "attachment"), record, build)]
        text = text_in(record, "summary", "content", "customTitle", "aiTitle", "title")
        return [build.other(kind, text_in(record, "subtype", "operation"), text=text)]


def _block_turn(block: Record, role: str, why: str, build: TurnBuilder) -> Turn:
    kind = text_in(block, "type")
    if kind in _CALLS:
        tool, server = text_in(block, "name"), text_in(block, "server_name")
        name = f"mcp__{server}__{tool}" if server else tool
        return build.call(name, block.get("id"), block.get("input"), why)
    if kind.endswith("tool_result"):
        text, is_error = texts_of(block.get("content")), block.get("is_error") is True
        return build.result("", block.get("tool_use_id"), text, is_error=is_error, left_out=why)
    if kind.endswith("thinking"):
        return build.turn(TurnKind.THINKING, role, text_in(block, "thinking"), left_out=why)
    return build.other(kind, role=role, left_out=why)


def _message(text: str, role: str, why: str, build: TurnBuilder) -> Turn:
    if why == Dropped.COMPACT_SUMMARY:
        return build.turn(TurnKind.COMPACTION, "system", text, left_out=why)
    if why or role != "user":
        return build.message(role, text, why)
    rest = text
    for tag in WRITTEN["claude-code"]["asides"]:
        rest = _without(rest, f"<{tag}>", f"</{tag}>")
    if rest == text:
        return build.message(role, text, written_reason("claude-code", text))
    if not rest.strip():
        return build.message(role, text, Dropped.CONTEXT)
    return build.message(role, rest.strip(), written_reason("claude-code", rest))


def _without(text: str, opening: str, closing: str) -> str:
    """Take out what is between two tags; a tag that is not closed is something that was said."""
    parts: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        parts.append(text[at:start])
        at = end + len(closing)
    return "".join((*parts, text[at:]))


def _record_reason(record: Record, role: str, message: Record) -> str:
    """Return why a message is left out, whatever it says."""
    if record.get("isSidechain") is True:
        return Dropped.SIDECHAIN
    if record.get("isCompactSummary") is True:
        return Dropped.COMPACT_SUMMARY
    if record.get("isMeta") is True or record.get("isVisibleInTranscriptOnly") is True:
        return Dropped.META
    if role == "user" and not _is_human(record):
        return Dropped.NOTIFICATION
    if record.get("isApiErrorMessage") is True or message.get("model") == _SYNTHETIC:
        return Dropped.PROGRAM_REPLY
    return ""


def _is_human(record: Record) -> bool:
    return bool(mapping_in(record, "origin").get("kind", "human") == "human")


def _attachment(attachment: Record, record: Record, build: TurnBuilder) -> Turn:
    """What was typed while the assistant was at work is said; everything else is context."""
    kind = text_in(attachment, "type")
    prompt = texts_of(attachment.get("prompt"))
    if kind == "queued_command" and prompt and attachment.get("commandMode", "prompt") == "prompt":
        why = _record_reason(record, "user", {})
        why = why or ("" if _is_human(attachment) else Dropped.NOTIFICATION)
        return _message(prompt, "user", why, build)
    return build.other("attachment", kind)
