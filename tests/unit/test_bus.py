"""The message bus: delivery, coalescing, bounds and faults."""

from __future__ import annotations

import threading

import pytest

from memtui.bus import (
    Bus,
    Event,
    EventQueue,
    FileIndexed,
    FilesChanged,
    IndexSwapped,
    LegDegraded,
    LegRecovered,
    SyncProgressed,
)
from memtui.model import Leg, Reason


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


def test_a_queue_keeps_the_newest_event_of_a_key() -> None:
    bus = Bus()
    queue = bus.queue(SyncProgressed)
    for done in range(1000):
        bus.publish(progressed(done))
    assert queue.get(0) == progressed(999)
    assert queue.get(0) is None


def test_a_queue_keeps_events_of_different_keys_in_order() -> None:
    bus = Bus()
    queue = bus.queue((FileIndexed, LegDegraded, LegRecovered))
    bus.publish(LegDegraded(Leg.VECTOR, Reason.PROVIDER_FAILED))
    bus.publish(FileIndexed("a.md", 1))
    bus.publish(FileIndexed("b.md", 1))
    bus.publish(LegRecovered(Leg.VECTOR))
    events = [queue.get(0) for _ in range(3)]
    assert events == [FileIndexed("a.md", 1), FileIndexed("b.md", 1), LegRecovered(Leg.VECTOR)]


def test_a_full_queue_drops_the_oldest_and_counts() -> None:
    queue = EventQueue(limit=2)
    for number in range(5):
        queue.put(FilesChanged((str(number),)))
    assert queue.dropped == 3
    assert queue.get(0) == FilesChanged(("3",))


def test_closing_wakes_a_waiting_consumer() -> None:
    bus = Bus()
    queue = bus.queue(FilesChanged)
    got: list[Event | None] = []
    consumer = threading.Thread(target=lambda: got.append(queue.get(timeout=30)))
    consumer.start()
    queue.close()
    consumer.join(timeout=30)
    assert got == [None]
    bus.publish(FilesChanged(()))
    assert queue.get(0) is None


def test_many_threads_publish_without_loss() -> None:
    bus = Bus()
    queue = bus.queue(FileIndexed, limit=100_000)

    def publish(worker: int) -> None:
        for number in range(500):
            bus.publish(FileIndexed(f"{worker}/{number}", 1))

    workers = [threading.Thread(target=publish, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    names = set()
    while (event := queue.get(0)) is not None:
        assert isinstance(event, FileIndexed)
        names.add(event.path)
    assert len(names) == 2000
