"""Taking turns at a model that can do one thing at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from memtui.errors import Cancelled

_ASK_EVERY: Final = 0.05
"""Seconds between two looks at whether one who waits was cancelled."""


class Turns:
    """Lets one thread at a time work; a query that waits goes before every document that waits.

    A plain lock would not do: the thread that embeds documents takes it again before a waiting
    query wakes up.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self._queries = 0

    @contextmanager
    def for_query(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Wait for the work at hand to end, then work; raises `Cancelled` while it waits."""
        with self._changed:
            self._queries += 1
            try:
                self._wait(lambda: not self._taken, cancelled)
            finally:
                self._queries -= 1
                # Whoever waits for there to be no query may go on when this one gave up.
                self._changed.notify_all()
            self._taken = True
        try:
            yield
        finally:
            self._give_back()

    @contextmanager
    def for_document(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Wait until nobody works and no query waits, then work; raises as `for_query` does."""
        with self._changed:
            self._wait(lambda: not self._taken and not self._queries, cancelled)
            self._taken = True
        try:
            yield
        finally:
            self._give_back()

    def _wait(self, is_free: Callable[[], bool], cancelled: Callable[[], bool] | None) -> None:
        pause = None if cancelled is None else _ASK_EVERY
        while not self._changed.wait_for(is_free, pause):
            if cancelled is not None and cancelled():
                raise Cancelled

    def _give_back(self) -> None:
        with self._changed:
            self._taken = False
            self._changed.notify_all()
