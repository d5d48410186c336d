"""Vectors that were paid for, in a call that failed before its end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memtui.embedding.protocols import Values

MOST_TEXTS: Final = 1024


class SpareVectors:
    """Keeps vectors by their text, the last 1024 of them, until they are handed over.

    Usable from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, Values] = OrderedDict()

    def put(self, texts: Sequence[str], rows: Iterable[Values]) -> None:
        """Keep the vector of each text."""
        with self._lock:
            self._rows.update(zip(texts, rows, strict=True))
            while len(self._rows) > MOST_TEXTS:
                self._rows.popitem(last=False)

    def of(self, texts: Iterable[str]) -> dict[str, Values]:
        """The vectors that are there, by text."""
        with self._lock:
            return {text: self._rows[text] for text in texts if text in self._rows}

    def drop(self, texts: Iterable[str]) -> None:
        """Forget vectors that were handed over."""
        with self._lock:
            for text in texts:
                self._rows.pop(text, None)
