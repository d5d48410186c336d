"""The program: the command line, and the terminal interface behind it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded


def open_interface(workspace: Found, loaded: Loaded, *, demo: bool) -> int:
    """Open the terminal interface and return the exit code; only this imports it."""
    from memtui.tui.app import run

    return run(workspace, loaded, demo=demo)


def main() -> None:
    """Run the program with the arguments of the process."""
    from memtui.cli.main import run

    sys.exit(run(sys.argv[1:], open_interface))


if __name__ == "__main__":
    main()
