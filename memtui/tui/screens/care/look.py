"""The look through a memory for what needs care, and its report, kept while the program runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memtui.bus import Event
from memtui.engine.care import MOST_FINDINGS
from memtui.model.browsing import CareFinding, CareReport
from memtui.tui.background import at_intervals, in_background
from memtui.tui.bridge import CHANGES, changes_content
from memtui.tui.screens.care.findings import FindingRow, finding_rows

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.screens.base import BaseScreen


@dataclass(frozen=True, slots=True)
class Looked:
    """A report and its rows; `changes`: how often the index had changed when the look began."""

    report: CareReport
    rows: tuple[FindingRow, ...]
    most: int
    """More findings than these are not listed of one rule."""
    changes: int


class CareLook:
    """Goes through the memory of one engine, and holds the newest report about it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.looked: Looked | None = None
        self.chosen: CareFinding | None = None
        """The finding that was looked at last."""
        self.progress = (0, 0)
        self.problem = ""
        self._changes = 0
        self._tickets = 0
        self._running = 0
        """The ticket of the look that goes on; 0 for none."""
        self._subscription = engine.bus.subscribe(CHANGES, self._count)

    def _count(self, event: Event) -> None:
        if changes_content(event):
            self._changes += 1

    @property
    def is_running(self) -> bool:
        """Whether a look goes on."""
        return self._running != 0

    @property
    def is_current(self) -> bool:
        """Whether the report is of the index as it is now."""
        return self.looked is not None and self.looked.changes == self._changes

    @property
    def chosen_id(self) -> str | None:
        """Where the newest report has the finding that was looked at last."""
        if self.looked is None or self.chosen is None:
            return None
        place = _place_of(self.chosen)
        findings = enumerate(self.looked.report.findings)
        return next((str(at) for at, one in findings if _place_of(one) == place), None)

    def start(self, screen: BaseScreen[Any], changed: Callable[[], None]) -> None:
        """Go through the whole memory, from the beginning; `changed` is called as it goes on."""
        self._tickets += 1
        self._running = ticket = self._tickets
        self.progress, self.problem = (0, 0), ""
        changes = self._changes

        def progressed(done: int, total: int) -> None:
            if ticket == self._running:
                self.progress = (done, total)
                changed()

        def look() -> Looked:
            report = self.engine.browse.care(
                cancelled=lambda: self._running != ticket,
                progressed=at_intervals(
                    lambda done, total: screen.call_later(lambda: progressed(done, total))
                ),
            )
            return Looked(report, finding_rows(report.findings), MOST_FINDINGS, changes)

        def take(looked: Looked | None, problem: str = "") -> None:
            if ticket == self._running:
                self._running, self.problem = 0, problem
                self.looked = looked or self.looked
                changed()

        in_background(
            screen,
            look,
            take,
            lambda error: take(None, error),
            description="look through the memory",
        )

    def stop(self) -> bool:
        """Stop the look; false when none goes on."""
        was_running, self._running = self.is_running, 0
        if was_running:
            self.problem = "stopped"
        return was_running

    def close(self) -> None:
        """Stop, and count changes no more."""
        self._running = 0
        self._subscription.close()


def _place_of(finding: CareFinding) -> tuple[object, ...]:
    return finding.rule, finding.place.path, finding.place.start_line
