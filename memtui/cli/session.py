"""An engine for one command: workspace, settings, ranking and index together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memtui.cli.conversing import ConversationEngine
from memtui.cli.invocation import Invocation
from memtui.cli.searching import Searching, SearchSession, open_agents_or_own, own_options
from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.model import Ranked, Ranking
from memtui.model.inquiry import Inquiry, Passages, Place

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine.source import RebuildCost


class SearchEngine(Searching, ConversationEngine, Protocol):
    """What commands ask of an engine, whoever made its index."""

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer."""

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Say why a chunk of the index is in a list or not."""

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Say why a line or a file is in a list or not."""

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The passages of a chunk nearest to the query; runs the model."""

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """The words that could be added to a query, for `query_words`."""

    def sync(self, wait: bool = False) -> None:
        """Bring the index up to date."""

    def rebuild(self, wait: bool = False) -> None:
        """Build the index anew."""

    def rebuild_cost(self) -> RebuildCost:
        """What `rebuild` would take."""

    def require_writer(self) -> None:
        """Raise when this process may not write."""

    def close(self) -> None:
        """Stop the threads and close the files."""


@dataclass(frozen=True, slots=True)
class Session(SearchSession):
    """An open engine that answers every command, and what it was opened with."""

    engine: SearchEngine


@contextmanager
def open_session(
    invocation: Invocation,
    *,
    write: bool = False,
    watch: bool = False,
    now: datetime | None = None,
    bus: Bus | None = None,
) -> Iterator[Session]:
    """Open the engine on the workspace; the demo keeps its index in a folder of its own."""
    from memtui.engine import Engine
    from memtui.ranking.profiles import PROFILES

    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    engine = Engine.open(
        workspace.root,
        loaded.settings,
        bus=bus,
        write=write,
        watch=watch,
        **own_options(invocation, now),
    )
    try:
        settings = loaded.settings
        base = settings.base_ranking(PROFILES)
        yield Session(workspace, loaded, engine, base, settings.ranking)
    finally:
        engine.close()


def open_reading(
    invocation: Invocation, now: datetime | None = None
) -> AbstractContextManager[Session]:
    """Open an engine that only reads; see `open_agents_or_own`."""
    return open_agents_or_own(invocation, now, lambda: open_session(invocation, now=now))
