"""The engine: one memory that is open, and the services over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from memtui.engine.services import (
    Browse,
    Explain,
    IndexService,
    ProviderService,
    Search,
)

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine.conversations.service import ConversationService
    from memtui.engine.foreign.target import ForeignTarget
    from memtui.engine.query_vectors import GivenVectors
    from memtui.index.transcripts.scope import TranscriptHomes
    from memtui.model import Ranking
    from memtui.settings import Settings


class Engine:
    """An open memory; use `Engine.open` or `Engine.open_agent`.

    Methods of the services may be called from any thread unless they say otherwise. Answers to
    `search.submit`, and everything the index does, come as events on `bus`.
    """

    root: Path
    bus: Bus
    now: Callable[[], datetime]
    ranking: Ranking
    """The configured ranking, used when a search names none."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.root = machine.root
        if hasattr(machine, "bus"):
            self.bus, self.now, self.ranking = machine.bus, machine.now, machine.ranking
        self.search = Search(machine)
        self.explain = Explain(machine)
        self.browse = Browse(machine)
        self.providers = ProviderService(machine)
        self.index = IndexService(machine)

    @cached_property
    def conversations(self) -> ConversationService:
        """Conversations behind the memory; what reads transcripts is imported when asked for."""
        from memtui.engine.conversations.service import ConversationService

        return ConversationService(
            self.machine.transcripts, self.search, self.browse, self.root, self.machine.ranking
        )

    @classmethod
    def open(
        cls,
        root: Path,
        settings: Settings,
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        data_dir: Path | None = None,
        write: bool = True,
        watch: bool = False,
        warm: bool = False,
        clock: Callable[[], float] = monotonic,
        homes: TranscriptHomes | None = None,
    ) -> Engine:
        """Open the memory at `root` and start its threads.

        The index is kept in `data_dir/<workspace id>` (default: the settings' or the
        platform's data folder). Without `write` nothing is ever written; with `watch` changes
        of the files are followed; `warm` loads the model at once, beside everything else. By
        `clock` (seconds) it is told when a provider that failed is asked again. `homes` are
        where transcripts are looked for, in the place of this machine's folders. Raises
        `IndexUnusable` when the index folder cannot be used, `SettingsError` for a provider or
        model that does not exist.
        """
        from memtui.engine.own_machine import OwnMachine

        return cls(
            OwnMachine.open(
                root,
                settings,
                bus=bus,
                now=now,
                data_dir=data_dir,
                write=write,
                watch=watch,
                warm=warm,
                clock=clock,
                homes=homes,
            )
        )

    @classmethod
    def open_agent(
        cls,
        target: ForeignTarget,
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        given: GivenVectors | None = None,
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        examine: bool = True,
    ) -> Engine:
        """Open the index of an agent's program, choose its profile, and start the threads.

        `given` are vectors of queries from a file; `profile` replaces the one that is chosen.
        With `examine` the truth report is made in the background. Raises `IndexMissing`,
        `IndexUnusable`.
        """
        from memtui.engine.foreign.machine import ForeignMachine

        return cls(
            ForeignMachine.open(
                target,
                bus=bus,
                now=now,
                given=given,
                env=env,
                profile=profile,
                examine=examine,
            )
        )

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until no search and no index run is going on; false after `timeout` seconds."""
        return bool(self.machine.wait_idle(timeout))

    def close(self) -> None:
        """Stop the threads and close the files; a second call does nothing."""
        self.machine.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
