"""An engine for one command: workspace, settings, ranking and index together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from memtui.cli.invocation import Invocation
from memtui.model import IndexState, IndexStatus, Ranking

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine import Engine
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded


@dataclass(frozen=True, slots=True)
class Session:
    """An open engine and what it was opened with."""

    workspace: Found
    loaded: Loaded
    engine: Engine

    def ranking(self) -> Ranking:
        """The profile of the settings with everything that is set on top."""
        from memtui.ranking.profiles import profile

        chosen = self.loaded.settings.ranking
        return chosen.apply(profile(chosen.profile))

    def warnings(self, ranking: Ranking) -> list[str]:
        """What was ignored: of the configuration, and of the profile."""
        lost = self.loaded.settings.ranking.without_effect(ranking)
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
    from memtui.memory.demo import demo_clock
    from memtui.settings.places import demo_data_dir

    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    clock: Callable[[], datetime] | None = demo_clock() if invocation.demo else None
    if now is not None:
        clock = partial(_same, now)
    engine = Engine.open(
        workspace.root,
        loaded.settings,
        bus=bus,
        now=clock,
        data_dir=demo_data_dir() if invocation.demo else None,
        write=write,
        watch=watch,
    )
    try:
        yield Session(workspace, loaded, engine)
    finally:
        engine.close()


@contextmanager
def open_reading(invocation: Invocation, now: datetime | None = None) -> Iterator[Session]:
    """Open an engine that only reads; the demo is indexed first when it is not.

    A workspace without an index is left without: a search does no hidden work.
    """
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
    return f"the index is stale: {changed} ({named}); `memtui index` takes them in"


def _same(moment: datetime) -> datetime:
    """A clock that stands still."""
    return moment
