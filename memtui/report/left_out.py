"""Why the index has none of a turn, in words: the same on the screen and in what is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memtui.text.sanitize import safe_line

LEFT_OUT_WORDS: Final[Mapping[str, str]] = {
    "no_text": "no text",
    "inter_session": "from another session",
    "system_wrapper": "a system message",
    "cron_prompt": "a scheduled prompt",
    "heartbeat_prompt": "a heartbeat",
    "heartbeat_reply": "the answer to a heartbeat",
    "silent_reply": "a silent reply",
    "exec_completion": "the end of a command",
    "heartbeat_turn": "part of a heartbeat",
    "recalled_memory": "recalled memory",
    "generated_run": "the program's own run",
    "meta": "the program's own note",
    "sidechain": "from a subagent",
    "command": "a command and its output",
    "compact_summary": "the summary of what was compacted",
    "context": "context that the program added",
    "instructions": "instructions of the program",
    "interrupted": "an interruption",
    "notification": "a notification",
    "program_reply": "an answer of the program itself",
    "duplicate": "recorded twice",
}
"""By the code of `memtui.memory.transcripts.generated.Dropped`."""


def left_out_words(code: str) -> str:
    """Why the index has none of a turn; a code without words speaks for itself."""
    return safe_line(LEFT_OUT_WORDS.get(code, code.replace("_", " ")))


def left_out_counts(left_out: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts by code as words with their counts, the most frequent first."""
    ordered = sorted(left_out.items(), key=lambda item: -item[1])
    return [(left_out_words(code), number) for code, number in ordered]
