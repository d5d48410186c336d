"""The events of a bus, collected for a test that waits for them."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from memtui.bus import Bus, Event


class EventQueue:
    """The events of some types, in their order."""

    def __init__(self, bus: Bus, types: type[Event] | tuple[type[Event], ...]) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        bus.subscribe(types, self._events.put)

    def get(self, timeout: float) -> Event | None:
        """Take the oldest event; `None` after `timeout` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return None
