"""Every conversation of a memory: what the index knows of it, and what was read of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from memtui.engine.conversations.calls import Counting, Trouble
from memtui.engine.conversations.coverage import sources_of
from memtui.engine.conversations.finding import Indexed, Transcript, everywhere, transcripts_of
from memtui.engine.conversations.listing import Known, listing_of, newest_first
from memtui.engine.conversations.passes import look
from memtui.engine.conversations.reading import (
    ConversationGone,
    OpenConversation,
    read_conversation,
)
from memtui.engine.conversations.remembered import Remembered
from memtui.engine.conversations.tally import Counted
from memtui.errors import MemtuiError
from memtui.index.transcripts.discovery import Located
from memtui.index.transcripts.scope import TranscriptScope
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    TranscriptKind,
    TranscriptSource,
)
from memtui.text.sanitize import safe_line

Cancelled = Callable[[], bool]
_Wanted = tuple[Transcript, Indexed | None]


class Library:
    """Finds, lists and reads transcripts; any thread, and what was read is kept in memory.

    `scope` and `indexed` are asked anew each time: both change while an engine is open.
    """

    def __init__(
        self,
        scope: Callable[[], TranscriptScope],
        indexed: Callable[[], Mapping[str, Indexed]],
        *,
        locate: Callable[[TranscriptScope], Sequence[Located]] = everywhere,
        programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
        goes: Callable[[], str] = str,
    ) -> None:
        """`locate` finds the transcripts of the memory, `programs` are those that can have some.

        `goes` says where the text of what is indexed goes.
        """
        self._goes = goes
        self._scope = scope
        self._indexed = indexed
        self._locate = locate
        self._programs = programs
        self._counting = Counting(scope().max_line_bytes)
        self._begun: Remembered[Counted] = Remembered()

    def listings(self) -> list[ConversationListing]:
        """Every transcript, newest first; of those that nobody counted the beginning is read."""
        indexed = self._indexed()
        found = self._transcripts()
        return newest_first([self._listing(one, indexed.get(path)) for path, one in found.items()])

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        cancelled: Cancelled,
    ) -> None:
        """Read those whose turns nobody has counted."""
        paths = [listing.path for listing in listings if listing.turns is None]
        self._counting.count_all(self._wanted(paths), counted, cancelled)

    def open(self, path: str, cancelled: Cancelled) -> OpenConversation:
        """Read one transcript; raises `ConversationGone`, `NotATranscript`, `Cancelled`."""
        found = self._transcripts().get(path)
        if found is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._scope().max_line_bytes
        conversation, counted = read_conversation(found.file, limit=limit, cancelled=cancelled)
        self._counting.keep(found, counted)
        indexed = self._indexed().get(path)
        return conversation.is_of(listing_of(found, Known(indexed, counted)))

    def sources(self) -> tuple[TranscriptSource, ...]:
        """The places of transcripts, and how much of each the index holds."""
        scope = self._scope()
        found = self._locate(scope)
        transcripts = transcripts_of(scope, found)
        return sources_of(found, transcripts, self._indexed(), self._programs, self._goes())

    def calls(
        self,
        paths: Sequence[str] | None,
        told: Callable[[Sequence[MemoryCall]], None],
        cancelled: Cancelled,
    ) -> list[MemoryCall]:
        """The searches of the memory in some transcripts, or in all, newest first."""
        if paths is None:
            paths = [listing.path for listing in self.listings()]
        return self._counting.calls(self._wanted(paths), told, cancelled)

    def paths(self) -> frozenset[str]:
        """The stored paths of all transcripts."""
        return frozenset(self._transcripts())

    def _transcripts(self) -> dict[str, Transcript]:
        scope = self._scope()
        return transcripts_of(scope, self._locate(scope))

    def _wanted(self, paths: Sequence[str]) -> Iterator[_Wanted]:
        """Those of the paths that are there, in that order."""
        indexed, found = self._indexed(), self._transcripts()
        return ((found[path], indexed.get(path)) for path in paths if path in found)

    def _listing(self, found: Transcript, indexed: Indexed | None) -> ConversationListing:
        counted, trouble = self._counting.known(found)
        begun = None
        facts = indexed.facts if indexed is not None else None
        if counted is None and trouble is None and (facts is None or facts.kind is None):
            begun, trouble = self._beginning(found)
        return listing_of(found, Known(indexed, counted, begun, trouble))

    def _beginning(self, found: Transcript) -> tuple[Counted | None, Trouble | None]:
        begun = self._begun.get(found.file)
        if begun is not None:
            return begun, None
        try:
            begun = look(found.file, limit=self._scope().max_line_bytes)
        except (OSError, MemtuiError) as error:
            return None, self._counting.trouble(found, error)
        return (self._begun.put(found.file, begun) if begun is not None else None), None
