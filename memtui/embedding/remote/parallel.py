"""Running the same work on several items at once, with the results in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from memtui.errors import Cancelled

Item = TypeVar("Item")
Result = TypeVar("Result")
Stopped = Callable[[], bool]

_LOOK: Final = 0.02


def in_order(
    items: Sequence[Item],
    run: Callable[[Item, Stopped], Result],
    *,
    workers: int,
    stopped: Stopped,
) -> list[Result]:
    """Run each item in one of so many threads; the results are in the order of the items.

    `run` gets what tells it to stop. The first failure stops the others and is raised; raises
    `Cancelled` within 0.1 s once `stopped()`, which is asked in the calling thread alone.
    """
    if stopped():
        raise Cancelled
    if len(items) < 2 or workers < 2:
        return [run(item, stopped) for item in items]
    race = _Race(items, run)
    for number in range(min(workers, len(items))):
        name = f"memtui-embedding-{number}"
        threading.Thread(target=race.work, name=name, daemon=True).start()
    while not race.ended.wait(_LOOK):
        if stopped():
            race.stopping.set()
            raise Cancelled
    if race.failure is not None:
        raise race.failure
    return [race.results[number] for number in range(len(items))]


class _Race(Generic[Item, Result]):
    def __init__(self, items: Sequence[Item], run: Callable[[Item, Stopped], Result]) -> None:
        self.results: dict[int, Result] = {}
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.ended = threading.Event()
        self._run = run
        self._items = iter(enumerate(items))
        self._count = len(items)
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run items until none is left, or one failed."""
        while not self.stopping.is_set():
            try:
                with self._lock:
                    number, item = next(self._items)
            except StopIteration:
                return
            try:
                result = self._run(item, self.stopping.is_set)
            except BaseException as error:
                with self._lock:
                    self.failure = self.failure or error
                self.stopping.set()
                self.ended.set()
                return
            with self._lock:
                self.results[number] = result
                if len(self.results) == self._count:
                    self.ended.set()
