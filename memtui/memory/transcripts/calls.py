"""What the agent asked its memory: calls and their answers, put together while turns go by."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from memtui.memory.transcripts.answers import Answer, read_answer
from memtui.memory.transcripts.base import whole
from memtui.memory.transcripts.generated import Dropped
from memtui.memory.transcripts.searches import is_memory_search, query_name
from memtui.memory.transcripts.turns import parsed_arguments
from memtui.model.conversations import MemoryCall, TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value

__all__ = ["CallCollector", "is_memory_search"]

_T = TypeVar("_T")

LONGEST_QUERY: Final = 10_000
"""Characters of a query that are kept, and of every other argument."""
UNANSWERED: Final = "no answer is recorded"

_EARLY: Final = 16
"""Answers that are held until their call comes."""
_EARLY_CHARACTERS: Final = 1 << 18
"""The longest of them."""
_CALLS_KNOWN: Final = 4096
"""Calls of other tools whose answers are told by their ids."""
_WAITING: Final = 64
"""Calls of one id that wait for answers; one before them will get none."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, eq=False)
class _Asked:
    """A call while its answer may still come."""

    turn: Turn
    query: str
    arguments: dict[str, float | int | str | bool]
    answer: Answer | None = None
    answer_line: int = 0


@dataclass(slots=True)
class _OneId:
    """The calls that have one id, in their order; some programs use an id again and again."""

    waiting: deque[_Asked | str] = field(default_factory=lambda: deque(maxlen=_WAITING))
    """Those without an answer; of another tool's its name."""
    last: _Asked | None = None
    """The one that was answered last; `None` after another tool's answer."""
    times: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """When something was asked of a tool."""

    def is_copy(self, turn: Turn) -> bool:
        """Whether a call is one that was recorded before; it is remembered."""
        if turn.left_out == Dropped.DUPLICATE and self.times:
            return True
        times = self.times.setdefault((turn.tool, turn.text), set())
        known = turn.timestamp_ms in times or 0 in times or (not turn.timestamp_ms and bool(times))
        times.add(turn.timestamp_ms)
        return known

    def answers(self, turn: Turn) -> _Asked | None:
        """The call that a result answers; `None` when it is none, or one of another tool."""
        # What is told again for the screen may call the same tool otherwise.
        told = "" if turn.left_out == Dropped.DUPLICATE else turn.tool
        for one in self.waiting:
            tool = one if isinstance(one, str) else one.turn.tool
            if told in ("", tool):
                self.waiting.remove(one)
                self.last = None if isinstance(one, str) else one
                return self.last
        # Told twice: the one that can be read is kept.
        last = self.last
        if last is None or told not in ("", last.turn.tool):
            return None
        return last if last.answer is not None and last.answer.returned is None else None


class CallCollector:
    """Collects the searches of a memory in a transcript, in the order in which they were asked.

    A call that a program recorded twice, as when it resumes a session, is collected once; one of
    the same id that asks for something else, or at another time, is one of its own.
    """

    def __init__(self, path: str, kind: TranscriptKind) -> None:
        """`path` is the transcript's, as the index stores it."""
        self._path = path
        self._kind = kind
        self._asked: list[_Asked] = []
        self._by_id: dict[str, _OneId] = {}
        self._early: OrderedDict[str, Turn] = OrderedDict()
        self._others: OrderedDict[str, None] = OrderedDict()

    def add(self, turn: Turn) -> None:
        """Take in the next turn, whose text is whole and not masked."""
        if turn.kind is TurnKind.TOOL_CALL:
            self._call(turn)
        elif turn.kind is TurnKind.TOOL_RESULT:
            self._result(turn)

    def calls(self) -> list[MemoryCall]:
        """The searches so far; credentials are masked."""
        return [self._made(asked) for asked in self._asked]

    def _call(self, turn: Turn) -> None:
        query = is_memory_search(turn.tool, turn.text)
        if query is None:
            _hold(self._others, turn.call_id, None, _CALLS_KNOWN)
            if turn.call_id in self._by_id:
                self._by_id[turn.call_id].waiting.append(turn.tool)
            return
        given = parsed_arguments(turn.text)
        asked = _Asked(turn, _text(query), _others(given if isinstance(given, dict) else {}))
        known = self._by_id.setdefault(turn.call_id, _OneId())
        if turn.call_id and known.is_copy(turn):
            return
        known.waiting.append(asked)
        self._asked.append(asked)
        early = self._early.pop(turn.call_id, None) if turn.call_id else None
        if early is not None:
            self._result(early)

    def _result(self, turn: Turn) -> None:
        known = self._by_id.get(turn.call_id)
        if known is not None:
            asked = known.answers(turn)
            if asked is not None:
                _answered(asked, turn)
        elif turn.call_id not in self._others and turn.size <= _EARLY_CHARACTERS:
            _hold(self._early, turn.call_id, turn, _EARLY)

    def _made(self, asked: _Asked) -> MemoryCall:
        turn = asked.turn
        returned, problem = asked.answer or Answer(None, UNANSWERED)
        return MemoryCall(
            path=self._path,
            line=turn.line,
            kind=self._kind,
            tool=redact_name(whole(turn.tool)),
            query=asked.query,
            asked=_moment(turn.timestamp_ms),
            arguments=asked.arguments,
            returned=returned,
            answer_line=asked.answer_line,
            problem=problem,
        )


def _hold(held: OrderedDict[str, _T], call_id: str, value: _T, most: int) -> None:
    if call_id:
        held[call_id] = value
        if len(held) > most:
            held.popitem(last=False)


def _answered(asked: _Asked, turn: Turn) -> None:
    answer = read_answer(turn.text, is_error=turn.is_error)
    if asked.answer is None or answer.returned is not None:
        asked.answer, asked.answer_line = answer, turn.line


def _others(arguments: Mapping[str, Any]) -> dict[str, float | int | str | bool]:
    """The arguments beside the query that are single values."""
    query = query_name(arguments)
    masked = redact_value(
        {
            whole(name): whole(value) if isinstance(value, str) else value
            for name, value in arguments.items()
            if isinstance(value, str | int | float) and name != query and _is_finite(value)
        }
    )
    items = masked.items() if isinstance(masked, dict) else ()
    return {
        name: value[:LONGEST_QUERY] if isinstance(value, str) else value for name, value in items
    }


def _is_finite(value: str | float) -> bool:
    """Whether JSON can say a value: `1E400` in a transcript is read as infinity."""
    return not isinstance(value, float) or math.isfinite(value)


def _text(query: str) -> str:
    return redact(whole(query))[:LONGEST_QUERY]


def _moment(milliseconds: int) -> datetime | None:
    if milliseconds <= 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        # Beyond the calendar, as a damaged record can say: the call has no time.
        return None
