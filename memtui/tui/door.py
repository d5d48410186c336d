"""What the terminal interface asks of the engine, as protocols: the one door, from the outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.model import CandidatePool, IndexStatus, Ranked, Ranking
from memtui.model.status import ProbeResult, ProviderListing
from memtui.tui.door_browse import BrowseDoor
from memtui.tui.door_conversations import ConversationDoor

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice
    from memtui.model.inquiry import Inquiry, Passages, Place


class SourceText(Protocol):
    """A note as it is on disk now."""

    @property
    def path(self) -> str:
        """Path relative to the workspace root."""

    @property
    def lines(self) -> Sequence[str]:
        """The text split at newlines."""

    @property
    def state(self) -> str:
        """`current`, `changed` since it was indexed, or `gone`."""

    @property
    def detail(self) -> str:
        """One line about `state`; empty when current."""

    @property
    def on_disk(self) -> Sequence[str] | None:
        """The file as it is now, where `lines` are the indexed ones; else `None`."""


class RecentFile(Protocol):
    """A note that changed lately."""

    @property
    def path(self) -> str:
        """Path relative to the workspace root."""

    @property
    def mtime(self) -> datetime:
        """When the file changed."""

    @property
    def lines(self) -> int:
        """How many lines the index counted."""


class RebuildCost(Protocol):
    """What indexing everything again would take."""

    @property
    def files(self) -> int:
        """Files to read."""

    @property
    def chunks(self) -> int:
        """Chunks to write."""

    @property
    def cached(self) -> int:
        """Chunks whose vector is in the cache."""

    @property
    def tokens_estimate(self) -> int:
        """Tokens that would be embedded."""

    @property
    def remote(self) -> bool:
        """Whether the provider is a remote service."""

    @property
    def price(self) -> float | None:
        """What the tokens cost, in `currency`; `None` where no price is known."""

    @property
    def currency(self) -> str:
        """ISO 4217; empty where nothing is charged, and for the user's own price."""

    @property
    def provider(self) -> str:
        """Who would make the vectors; empty: nobody."""

    @property
    def model(self) -> str:
        """By which model."""

    @property
    def address(self) -> str:
        """The host that text would be sent to; empty when it stays in this program."""


class EngineDoor(BrowseDoor, ConversationDoor, Protocol):
    """The engine as the interface uses it; answers to `submit` come as bus events."""

    def now(self) -> datetime:
        """Tell the time by the engine's clock, which ages are counted from."""

    def hold_indexing(self) -> None:
        """Have what is being indexed wait a moment, because somebody types."""

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Ask for a search; the latest wins. Returns its sequence number."""

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool again, without any I/O."""

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer; not on the thread that draws."""

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk of the index is in a list or not; reads the index, off the loop."""

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a line or a file is in a list or not; reads files and index, off the loop."""

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The passages of a chunk nearest to the query, as an illustration; runs the model."""

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """The words that could be added to a query, for `query_words`; reads the index."""

    def paths(self) -> Sequence[str]:
        """Every file that the index holds, by path."""

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """Return the notes that changed last; reads the index."""

    def sync(self, wait: bool = False) -> None:
        """Index what changed."""

    def rebuild(self, wait: bool = False) -> None:
        """Index everything again."""

    def cancel(self) -> None:
        """Stop a running sync or rebuild; what is committed stays."""

    def rebuild_cost(self) -> RebuildCost:
        """Estimate a rebuild; reads the index."""

    def providers(self) -> Sequence[ProviderListing]:
        """Every embedding provider, by a look that asks nothing; reads files, off the loop."""

    def provider_cost(self, choice: EmbeddingChoice) -> RebuildCost:
        """What going over to a provider would take; reads the index."""

    def switch_provider(self, choice: EmbeddingChoice) -> None:
        """Go over to a provider; the index is built anew while the old one answers."""

    def probe_provider(self, choice: EmbeddingChoice) -> ProbeResult:
        """Ask a provider for one vector; loads a model or asks a service, off the loop."""

    def status(self) -> IndexStatus:
        """Return the last snapshot, without any I/O."""

    def source(self, path: str) -> SourceText:
        """Read a note; file I/O on the caller's thread."""

    def close(self) -> None:
        """Stop the engine's threads."""


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """An engine and what the interface starts from."""

    engine: EngineDoor
    ranking: Ranking | None = None
    """What `0` goes back to; `None`: the configured one."""
    root: Path | None = None
    """The folder of the notes; `None`: the one of the options."""
    is_new: bool = False
    """Whether it was never indexed before it was opened."""
