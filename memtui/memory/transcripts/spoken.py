"""Lines for the index out of turns, for programs that have no rules of their own for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memtui.memory.transcripts.base import (
    Record,
    TranscriptFormat,
    TranscriptLine,
    parse_record,
    whole,
)
from memtui.memory.transcripts.generated import Dropped, Role, Run
from memtui.memory.transcripts.repeats import Repeats
from memtui.memory.transcripts.text import normalise, wrap
from memtui.model.conversations import Turn, TurnKind
from memtui.text.ecmascript import trim
from memtui.text.redact import redact


class SpokenLines:
    """Reads a transcript as a `LineReader`: folded, redacted and wrapped as OpenClaw's lines are.

    A record that was read before, as programs repeat them when they resume, is left out.
    """

    def __init__(
        self, form: TranscriptFormat, *, redacts: bool, state: Mapping[str, Any] | None
    ) -> None:
        held = state or {}
        self.run: Run | None = Run(held["run"]) if held.get("run") else None
        self.messages: int = held.get("messages", 0)
        self.malformed: int = held.get("malformed", 0)
        self.cutoff = 0
        self.dropped: Counter[str] = Counter(held.get("dropped", {}))
        self._form = form
        self._redacts = redacts
        self._repeats = Repeats(held.get("seen", ""))
        self._begun: bool = held.get("begun", False)

    def add_line(self, text: str, number: int) -> list[TranscriptLine]:
        """Read the next line of the file."""
        if not trim(text):
            return []
        try:
            record = parse_record(text)
        except ValueError:
            # Counted: a cut or damaged line must not end the reading of a transcript.
            self.malformed += 1
            return []
        if not isinstance(record, dict) or not self._form.recognises(record):
            return []
        self._begin(record)
        said = [turn for turn in self._form.turns(record, number, redacts=False) if _is_said(turn)]
        if said and self._repeats.is_repeat(self._form, record):
            self.dropped[Dropped.DUPLICATE] += len(said)
            return []
        return [line for turn in said for line in self._lines(turn)]

    def cuts_before(self, number: int) -> bool:
        """Never: no such program begins a conversation anew within a file."""
        return False

    def state(self) -> dict[str, Any]:
        """What is known so far."""
        return {
            "run": self.run,
            "messages": self.messages,
            "malformed": self.malformed,
            "dropped": dict(self.dropped),
            "seen": self._repeats.held,
            "begun": self._begun,
        }

    def _begin(self, record: Record) -> None:
        """See by its first record that a whole transcript is no talk with a person."""
        if not self._begun:
            self._begun = True
            self.run = self._form.run_of(record)

    def _lines(self, turn: Turn) -> list[TranscriptLine]:
        why = turn.left_out or (Dropped.GENERATED_RUN if self.run else "")
        text = "" if why else normalise(whole(turn.text))
        if not text:
            self.dropped[why or Dropped.NO_TEXT] += 1
            return []
        self.messages += 1
        role = Role(turn.role)
        if self._redacts:
            text = redact(text)
        return [
            TranscriptLine(role, f"{role.label}: {piece}", turn.line, turn.timestamp_ms)
            for piece in wrap(text)
        ]


def _is_said(turn: Turn) -> bool:
    return turn.kind is TurnKind.MESSAGE and turn.role in (Role.USER, Role.ASSISTANT)
