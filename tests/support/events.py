"""The events of a bus, collected for a test that waits for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from memtui import bus as events
from memtui.bus import Bus, Event

_NEWEST_COUNTS = (
    events.SyncProgressed,
    events.IndexChanged,
    events.SearchReady,
    events.StatusChanged,
)


class EventQueue:
    """Collects events; a newer one takes the place of one that says the same of an earlier time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, Event] = OrderedDict()
        self._condition = threading.Condition()

    def put(self, event: Event) -> None:
        """Add an event; never blocks."""
        with self._condition:
            self._waiting.pop(_key(event), None)
            self._waiting[_key(event)] = event
            self._condition.notify()

    def get(self, timeout: float | None = None) -> Event | None:
        """Take the oldest event; `None` after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting, timeout)
            return self._waiting.popitem(last=False)[1] if self._waiting else None


def _key(event: Event) -> Hashable:
    if isinstance(event, events.FileIndexed | events.FileSkipped):
        return type(event), event.path
    if isinstance(event, events.LegDegraded | events.LegRecovered):
        return "leg", event.leg
    return type(event).__name__ if isinstance(event, _NEWEST_COUNTS) else id(event)


def collect(bus: Bus, types: type[Event] | tuple[type[Event], ...]) -> EventQueue:
    """Collect every event of these types."""
    queue = EventQueue()
    bus.subscribe(types, queue.put)
    return queue
