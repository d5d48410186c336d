"""What one search needs of an engine, and the least that can answer it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from memtui.cli.invocation import VECTORS_NEED_AN_AGENT, Invocation
from memtui.errors import SettingsError
from memtui.model import IndexState, IndexStatus, Ranked, Ranking

if TYPE_CHECKING:
    from memtui.engine.once import OneSearch
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded
    from memtui.settings.schema import RankingSettings

EXAMINATION_SECONDS = 0.5
"""So long a search of an agent's index waits to be told which files changed."""


class Searching(Protocol):
    """What a search asks of an engine, whoever made its index."""

    def search(self, text: str, *, ranking: Ranking) -> Ranked:
        """Search and wait for the whole answer."""

    def status(self) -> IndexStatus:
        """A snapshot of the index."""

    def refresh_status(self) -> None:
        """Look at the files and the index now."""

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until nothing goes on."""


@dataclass(frozen=True, slots=True)
class SearchSession:
    """What can be searched, and what it was opened with."""

    workspace: Found
    loaded: Loaded
    engine: Searching
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
def open_search(invocation: Invocation, now: datetime | None = None) -> Iterator[SearchSession]:
    """Open what one search needs, and no more; the demo is indexed first when it is not.

    A workspace without an index is left without. With `--agent` or `--index` it is the index of
    that agent.
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
    with _open_own(invocation, now) as opened:
        yield opened


@contextmanager
def _open_own(invocation: Invocation, now: datetime | None) -> Iterator[SearchSession]:
    from memtui.engine.once import OneSearch
    from memtui.ranking.profiles import PROFILES

    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    settings = loaded.settings
    if invocation.demo:
        engine = _demo(workspace, loaded, now)
    else:
        clock = None if now is None else partial(standing_still, now)
        engine = OneSearch(workspace.root, settings, now=clock)
    try:
        base = settings.base_ranking(PROFILES)
        yield SearchSession(workspace, loaded, engine, base, settings.ranking)
    finally:
        engine.close()


def _demo(workspace: Found, loaded: Loaded, now: datetime | None) -> OneSearch:
    from memtui.engine.conversations.demo import demo_homes
    from memtui.engine.once import OneSearch
    from memtui.memory.demo import demo_clock
    from memtui.settings.places import demo_data_dir

    clock = demo_clock() if now is None else partial(standing_still, now)
    return OneSearch(
        workspace.root,
        loaded.settings,
        now=clock,
        data_dir=demo_data_dir(),
        homes=demo_homes(),
    )


def index_demo(invocation: Invocation) -> None:
    """Index the demo where it is not, and say so."""
    with _open_own(invocation, None) as session:
        if session.status().state is not IndexState.NO_INDEX:
            return
    from memtui.cli.session import open_session

    invocation.output().note("memtui: indexing the demo, this once")
    with open_session(invocation, write=True) as writing:
        writing.engine.require_writer()
        writing.engine.sync(wait=True)


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
