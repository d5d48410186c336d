"""What a program's transcripts must answer to be read: one small class for each program."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from memtui.memory.transcripts.generated import Role, Run
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.model.conversations import TranscriptKind, Turn

Record = Mapping[str, Any]

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_NOTHING: Final[Record] = MappingProxyType({})
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One line of the indexed text."""

    role: Role
    text: str
    """One line, redacted, with the role before it."""
    line: int
    """The line of the file that it comes from, from 1."""
    timestamp_ms: int
    """Milliseconds since 1970; 0 when unknown."""


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """What a record says about its whole transcript; empty or 0 where it says nothing."""

    agent: str = ""
    """The agent, or the last part of the project's folder."""
    model: str = ""
    session: str = ""
    timestamp_ms: int = 0
    """Milliseconds since 1970."""


class LineReader(Protocol):
    """Reads a transcript line by line for the index, and can go on another day where it stopped.

    Once `run` is set the whole transcript is a program's talk with itself: every line returned
    before is void, and no more come.
    """

    @property
    def run(self) -> Run | None:
        """What the whole transcript is, when nobody speaks in it."""

    @property
    def messages(self) -> int:
        """How many messages gave lines."""

    @property
    def malformed(self) -> int:
        """How many lines were no JSON."""

    @property
    def cutoff(self) -> int:
        """The line before which the release ends a chunk, as far as was read; 0: nowhere."""

    @property
    def dropped(self) -> Counter[str]:
        """How many messages have no line, by why: values of `Dropped`."""

    def add_line(self, text: str, number: int) -> list[TranscriptLine]:
        """Read the next line of the file, from 1; blank lines and broken JSON give nothing."""

    def cuts_before(self, number: int) -> bool:
        """Whether a chunk ends before what comes from line `number`, true once for a reading.

        By the `cutoff` of the state that the reading began with: only the last line of a file
        tells where its last reset is. A reading that ends with another `cutoff` than it began
        with is to be made again from the first line, with `state={"cutoff": reader.cutoff}`.
        """

    def state(self) -> dict[str, Any]:
        """What `state=` takes to go on behind the last line: values that JSON can hold."""


class TranscriptFormat(Protocol):
    """How one program writes its transcripts."""

    @property
    def kind(self) -> TranscriptKind:
        """Whose transcripts these are."""

    @property
    def records_calls(self) -> bool:
        """Whether they say what tools were asked, and what came back."""

    @property
    def calls_note(self) -> str:
        """One line: what they say of tool calls, and what may be missing."""

    def recognises(self, record: Record) -> bool:
        """Whether a record is one of this program."""

    def identity(self, record: Record) -> str:
        """What only copies of the record have in common; empty when nothing is known to be it."""

    def run_of(self, record: Record) -> Run | None:
        """What the first record shows its whole transcript to be, when nobody speaks in it."""

    def turns(self, record: Record, line: int, *, redacts: bool = True) -> list[Turn]:
        """The entries of the conversation that a record holds, with their whole texts."""

    def facts(self, record: Record) -> RecordFacts:
        """What the record says about its whole transcript."""

    def line_reader(
        self,
        name: str,
        rules: TranscriptRules,
        *,
        redacts: bool = True,
        state: Mapping[str, Any] | None = None,
    ) -> LineReader:
        """Begin to read the file of that name, or go on with it where `state` was taken."""


def parse_record(text: str) -> object:
    """Parse one line; raises `ValueError` when it is no JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


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


def whole(text: str) -> str:
    """A text that can be encoded: half a surrogate pair, which JSON can hold, becomes U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def text_in(record: Record, *names: str) -> str:
    """The first of some fields that holds a text which is not empty; else the empty text."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def mapping_in(record: Record, name: str) -> Record:
    """A field that holds an object; else an empty one."""
    value = record.get(name)
    return value if isinstance(value, dict) else _NOTHING


def folder_name(path: object) -> str:
    """The last part of a folder's path, of whatever system; empty when it is no text."""
    if not isinstance(path, str):
        return ""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
