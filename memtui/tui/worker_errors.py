"""What goes wrong in a worker is told: Textual keeps it to itself when `exit_on_error` is off."""

from __future__ import annotations

from asyncio import CancelledError as TaskCancelled
from concurrent.futures import CancelledError
from typing import Any

from textual.app import App
from textual.worker import Worker, WorkerState

from memtui.text.sanitize import safe_line

_SECONDS = 30


def tell_worker_error(app: App[Any], event: Worker.StateChanged) -> None:
    """Show the error of a worker as a toast; what was only cancelled, on the way out, is quiet.

    Worker messages do not bubble, so every node with workers calls this for its own.
    """
    error = event.worker.error
    if event.state is not WorkerState.ERROR or isinstance(error, CancelledError | TaskCancelled):
        return
    text = f"could not {event.worker.description}: {str(error) or type(error).__name__}"
    app.notify(safe_line(text), markup=False, severity="error", timeout=_SECONDS)
