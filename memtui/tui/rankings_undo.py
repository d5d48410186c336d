"""The rankings that were left, so that each can be gone back to."""

from __future__ import annotations

from dataclasses import dataclass, field

from memtui.model import Ranking

MOST = 100
BURST_SECONDS = 0.15
"""Steps of one parameter that follow within this time are one change: a key that is held repeats
every 30 ms or so, and fingers are slower than 150 ms."""


@dataclass(slots=True)
class RankingHistory:
    """What undo and redo go back to; at most `MOST` changes are kept."""

    undone: list[Ranking] = field(default_factory=list)
    """What redo goes to, the next one last."""
    _before: list[Ranking] = field(default_factory=list)
    _step: str = ""
    _at: float = 0.0

    def changed(self, before: Ranking, after: Ranking, step: str, seconds: float) -> None:
        """Note a change at a time of a monotonic clock; `step` names the parameter of a stepping
        key, else it is empty. Steps of a burst become one change, and none when it ends where it
        began."""
        is_burst = bool(step) and step == self._step and seconds - self._at <= BURST_SECONDS
        self._step, self._at = step, seconds
        self.undone.clear()
        if not is_burst or not self._before:
            self._before.append(before)
            del self._before[:-MOST]
        elif self._before[-1] == after:
            self._before.pop()

    def undo(self, present: Ranking) -> Ranking | None:
        """The ranking before the last change, which redo will bring back; `None`: no change."""
        if not self._before:
            return None
        self._step = ""
        self.undone.append(present)
        return self._before.pop()

    def redo(self, present: Ranking) -> Ranking | None:
        """The ranking that undo left last; `None` when nothing was undone since a change."""
        if not self.undone:
            return None
        self._step = ""
        self._before.append(present)
        return self.undone.pop()

    def clear(self) -> None:
        """Forget everything: another memory is open."""
        self.undone.clear()
        self._before.clear()
        self._step = ""
