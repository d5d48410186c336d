"""What reading a transcript from its beginning tells: turns, counts, and what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memtui.engine.conversations.masking import one_line
from memtui.engine.conversations.records import Record
from memtui.memory.transcripts.base import TranscriptFormat
from memtui.memory.transcripts.calls import CallCollector
from memtui.memory.transcripts.generated import Dropped, Role, run_of, said, without_channel
from memtui.memory.transcripts.names import ARCHIVES, file_kind
from memtui.model.conversations import MemoryCall, TranscriptKind, Turn, TurnKind

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
        turns = self._format.turns(record.value, number, redacts=False)
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
        return without_channel(said(text[:_TITLE_SOURCE], Role.USER)[0])

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
