"""The transcripts of a memory: their places, the choice of them, their rows in the index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.embedding.registry import other_of, resolve
from memtui.index.transcripts.discovery import TranscriptPlace, TranscriptScope, locate, places_of
from memtui.index.transcripts.reading import TranscriptRow, transcript_rows
from memtui.model.conversations import TranscriptKind, is_source
from memtui.settings.schema import Settings

# What a search does without is imported when it is asked for.
if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex


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

    def __init__(self, index: OwnIndex, scope: TranscriptScope) -> None:
        self.scope = scope
        self._index = index

    def indexed(self) -> Mapping[str, TranscriptRow]:
        return self._index.read_rows(transcript_rows) or {}

    def destinations(self) -> str:
        providers = self._index.providers
        used = (providers.primary, providers.fallback, providers.acting)
        return text_goes([one.address or one.identity.name for one in used if one and one.remote])

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
        if (indexer := self._index.indexer) is not None:
            indexer.job.transcripts = self.scope
            indexer.sync()


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
