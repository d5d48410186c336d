"""The records of a transcript, one by one, with what is no record and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from memtui.errors import Cancelled
from memtui.memory.transcripts.base import parse_record
from memtui.memory.transcripts.stream import RawLine, text_of
from memtui.text.ecmascript import trim

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
