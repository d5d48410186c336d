"""OpenClaw's sessions: from one JSON record after the other to the lines that are indexed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from memtui.memory.transcripts.base import TranscriptLine, parse_record
from memtui.memory.transcripts.generated import Dropped, Role, Run, run_of, said
from memtui.memory.transcripts.names import ARCHIVES, file_kind, is_read
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.memory.transcripts.text import message_texts, normalise, wrap
from memtui.memory.transcripts.times import LAST_DATE_MS, milliseconds
from memtui.text.ecmascript import trim
from memtui.text.redact import openclaw_redact

__all__ = [
    "OpenClawTranscript",
    "TranscriptLine",
    "content_hash",
    "message_line",
    "message_of",
    "timestamp_ms",
]

_RECALL_TOOLS: Final = frozenset({"memory_search", "memory_get"})


class OpenClawTranscript:
    """Reads one session record by record, as one release does.

    The text of the index is what `add` and `add_line` return, joined by line feeds. Once `run` is
    set the whole transcript is the program's talk with itself: every line returned before is void,
    and no more come. A release that does not read the file gives no lines.
    """

    def __init__(
        self,
        name: str,
        rules: TranscriptRules,
        *,
        run: Run | None = None,
        redacts: bool = True,
        masked: Callable[[str], str] = openclaw_redact,
    ) -> None:
        """`run`: what the registry says of the session, where it says so.

        `masked` takes credentials out of what is said, before it is wrapped.
        """
        self.run = run
        self.dropped: Counter[Dropped] = Counter()
        """How many messages have no line, and why."""
        self.malformed = 0
        """How many lines were no JSON."""
        self._rules = rules
        self.is_read = is_read(name, rules)
        """Whether the release indexes what the file says."""
        self._archived = file_kind(name) in ARCHIVES
        self._masked = masked if redacts else str
        self.turn: Dropped | None = None
        """Why everything is left out until the user speaks again."""

    def add_line(self, text: str, number: int) -> list[TranscriptLine]:
        """Read the next line of the file; blank lines and broken JSON give nothing."""
        if not self.is_read or not trim(text):
            return []
        try:
            record = parse_record(text)
        except ValueError:
            # Counted: a cut or damaged line must not end the reading of a transcript.
            self.malformed += 1
            return []
        return self.add(record, number)

    def add(self, record: object, number: int) -> list[TranscriptLine]:
        """Read the next record; `number` is its line in the file, from 1."""
        if not self.is_read or not isinstance(record, dict):
            return []
        rules = self._rules
        if rules.drops_generated and self.run is None:
            self.run = run_of(record, archived=self._archived)
        message = message_of(record)
        if message is None:
            return []
        role = Role(message["role"])
        why = self._outer_reason(message, role) if rules.drops_generated else None
        text = ""
        if why is None:
            text, why = message_line(message.get("content"), role, rules)
        if why is not None:
            self.dropped[why] += 1
            return []
        text = self._masked(text)
        pieces = wrap(text) if rules.drops_generated else iter((text,))
        when = timestamp_ms(record, message, checked=rules.checks_dates)
        return [TranscriptLine(role, f"{role.label}: {p}", number, when) for p in pieces]

    def _outer_reason(self, message: Mapping[str, Any], role: Role) -> Dropped | None:
        """Why a message is left out by where it comes from, whatever it says."""
        origin = message.get("provenance")
        origin = origin if isinstance(origin, dict) else {}
        if role is Role.USER:
            self.turn = _turn_of(origin) if self._rules.drops_whole_turns else None
            if origin.get("kind") == "inter_session":
                return Dropped.INTER_SESSION
        if self.run is not None:
            return Dropped.GENERATED_RUN
        return self.turn


def message_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The message of a record when a user or the assistant speaks in it."""
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return None
    return message if message.get("role") in (Role.USER, Role.ASSISTANT) else None


def message_line(content: object, role: Role, rules: TranscriptRules) -> tuple[str, Dropped | None]:
    """What a message says on one line, and why that is not indexed, if so.

    Up to 2026.2 every block is folded by itself; later the blocks are joined first.
    """
    texts = message_texts(content)
    if rules.drops_generated:
        return said("\n".join(texts), role)
    line = " ".join(filter(None, map(normalise, texts)))
    return line, None if line else Dropped.NO_TEXT


def timestamp_ms(
    record: Mapping[str, Any], message: Mapping[str, Any], *, checked: bool = True
) -> int:
    """When a message was written, in ms since 1970: its own time, else the record's, else 0.

    A number below 1e11 counts seconds; an ISO time without an offset is read as UTC. `checked`
    leaves out what no JavaScript date can hold (2026.6 on).
    """
    for value in (message.get("timestamp"), record.get("timestamp")):
        when = milliseconds(value)
        if when > 0 and (when <= LAST_DATE_MS or not checked):
            return when
    return 0


def content_hash(lines: Iterable[TranscriptLine], rules: TranscriptRules) -> str:
    """The hash by which a release sees that a session changed, sha256 hex.

    Up to 2026.2 of the text; then of the text, the line map and the times. Raises `ValueError`
    for 2026.9, which hashes the provenance of every line as well, and that is not kept here.
    """
    if rules.stores_agent:
        raise ValueError(f"{rules.profile} hashes what is not kept of a line")
    held = list(lines)
    parts = ["\n".join(line.text for line in held)]
    if rules.hashes_lines:
        parts.append(",".join(str(line.line) for line in held))
        parts.append(",".join(str(line.timestamp_ms) for line in held))
    text = "\n".join(parts)
    # A lone surrogate becomes U+FFFD, as in JavaScript's UTF-8.
    clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha256(clean.encode()).hexdigest()


def _turn_of(origin: Mapping[str, Any]) -> Dropped | None:
    """Why the whole turn that a user's message begins is left out (2026.9)."""
    if origin.get("kind") != "internal_system":
        return None
    tool = origin.get("sourceTool")
    if tool == "heartbeat":
        return Dropped.HEARTBEAT_TURN
    return Dropped.RECALLED_MEMORY if isinstance(tool, str) and tool in _RECALL_TOOLS else None
