"""What one search needs of an engine, and the least that can answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypedDict, TypeVar

from memtui.cli.invocation import VECTORS_NEED_AN_AGENT, Invocation
from memtui.errors import SettingsError
from memtui.model import IndexState, IndexStatus, Ranking

if TYPE_CHECKING:
    from pathlib import Path

    from memtui.cli.session import Session
    from memtui.engine import Engine
    from memtui.index.transcripts.scope import TranscriptHomes
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded
    from memtui.settings.schema import RankingSettings

EXAMINATION_SECONDS = 0.5
"""So long a search of an agent's index waits to be told which files changed."""


OwnSession = TypeVar("OwnSession", bound="SearchSession")


@dataclass(frozen=True, slots=True)
class SearchSession:
    """What can be searched, and what it was opened with."""

    workspace: Found
    loaded: Loaded
    engine: Engine
    base: Ranking
    """What `chosen` changes."""
    chosen: RankingSettings

    @property
    def is_foreign(self) -> bool:
        """Whether the index is an agent's own."""
        return self.engine.index.status().foreign is not None

    def ranking(self) -> Ranking:
        """The ranking to start from with everything that is set on top."""
        return self.chosen.apply(self.base)

    def status(self) -> IndexStatus:
        """The index as it is now, compared with the files."""
        if self.is_foreign:
            # Its examination began when it was opened, beside the search.
            self.engine.wait_idle(EXAMINATION_SECONDS)
        else:
            self.engine.index.refresh_status()
        return self.engine.index.status()

    def warnings(self, ranking: Ranking) -> list[str]:
        """What was ignored: of the configuration, and of the profile."""
        lost = self.chosen.without_effect(ranking)
        return [
            *self.loaded.warnings,
            *(f"{key} has no effect: profile {ranking.profile} has no such stage" for key in lost),
        ]


def open_search(
    invocation: Invocation, now: datetime | None = None
) -> AbstractContextManager[SearchSession]:
    """Open what one search needs, and no more; see `open_agents_or_own`."""
    return open_agents_or_own(invocation, now, lambda: _open_own(invocation, now))


@contextmanager
def open_agents_or_own(
    invocation: Invocation,
    now: datetime | None,
    open_own: Callable[[], AbstractContextManager[OwnSession]],
) -> Iterator[OwnSession | Session]:
    """Open the index of the agent that `--agent` or `--index` names, else `open_own()`.

    The demo is indexed first when it is not. Any other workspace without an index is left
    without: a search does no hidden work.
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
    with open_own() as own:
        yield own


@contextmanager
def _open_own(invocation: Invocation, now: datetime | None) -> Iterator[SearchSession]:
    from memtui.engine import Engine
    from memtui.ranking.profiles import PROFILES

    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    settings = loaded.settings
    engine = Engine.open(
        workspace.root, settings, write=False, warm=True, **own_options(invocation, now)
    )
    try:
        base = settings.base_ranking(PROFILES)
        yield SearchSession(workspace, loaded, engine, base, settings.ranking)
    finally:
        engine.close()


class OwnOptions(TypedDict):
    """How an index of memtui's own is opened; `None` is what is usual."""

    now: Callable[[], datetime] | None
    data_dir: Path | None
    homes: TranscriptHomes | None


def own_options(invocation: Invocation, now: datetime | None) -> OwnOptions:
    """The clock and the folders of a call: the demo has its own of each, `now` stands still."""
    clock = None if now is None else partial(standing_still, now)
    if not invocation.demo:
        return OwnOptions(now=clock, data_dir=None, homes=None)
    from memtui.index.transcripts.scope import demo_homes
    from memtui.memory.workspace import demo_clock
    from memtui.settings.files import demo_data_dir

    return OwnOptions(now=clock or demo_clock(), data_dir=demo_data_dir(), homes=demo_homes())


def index_demo(invocation: Invocation) -> None:
    """Index the demo where it is not, and say so."""
    with _open_own(invocation, None) as session:
        if session.status().state is not IndexState.NO_INDEX:
            return
    from memtui.cli.session import open_session

    invocation.output().note("memtui: indexing the demo, this once")
    with open_session(invocation, write=True) as writing:
        writing.engine.index.require_writer()
        writing.engine.index.sync(wait=True)


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
