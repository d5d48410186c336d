"""The transcripts of a memory: their places, the choice of them, their rows in the index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memtui.embedding.registry import other_of, resolve
from memtui.engine.providers.catalog import ProviderService
from memtui.errors import IndexMissing
from memtui.index.database import Connection
from memtui.index.generations import IndexFolder, LiveIndex
from memtui.index.index_rows import KnownFile, known_files
from memtui.index.transcripts.discovery import (
    SOURCE,
    TranscriptPlace,
    TranscriptScope,
    discover_transcripts,
    locate,
    places_of,
)
from memtui.index.transcripts.reading import TranscriptRow, transcript_rows
from memtui.model.conversations import TranscriptKind, is_source
from memtui.settings.schema import Settings, TranscriptSettings

# What a search does without is imported when it is asked for.
if TYPE_CHECKING:
    from memtui.index.indexer import Indexer
    from memtui.index.transcripts.follow import TranscriptFollower


class TranscriptStore(ABC):
    """The transcripts of one memory; any thread."""

    scope: TranscriptScope
    """The transcripts that are opted in; changes while the memory is open."""
    programs: tuple[TranscriptKind, ...] = tuple(TranscriptKind)
    """Whose conversations can belong to this memory."""

    def locate(self) -> Sequence[TranscriptPlace]:
        """Return the places of transcripts and what is in them, opted in or not."""
        return locate(self.scope, everything=True)

    @abstractmethod
    def indexed(self) -> Mapping[str, TranscriptRow]:
        """Return what the index holds of each transcript, by path."""

    def destinations(self) -> str:
        """Say where the text of what is indexed goes; empty where memtui does not index it."""
        return ""

    @abstractmethod
    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others."""


class OwnTranscripts(TranscriptStore):
    """The transcripts that memtui indexes beside the notes, and follows while they grow."""

    indexer: Indexer | None = None
    """The writer of the index; `None` where it is only read."""

    def __init__(
        self,
        scope: TranscriptScope,
        settings: TranscriptSettings,
        folder: IndexFolder,
        read: Callable[[Callable[[Connection], Any]], Any],
        providers: ProviderService,
    ) -> None:
        """`read` reads the index on the engine thread, and returns `None` when there is none."""
        self.scope = scope
        self._settings = settings
        self._folder = folder
        self._read = read
        self._providers = providers
        self._follows = False
        self._follower: TranscriptFollower | None = None

    def indexed(self) -> Mapping[str, TranscriptRow]:
        return self._read(transcript_rows) or {}

    def destinations(self) -> str:
        return text_goes(
            [
                one.address or one.name
                for one in self._providers.available()
                if one.remote and (one.is_requested or one.is_actual or one.is_fallback)
            ]
        )

    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows.

        For this run of the program: what the settings say is for who writes them. A wider name
        that is gone by stays while all of its places are among these.
        """
        from memtui.settings.write import names_for

        places = [place.name for place in places_of(self.scope)]
        sources = names_for(self.scope.sources, places, list(filter(is_source, names)))
        paths = tuple(dict.fromkeys(filterfalse(is_source, names)))
        self.scope = replace(self.scope, sources=sources, paths=paths)
        if self.indexer is not None:
            self.indexer.use_transcripts(self.scope)
            self.indexer.sync()
        if self._follower is None and self._follows:
            self.follow()

    def follow(self) -> None:
        """Look at the transcripts now and then, on a thread of its own."""
        from memtui.index.transcripts.follow import TranscriptFollower

        self._follows, indexer = True, self.indexer
        if self.scope.is_empty or indexer is None:
            return

        def transcripts_in_index() -> Mapping[str, KnownFile]:
            with closing(LiveIndex(self._folder)) as live, suppress(IndexMissing):
                files = known_files(live.connection())
                return {path: row for path, row in files.items() if row.source == SOURCE}
            return {}

        self._follower = TranscriptFollower(
            lambda closing: discover_transcripts(self.scope, cancelled=closing),
            transcripts_in_index,
            indexer.sync,
            self._settings,
            failed=lambda text: indexer.record("transcripts", text),
        )
        self._follower.start()

    def close(self) -> None:
        if self._follower is not None:
            self._follower.stop()


# --- where the text goes ------------------------------------------------------------------


def hosts_in(settings: Settings) -> tuple[str, ...]:
    """Return the other machines that would get texts by these settings; asks nothing.

    Raises `SettingsError` for a provider that does not exist.
    """
    hosts = []
    fallback = other_of(settings.embedding, settings.embedding.fallback)
    for choice in (settings.embedding, fallback):
        registration = resolve(choice)
        if registration is not None:
            address, is_remote = registration.destination(choice)
            hosts += [address or registration.name] if is_remote else []
    return tuple(hosts)


def text_goes(hosts: Sequence[str]) -> str:
    """Say where the indexed text goes: to those hosts, for its vectors, or nowhere."""
    if not hosts:
        return "all of it stays on this machine"
    return f"it is sent to {' and '.join(dict.fromkeys(hosts))}, which makes the vectors"
