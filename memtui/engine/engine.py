"""The engine: one memory that is open, and the services over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from memtui.bus import Bus
from memtui.engine.ports import Index
from memtui.engine.search import EngineThread, Search
from memtui.errors import SettingsError
from memtui.settings.containment import expand_path
from memtui.settings.files import data_dir as default_data_dir
from memtui.settings.files import demo_data_dir
from memtui.settings.schema import Settings

# What a search does without is imported when it is asked for.
if TYPE_CHECKING:
    from memtui.engine.browse import Browse
    from memtui.engine.conversations import ConversationService
    from memtui.engine.explain import Explain
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.engine.providers.catalog import ProviderService
    from memtui.engine.what_if import WhatIf
    from memtui.index.foreign.agents import ForeignTarget
    from memtui.index.transcripts.discovery import TranscriptHomes
    from memtui.settings.load import SettingsFiles

utc_now = partial(datetime.now, UTC)


def data_dir_of(settings: Settings) -> Path:
    """Return the folder that holds the indexes; raises `SettingsError` for a relative one."""
    configured = settings.index.data_dir
    if not configured:
        return default_data_dir()
    folder = Path(expand_path(configured))
    if folder.is_absolute():
        return folder
    # Anything else would depend on the current folder, which may be the memory itself.
    raise SettingsError(
        f"index.data_dir is {configured!r}",
        hint="give an absolute folder, or one that begins with ~",
    )


@dataclass(eq=False)
class Engine(AbstractContextManager["Engine"]):
    """An open memory and the services over it; use `Engine.open` or `Engine.open_agent`.

    Methods of the services may be called from any thread unless they say otherwise. Answers to
    `search.submit`, and everything the index does, come as events on `bus`.
    """

    index: Index
    """The memory that the services are put over; it is closed with the engine."""
    thread: EngineThread
    bus: Bus
    now: Callable[[], datetime] = utc_now
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.root = self.index.root
        self.ranking = self.index.ranking
        """The configured ranking, used when a search names none."""
        self.search = Search(self.index, self.thread, self.bus, self.now)

    @cached_property
    def browse(self) -> Browse:
        """Files, texts, one chunk from every side, care."""
        from memtui.engine.browse import Browse

        return Browse(self.index, self.search, self.now)

    @cached_property
    def providers(self) -> ProviderService:
        """The embedding providers, and what another one costs."""
        from memtui.engine.providers.catalog import ProviderService

        return ProviderService(self.index, self.settings)

    @cached_property
    def explain(self) -> Explain:
        """The service that tells why a chunk is in a list or not."""
        from memtui.engine.explain import Explain

        return Explain(self.index, self.search)

    @cached_property
    def what_if(self) -> WhatIf:
        """The service that finds what would bring a chunk into a list."""
        from memtui.engine.what_if import WhatIf

        return WhatIf(self.index, self.search)

    @cached_property
    def conversations(self) -> ConversationService:
        """The conversations behind the memory, and what was asked in them."""
        from memtui.engine.conversations import ConversationService

        return ConversationService(self.index, self.search)

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
        files: SettingsFiles | None = None,
        demo: bool = False,
    ) -> Engine:
        """Open the memory at `root`, and start its threads where it is to be written.

        The index is kept in `data_dir/<workspace id>` (default: the settings' or the
        platform's data folder). Without `write` nothing is ever written; with `watch` changes
        of the files are followed; `warm` loads the model at once, beside everything else. By
        `clock` (seconds) it is told when a provider that failed is asked again. `homes` are
        where transcripts are looked for, in the place of this machine's folders. What is written
        into `files` about their sources is taken in while the memory is open. The `demo` has a
        folder, conversations and a clock of its own, and takes no others in. Raises `IndexUnusable`
        when the folder cannot be used, `SettingsError` for a provider or model that does not exist.
        """
        from memtui.engine.own_index import OwnIndex
        from memtui.index.generations import IndexFolder
        from memtui.memory.workspace import demo_clock, workspace_id

        if demo:
            from memtui.index.transcripts.discovery import demo_homes

            data_dir, homes, now, files = demo_data_dir(), demo_homes(), now or demo_clock(), None
        folder = IndexFolder((data_dir or data_dir_of(settings)) / workspace_id(root))
        if write:
            from memtui.retrieval.pool import import_numpy

            # Not at the first need, which may be a key's: it takes longer than a frame.
            import_numpy()
            folder.create()
        thread, bus, now = EngineThread(), bus or Bus(), now or utc_now
        place = root, settings, folder, thread, bus, now
        memory = OwnIndex(*place, write=write, clock=clock, homes=homes, files=files)
        engine = cls(memory, thread, bus, now, settings)
        memory.start(watch=watch, warm=warm)
        return engine

    @classmethod
    def open_agent(
        cls,
        target: ForeignTarget,
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        vectors: GivenVectors | None = None,
        env: Mapping[str, str] | None = None,
        profile: str | None = None,
        examine: bool = True,
    ) -> Engine:
        """Open the index of an agent's program, choose its profile, and start the threads.

        `vectors` are vectors of queries from a file; `profile` replaces the one that is chosen.
        With `examine` the truth report is made in the background. Raises `IndexMissing`,
        `IndexUnusable`.
        """
        from memtui.retrieval.pool import import_numpy

        # Before the modules that import it by themselves.
        import_numpy()
        from memtui.engine.foreign.index import OpenClawIndex

        thread, bus, now = EngineThread(), bus or Bus(), now or utc_now
        variables = os.environ if env is None else env
        memory = OpenClawIndex(target, profile, vectors, variables, thread=thread, bus=bus, now=now)
        engine = cls(memory, thread, bus, now)
        if examine:
            memory.sync()
        return engine

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until no search and no index run is going on; false after `timeout` seconds."""
        return self.index.wait_idle(timeout) and self.thread.wait_idle(timeout)

    def close(self) -> None:
        """Stop the threads and close the files; a second call does nothing."""
        # All threads are told to stop before any is waited for.
        self.index.stop()
        self.thread.close()
        self.index.close()

    def __exit__(self, *details: object) -> None:
        self.close()
