"""A search for one command: the parts of an engine that answer it, without a bus."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.choice import choice_of, fallback_of
from memtui.embedding.provider import Maker, maker_of
from memtui.engine import statuses
from memtui.engine.common import data_dir_of, depth_of, scope_of, timed, utc_now
from memtui.engine.drift import Look, look
from memtui.engine.providers.failover import ProviderHolder
from memtui.engine.providers.provider_marker import NotedProvider, told_state
from memtui.errors import IndexMissing, MemtuiError
from memtui.index.database import DatabaseError, open_database
from memtui.index.generations import IndexFolder
from memtui.index.indexer_state import IndexerSnapshot
from memtui.index.reader import LiveIndex
from memtui.index.schema import read_meta
from memtui.memory.discover import Discovery, discover
from memtui.memory.workspace import workspace_id
from memtui.model import IndexStatus, ProviderState, Ranked, Ranking
from memtui.ranking.pipeline import rank
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.query import parse_query

if TYPE_CHECKING:
    from memtui.engine.retriever import Retriever
    from memtui.index.transcripts.scope import TranscriptHomes
    from memtui.settings import Settings


class OneSearch:
    """A memory folder that is searched on the thread of its caller, and never written.

    Answers what an `Engine` answers that was opened without `write`. A packaged model is loaded
    on a thread of its own, beside everything else. `homes` are where
    transcripts are looked for, in the place of this machine's folders. Raises `SettingsError`
    for a provider or model that does not exist.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        *,
        now: Callable[[], datetime] | None = None,
        data_dir: Path | None = None,
        homes: TranscriptHomes | None = None,
    ) -> None:
        self.root = root
        self._settings = settings
        self._homes = homes
        self._now = now or utc_now
        self._folder = IndexFolder((data_dir or data_dir_of(settings)) / workspace_id(root))
        self._holder = ProviderHolder(
            choice_of(settings.embedding), fallback_of(settings.embedding)
        )
        opener = partial(open_database, readonly=True)
        self._cache = EmbeddingCache(self._folder.cache_path, opener, writable=False)
        self._retrieving: Retriever | None = None
        self._discovered: Discovery | None = None
        self._noted = NotedProvider(self._folder.folder)
        self._noted_state = self._noted.read()
        self._look: Look | None = None
        self._loading = None if self._holder.state().remote else self._holder.identity
        """Who made the vectors, where a thread loads it."""
        if self._loading is not None:
            threading.Thread(target=self._load_model, name="memtui-model", daemon=True).start()

    @property
    def _retriever(self) -> Retriever:
        if self._retrieving is None:
            from memtui.engine.retriever import Retriever

            self._retrieving = Retriever(self._folder, self._cache, self._holder, lambda: False)
        return self._retrieving

    def search(self, text: str, *, ranking: Ranking) -> Ranked:
        """Search; raises `IndexMissing` without an index, `IndexUnusable` for a broken one."""
        query = parse_query(text)
        # Meanwhile the model is being loaded.
        self._discovered = self.discover()
        self._retriever.read(lambda connection: None)
        if (model := self._loading) is not None:
            # What cannot be read, the search itself tells.
            with suppress(DatabaseError):
                self._retriever.load_vectors(model)
        pool = self._retriever.retrieve(query, depth_of(ranking), lambda: False, None)
        return timed(lambda: rank(pool, ranking, now=self._now()))

    def refresh_status(self) -> None:
        """Look at the files and the index now; raises `IndexUnusable`."""
        self._noted_state = self._noted.read()
        discovery, self._discovered = self._discovered or self.discover(), None
        try:
            self._look = self._retriever.read(
                lambda connection: look(connection, self._retriever.generation, discovery)
            )
        except IndexMissing:
            self._look = look(None, 0, discovery)

    def status(self) -> IndexStatus:
        """The index as it was when it was looked at; who writes it is not asked."""
        snapshot, retriever = IndexerSnapshot(), self._retriever
        return statuses.compose(
            root=self.root,
            index_dir=self._folder.folder,
            snapshot=self._look.onto(snapshot) if self._look else snapshot,
            provider=self._provider_state(),
            watcher=None,
            backend=retriever.backend,
            told=(self._cache.recovered,),
            made_by=retriever.made_by,
        )

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Whether nothing goes on: between two calls that is always so."""
        return True

    def close(self) -> None:
        """Close the files and let go of the model."""
        self._holder.stop()
        if self._retrieving is not None:
            self._retrieving.close()
        self._cache.close()
        self._holder.close()

    def _load_model(self) -> None:
        """Load the model where it made the index's vectors; what goes wrong, the search tells."""
        live = LiveIndex(self._folder)
        with suppress(MemtuiError, DatabaseError):
            meta = read_meta(live.connection())
            maker = Maker(*(meta.get(key, "") for key in ("provider", "model", "fingerprint")))
            if self._loading is not None and maker == maker_of(self._loading):
                import_numpy()
                self._holder.get()
        live.close()

    def discover(self) -> Discovery:
        """The files of the memory, with its conversations."""
        chosen = self._settings.transcripts
        scope = scope_of(self.root, self._settings)
        if not (chosen.sources or chosen.paths):
            return discover(scope)
        from memtui.index.transcripts.discovery import with_transcripts
        from memtui.index.transcripts.scope import transcript_scope_of

        return with_transcripts(
            discover(scope), transcript_scope_of(self._settings, self.root, homes=self._homes)
        )

    def _provider_state(self) -> ProviderState:
        return told_state(
            self._holder.state(),
            self._noted_state,
            is_untried=self._holder.is_untried,
            followed=self._retriever.made_by,
        )
