"""An engine for one command: workspace, settings, ranking and index together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memtui.cli.invocation import Invocation
from memtui.cli.searching import SearchSession, open_agents_or_own, own_options

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine import Engine


@dataclass(frozen=True, slots=True)
class Session(SearchSession):
    """An open engine that answers every command, and what it was opened with."""

    engine: Engine


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
