"""Scanning transcripts: their records one by one, what these tell for lists, and masked texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from itertools import chain
from typing import Any, Final, NamedTuple

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

CancelCheck = Callable[[], bool]

SHOWN: Final = 2_000
"""Characters of a text that are kept in memory."""
TITLE: Final = 120
"""Characters of a title."""
CUT_OFF: Final = "cut off: no line end"

_LEAST_WINDOW: Final = 4096
"""Characters that are looked at, at least: no credential is as long as what is left over."""
_PRIVATE_KEY: Final = "private key-----"
_TITLE_SOURCE: Final = 16_000
_SNIPPET: Final = 300
_BEGINNING: Final = 1 << 16
"""Bytes of a transcript that a list looks at."""
_LONG_BEGINNING: Final = 1 << 20
"""The same where those do not tell whose it is, as with very long instructions."""
_LOOKED_AT: Final = 50
"""Records by which it is told whose a transcript is."""
_LOOKED_AT_BYTES: Final = 1 << 20


class NotATranscript(MemtuiError):
    """A file whose records are those of no program that is known."""

    code = "not_a_transcript"


# --- masked texts -------------------------------------------------------------------------


def masked_text(turn: Turn) -> str:
    """Return the whole text of a turn, masked; arguments by the names that they have, too."""
    if turn.kind is TurnKind.TOOL_CALL:
        try:
            value = parse_record(turn.text)
        except ValueError:
            # Arguments in a language of the tool's own are a text like any other.
            return redact(turn.text)
        return json.dumps(redact_value(value), ensure_ascii=False)
    return redact(turn.text)


def masked(turn: Turn) -> Turn:
    """Return the turn with its whole text masked."""
    text = masked_text(turn)
    tool, call_id = _masked_name(turn.tool), redact_name(turn.call_id)
    return replace(turn, text=text, size=len(text), tool=tool, call_id=call_id)


def cut(turn: Turn, shown: int = SHOWN) -> Turn:
    """Return the turn with the beginning of its masked text; `size` is the whole's."""
    if turn.kind is TurnKind.MALFORMED:
        return turn
    if turn.kind is TurnKind.TOOL_CALL:
        whole = masked_text(turn)
        text, size = whole[:shown], len(whole)
    else:
        text, size = beginning(turn.text, shown)
    tool, call_id = _masked_name(turn.tool), redact_name(turn.call_id)
    if (text, size, tool, call_id) == (turn.text, turn.size, turn.tool, turn.call_id):
        # Most turns stay as they are: nothing is masked, and nothing cut off.
        return turn
    return replace(turn, text=text, size=size, tool=tool, call_id=call_id)


def beginning(text: str, shown: int = SHOWN) -> tuple[str, int]:
    """Return the first characters of a masked text, and the length of the whole.

    What is looked at ends far behind what is shown, so that no credential is seen by half. A
    private key is masked up to its end, however far that is. Of a huge text the length is that
    before masking.
    """
    size = max(_LEAST_WINDOW, 4 * shown)
    if len(text) > size:
        window = redact(text[:size])
        if len(window) > size // 2 and _PRIVATE_KEY not in window.lower():
            return window[:shown], len(text)
    whole = redact(text)
    return whole[:shown], len(whole)


def one_line(text: str, shown: int = TITLE) -> str:
    """Return the beginning of a masked text on one line that a terminal can be shown."""
    line = " ".join(safe_line(beginning(text, 8 * shown)[0]).split())
    return line if len(line) <= shown else line[: shown - 1].rstrip() + "…"


_masked_name = lru_cache(maxsize=512)(redact_name)


# --- records ------------------------------------------------------------------------------


class Record(NamedTuple):
    """A line that is not blank."""

    raw: RawLine
    value: Mapping[str, Any] | None
    """`None` for a line that is no record."""
    problem: str
    """Why not, in one phrase."""


def records(lines: Iterable[RawLine], cancelled: CancelCheck) -> Iterator[Record]:
    """Parse line after line; blank ones are passed over. Raises `Cancelled`."""
    for raw in lines:
        if cancelled():
            raise Cancelled
        record = record_of(raw)
        if record is not None:
            yield record


def record_of(raw: RawLine) -> Record | None:
    """Parse one line; `None` for a blank one and for JSON that is no object."""
    if raw.data is None:
        return Record(raw, None, f"longer than a line may be: {raw.length / 10**6:.1f} MB")
    text = trim(text_of(raw))
    if not text:
        return None
    try:
        value = parse_record(text)
    except ValueError:
        # One damaged line is named, and the reading goes on.
        return Record(raw, None, "no JSON" if raw.complete else CUT_OFF)
    # JSON that is no object is passed over, as by every program that reads transcripts.
    return Record(raw, value, "") if isinstance(value, dict) else None


def recognised_records(
    file: SourceFile, lines: Iterable[RawLine], cancelled: CancelCheck, *, enough: int = _LOOKED_AT
) -> tuple[TranscriptFormat, Iterator[Record]]:
    """Read as many records as tell whose a transcript is; return that, and all records.

    `enough` records that some program would write decide. Raises `NotATranscript`, `OSError`,
    `Cancelled`.
    """
    unread = records(lines, cancelled)
    first: list[Record] = []
    telling: list[Mapping[str, Any]] = []
    for record in unread:
        first.append(record)
        if record.value is not None and recognise((record.value,)) is not None:
            telling.append(record.value)
        is_far = record.raw.offset >= _LOOKED_AT_BYTES
        if len(telling) >= enough or len(first) >= _LOOKED_AT or is_far:
            break
    form = recognise(telling)
    if form is None:
        if not file.kind:
            raise NotATranscript(f"{file.path} is no transcript of a program that is known")
        form = format_of(TranscriptKind(file.kind))
    return form, chain(first, unread)


# --- what they tell -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TranscriptStats:
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
        self._archived = file_kind(path.rpartition("/")[2]) in ARCHIVES
        self._identities: set[str] = set()
        self._agent = self._model = self._title = self._run = ""
        self._started = self._ended = self._messages = self._malformed = 0
        self._is_begun = False
        self.unreadable = ""
        """Why the transcript could not be read on."""

    def add(self, record: Record) -> Sequence[Turn]:
        """Count a record in, and return its turns: nothing of them is masked or cut."""
        number, value = record.raw.number, record.value
        if value is None:
            self._malformed += 1
            text = record.problem
            return (Turn(number, TurnKind.MALFORMED, "system", text, record.raw.length),)
        if not self._run:
            self._note_run(value)
        facts = self._format.facts(value)
        self._agent = self._agent or facts.agent
        self._model = facts.model or self._model
        if facts.timestamp_ms > 0:
            self._started = min(self._started or facts.timestamp_ms, facts.timestamp_ms)
            self._ended = max(self._ended, facts.timestamp_ms)
        turns = self._format.turns(value, number)
        identity = self._format.identity(value)
        if identity in self._identities:
            turns = [replace(turn, left_out=turn.left_out or Dropped.DUPLICATE) for turn in turns]
        elif identity:
            self._identities.add(identity)
        for turn in turns:
            self._count(turn)
        return turns

    @property
    def knows_beginning(self) -> bool:
        """Whether everything is known that a list shows of a transcript's beginning."""
        return bool(self._title and self._model and self._started)

    def stats(self) -> TranscriptStats:
        """Return what is known so far."""
        return TranscriptStats(
            kind=self._format.kind,
            agent=one_line(self._agent),
            model=one_line(self._model),
            title=self._title,
            started_ms=self._started,
            ended_ms=self._ended,
            messages=self._messages,
            malformed=self._malformed,
            run=self._run,
            unreadable=self.unreadable,
            calls=tuple(_with_short_snippets(call) for call in self._collector.calls()),
        )

    def _count(self, turn: Turn) -> None:
        if turn.kind is TurnKind.MESSAGE and turn.role in tuple(Role):
            self._messages += 1
            if turn.role == Role.USER and not self._title and not turn.left_out:
                text = turn.text
                if self._format.kind is TranscriptKind.OPENCLAW:
                    # Without what a channel puts around it.
                    text = without_channel(spoken_line(text[:_TITLE_SOURCE], Role.USER)[0])
                self._title = one_line(text)
        elif turn.kind in (TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT):
            self._collector.add(turn)

    def _note_run(self, record: Mapping[str, Any]) -> None:
        """See that the program talks with itself: OpenClaw in any record, others in the first."""
        if self._format.kind is TranscriptKind.OPENCLAW:
            self._run = run_of(record, archived=self._archived) or ""
        elif not self._is_begun:
            self._is_begun = True
            self._run = self._format.run_of(record) or ""


def _with_short_snippets(call: MemoryCall) -> MemoryCall:
    """Return the call with the beginning of each snippet: very many are kept in memory."""
    if call.returned is None:
        return call
    places = tuple(replace(place, snippet=place.snippet[:_SNIPPET]) for place in call.returned)
    return replace(call, returned=places)


def scan_transcript(
    file: SourceFile, *, limit: int, cancelled: CancelCheck = lambda: False
) -> TranscriptStats:
    """Read all of a transcript; `limit` is in bytes a line.

    Raises `NotATranscript`, `Cancelled`, and `OSError` when it cannot be opened.
    """
    with open_lines(file, limit=limit) as lines:
        form, found = recognised_records(file, lines, cancelled)
        tally = Tally(file.path, form)
        try:
            for record in found:
                tally.add(record)
        except OSError as error:
            # What was read before it broke still counts, and that it broke is told.
            tally.unreadable = said(error)
        return tally.stats()


def scan_beginning(file: SourceFile, *, limit: int) -> TranscriptStats | None:
    """Read the beginning of a transcript, 64 kB or at most 1 MiB of it, and count nothing.

    `None` where that does not tell whose it is. Raises `NotATranscript` when all of it does not,
    and `OSError` when it cannot be read.
    """
    data = b""
    with open_stream(file, limit=limit) as stream:
        for size in (_BEGINNING, _LONG_BEGINNING):
            more = stream.read(size - len(data))
            data += more
            try:
                return _stats_of_beginning(file, data, limit)
            except NotATranscript:
                if len(data) < size:
                    raise
    # Told when all of it is read.
    return None


def _stats_of_beginning(file: SourceFile, data: bytes, limit: int) -> TranscriptStats:
    lines = raw_lines(BytesIO(data), limit=limit)
    form, found = recognised_records(file, lines, lambda: False, enough=1)
    tally = Tally(file.path, form)
    for record in found:
        # The last line is cut where the beginning ends: that says nothing about the file.
        if record.value is not None:
            tally.add(record)
        if tally.knows_beginning:
            break
    return tally.stats()


def why_unreadable(error: Exception) -> tuple[Reason, str]:
    """Return the reason code and one line for what reading a transcript raised."""
    if isinstance(error, OSError):
        return reason_of(error), said(error)
    if isinstance(error, NotATranscript):
        return Reason.NOT_A_TRANSCRIPT, "the records are those of no program that is known"
    return Reason.UNREADABLE, str(error)
