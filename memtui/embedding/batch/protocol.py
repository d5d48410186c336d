"""What the batch interface of every service can do, each in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from memtui.embedding.batch.calls import Call

MOST_TEXTS: Final = 50_000
"""Of one batch: what OpenAI allows, and what OpenClaw sends to every service."""
AT_ONCE: Final = 2
"""Batches of one run that are under way at the same time."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}")


class State(StrEnum):
    """How a batch is."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Polled:
    """What a service says of a batch."""

    state: State
    output: str = ""
    """Where its results are; empty where there are none (yet)."""
    completed: int = 0
    """Texts that are embedded so far."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file of results."""

    text_hash: str
    answer: object
    """What the service answers to that text inline, unchecked; `None` where it refused it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service takes, and how long it keeps what."""

    most_bytes: int
    """Of one input file."""
    window: float
    """Seconds within which a batch ends."""
    kept: float
    """Seconds after which a batch is not asked for any more."""
    most_texts: int = MOST_TEXTS
    first_poll: float = 2.0
    """Seconds before a batch is asked for first; later it is asked for more rarely."""


class BatchProtocol(Protocol):
    """Requests and answers of one service's batch interface; does no input or output.

    The parsers take an answer's JSON and raise `ValueError`, whose text repeats nothing of the
    answer, for one that is not as documented.
    """

    name: str
    """The service, as it is configured."""
    limits: Limits

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text; ends with a line feed."""

    def upload(self, data: bytes) -> Call:
        """Send an input file."""

    def uploaded(self, answer: object) -> str:
        """The id of the file that was sent."""

    def create(self, input_file: str) -> Call:
        """Start a batch of an input file."""

    def created(self, answer: object) -> str:
        """The id of the batch that was started."""

    def listing(self) -> Call:
        """Ask for the latest batches."""

    def found(self, answer: object, input_file: str) -> str:
        """The id of the batch of an input file among the latest; empty where there is none."""

    def poll(self, batch: str) -> Call:
        """Ask how a batch is."""

    def polled(self, answer: object) -> Polled:
        """How the batch is."""

    def result(self, output: str) -> Call:
        """Fetch a file of results, JSON by line."""

    def delete(self, file: str) -> Call:
        """Delete an input file or a file of results."""

    def read(self, record: object) -> Line | None:
        """Take apart one line of the results; `None` for one that names no text."""

    def closes(self, status: int) -> bool:
        """Whether this status of an answer to `create` says that there is no such interface."""


def field(answer: object, *names: str) -> Any:
    """What is under the names, one in the other; `None` where it is not there."""
    for name in names:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def id_in(answer: object, *names: str) -> str:
    """An id of an answer; raises `ValueError` for one that could lead to another path."""
    found = field(answer, *names)
    if not isinstance(found, str) or not is_id(found):
        raise ValueError(f"it names no {names[-1]}")
    return found


def is_id(text: str) -> bool:
    """Whether a text can be an id in a path."""
    return _ID.fullmatch(text) is not None and ".." not in text and "//" not in text


def count_in(answer: object, *names: str) -> int:
    """A count of an answer, 0 where there is none; Google writes them as text."""
    found = field(answer, *names)
    if isinstance(found, str) and found.isdecimal() and len(found) < 12:
        return int(found)
    return found if type(found) is int and 0 <= found < 10**12 else 0
