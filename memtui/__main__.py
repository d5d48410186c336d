"""The program: the command line, and the terminal interface behind it."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn


def open_interface(*arguments: Any, **options: Any) -> int:
    """Open the terminal interface as `memtui.tui.app.run` does; only this imports it."""
    gc.disable()  # What is imported and laid out until the first paint stays.
    from memtui.tui.app import run

    return run(*arguments, **options)


def main() -> None:
    fill_closed_streams()
    from memtui.cli.main import run, thread_crashed

    threading.excepthook = thread_crashed
    leave(run(sys.argv[1:], open_interface))


def fill_closed_streams() -> None:
    """Put the null device in the place of standard streams that were closed before the start.

    Python has `None` for them, and the next file to be opened would get their descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            # Lasts as long as the process does.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def leave(code: int) -> NoReturn:
    """End the process, at once when a thread of the engine is still busy.

    Such a thread may be inside the model's native code, where it cannot be stopped and where it
    would abort the process when the interpreter is taken down around it. Everything on disk is
    either committed or will be rolled back by the next open.
    """
    busy = [thread for thread in threading.enumerate() if thread.name.startswith("memtui-")]
    if not busy:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
