"""The records that three programs write into their transcripts, one function for each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from memtui.model.conversations import TranscriptKind

Records = list[dict[str, Any]]


def iso(timestamp_ms: int) -> str:
    """A time as all three programs write it."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


class Writer(Protocol):
    """How one program writes; `at` is in ms since 1970, 0 leaves the time out."""

    kind: TranscriptKind
    ending: str

    def header(self, session: str, at: int) -> Records:
        """What a file begins with."""

    def said(self, role: str, text: str, at: int) -> Records:
        """What the user or the assistant says."""

    def noise(self, number: int, at: int) -> tuple[Records, Mapping[str, int]]:
        """Records that give no line, and how many messages are left out with them, by why."""

    def call(self, tool: str, arguments: Mapping[str, Any], call_id: str, at: int) -> Records:
        """A tool that is called."""

    def answer(self, tool: str, call_id: str, text: str, at: int, *, failed: bool) -> Records:
        """What it answers."""


class OpenClawWriter:
    """OpenClaw 2026.4 to 2026.9."""

    kind = TranscriptKind.OPENCLAW
    ending = ".jsonl"

    def __init__(self) -> None:
        self._count = 0

    def _entry(self, kind: str, at: int, **fields: Any) -> dict[str, Any]:
        self._count += 1
        entry = {"type": kind, "id": f"{self._count:08x}", "parentId": f"{self._count - 1:08x}"}
        return entry | ({"timestamp": iso(at)} if at else {}) | fields

    def header(self, session: str, at: int) -> Records:
        head = {"type": "session", "version": 3, "id": session, "timestamp": iso(at), "cwd": "/w"}
        model = self._entry("model_change", at, provider="p", modelId="model-of-openclaw")
        return [head, model, self._entry("thinking_level_change", at, thinkingLevel="low")]

    def said(self, role: str, text: str, at: int) -> Records:
        content = [{"type": "text", "text": text}]
        return [self._entry("message", at, message={"role": role, "content": content})]

    def noise(self, number: int, at: int) -> tuple[Records, Mapping[str, int]]:
        def message(role: str, content: object, **fields: Any) -> dict[str, Any]:
            return self._entry("message", at, message={"role": role, "content": content} | fields)

        choices: list[tuple[Records, Mapping[str, int]]] = [
            ([message("user", "System: [2026-11-01] node is back")], {"system_wrapper": 1}),
            ([message("assistant", "NO_REPLY")], {"silent_reply": 1}),
            ([message("assistant", "HEARTBEAT_OK")], {"heartbeat_reply": 1}),
            ([message("user", "[cron:daily] report")], {"cron_prompt": 1}),
            (
                [message("user", "hi", provenance={"kind": "inter_session"})],
                {"inter_session": 1},
            ),
            ([message("assistant", [{"type": "thinking", "thinking": "hm"}])], {"no_text": 1}),
            ([self._entry("compaction", at, summary="a summary", tokensBefore=9)], {}),
            ([self._entry("custom", at, customType="note", data={"a": 1})], {}),
        ]
        return choices[number % len(choices)]

    def call(self, tool: str, arguments: Mapping[str, Any], call_id: str, at: int) -> Records:
        block = {"type": "toolCall", "id": call_id, "name": tool, "arguments": dict(arguments)}
        message = {"role": "assistant", "content": [block], "model": "model-of-openclaw"}
        return [self._entry("message", at, message=message)]

    def answer(self, tool: str, call_id: str, text: str, at: int, *, failed: bool) -> Records:
        message = {
            **{"role": "toolResult", "toolCallId": call_id, "toolName": tool, "isError": failed},
            "content": [{"type": "text", "text": text}],
        }
        return [self._entry("message", at, message=message)]


class ClaudeCodeWriter:
    """Claude Code 1 and 2."""

    kind = TranscriptKind.CLAUDE_CODE
    ending = ".jsonl"

    def __init__(self) -> None:
        self._count = 0
        self._session = ""

    def _record(self, kind: str, at: int, **fields: Any) -> dict[str, Any]:
        self._count += 1
        record: dict[str, Any] = {
            **{"type": kind, "uuid": f"{self._session}-{self._count:06d}", "isSidechain": False},
            **{"sessionId": self._session, "cwd": "/home/me/tidepool", "gitBranch": "main"},
        }
        return record | ({"timestamp": iso(at)} if at else {}) | fields

    def _message(self, role: str, content: object, at: int, **fields: Any) -> dict[str, Any]:
        message = {"role": role, "content": content}
        if role == "assistant":
            message["model"] = "model-of-claude"
        return self._record(role, at, message=message, **fields)

    def header(self, session: str, at: int) -> Records:
        self._session = session
        return [
            {"type": "summary", "summary": "An older talk", "leafUuid": "x"},
            {"type": "file-history-snapshot", "messageId": "y", "snapshot": {}},
        ]

    def said(self, role: str, text: str, at: int) -> Records:
        content = text if role == "user" else [{"type": "text", "text": text}]
        return [self._message(role, content, at)]

    def noise(self, number: int, at: int) -> tuple[Records, Mapping[str, int]]:
        summary = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        reminder = "<system-reminder>\nremember\n</system-reminder>"
        choices: list[tuple[Records, Mapping[str, int]]] = [
            ([self._message("user", "a skill's text", at, isMeta=True)], {"meta": 1}),
            ([self._message("assistant", "of an agent", at, isSidechain=True)], {"sidechain": 1}),
            ([self._message("user", "<command-name>/cost</command-name>", at)], {"command": 1}),
            ([self._message("user", reminder, at)], {"context": 1}),
            ([self._message("user", "[Request interrupted by user]", at)], {"interrupted": 1}),
            (
                [self._message("assistant", "API Error: 529", at, isApiErrorMessage=True)],
                {"program_reply": 1},
            ),
            (
                [
                    self._record("system", at, subtype="compact_boundary", content="compacted"),
                    self._message("user", "This session is being continued", at, **summary),
                ],
                {},
            ),
            ([{"type": "queue-operation", "operation": "enqueue", "content": "later"}], {}),
        ]
        return choices[number % len(choices)]

    def call(self, tool: str, arguments: Mapping[str, Any], call_id: str, at: int) -> Records:
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": dict(arguments)}
        return [self._message("assistant", [block], at)]

    def answer(self, tool: str, call_id: str, text: str, at: int, *, failed: bool) -> Records:
        block = {
            **{"type": "tool_result", "tool_use_id": call_id, "is_error": failed},
            "content": [{"type": "text", "text": text}],
        }
        return [self._message("user", [block], at, toolUseResult={"text": text})]


class CodexWriter:
    """Codex CLI; `bare` writes as it did before the autumn of 2025."""

    kind = TranscriptKind.CODEX
    ending = ".jsonl"

    def __init__(self, *, bare: bool = False) -> None:
        self.bare = bare

    def _item(self, payload: dict[str, Any], at: int, kind: str = "response_item") -> Records:
        if self.bare:
            return [payload] if kind == "response_item" else []
        stamp = {"timestamp": iso(at)} if at else {}
        return [stamp | {"type": kind, "payload": payload}]

    def header(self, session: str, at: int) -> Records:
        meta = {"id": session, "timestamp": iso(at), "cwd": "/home/me/tidepool"}
        if self.bare:
            return [meta | {"instructions": None}, {"record_type": "state"}]
        turn = {"cwd": "/home/me/tidepool", "model": "model-of-codex"}
        return self._item(meta | {"source": "cli"}, at, "session_meta") + self._item(
            turn, at, "turn_context"
        )

    def _message(self, role: str, text: str, at: int) -> Records:
        block = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        return self._item({"type": "message", "role": role, "content": [block]}, at)

    def said(self, role: str, text: str, at: int) -> Records:
        event = "agent_message" if role == "assistant" else "user_message"
        told_again = self._item({"type": event, "message": text}, at, "event_msg")
        return self._message(role, text, at) + told_again

    def noise(self, number: int, at: int) -> tuple[Records, Mapping[str, int]]:
        context = "<environment_context>\n<cwd>/w</cwd>\n</environment_context>"
        choices: list[tuple[Records, Mapping[str, int]]] = [
            (self._message("user", context, at), {"context": 1}),
            (
                self._message("user", "# AGENTS.md instructions for /w\n\nbe good", at),
                {"instructions": 1},
            ),
            (self._message("developer", "<permissions instructions>", at), {}),
            (self._message("user", "<turn_aborted>\nstopped", at), {"interrupted": 1}),
            (self._item({"type": "token_count", "info": {}}, at, "event_msg"), {}),
            (
                self._item(
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, at
                ),
                {},
            ),
            (self._item({"message": "a summary"}, at, "compacted"), {}),
        ]
        return choices[number % len(choices)]

    def call(self, tool: str, arguments: Mapping[str, Any], call_id: str, at: int) -> Records:
        given = json.dumps(dict(arguments))
        item = {"type": "function_call", "name": tool, "arguments": given, "call_id": call_id}
        return self._item(item, at)

    def answer(self, tool: str, call_id: str, text: str, at: int, *, failed: bool) -> Records:
        output: object = {"content": text, "success": False} if failed else text
        return self._item(
            {"type": "function_call_output", "call_id": call_id, "output": output}, at
        )


def writer_of(kind: TranscriptKind) -> Writer:
    """A new writer of a program's transcripts."""
    match kind:
        case TranscriptKind.OPENCLAW:
            return OpenClawWriter()
        case TranscriptKind.CLAUDE_CODE:
            return ClaudeCodeWriter()
        case TranscriptKind.CODEX:
            return CodexWriter()
