"""What the next searches need of the keyword leg, read while nobody asks for anything."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from memtui.engine.retriever import Retriever
from memtui.engine.searching import SearchLoop
from memtui.errors import Cancelled
from memtui.index.database import Interrupted


class Preparing:
    """Has the lists of left-out words read behind the searches, on the engine thread."""

    def __init__(self, loop: SearchLoop, retriever: Retriever) -> None:
        self._loop = loop
        self._retriever = retriever
        self._asked: Future[None] | None = None
        self._searches = 0

    def look(self, *, alone: bool) -> None:
        """Have read what the last search left out, unless that is about to be done.

        Not after a first search that may be the only one (`alone`). What goes wrong is told by the
        next search, which meets it as well.
        """
        self._searches += 1
        if alone and self._searches == 1:
            return
        if self._retriever.can_prepare and (self._asked is None or self._asked.done()):
            self._asked = self._loop.call_later(self._prepare)

    def _prepare(self, gives_way: Callable[[], bool]) -> None:
        try:
            self._retriever.prepare(gives_way)
        except Interrupted as error:
            raise Cancelled from error
