"""What goes wrong in a worker is told, on whichever screen it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import ClassVar

import pytest

from memtui.engine.source import RebuildCost, RecentFile
from tests.tui.harness import Running, running, until
from tests.tui.samples import SampleEngine


class FailingEngine(SampleEngine):
    """An engine whose readers raise, once it is told to."""

    error: ClassVar[Exception] = OSError("disk [/gone]")
    failing = False

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """Fail."""
        if self.failing:
            raise self.error
        return super().recent(limit)

    def rebuild_cost(self) -> RebuildCost:
        """Fail."""
        raise self.error


def _told(run: Running) -> set[str]:
    return {notification.message for notification in run.app._notifications}


def _fail(run: Running) -> None:
    assert isinstance(run.engine, FailingEngine)
    run.engine.failing = True
    run.app.search_screen.search.show_start()


async def test_a_failed_list_of_recent_notes_is_told() -> None:
    async with running(FailingEngine) as run:
        _fail(run)
        await until(
            run.pilot, lambda: "could not list the recent notes: disk [/gone]" in _told(run)
        )


@pytest.mark.parametrize("keys", [(), ("4",)])
async def test_a_failed_price_is_told_on_both_screens(keys: tuple[str, ...]) -> None:
    async with running(FailingEngine) as run:
        await run.pilot.press("escape", *keys, "R")
        await until(run.pilot, lambda: "could not price the rebuild: disk [/gone]" in _told(run))


async def test_what_was_cancelled_on_the_way_out_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailingEngine, "error", CancelledError())
    async with running(FailingEngine) as run:
        _fail(run)
        await until(run.pilot, lambda: not any(not w.is_finished for w in run.app.workers))
        await run.pilot.pause()
        assert not _told(run)
