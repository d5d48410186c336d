"""The message bus: delivery, coalescing, bounds and faults."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from memtui.bus import Bus, Event, FileIndexed, IndexChanged, StatusChanged


def test_a_handler_gets_only_the_types_it_asked_for() -> None:
    bus = Bus()
    seen: list[Event] = []
    unsubscribe = bus.subscribe((IndexChanged, StatusChanged), seen.append)
    bus.publish(IndexChanged())
    bus.publish(FileIndexed())
    bus.publish(StatusChanged())
    assert seen == [IndexChanged(), StatusChanged()]
    unsubscribe()
    unsubscribe()
    bus.publish(IndexChanged())
    assert len(seen) == 2


def test_a_failing_handler_is_reported_and_stops_nobody_else() -> None:
    failures: list[tuple[Event, Exception]] = []
    bus = Bus()
    bus.on_error = lambda event, error: failures.append((event, error))
    seen: list[Event] = []
    bus.subscribe(StatusChanged, Mock(side_effect=ValueError("boom")))
    bus.subscribe(StatusChanged, seen.append)
    bus.publish(StatusChanged())
    assert seen == [StatusChanged()]
    assert [str(error) for _, error in failures] == ["boom"]
    # Without a handler of errors it reaches the publisher last.
    bus.on_error = None
    with pytest.raises(ValueError, match="boom"):
        bus.publish(StatusChanged())
    assert seen == [StatusChanged(), StatusChanged()]
