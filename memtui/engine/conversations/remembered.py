"""What was read of transcripts, kept in memory for as long as the files stay as they are."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from memtui.model import SourceFile

T = TypeVar("T")


class Remembered(Generic[T]):
    """One value for each transcript, valid for one size and mtime; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, tuple[tuple[int, int], T]] = {}

    def get(self, file: SourceFile) -> T | None:
        """What was kept for the file as it is now; `None` when there is nothing."""
        with self._lock:
            stamp, value = self._values.get(file.path, ((-1, -1), None))
        return value if stamp == (file.size, file.mtime_ns) else None

    def put(self, file: SourceFile, value: T) -> T:
        """Keep a value for the file as it was when it was listed."""
        with self._lock:
            self._values[file.path] = (file.size, file.mtime_ns), value
        return value
