"""The message bus: delivery, coalescing, bounds and faults."""

from __future__ import annotations

import threading

import pytest

from memtui.bus import (
    Bus,
    Event,
    FileIndexed,
    FilesChanged,
    IndexSwapped,
    SyncProgressed,
)


def progressed(done: int) -> SyncProgressed:
    return SyncProgressed("files", done, 1000, 1.0, None)


def test_a_handler_gets_only_the_types_it_asked_for() -> None:
    bus = Bus()
    seen: list[Event] = []
    bus.subscribe((FilesChanged, IndexSwapped), seen.append)
    bus.publish(FilesChanged(("a.md",)))
    bus.publish(progressed(1))
    bus.publish(IndexSwapped(2))
    assert seen == [FilesChanged(("a.md",)), IndexSwapped(2)]


def test_a_closed_subscription_gets_nothing() -> None:
    bus = Bus()
    seen: list[Event] = []
    subscription = bus.subscribe(FilesChanged, seen.append)
    subscription.close()
    subscription.close()
    bus.publish(FilesChanged(()))
    assert seen == []


def test_a_failing_handler_is_reported_and_stops_nobody_else() -> None:
    failures: list[tuple[Event, Exception]] = []
    bus = Bus(on_error=lambda event, error: failures.append((event, error)))
    seen: list[Event] = []

    def fail(event: Event) -> None:
        raise ValueError("boom")

    bus.subscribe(IndexSwapped, fail)
    bus.subscribe(IndexSwapped, seen.append)
    bus.publish(IndexSwapped(1))
    assert seen == [IndexSwapped(1)]
    assert [str(error) for _, error in failures] == ["boom"]


def test_without_an_error_handler_a_failure_reaches_the_publisher_last() -> None:
    bus = Bus()
    seen: list[Event] = []

    def fail(event: Event) -> None:
        raise ValueError("boom")

    bus.subscribe(IndexSwapped, fail)
    bus.subscribe(IndexSwapped, seen.append)
    with pytest.raises(ValueError, match="boom"):
        bus.publish(IndexSwapped(1))
    assert seen == [IndexSwapped(1)]


def test_many_threads_publish_without_loss() -> None:
    bus = Bus()
    seen: list[FileIndexed] = []
    bus.subscribe(FileIndexed, seen.append)

    def publish(worker: int) -> None:
        for number in range(500):
            bus.publish(FileIndexed(f"{worker}/{number}", 1))

    workers = [threading.Thread(target=publish, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({event.path for event in seen}) == 2000
