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
from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.errors import SettingsError
from memtui.model import IndexState, IndexStatus, Ranked, Ranking
from memtui.model.inquiry import Inquiry, Passages, Place

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine.source import RebuildCost
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded
    from memtui.settings.schema import RankingSettings

EXAMINATION_SECONDS = 0.5
"""So long a search of an agent's index waits to be told which files changed."""


class SearchEngine(ConversationEngine, Protocol):
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

    def status(self) -> IndexStatus:
        """A snapshot of the index."""

    def refresh_status(self) -> None:
        """Look at the files and the index now."""

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until nothing goes on."""

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
class Session:
    """An open engine and what it was opened with."""

    workspace: Found
    loaded: Loaded
    engine: SearchEngine
    base: Ranking
    """What `chosen` changes."""
    chosen: RankingSettings

    @property
    def is_foreign(self) -> bool:
        """Whether the index is an agent's own."""
        return self.engine.status().foreign is not None

    def ranking(self) -> Ranking:
        """The ranking to start from with everything that is set on top."""
        return self.chosen.apply(self.base)

    def status(self) -> IndexStatus:
        """The index as it is now, compared with the files."""
        if self.is_foreign:
            # Its examination began when it was opened, beside the search.
            self.engine.wait_idle(EXAMINATION_SECONDS)
        else:
            self.engine.refresh_status()
        return self.engine.status()

    def warnings(self, ranking: Ranking) -> list[str]:
        """What was ignored: of the configuration, and of the profile."""
        lost = self.chosen.without_effect(ranking)
        return [
            *self.loaded.warnings,
            *(f"{key} has no effect: profile {ranking.profile} has no such stage" for key in lost),
        ]


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
        _index_demo(invocation)
    with open_session(invocation, now=now) as session:
        yield session


def _index_demo(invocation: Invocation) -> None:
    with open_session(invocation) as session:
        session.engine.refresh_status()
        if session.engine.status().state is not IndexState.NO_INDEX:
            return
    invocation.output().note("memtui: indexing the demo, this once")
    with open_session(invocation, write=True) as session:
        session.engine.require_writer()
        session.engine.sync(wait=True)


def stale_warning(status: IndexStatus) -> str | None:
    """What to say when files changed after they were indexed."""
    if status.pending_count == 0:
        return None
    named = ", ".join(status.pending[:3]) + (", …" if status.pending_count > 3 else "")
    changed = f"{status.pending_count} changed {'file' if status.pending_count == 1 else 'files'}"
    command = "memtui index" if status.foreign is None else "openclaw memory index"
    return f"the index is stale: {changed} ({named}); `{command}` takes them in"


def standing_still(moment: datetime) -> datetime:
    """A clock that stands still."""
    return moment
