"""Work beside the event loop: run it, report how far it is, and show what went wrong."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.worker import Worker, get_current_worker

from memtui.errors import Cancelled, IsCancelled, stop_if
from memtui.text.sanitize import safe, safe_line

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp

T = TypeVar("T")

PROGRESS_SECONDS = 0.1
"""Between two reports of how far something is."""
_TOAST_SECONDS = {"error": 30, "warning": 10, "information": 4}


def tell(node: DOMNode, text: str, *, error: bool = False, warning: bool = False) -> None:
    """Show a toast: what happened, and what to do next."""
    severity: SeverityLevel = "error" if error else "warning" if warning else "information"
    node.app.notify(safe(text), markup=False, severity=severity, timeout=_TOAST_SECONDS[severity])


def start_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Run something on a thread that nobody waits for at the end."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def in_background(
    node: DOMNode,
    work: Callable[[], T],
    then: Callable[[T], object],
    failed: Callable[[str], object] | str,
    *,
    group: str = "",
) -> Worker[None]:
    """Run `work` on a thread, and `then` with its result on the event loop, for a screen.

    `failed` is given an error as one line; a text in its place says what could not be done then,
    in a toast. Work of a group cancels what still runs in that group. `Cancelled` ends the work
    silently. `then` runs as a part of the worker, so that nothing that was cancelled is shown.
    """

    async def run() -> None:
        outcome: Callable[[], object]
        try:
            outcome = partial(then, await asyncio.to_thread(work))
        except (Cancelled, CancelledError):
            return
        except Exception as error:
            text = cast("MemtuiApp", node.app).completed(str(error) or type(error).__name__)
            text = safe_line(text)
            if isinstance(failed, str):
                outcome = partial(tell, node, f"could not {failed}: {text}", error=True)
            else:
                outcome = partial(failed, text)
        if node.is_running:
            # While it is closed, a screen outlives its widgets for a moment.
            outcome()

    return node.run_worker(run, group=group or "default", exclusive=bool(group))


def cancellation() -> IsCancelled:
    """Return what turns true once nobody waits for the work of this thread any more."""
    worker = get_current_worker()
    return lambda: worker.is_cancelled


def stop_if_cancelled(*_: object) -> None:
    """Raise `Cancelled` once nobody waits for the work of this thread any more."""
    stop_if(cancellation())


class LongTask:
    """Runs one long task at a time for a screen: says how far it is, and can be stopped."""

    def __init__(self, node: DOMNode) -> None:
        self._node = node
        self._worker: Worker[None] | None = None
        self.progress = (0, 0)
        """The steps that are done, and all steps; both 0 before that is known."""

    @property
    def is_running(self) -> bool:
        return self._worker is not None and not self._worker.is_finished

    def start(
        self,
        work: Callable[..., T],
        then: Callable[[T], object],
        failed: Callable[[str], object],
        progressed: Callable[[], object],
    ) -> None:
        """Run `work(cancelled=…, progressed=…)` on a thread, the others on the event loop."""
        node, last = self._node, 0.0

        def show_progress(done: int, total: int) -> None:
            # What a task told that was stopped or is over since is dropped.
            if worker is self._worker and self.is_running:
                self.progress = done, total
                progressed()

        def report(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= PROGRESS_SECONDS:
                last = time.monotonic()
                node.call_later(show_progress, done, total)

        self.stop()
        self.progress = (0, 0)
        worker = self._worker = in_background(
            node,
            lambda: work(cancelled=cancellation(), progressed=report),
            # Once the task is over.
            partial(node.call_next, then),
            partial(node.call_next, failed),
        )

    def stop(self) -> bool:
        worker, was_running = self._worker, self.is_running
        self._worker = None
        if worker is not None:
            worker.cancel()
        return was_running
