"""When to ask and which answer to believe: the state of searching as you type."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

DELAY = 0.040
"""Seconds without keys after which a text is asked that was typed quicker than anyone types."""
SHORTEST_PAUSE = 0.400
LONGEST_PAUSE = 1.200
SLOW_AFTER = 0.300
"""Seconds after which a running search is named."""


@dataclass(slots=True)
class SearchFlow:
    """The text wanted, the request that is out and what came back; belongs to the UI loop."""

    wanted: str = ""
    """The text in the query box."""
    asked: str | None = None
    """The text of the newest request; `None` before the first."""
    answered: str | None = None
    """The text that what is on screen answers."""
    submitted: str | None = None
    """The text that is finished, by Enter or a pause: a remote model may be asked."""
    sequence: int = -1
    complete: bool = True
    remote: bool = False
    """Whether the model is on another machine, which only a finished text is sent to."""
    latency: float = 0.0
    """Seconds of the last complete answer."""
    key_at: float = -inf
    """When the text was changed last."""

    @property
    def running(self) -> bool:
        """Whether the newest request has not been answered completely."""
        return self.asked is not None and not self.complete

    @property
    def unanswered(self) -> bool:
        """Whether what is on screen belongs to a text before that of the newest request."""
        return self.running and self.answered != self.asked

    @property
    def pending(self) -> bool:
        """Whether the text in the box has not been asked yet."""
        return self.wanted != self.asked

    def is_burst(self, now: float) -> bool:
        """Note that the text was changed at `now`; whether that follows hard on the last time.

        A held key and a paste by keys are bursts: only their end is asked.
        """
        before, self.key_at = self.key_at, now
        return now - before < DELAY

    def pause(self) -> float:
        """Seconds without keys after which a text is finished: the last latency, 0.4 to 1.2."""
        return min(max(SHORTEST_PAUSE, self.latency), LONGEST_PAUSE)

    def ask(self, text: str, sequence: int) -> None:
        """Note that a request went out."""
        self.asked = text
        self.sequence = sequence
        self.complete = False

    def accept(self, sequence: int, *, complete: bool, seconds: float) -> bool:
        """Note an answer; false when it is not the answer to the newest request."""
        if sequence != self.sequence or self.asked is None:
            return False
        self.answered = self.asked
        self.complete = complete
        if complete:
            self.latency = seconds
        return True

    def fail(self, sequence: int) -> bool:
        """Note a failure; false when it belongs to an older request."""
        if sequence != self.sequence:
            return False
        self.complete = True
        return True

    def clear(self) -> None:
        """Forget the request that is out: its answer will not be believed."""
        self.submitted = None
        self.asked = None
        self.answered = None
        self.sequence = -1
        self.complete = True
