"""Keys that are pressed before anything can take them: kept, and handed on in their order."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events


class EarlyKeys:
    """What was typed since the first frame, until it is taken once."""

    def __init__(self) -> None:
        self._kept: list[events.Event] | None = []

    def keep(self, event: events.Event) -> bool:
        """Keep an event; false when events are no longer kept."""
        if self._kept is None:
            return False
        self._kept.append(event)
        return True

    def take(self) -> Sequence[events.Event]:
        """What was kept, once; from now on nothing is."""
        kept, self._kept = self._kept, None
        return kept or ()
