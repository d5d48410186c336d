"""Conversations with an agent: turns, what was asked of the memory in them, coverage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from memtui.model.chunks import SkippedFile
from memtui.model.rankings import LegState
from memtui.model.reasons import Leg, Reason


class TranscriptKind(StrEnum):
    """Whose transcripts can be read."""

    OPENCLAW = "openclaw"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"


def is_source(name: str) -> bool:
    """Return whether a name is that of a program, perhaps of a part of one, and no path."""
    program, separator, _ = name.partition(":")
    return program in set(TranscriptKind) and (not separator or program != TranscriptKind.CODEX)


def covers(name: str, place: str) -> bool:
    """Tell whether a name opts in a place of transcripts; of a program without one, any name."""
    program, _, pattern = name.partition(":")
    other, _, part = place.partition(":")
    return program == other and (not pattern or not part or fnmatchcase(part, pattern))


class TurnKind(StrEnum):
    MESSAGE = "message"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RESET = "reset"
    """The conversation was begun anew here."""
    COMPACTION = "compaction"
    """A summary that replaces the turns before it."""
    OTHER = "other"
    """A record that nobody says: settings, snapshots, tasks."""
    MALFORMED = "malformed"
    """A line that is no record."""


class Turn(Struct, frozen=True):
    """One entry of a conversation; several may come from one line of the file."""

    line: int
    """The line of the file, or the number of the event, from 1."""
    kind: TurnKind
    role: str
    """`user`, `assistant`, `tool` or `system`."""
    text: str
    """The words said, with their own line ends, credentials masked; of a call its arguments."""
    size: int
    """Characters of the whole text; more than `text` has where only its beginning is held."""
    timestamp_ms: int = 0
    """Milliseconds since 1970; 0 when unknown."""
    tool: str = ""
    """The tool that is called or that answers."""
    call_id: str = ""
    """The id that a call and its result share."""
    is_error: bool = False
    """True if a tool says that it failed."""
    left_out: str = ""
    """The reason why the index has none of it, a code such as `heartbeat_prompt`; else empty."""

    @property
    def is_spoken(self) -> bool:
        """True if the user or the assistant says it."""
        return self.kind is TurnKind.MESSAGE and self.role in ("user", "assistant")


class ConversationListing(Struct, frozen=True):
    """A transcript, as a list shows it."""

    path: str
    """As the index stores it, for instance `sessions/main/3f9a.jsonl`."""
    place: str
    """The absolute path of the file, or of the database that holds its events."""
    kind: TranscriptKind
    agent: str
    """The agent, or the project for programs that keep their transcripts by project."""
    size: int
    """Bytes."""
    changed: datetime
    """The time of the file's last change."""
    session: str = ""
    """The session within a database; empty for a file of its own."""
    title: str = ""
    """The beginning of what the user said first, on one line, credentials masked."""
    model: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    turns: int | None = None
    """Messages of the user and the assistant; `None` while nobody has counted them."""
    calls: int | None = None
    """Searches of the memory; `None` while nobody has counted them."""
    malformed: int = 0
    """Lines that are no record."""
    chunks: int | None = None
    """Chunks in the index; `None` when the index does not hold it."""
    state: Reason = Reason.OK
    """`disabled` when its source is not opted in; else why it is not, or not wholly, indexed."""
    detail: str = ""
    """One line about `state`."""


class TranscriptSource(Struct, frozen=True):
    """A place where a program keeps transcripts, and how much of it the index holds."""

    name: str
    """Its name in the settings: `openclaw`, `openclaw:main`, `claude-code`, `codex`, or a path."""
    kind: TranscriptKind | None
    """`None` for a path of the settings: its files are recognised by what they hold."""
    folder: str
    """Absolute; empty when there is no such place on this machine."""
    is_indexed: bool
    """True if it is opted in."""
    for_run: str = ""
    """`run` or `off` if it is on or off for this run of the program alone, `other` if it is on for
    another memtui's, `agent` if it is the agent's program that indexes it."""
    found: int = 0
    size: int = 0
    """Bytes of all transcripts found."""
    indexed: int = 0
    """Transcripts of which the index has chunks."""
    chunks: int = 0
    messages: int = 0
    """Messages that are indexed."""
    left_out: Mapping[str, int] = {}
    """Number of messages that are not, by reason."""
    malformed: int = 0
    """Lines that are no record."""
    skipped: tuple[SkippedFile, ...] = ()
    """Transcripts that are not indexed, or not as they are now, or have no text, each with why."""
    detail: str = ""
    """One line: what would be, or is, indexed."""


class Recalled(Struct, frozen=True):
    """One result that a search of the memory gave when it was asked."""

    path: str
    start_line: int
    """1-based; 0 when it was not recorded."""
    end_line: int
    score: float | None = None
    snippet: str = ""


class MemoryCall(Struct, frozen=True):
    """A search of the memory, as a transcript records it."""

    path: str
    """The transcript, as the index stores it."""
    line: int
    kind: TranscriptKind
    tool: str
    """The tool's whole name."""
    query: str
    """Credentials masked."""
    asked: datetime | None
    arguments: Mapping[str, float | int | str | bool] = {}
    """The other arguments, for instance `maxResults`; texts masked."""
    returned: tuple[Recalled, ...] | None = None
    """The results, best first; `None` when they were not recorded or cannot be read."""
    answer_line: int = 0
    """The line of the answer; 0 without one."""
    problem: str = ""
    """One line: that the tool failed, or why `returned` is not known."""
    agent: str = ""
    """The agent or project it was asked in, as a list names it."""
    is_elsewhere: bool = False
    """True if it was asked in another project of Claude Code than the folder that is open."""


class RecallChange(StrEnum):
    """A place in the memory, and its ranks in the results then and now."""

    SAME = "same"
    MOVED = "moved"
    ENTERED = "entered"
    LEFT = "left"


class RecallRow(Struct, frozen=True):
    """One place, then and now."""

    path: str
    start_line: int
    end_line: int
    change: RecallChange
    rank_then: int | None
    """From 1."""
    rank_now: int | None
    score_then: float | None = None
    score_now: float | None = None
    why: Reason | None = None
    """Of one that left: why it is not in the list now, where that can be told at once."""
    chunk_id: str = ""
    """The chunk of the index now; empty when there is none at that place."""
    rank_below: int | None = None
    """Of one that left: its rank now, below the end of the list."""


class Replayed(Struct, frozen=True):
    """A search of the memory asked again, of the present index with the present parameters."""

    call: MemoryCall
    rows: tuple[RecallRow, ...]
    """By the rank now, then by the rank then."""
    problem: str = ""
    """One line: why it could not be asked again; empty when it was."""
    limit: int | None = None
    """The most results, where the call said so; `None` for as many as the ranking gives."""
    failed: Mapping[Leg, LegState] = {}
    """The legs that could not answer, and why: the rows are without them."""

    @property
    def is_same(self) -> bool:
        """True if the same places come back in the same order."""
        return all(row.change is RecallChange.SAME for row in self.rows)

    @property
    def verdict(self) -> str:
        """`same`, `changed`, `elsewhere` (of another memory), `unrecorded` or `failed`."""
        if self.problem:
            return "failed"
        if self.call.is_elsewhere:
            return "elsewhere"
        if self.call.returned is None:
            return "unrecorded"
        return "same" if self.is_same else "changed"
