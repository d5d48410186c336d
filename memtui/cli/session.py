"""An engine for one command: workspace, settings, ranking and index together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from memtui.cli.conversing import ConversationEngine
from memtui.cli.invocation import VECTORS_NEED_AN_AGENT, Invocation
from memtui.cli.searching import Searching, SearchSession, index_demo, standing_still
from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.errors import SettingsError
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
    from memtui.engine.conversations.demo import demo_homes
    from memtui.memory.demo import demo_clock
    from memtui.ranking.profiles import PROFILES
    from memtui.settings.places import demo_data_dir

    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    clock: Callable[[], datetime] | None = demo_clock() if invocation.demo else None
    if now is not None:
        clock = partial(standing_still, now)
    engine = Engine.open(
        workspace.root,
        loaded.settings,
        bus=bus,
        now=clock,
        data_dir=demo_data_dir() if invocation.demo else None,
        write=write,
        watch=watch,
        homes=demo_homes() if invocation.demo else None,
    )
    try:
        settings = loaded.settings
        base = settings.base_ranking(PROFILES)
        yield Session(workspace, loaded, engine, base, settings.ranking)
    finally:
        engine.close()


@contextmanager
def open_reading(invocation: Invocation, now: datetime | None = None) -> Iterator[Session]:
    """Open an engine that only reads; the demo is indexed first when it is not.

    A workspace without an index is left without: a search does no hidden work. With `--agent`
    or `--index` it is the index of that agent.
    """
    if invocation.foreign:
        from memtui.cli.foreign import open_foreign_session

        with open_foreign_session(invocation, now=now) as session:
            yield session
        return
    if invocation.query_vectors is not None:
        raise SettingsError(VECTORS_NEED_AN_AGENT)
    if invocation.demo:
        index_demo(invocation)
    with open_session(invocation, now=now) as session:
        yield session
