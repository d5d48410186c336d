"""Records of transcripts: how they are parsed, and the turns and facts that are made of them."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from memtui.memory.documents import utc_time
from memtui.memory.transcripts.generated import SPEAKERS, Dropped, Run, normalise, wrap
from memtui.memory.transcripts.stream import RawLine, text_of
from memtui.model import EPOCH, Reason
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import trim, well_formed
from memtui.text.redact import redact

Record = Mapping[str, Any]

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_FIRST_MILLISECONDS: Final = 1e11
"""A smaller number counts seconds."""
_LAST_DATE_MS: Final = 8_640_000_000_000_000
"""The last moment that a JavaScript date can hold."""


class RecordFacts(NamedTuple):
    """The facts of a record about its whole transcript; empty or 0 where it has none."""

    agent: str = ""
    """The agent, or the last part of the project's folder."""
    model: str = ""
    timestamp_ms: int = 0
    """Milliseconds since 1970."""


class TranscriptFormat(ABC):
    """The format of one program's transcripts."""

    kind: TranscriptKind

    @abstractmethod
    def recognises(self, record: Record) -> bool:
        """Return whether a record is one of this program."""

    @abstractmethod
    def facts(self, record: Record) -> RecordFacts:
        """Return what the record says about its whole transcript."""

    @abstractmethod
    def turns(self, record: Record, line: int) -> list[Turn]:
        """Return the entries of the conversation that a record holds: whole texts, not masked."""

    def identity(self, record: Record) -> str:
        """Return what only copies of the record have in common; empty when nothing is."""
        return ""

    def run_of(self, record: Record, *, archived: bool, is_first: bool) -> Run | None:
        """Return the run that a record shows its whole transcript to be, if any."""
        return None


class TranscriptFacts(Struct):
    """The facts of a transcript for lists; texts are masked."""

    kind: TranscriptKind | None = None
    """`None` while no record has shown it, and for a file that is no transcript."""
    agent: str = ""
    title: str = ""
    """The beginning of what the user said first."""
    model: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    turns: int = 0
    """Messages of the user and the assistant, indexed or not."""
    messages: int = 0
    """Messages that are indexed."""
    calls: int = 0
    """Searches of the memory."""
    malformed: int = 0
    """Lines that are no record, lines that are too long included."""
    left_out: dict[str, int] = {}
    """Number of messages that are not indexed, by reason: values of `Dropped`."""
    reason: Reason = Reason.OK
    """The reason why the transcript has no chunks, or not all that it could have."""
    detail: str = ""
    """One line about `reason`."""


class ReadState(Struct):
    """The place up to which a transcript was read, and how it is read on; JSON can hold it."""

    run: Run | None = None
    """The run that the whole transcript is, when nobody speaks in it."""
    registered: Run | None = None
    """The run by the program's list of sessions."""
    kind: str = ""
    """Whose transcript it was read as."""
    next_byte: int = 0
    next_line: int = 1
    prefix: str = ""
    """sha256 hex of the bytes before `next_byte`; empty when the reading cannot go on."""
    open_chunks: list[str] = []
    """The ids of chunks that what comes next may change."""
    pending: list[tuple[str, int]] = []
    """Lines that are in no finished chunk, each with its number."""
    facts: TranscriptFacts = field(default_factory=TranscriptFacts)
    """The facts of the lines so far."""
    too_long: int = 0
    begun: bool = False
    """True if there was a record."""
    seen: set[bytes] = set()
    """A digest of the identity of every record so far."""
    generated: Dropped | None = None
    """The reason why everything is left out until the user speaks again."""
    cutoff: int = 0
    """The line before which the release ends a chunk, as far as was read; 0: nowhere."""
    planned_cut: int = 0
    """The cutoff that the reading began with, until its line comes.

    Only the last line of a file tells where its last reset is. A reading that ends with another
    cutoff than it began with is made again from the first line, beginning with that one.
    """
    ids: dict[str, int] = {}
    """The line of each of the last messages, oldest first."""


class SpokenLines:
    """Makes the lines of the index of what is said, counting messages in a state.

    Texts are folded, redacted and wrapped, with the role before each line. Once the state has a
    `run`, the whole transcript is a program's talk with itself, and nothing counts.
    """

    is_read = True
    """True if the lines of the file count; else it is only listed."""
    finds_runs = True
    """True if a program's talk with itself is left out."""

    def __init__(self, state: ReadState) -> None:
        self.state = state

    def add(self, record: Record, number: int, turns: Iterable[Turn]) -> list[str]:
        """Return the lines of a record, which is in line `number` of the file, and its turns."""
        lines: list[str] = []
        for turn in turns:
            if turn.is_spoken:
                why = turn.left_out or (Dropped.GENERATED_RUN if self.state.run else "")
                text = "" if why else normalise(turn.text)
                label = SPEAKERS[turn.role]
                lines += [f"{label}: {piece}" for piece in wrap(redact(text))]
                self.count("" if text else why or Dropped.NO_TEXT)
        return lines

    def count(self, left_out: str) -> None:
        """Count a message that is indexed, or why it is not."""
        facts = self.state.facts
        if left_out:
            facts.left_out[left_out] = facts.left_out.get(left_out, 0) + 1
        else:
            facts.messages += 1


class TurnBuilder(NamedTuple):
    line: int
    timestamp_ms: int

    def turn(
        self,
        kind: TurnKind,
        role: str,
        text: str,
        call_id: object = "",
        tool: str = "",
        **fields: Any,
    ) -> Turn:
        """Build a turn of a text; `fields` are those of `Turn`."""
        text, tool = well_formed(text), well_formed(tool)
        fields["call_id"] = well_formed(call_id) if isinstance(call_id, str) else ""
        time = self.timestamp_ms
        return Turn(self.line, kind, role, text, len(text), time, tool=tool, **fields)

    def message(self, role: str, text: str, left_out: str = "") -> Turn:
        """Build what a user or an assistant says."""
        return self.turn(TurnKind.MESSAGE, role, text, left_out=left_out)

    def other(self, *names: str, text: str = "", role: str = "system", left_out: str = "") -> Turn:
        """Build the turn of a record, or a part of one, that nobody says."""
        name = " ".join(filter(None, names))
        text = f"{name}: {text}" if text else name
        return self.turn(TurnKind.OTHER, role, text, left_out=left_out)

    def call(self, tool: str, call_id: object, arguments: object, left_out: str = "") -> Turn:
        """Build the call of a tool; arguments that are text are parsed when they are JSON."""
        value = parsed_arguments(arguments)
        text = arguments if isinstance(arguments, str) else ""
        if value is not None:
            text = json.dumps(value, ensure_ascii=False)
        return self.turn(TurnKind.TOOL_CALL, "assistant", text, call_id, tool, left_out=left_out)

    def result(self, tool: str, call_id: object, text: str, **fields: Any) -> Turn:
        """Build what a tool answers; `fields` are those of `Turn`."""
        return self.turn(TurnKind.TOOL_RESULT, "tool", text, call_id, tool, **fields)


def parse_record(text: str) -> object:
    """Parse one line; raises `ValueError` when it is no JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_line(raw: RawLine) -> tuple[Record | None, str]:
    """Return the record of a line, or in a phrase why it is none; neither of a blank line.

    JSON that is no object is passed over like a blank line, as every program does.
    """
    if raw.data is None:
        return None, f"longer than a line may be: {raw.length / 10**6:.1f} MB"
    text = trim(text_of(raw))
    try:
        value = parse_record(text) if text else None
    except ValueError:
        # Counted and named: a cut or damaged line must not end the reading of a transcript.
        return None, "no JSON" if raw.complete else "cut off: no line end"
    return (value if isinstance(value, dict) else None), ""


def parse_several(text: str) -> list[object]:
    """Parse what holds one JSON value behind the other; raises `ValueError` for all else."""
    values: list[object] = []
    at = 0
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            values.append(value)
            at = _BLANK.match(text, end).end()  # type: ignore[union-attr]
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return values


def parsed_arguments(arguments: object) -> object:
    """Return the arguments of a call as JSON; `None` for a text that is no JSON object."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_record(arguments)
    except ValueError:
        # Cut, or in a language of the tool's own: it is shown as it is.
        return None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def text_in(record: Record, *names: str) -> str:
    """Return the first of some fields that holds a text which is not empty; else no text."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def mapping_in(record: Record, name: str) -> Record:
    """Return a field that holds an object; else an empty one."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def folder_name(path: object) -> str:
    """Return the last part of a folder's path, of whatever system; empty when it is no text."""
    if not isinstance(path, str):
        return ""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def message_texts(content: object, types: Collection[str] = ("text",)) -> list[str]:
    """Return the texts of a message's content: a string, or the blocks of some types in a list."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and text_in(block, "type") in types
        and isinstance(block.get("text"), str)
    ]


def texts_of(content: object, types: Collection[str] = ("text",)) -> str:
    """Return the same, joined by line feeds."""
    return "\n".join(message_texts(content, types))


def spoken_and_blocks(content: object) -> Iterator[str | Record]:
    """Iterate over a message: texts that follow each other as one, every other block by itself."""
    if isinstance(content, str):
        yield content
    blocks = (one for one in content if isinstance(one, dict)) if isinstance(content, list) else ()
    for is_text, run in groupby(blocks, lambda block: block.get("type") == "text"):
        if is_text:
            yield "\n".join(text_in(block, "text") for block in run)
        else:
            yield from run


def milliseconds(value: object) -> int:
    """Return a number (below 1e11 in seconds) or an ISO date and time in ms since 1970.

    A time without an offset is UTC. 0 for everything else.
    """
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(trim(value))
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return (when - EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            # What is no date says nothing about when: the next place is looked at.
            return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    number = value * 1000 if 0 < value < _FIRST_MILLISECONDS else value
    return math.floor(number) if abs(number) <= _LAST_DATE_MS else 0


def first_date(*values: object) -> int:
    """Return the first of some values that is a moment, in ms since 1970; 0 when none is."""
    return next((when for when in map(milliseconds, values) if 0 < when <= _LAST_DATE_MS), 0)


def turn_time(milliseconds: int, microseconds: int = 0) -> datetime | None:
    """Return a time since 1970; `None` for 0 and beyond the calendar."""
    return utc_time(max(0, milliseconds) / 1000 + microseconds / 1e6)
