"""How conversations are put into words: who speaks, when, how long, and how much is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from memtui.model import Reason
from memtui.model.conversations import ConversationListing, TranscriptKind, Turn, TurnKind
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt

PROGRAMS: Mapping[TranscriptKind, str] = {
    TranscriptKind.OPENCLAW: "OpenClaw",
    TranscriptKind.CLAUDE_CODE: "Claude Code",
    TranscriptKind.CODEX: "Codex",
}
KIND_WORDS: Mapping[TurnKind, str] = {
    TurnKind.MESSAGE: "message",
    TurnKind.THINKING: "thinking",
    TurnKind.TOOL_CALL: "tool call",
    TurnKind.TOOL_RESULT: "tool result",
    TurnKind.RESET: "begun anew here",
    TurnKind.COMPACTION: "compacted: a summary takes the place of what is above",
    TurnKind.OTHER: "record",
    TurnKind.MALFORMED: "no record",
}
_ROLES: Mapping[str, str] = {"user": "User", "assistant": "Assistant", "tool": "Tool"}
_BADGES: Mapping[Reason, str] = {
    Reason.OK: "",
    Reason.DISABLED: "not indexed",
    Reason.NOT_YET_INDEXED: "waits for its turn",
    Reason.MALFORMED_LINES: "partly indexed",
    Reason.LINE_TOO_LONG: "partly indexed",
    Reason.GENERATED_RUN: "generated run",
    Reason.ARCHIVE_NOT_READ: "archive",
    Reason.STALE: "changed since it was indexed",
}
_LATEST_MS = 253_402_300_000_000
"""The end of the year 9999."""


def role_words(turn: Turn) -> str:
    """Who speaks."""
    return _ROLES.get(turn.role) or safe_line(turn.role.capitalize()) or "System"


def badge(listing: ConversationListing) -> str:
    """How a conversation stands to the index, in a word or two; empty when it is all there."""
    if listing.state is Reason.OK and listing.chunks is None:
        return "not indexed"
    return _BADGES.get(listing.state, fmt.reason_words(listing.state))


def standing(listing: ConversationListing) -> str:
    """How a conversation stands to the index, in one line."""
    parts = [badge(listing) or "indexed"]
    if listing.chunks:
        parts.append(fmt.counted(listing.chunks, "chunk"))
    if listing.malformed:
        parts.append(f"{fmt.counted(listing.malformed, 'line')} malformed")
    if listing.detail:
        parts.append(safe_line(listing.detail))
    elif listing.state not in (Reason.OK, Reason.MALFORMED_LINES):
        parts.append(fmt.reason_words(listing.state))
    return ", ".join(dict.fromkeys(parts))


def length(listing: ConversationListing) -> str:
    """From the first to the last turn; empty when that is not known."""
    if listing.started is None or listing.ended is None:
        return ""
    seconds = (_aware(listing.ended) - _aware(listing.started)).total_seconds()
    if seconds < 0:
        return ""
    return f"{seconds // fmt.DAY:.0f} d" if seconds >= 2 * fmt.DAY else fmt.duration(seconds)


def began(listing: ConversationListing) -> datetime:
    """When it was started; when its file changed last where that is not known."""
    return _aware(listing.started or listing.changed)


def latest(listing: ConversationListing) -> datetime:
    """When something was said last; when its file changed last where that is not known."""
    return _aware(listing.ended or listing.changed)


def days(listing: ConversationListing, is_long: bool = True, *, is_brief: bool = False) -> str:
    """When it was started, and the day of the last turn where that is another one.

    Long `2026-02-10 09:12 to 02-13`, else `2026-02-10 to 02-13`, brief `02-10 to 02-13`.
    """
    first, last = began(listing), latest(listing)
    when = day_and_time(first)
    told = when[5:10] if is_brief else when
    until = day_and_time(last)
    if last <= first or until[:10] == when[:10]:
        return told
    if not (is_long or is_brief):
        told = when[:10]
    is_same_year = is_brief or until[:4] == when[:4]
    return f"{told} to {until[5:10] if is_same_year else until[:10]}"


def day_and_time(when: datetime) -> str:
    """`2026-02-10 09:12`, in the time of this machine."""
    return f"{local(when):%Y-%m-%d %H:%M}"


def local(when: datetime) -> datetime:
    """A time in the time of this machine; as it is where that is beyond the calendar."""
    try:
        return _aware(when).astimezone()
    except (OverflowError, ValueError, OSError):
        # Of the first and the last day of the calendar there is no such time everywhere.
        return when


def turn_time(timestamp_ms: int) -> tuple[str, str]:
    """The day and the time of a turn in the time of this machine; empty when not known."""
    if not 0 < timestamp_ms < _LATEST_MS:
        return "", ""
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    return f"{when:%Y-%m-%d}", f"{when:%H:%M:%S}"


def _aware(when: datetime) -> datetime:
    return when.astimezone() if when.tzinfo is None else when
