"""The records of a transcript, one by one, with what is no record and why."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.streams import open_lines, open_stream
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.generated import Dropped, Role, run_of, spoken_line, without_channel
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import ARCHIVES, file_kind
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import RawLine, raw_lines, text_of
from memtui.model import Reason, SourceFile
from memtui.model.conversations import MemoryCall, TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import trim
from memtui.text.redact import redact, redact_name, redact_value
from memtui.text.sanitize import safe_line

SHOWN: Final = 2_000
"""Characters of a text that are held."""
_LEAST_WINDOW: Final = 4096
"""Characters that are looked at, at least: no credential is as long as what is left over."""
_PRIVATE_KEY: Final = "private key-----"


class Beginning(NamedTuple):
    """The beginning of a masked text."""

    text: str
    size: int
    """Characters of the whole; of a huge text before masking."""


def masked(turn: Turn) -> Turn:
    """The turn with its whole text masked."""
    text = masked_text(turn)
    tool, call_id = _name(turn.tool), redact_name(turn.call_id)
    return replace(turn, text=text, size=len(text), tool=tool, call_id=call_id)


def masked_text(turn: Turn) -> str:
    """The whole text of a turn, masked; arguments by the names that they have, too."""
    if turn.kind is TurnKind.TOOL_CALL:
        try:
            value = parse_record(turn.text)
        except ValueError:
            # Arguments in a language of the tool's own are a text like any other.
            return redact(turn.text)
        return json.dumps(redact_value(value), ensure_ascii=False)
    return redact(turn.text)


def cut(turn: Turn, shown: int = SHOWN) -> Turn:
    """The turn with the beginning of its masked text; `size` is the whole's."""
    if turn.kind is TurnKind.MALFORMED:
        return turn
    if turn.kind is TurnKind.TOOL_CALL:
        text = masked_text(turn)
        found = Beginning(text[:shown], len(text))
    else:
        found = beginning(turn.text, shown)
    tool, call_id = _name(turn.tool), redact_name(turn.call_id)
    names_stay = tool == turn.tool and call_id == turn.call_id
    if names_stay and found.size == turn.size and found.text == turn.text:
        # Most turns stay as they are: nothing is masked, and nothing cut off.
        return turn
    return replace(turn, text=found.text, size=found.size, tool=tool, call_id=call_id)


def beginning(text: str, shown: int = SHOWN) -> Beginning:
    """The first characters of a masked text; the whole of one that is no longer.

    What is looked at ends far behind what is shown, so that no credential is seen by half. A
    private key is masked up to its end, however far that is.
    """
    size = max(_LEAST_WINDOW, 4 * shown)
    if len(text) > size:
        window = redact(text[:size])
        if len(window) > size // 2 and _PRIVATE_KEY not in window.lower():
            return Beginning(window[:shown], len(text))
    whole = redact(text)
    return Beginning(whole[:shown], len(whole))


def one_line(text: str, shown: int) -> str:
    """The beginning of a masked text on one line that a terminal can be shown."""
    line = " ".join(safe_line(beginning(text, 8 * shown).text).split())
    return line if len(line) <= shown else line[: shown - 1].rstrip() + "…"


@lru_cache(maxsize=512)
def _name(tool: str) -> str:
    return redact_name(tool)


TOO_LONG: Final = "longer than a line may be"
NO_JSON: Final = "no JSON"
CUT_OFF: Final = "cut off: no line end"
_MEGABYTE: Final = 10**6


class Record(NamedTuple):
    """A line that is not blank."""

    raw: RawLine
    value: Mapping[str, Any] | None
    """`None` for a line that is no record."""
    problem: str
    """Why not, in one phrase."""


def records(
    lines: Iterable[RawLine], cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Record]:
    """Parse line after line; blank ones are passed over. Raises `Cancelled`."""
    for raw in lines:
        if cancelled():
            raise Cancelled
        found = record_of(raw)
        if found is not None:
            yield found


def record_of(raw: RawLine) -> Record | None:
    """Parse one line; `None` for a blank one and for JSON that is no object."""
    if raw.data is None:
        return Record(raw, None, f"{TOO_LONG}: {raw.length / _MEGABYTE:.1f} MB")
    text = trim(text_of(raw))
    if not text:
        return None
    try:
        value = parse_record(text)
    except ValueError:
        # One damaged line is named, and the reading goes on.
        return Record(raw, None, NO_JSON if raw.complete else CUT_OFF)
    # JSON that is no object is passed over, as by every program that reads transcripts.
    return Record(raw, value, "") if isinstance(value, dict) else None


TITLE: Final = 120
"""Characters of a title."""
_TITLE_SOURCE: Final = 16_000
_SNIPPET: Final = 300
_SPOKEN: Final = frozenset({"user", "assistant"})
_TOOLS: Final = frozenset({TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Counted:
    """A transcript as far as it was read; texts are masked."""

    kind: TranscriptKind
    agent: str = ""
    model: str = ""
    title: str = ""
    started_ms: int = 0
    """Milliseconds since 1970; 0 when unknown."""
    ended_ms: int = 0
    messages: int = 0
    """What the user and the assistant said."""
    malformed: int = 0
    run: str = ""
    """What kind of talk with itself the program had; empty for a conversation."""
    unreadable: str = ""
    """Why the reading ended before the file did."""
    calls: tuple[MemoryCall, ...] = ()


class Tally:
    """Counts up a transcript record by record."""

    def __init__(self, path: str, form: TranscriptFormat) -> None:
        self._format = form
        self._collector = CallCollector(path, form.kind)
        self._agent = self._model = self._title = ""
        self._started = self._ended = 0
        self._messages = self._malformed = 0
        self._run = self._unreadable = ""
        self._archived = file_kind(path.rpartition("/")[2]) in ARCHIVES
        self._seen: set[str] = set()
        self._begun = False

    def take(self, record: Record) -> Sequence[Turn]:
        """Count a record in, and give its turns: nothing of them is masked or cut."""
        number = record.raw.number
        if record.value is None:
            self._malformed += 1
            text = record.problem
            return (Turn(number, TurnKind.MALFORMED, "system", text, record.raw.length),)
        self._see_run(record.value)
        facts = self._format.facts(record.value)
        self._agent = self._agent or facts.agent
        self._model = facts.model or self._model
        self._at(facts.timestamp_ms)
        turns = self._format.turns(record.value, number)
        if self._is_copy(record.value):
            turns = [replace(turn, left_out=turn.left_out or Dropped.DUPLICATE) for turn in turns]
        for turn in turns:
            self._count(turn)
        return turns

    def _count(self, turn: Turn) -> None:
        if turn.kind is TurnKind.MESSAGE and turn.role in _SPOKEN:
            self._messages += 1
            if turn.role == "user" and not self._title and not turn.left_out:
                self._title = one_line(self._said(turn.text), TITLE)
        elif turn.kind in _TOOLS:
            self._collector.add(turn)

    def _said(self, text: str) -> str:
        """What the user says, without what a channel of OpenClaw puts around it."""
        if self._format.kind is not TranscriptKind.OPENCLAW:
            return text
        return without_channel(spoken_line(text[:_TITLE_SOURCE], Role.USER)[0])

    def broke(self, why: str) -> None:
        """Note that the transcript could not be read on."""
        self._unreadable = why

    @property
    def knows_beginning(self) -> bool:
        """Whether everything is known that a list shows of a transcript's beginning."""
        return bool(self._title and self._model and self._started)

    def counted(self) -> Counted:
        """What is known so far."""
        return Counted(
            kind=self._format.kind,
            agent=one_line(self._agent, TITLE),
            model=one_line(self._model, TITLE),
            title=self._title,
            started_ms=self._started,
            ended_ms=self._ended,
            messages=self._messages,
            malformed=self._malformed,
            run=self._run,
            unreadable=self._unreadable,
            calls=tuple(_shortened(call) for call in self._collector.calls()),
        )

    def _see_run(self, record: Mapping[str, Any]) -> None:
        """See that the program talks with itself: OpenClaw in any record, others in the first."""
        if self._run:
            return
        if self._format.kind is TranscriptKind.OPENCLAW:
            self._run = run_of(record, archived=self._archived) or ""
        elif not self._begun:
            self._begun = True
            self._run = self._format.run_of(record) or ""

    def _is_copy(self, record: Mapping[str, Any]) -> bool:
        identity = self._format.identity(record)
        if not identity:
            return False
        known = identity in self._seen
        self._seen.add(identity)
        return known

    def _at(self, timestamp_ms: int) -> None:
        if timestamp_ms > 0:
            self._started = min(self._started or timestamp_ms, timestamp_ms)
            self._ended = max(self._ended, timestamp_ms)


def _shortened(call: MemoryCall) -> MemoryCall:
    """The same with the beginning of each snippet: very many calls are kept in memory."""
    if call.returned is None:
        return call
    kept = tuple(replace(place, snippet=place.snippet[:_SNIPPET]) for place in call.returned)
    return replace(call, returned=kept)


def moment(milliseconds: int) -> datetime | None:
    """A time in milliseconds since 1970; `None` for 0 and beyond the calendar."""
    if milliseconds <= 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        # A number in a transcript can be anything.
        return None


T = TypeVar("T")


class Remembered(Generic[T]):
    """One value for each transcript, valid for one size and mtime; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, tuple[tuple[int, int], T]] = {}

    def get(self, file: SourceFile) -> T | None:
        """What was kept for the file as it is now; `None` when there is nothing."""
        with self._lock:
            stamp, value = self._values.get(file.path, ((-1, -1), None))
        return value if stamp == (file.size, file.mtime_ns) else None

    def put(self, file: SourceFile, value: T) -> T:
        """Keep a value for the file as it was when it was listed."""
        with self._lock:
            self._values[file.path] = (file.size, file.mtime_ns), value
        return value


BEGINNING: Final = 1 << 16
"""Bytes of a transcript that a list looks at."""
_LONG_BEGINNING: Final = 1 << 20
"""The same where those do not tell whose it is, as with very long instructions."""
_LOOKED_AT: Final = 50
"""Records by which it is told whose a transcript is."""
_LOOKED_AT_BYTES: Final = 1 << 20

CancelCheck = Callable[[], bool]


class NotATranscript(MemtuiError):
    """A file whose records are those of no program that is known."""

    code = "not_a_transcript"


class Reading:
    """The records of an open transcript, and whose they are."""

    def __init__(
        self,
        file: SourceFile,
        lines: Iterator[RawLine],
        cancelled: CancelCheck,
        *,
        enough: int = _LOOKED_AT,
    ) -> None:
        """Read as much as tells whose it is: so many records that some program would write.

        Raises `NotATranscript`, `OSError`, `Cancelled`.
        """
        found = records(lines, cancelled)
        first: list[Record] = []
        told: list[Mapping[str, Any]] = []
        for record in found:
            first.append(record)
            if record.value is not None and recognise((record.value,)) is not None:
                told.append(record.value)
            is_far = record.raw.offset >= _LOOKED_AT_BYTES
            if len(told) >= enough or len(first) >= _LOOKED_AT or is_far:
                break
        self.format = recognise(told) or _by_place(file)
        self.records: Iterator[Record] = chain(first, found)


def _by_place(file: SourceFile) -> TranscriptFormat:
    if file.kind:
        return format_of(TranscriptKind(file.kind))
    raise NotATranscript(f"{file.path} is no transcript of a program that is known")


def count(file: SourceFile, *, limit: int, cancelled: CancelCheck = lambda: False) -> Counted:
    """Read all of a transcript; `limit` is in bytes a line.

    Raises `NotATranscript`, `Cancelled`, and `OSError` when it cannot be opened.
    """
    with open_lines(file, limit=limit) as lines:
        reading = Reading(file, lines, cancelled)
        tally = Tally(file.path, reading.format)
        try:
            for record in reading.records:
                tally.take(record)
        except OSError as error:
            # What was read before it broke still counts, and that it broke is told.
            tally.broke(said(error))
        return tally.counted()


def look(file: SourceFile, *, limit: int) -> Counted | None:
    """Read the beginning of a transcript, 64 kB or at most 1 MiB of it, and count nothing.

    `None` where that does not tell whose it is. Raises `NotATranscript` when all of it does not,
    and `OSError` when it cannot be read.
    """
    with open_stream(file, limit=limit) as stream:
        data = stream.read(BEGINNING)
        try:
            return _looked_at(file, data, limit)
        except NotATranscript:
            more = stream.read(_LONG_BEGINNING - len(data))
            if not more:
                raise
        try:
            return _looked_at(file, data + more, limit)
        except NotATranscript:
            if not stream.read(1):
                raise
    # Told when all of it is read.
    return None


def _looked_at(file: SourceFile, data: bytes, limit: int) -> Counted:
    lines = raw_lines(BytesIO(data), limit=limit)
    reading = Reading(file, lines, lambda: False, enough=1)
    tally = Tally(file.path, reading.format)
    for record in reading.records:
        # The last line is cut where the beginning ends: that says nothing about the file.
        if record.value is not None:
            tally.take(record)
        if tally.knows_beginning:
            break
    return tally.counted()


def why_unreadable(error: Exception) -> tuple[Reason, str]:
    """The reason code and one line for what reading a transcript raised."""
    if isinstance(error, OSError):
        return reason_of(error), said(error)
    if isinstance(error, NotATranscript):
        return Reason.NOT_A_TRANSCRIPT, "the records are those of no program that is known"
    return Reason.UNREADABLE, str(error)
