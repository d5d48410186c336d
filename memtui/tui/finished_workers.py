"""A finished worker goes with its screen; no thread of the pool keeps it."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import Context
from typing import Any

from textual.worker import Worker, active_worker


def release_finished_workers() -> None:
    """Let every worker that runs in a thread run in a context of its own.

    Textual 8.2 names the active worker in the context of the pool's thread, where it stays until
    that thread has another: each of up to 32 threads keeps the last worker it ran, its result, and
    the screen it was for with all that is on it, however long that is closed. Does nothing the
    second time, or when Textual runs its workers in another way.
    """
    by_textual: Any = vars(Worker).get("_run_threaded")
    if by_textual is None or by_textual.__module__ != Worker.__module__:
        return

    async def _run_threaded(self: Worker[Any]) -> Any:
        work: Any = self._work
        if not callable(work) or inspect.iscoroutinefunction(getattr(work, "func", work)):
            return await by_textual(self)

        def run() -> Any:
            active_worker.set(self)
            return work()

        return await asyncio.get_running_loop().run_in_executor(None, Context().run, run)

    Worker._run_threaded = _run_threaded  # type: ignore[method-assign]
