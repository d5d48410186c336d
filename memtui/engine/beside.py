"""A search that runs beside another one, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")


class Beside:
    """One thread for searches that touch no file; belongs to the thread that asks."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    @contextmanager
    def running(self, search: Callable[[], T] | None) -> Iterator[Future[T] | None]:
        """Run `search` during the block, if there is one; it is over when the block ends.

        What it raises is raised by the future's `result`.
        """
        if search is None:
            yield None
            return
        from concurrent.futures import ThreadPoolExecutor, wait

        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="memtui-vectors")
        future = self._executor.submit(search)
        try:
            yield future
        finally:
            # The next search must not find this one in the same objects.
            wait((future,))

    def close(self) -> None:
        """Let the thread end."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
