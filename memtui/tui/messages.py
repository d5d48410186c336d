"""Messages that the engine's threads post to the interface; facts, in the past tense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from memtui.bus import Bus
from memtui.model import Ranked
from memtui.model.status import ForeignAgent, ProbeResult, ProviderListing
from memtui.tui.choosing import Chosen
from memtui.tui.memories import OpenedMemory

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.source import RebuildCost, RecentFile, SourceText
    from memtui.model.inquiry import Inquiry


@dataclass
class EngineOpened(Message):
    """A memory is ready to be asked; its engine publishes on `bus`."""

    memory: OpenedMemory
    bus: Bus


@dataclass
class EngineFailed(Message):
    """The engine could not be opened."""

    error: str


class OpenAgain(Message):
    """What could not be opened is to be tried again."""


@dataclass
class AgentsFound(Message):
    """The agents of this machine were looked for; `error` says why they could not be."""

    agents: Sequence[ForeignAgent]
    error: str = ""


@dataclass
class SearchAnswered(Message):
    """The engine answered request `sequence`; `complete` is false while a leg is still running."""

    sequence: int
    ranked: Ranked
    complete: bool
    memory: int = 0
    """Which of the memories opened so far it is from."""


@dataclass
class SearchErred(Message):
    """The engine could not answer request `sequence`."""

    sequence: int
    error: str
    memory: int = 0
    """Which of the memories opened so far it is from."""


class IndexStatusChanged(Message):
    """The index status may be different; the receiver asks for a snapshot."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, IndexStatusChanged)


class IndexContentChanged(Message):
    """Chunks were added, changed or removed: what is shown may be out of date."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, IndexContentChanged)


@dataclass
class SyncEnded(Message):
    """A sync or a rebuild ended; `error` is empty when it ended well, `note` says what it did."""

    note: str
    error: str = ""


@dataclass
class IndexExamined(Message):
    """The truth report of another program's index was made; `problem` says why it was not."""

    problem: str


@dataclass
class LegChanged(Message):
    """A leg stopped answering, or answers again."""

    note: str
    healthy: bool


@dataclass
class SourceLoaded(Message):
    """A note was read from disk; `source` is `None` when that failed, with the reason."""

    path: str
    source: SourceText | None
    error: str = ""
    engine: Engine | None = None
    """Whose note it is."""


@dataclass
class RecentLoaded(Message):
    """The notes that changed last, for the empty query."""

    files: Sequence[RecentFile]
    engine: Engine | None = None
    """Whose notes they are."""


@dataclass
class HistoryLoaded(Message):
    """The queries of former sessions, newest first."""

    queries: Sequence[str]


class FirstRun(Message):
    """Nobody has used the interface here before."""


@dataclass
class RebuildPriced(Message):
    """What a rebuild would cost."""

    cost: RebuildCost


@dataclass
class ChangePriced(Message):
    """What the rebuild for another provider, which is going on, takes."""

    change: str
    cost: RebuildCost


@dataclass
class ProvidersListed(Message):
    """Every provider was looked at; `error` says why that was not possible."""

    listings: Sequence[ProviderListing]
    error: str = ""


@dataclass
class ProviderPriced(Message):
    """What going over to a provider would take; without a cost, why that is not known."""

    listing: ProviderListing
    chosen: Chosen | None
    cost: RebuildCost | None
    error: str = ""


@dataclass
class ProviderProbed(Message):
    """A provider was asked for a vector; without a result, why it could not be."""

    name: str
    result: ProbeResult | None
    error: str = ""


@dataclass
class ProviderFirstRun(Message):
    """A new index, nobody decided about the provider, and there is something to choose from."""

    listings: Sequence[ProviderListing]
    engine: Engine


@dataclass
class ProviderSwitched(Message):
    """The engine goes over to another provider; `error` says why it does not."""

    chosen: Chosen
    error: str = ""


@dataclass
class PinTraced(Message):
    """Why a pinned chunk is not in the list `ranked`; without an inquiry, why that is not known."""

    ranked: Ranked
    chunk_id: str
    inquiry: Inquiry | None
    error: str = ""
