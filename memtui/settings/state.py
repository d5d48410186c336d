"""The state folder: small private files that may be lost without harm."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from memtui.settings.places import state_dir
from memtui.settings.private import make_private, narrow

# A half-written file of this age, in seconds, belongs to no process that still writes.
_ABANDONED = 3600.0


class StateFolder:
    """History, window choices and trusted files, readable by their owner alone.

    Files have mode 0600 in a folder of mode 0700; a write replaces the whole file at once, so a
    reader never sees half of one. Names are plain file names.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = state_dir() if path is None else path

    def narrow(self) -> None:
        """Take away from others what they may read of the folder, where there is one."""
        narrow(self.path)

    def read_text(self, name: str) -> str | None:
        """The content of a file; `None` when there is none or it cannot be read as UTF-8."""
        try:
            return self._file(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def write_text(self, name: str, text: str) -> None:
        """Replace a file; raises OSError when the folder cannot be written."""
        target = self._file(name)
        make_private(self.path)
        self._sweep(name)
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _sweep(self, name: str) -> None:
        """Remove what processes that were killed left of a file they were writing."""
        before = time.time() - _ABANDONED
        for path in self.path.iterdir():
            # Another process may be removing it as well.
            if path.name.startswith(f".{name}-"):
                with suppress(FileNotFoundError, PermissionError):
                    if path.stat().st_mtime < before:
                        path.unlink()

    def read_json(self, name: str) -> Any:
        """The value of a JSON file; `None` when there is none or it is not JSON."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    def write_json(self, name: str, value: Any) -> None:
        """Replace a file by a value as JSON; raises OSError when it cannot be written."""
        self.write_text(name, json.dumps(value, ensure_ascii=True, indent=1) + "\n")

    def _file(self, name: str) -> Path:
        if not name or name in {".", ".."} or set(name) & set("/\\:\0"):
            raise ValueError(f"not a plain file name: {name!r}")
        return self.path / name
