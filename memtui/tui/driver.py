"""Taking the terminal over from the first frame, without a blank screen in between."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from textual.app import App
from textual.driver import Driver

from memtui.tui.instant import ENTER_SCREEN, InstantFrame


def take_over(app: App[Any], frame: InstantFrame) -> None:
    """Let `app` go on from the frame; what keeps it from starting is told on the screen before."""

    class Errors(Console):
        """Gives the terminal back before the first line of an error."""

        def print(self, *objects: Any, **options: Any) -> None:
            frame.leave()
            super().print(*objects, **options)

    app.driver_class = _driver_from(frame, app.driver_class)
    app.error_console = Errors(markup=False, highlight=False, stderr=True)


def _driver_from(frame: InstantFrame, driver: type[Driver]) -> type[Driver]:
    """`driver` for a terminal that shows `frame`; itself where it is not Textual's for POSIX."""
    if sys.platform == "win32":
        return driver
    from textual.drivers.linux_driver import LinuxDriver

    if driver is not LinuxDriver:
        return driver

    class ContinuingDriver(LinuxDriver):
        """Writes on the screen that the frame is on, and leaves the terminal as it was before."""

        def write(self, data: str) -> None:
            # Entered twice, many terminals clear it: nothing would be seen until the next paint.
            if data != ENTER_SCREEN or not frame.is_shown:
                super().write(data)

        def start_application_mode(self) -> None:
            super().start_application_mode()  # type: ignore[no-untyped-call]
            if frame.is_shown:
                self.attrs_before = frame.attributes
                frame.is_shown = False

    return ContinuingDriver
