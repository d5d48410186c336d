"""A search that runs beside another one, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
_Task: TypeAlias = "tuple[Callable[[], Any], Future[Any]]"


class Beside:
    """One thread for searches that touch no file; belongs to the thread that asks.

    It is a daemon: a model that hangs does not keep the program from ending.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] | None = None

    @contextmanager
    def running(self, search: Callable[[], T] | None) -> Iterator[Future[T] | None]:
        """Run `search` during the block, if there is one; it is over when the block ends.

        What it raises is raised by the future's `result`.
        """
        if search is None:
            yield None
            return
        # Imported late: a search of one command does without.
        from concurrent.futures import Future, wait

        if self._tasks is None:
            self._tasks = SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._tasks,), name="memtui-vectors", daemon=True
            ).start()
        future: Future[T] = Future()
        self._tasks.put((search, future))
        try:
            yield future
        finally:
            # The next search must not find this one in the same objects.
            wait((future,))

    def close(self) -> None:
        """Let the thread end."""
        if self._tasks is not None:
            self._tasks.put(None)
            self._tasks = None


def _serve(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        search, future = task
        try:
            future.set_result(search())
        except BaseException as error:
            future.set_exception(error)
        # What was searched is not held until the next search.
        del task, search, future
