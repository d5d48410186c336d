"""What was asked of the memory in transcripts, and how much is in each: reading them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from memtui.engine.conversations.finding import Indexed, Transcript
from memtui.engine.conversations.listing import Known, listing_of
from memtui.engine.conversations.passes import count, why_unreadable
from memtui.engine.conversations.remembered import Remembered
from memtui.engine.conversations.tally import Counted
from memtui.errors import Cancelled, MemtuiError
from memtui.model import Reason
from memtui.model.conversations import ConversationListing, MemoryCall

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


Trouble = tuple[Reason, str]
"""Why a transcript cannot be read, and one line about it."""


class Counting:
    """Reads transcripts that nobody has counted, each once as long as it stays as it is."""

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._limit = limit
        self._counted: Remembered[Counted] = Remembered()
        self._troubles: Remembered[Trouble] = Remembered()

    def known(self, found: Transcript) -> tuple[Counted | None, Trouble | None]:
        """What was read of a transcript before, or why it cannot be read."""
        return self._counted.get(found.file), self._troubles.get(found.file)

    def trouble(self, found: Transcript, error: Exception) -> Trouble:
        """Why a transcript cannot be read; kept only where reading it again would not help."""
        trouble = why_unreadable(error)
        lasts = trouble[0] is Reason.NOT_A_TRANSCRIPT
        return self._troubles.put(found.file, trouble) if lasts else trouble

    def count(
        self, found: Transcript, cancelled: Callable[[], bool]
    ) -> tuple[Counted | None, Trouble | None]:
        """Read a transcript unless that was done; raises `Cancelled`."""
        counted, trouble = self.known(found)
        if counted is not None or trouble is not None:
            return counted, trouble
        try:
            counted = count(found.file, limit=self._limit, cancelled=cancelled)
        except (OSError, MemtuiError) as error:
            return None, self.trouble(found, error)
        return self.keep(found, counted), None

    def keep(self, found: Transcript, counted: Counted) -> Counted:
        """Keep what reading a transcript told."""
        return self._counted.put(found.file, counted)

    def count_all(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        told: Callable[[ConversationListing], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Read transcripts one after the other, and tell each as soon as it is counted."""
        for found, indexed in wanted:
            if cancelled():
                raise Cancelled
            counted, trouble = self.count(found, cancelled)
            told(listing_of(found, Known(indexed, counted, None, trouble)))

    def calls(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        told: Callable[[Sequence[MemoryCall]], None],
        cancelled: Callable[[], bool],
    ) -> list[MemoryCall]:
        """The searches of the memory in transcripts, newest first; `told` hears of each file."""
        found: list[MemoryCall] = []
        for calls in self._calls(wanted, cancelled):
            if calls:
                told(calls)
            found += calls
        found.sort(key=lambda call: (call.path, call.line))
        return sorted(found, key=lambda call: call.asked or _NEVER, reverse=True)

    def _calls(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        cancelled: Callable[[], bool],
    ) -> Iterator[Sequence[MemoryCall]]:
        for found, indexed in wanted:
            if cancelled():
                raise Cancelled
            if _has_none(found, indexed):
                continue
            counted, _ = self.count(found, cancelled)
            yield counted.calls if counted is not None else ()


def _has_none(found: Transcript, indexed: Indexed | None) -> bool:
    """Whether the index knows that there is no search in a transcript."""
    facts = indexed.facts if indexed is not None else None
    if indexed is None or facts is None or facts.kind is None:
        return False
    return not facts.calls and indexed.stat is not None and indexed.is_current(found.file)
