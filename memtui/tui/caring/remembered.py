"""What the last look through the memory found, kept while the program runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from textual.app import App

from memtui.bus import Bus, Event
from memtui.model.browsing import CareFinding, CareReport
from memtui.tui.bridge import CHANGES, changes_content
from memtui.tui.caring.rows import FindingRow

if TYPE_CHECKING:
    from memtui.engine import Engine


@dataclass(frozen=True, slots=True)
class Looked:
    """A report and its rows; `changes`: how often the index had changed when the look began."""

    report: CareReport
    rows: tuple[FindingRow, ...]
    most: int
    """More findings than these are not listed of one rule."""
    changes: int


class CareMemory:
    """Counts the changes of an index, and holds the newest report about it."""

    def __init__(self, engine: Engine, bus: Bus) -> None:
        self.engine = engine
        self.changes = 0
        self.looked: Looked | None = None
        self.chosen: CareFinding | None = None
        """The finding that was looked at last."""
        self._subscription = bus.subscribe(CHANGES, self._count)

    def _count(self, event: Event) -> None:
        if changes_content(event):
            self.changes += 1

    @property
    def chosen_id(self) -> str | None:
        """Where the newest report has the finding that was looked at last."""
        chosen = self.chosen
        if self.looked is None or chosen is None:
            return None
        place = (chosen.rule, chosen.place.path, chosen.place.start_line)
        return next(
            (
                str(at)
                for at, one in enumerate(self.looked.report.findings)
                if (one.rule, one.place.path, one.place.start_line) == place
            ),
            None,
        )

    @property
    def is_current(self) -> bool:
        """Whether the report is of the index as it is now."""
        return self.looked is not None and self.looked.changes == self.changes

    def close(self) -> None:
        """Count no more."""
        self._subscription.close()


_MEMORIES: WeakKeyDictionary[App[Any], CareMemory] = WeakKeyDictionary()


def care_memory(app: App[Any], engine: Engine, bus: Bus) -> CareMemory:
    """What is remembered of the memory that is open; of the one before it is forgotten."""
    memory = _MEMORIES.get(app)
    if memory is None or memory.engine is not engine:
        if memory is not None:
            memory.close()
        memory = _MEMORIES[app] = CareMemory(engine, bus)
    return memory
