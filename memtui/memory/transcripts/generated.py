"""Texts of messages: folded to one line, cut into lines, recognised when OpenClaw wrote them.

The sentences and patterns are part of the transcript formats: `data/transcripts.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

from memtui.data import read_table
from memtui.text.ecmascript import SPACE, trim, utf16_head

WRAP_UNITS: Final = 800
"""UTF-16 units of text in one line, without the role before it."""
SPEAKERS: Final[Mapping[str, str]] = {"user": "User", "assistant": "Assistant"}
"""Whose messages are indexed, with what each of their lines begins with."""

WRITTEN: Final[Mapping[str, Any]] = read_table("transcripts.toml")
"""The texts that each program writes word for word."""
_OURS: Final[Mapping[str, Any]] = WRITTEN["openclaw"]
_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern.replace(r"\S", f"[{SPACE}]"))
    for name, pattern in _OURS["patterns"].items()
}
# A space by itself is left out: of a long text each would be a piece to be put together again.
_SPACES = re.compile(f"(?! (?![{SPACE}]))[{SPACE}]+")
_PIECE = 1 << 16
_CHANNEL_LINES: Final = 7


class Dropped(StrEnum):
    """The reason why a message has no line in the index."""

    NO_TEXT = "no_text"
    INTER_SESSION = "inter_session"
    SYSTEM_WRAPPER = "system_wrapper"
    CRON_PROMPT = "cron_prompt"
    HEARTBEAT_PROMPT = "heartbeat_prompt"
    HEARTBEAT_REPLY = "heartbeat_reply"
    SILENT_REPLY = "silent_reply"
    EXEC_COMPLETION = "exec_completion"
    HEARTBEAT_TURN = "heartbeat_turn"
    RECALLED_MEMORY = "recalled_memory"
    GENERATED_RUN = "generated_run"
    # of other programs
    META = "meta"
    SIDECHAIN = "sidechain"
    COMMAND = "command"
    COMPACT_SUMMARY = "compact_summary"
    CONTEXT = "context"
    INSTRUCTIONS = "instructions"
    INTERRUPTED = "interrupted"
    NOTIFICATION = "notification"
    PROGRAM_REPLY = "program_reply"
    DUPLICATE = "duplicate"


class Run(StrEnum):
    """A conversation that the program had with itself: nothing of it is indexed."""

    DREAMING = "dreaming"
    CRON = "cron"
    SUBAGENT = "subagent"


def normalise(text: str) -> str:
    """Fold every run of white space to one space, and drop it at both ends."""
    # In pieces: a pattern at work in megabytes keeps every other thread from running.
    pieces = (_SPACES.sub(" ", text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
    folded = "".join(pieces)
    while "  " in folded:
        folded = folded.replace("  ", " ")
    return folded.strip(" ")


def wrap(text: str, units: int = WRAP_UNITS) -> Iterator[str]:
    """Cut text into pieces of at most `units` UTF-16 units (at least 2), at spaces where there are.

    The space that a piece ends at is dropped. A word longer than a piece is cut, never inside a
    surrogate pair. Blank text gives nothing. (`splitLongSessionLine`.)
    """
    text = trim(text)
    start = 0
    while start < len(text):
        end = start + len(utf16_head(text[start : start + units], units))
        # A space right behind the last unit ends the piece as well.
        space = text.rfind(" ", start + 1, end + 1) if end < len(text) else -1
        cut = space if space >= 0 else end
        piece = trim(text[start:cut])
        if piece:
            yield piece
        start = cut
        while text.startswith(" ", start):
            start += 1


def written_reason(program: str, text: str) -> str:
    """Return why a message is left out that begins as one of a program's own; else no text."""
    start = text.lstrip()
    for reason, beginnings in WRITTEN[program]["beginnings"].items():
        if start.startswith(tuple(beginnings)):
            return Dropped(reason)
    return ""


def spoken_line(text: str, role: str) -> tuple[str, Dropped | None]:
    """Return what a message of OpenClaw says on one line, and why it is not indexed, if so.

    What is around a user's message (channel envelopes) and the program's own context are taken
    off first, because they are told by their lines.
    """
    if role == "user":
        text = _without_envelopes(text)
    begin, end = _OURS["internal_begin"], _OURS["internal_end"]
    lines: list[str] = []
    is_inside = False
    # What stands between the marks of the program's context is taken out; unclosed, to the end.
    for one in text.split("\n"):
        if (mark := trim(one)) in (begin, end):
            is_inside = mark == begin
        elif not is_inside:
            lines.append(one)
    line = normalise("\n".join(lines))
    if not line:
        return line, Dropped.NO_TEXT
    wrapper = _PATTERNS["system"].match(line)
    if role == "user":
        if wrapper:
            return line, Dropped.SYSTEM_WRAPPER
        if _PATTERNS["cron"].match(line):
            return line, Dropped.CRON_PROMPT
        has_tasks = line.startswith(_OURS["heartbeat_tasks"]) and _OURS["heartbeat_end"] in line
        if has_tasks or line.startswith(_OURS["heartbeat_prompt"]):
            return line, Dropped.HEARTBEAT_PROMPT
    silent = _OURS["silent"]
    if len(line) <= len(silent) and line.upper() == silent:
        return line, Dropped.SILENT_REPLY
    if line.startswith("{") and line.endswith("}") and silent in line:
        # Nothing is said by an action, too; text in braces that is no JSON was said.
        with suppress(ValueError, RecursionError):
            match json.loads(line):
                case {"action": str(action), **others} if trim(action) == silent and not others:
                    return line, Dropped.SILENT_REPLY
    if role == "assistant" and line == _OURS["heartbeat_ok"]:
        return line, Dropped.HEARTBEAT_REPLY
    is_done = _PATTERNS["exec"].match(line[wrapper.end() :] if wrapper else line)
    return line, Dropped.EXEC_COMPLETION if is_done else None


def without_channel(line: str) -> str:
    """Take the channel, the sender and the time off the beginning of what a user said.

    For titles alone: OpenClaw indexes them. What has nothing behind them stays as it is.
    """
    header = _PATTERNS["channel_header"].match(line)
    return (line[header.end() :] if header else line) or line


def _without_envelopes(text: str) -> str:
    """Take off what a channel puts around a message: fenced metadata, a time, trailing context.

    An envelope that is not followed by a fence is something that was said.
    """
    text = _PATTERNS["timestamp"].sub("", text, count=1)
    if not any(name in text for name in (_OURS["channel_context"], *_OURS["envelopes"])):
        return text
    message_lines: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line, following = trim(lines[at]), lines[at + 1 : at + 1 + _CHANNEL_LINES]
        if line == _OURS["channel_context"] and _PATTERNS["channel_mark"].search(
            "\n".join(following)
        ):
            break
        if line in _OURS["envelopes"] and following and trim(following[0]) == _OURS["fence_open"]:
            at += 2
            while at < len(lines) and trim(lines[at]) != _OURS["fence_close"]:
                at += 1
        else:
            message_lines.append(lines[at])
        at += 1
    return _PATTERNS["timestamp"].sub("", "\n".join(message_lines).strip("\n"), count=1)


def run_of_key(key: object) -> Run | None:
    """Return the run whose id or session key this is: dreaming, or one run of a cron job.

    A cron run's key is `agent:<id>:cron:<job>:run:<run>`.
    """
    if not isinstance(key, str):
        return None
    parts = trim(key).split(":", 2)
    if parts[-1 if len(parts) == 3 else 0].startswith(_OURS["dreaming"]):
        return Run.DREAMING
    parts = [part for part in trim(key).split(":") if part]
    is_cron = parts[:1] == ["agent"] and _PATTERNS["cron_run"].match(":".join(parts[2:]))
    return Run.CRON if is_cron else None
