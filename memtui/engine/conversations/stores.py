"""Where the transcripts of a memory are, which are opted in, and what its index says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.embedding.registry import destination_of, other_of, resolve
from memtui.errors import IndexMissing, IndexUnusable, MemtuiError
from memtui.index.transcripts.discovery import (
    SOURCE,
    Located,
    discover_transcripts,
    event_files,
    locate,
)
from memtui.index.transcripts.reading import TranscriptRow, transcript_rows
from memtui.index.transcripts.scope import (
    TranscriptHomes,
    TranscriptPlace,
    TranscriptScope,
    is_source,
    places_of,
)
from memtui.index.transcripts.streams import sessions_in
from memtui.memory.paths import written
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model import ProviderListing, Reason, SkippedFile, SourceFile
from memtui.model.conversations import TranscriptKind
from memtui.retrieval.openclaw.tables import readable, text_of
from memtui.settings.write import names_for
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine.foreign.agent import ForeignFacts
    from memtui.index.database import Connection
    from memtui.index.foreign.opening import Opened
    from memtui.index.generations import IndexFolder
    from memtui.index.indexer import Indexer
    from memtui.index.reader import KnownFile, LiveIndex
    from memtui.index.transcripts.follow import TranscriptFollower
    from memtui.settings import Settings


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript that was found."""

    file: SourceFile
    place: TranscriptPlace
    is_opted_in: bool

    @property
    def project(self) -> str:
        """The project folder of a Claude Code transcript; empty for every other one."""
        parts = self.file.path.split("/")
        return parts[1] if len(parts) > 2 and parts[0] == TranscriptKind.CLAUDE_CODE else ""


def transcripts_of(scope: TranscriptScope, located: Sequence[Located]) -> dict[str, Transcript]:
    """Return every transcript by its stored path."""
    transcripts = {}
    for place in located:
        for file in place.files:
            found = Transcript(file, place.place, place.place.is_indexed)
            if place.place.kind is TranscriptKind.CLAUDE_CODE:
                opted_in = scope.source_of(TranscriptKind.CLAUDE_CODE, found.project) is not None
                found = replace(found, is_opted_in=opted_in)
            transcripts[file.path] = found
    return transcripts


class TranscriptStore(ABC):
    """The transcripts of one memory; any thread."""

    scope: TranscriptScope
    """Which are opted in; changes while the memory is open."""
    programs: tuple[TranscriptKind, ...] = tuple(TranscriptKind)
    """Whose conversations can belong to this memory."""

    def locate(self) -> Sequence[Located]:
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

    def __init__(
        self,
        scope: TranscriptScope,
        settings: Settings,
        folder: IndexFolder,
        indexer: Indexer | None,
        *,
        read: Callable[[Callable[[Connection], Any]], Any],
        providers: Callable[[], tuple[ProviderListing, ...]],
    ) -> None:
        """`read` reads the index on the engine thread, and returns `None` when there is none."""
        self.scope = scope
        self._settings = settings.transcripts
        self._folder = folder
        self._indexer = indexer
        self._read = read
        self._providers = providers
        self._follows = False
        self._follower: TranscriptFollower | None = None

    def indexed(self) -> Mapping[str, TranscriptRow]:
        """Return what the index holds of each transcript, by path."""
        return self._read(transcript_rows) or {}

    def destinations(self) -> str:
        """Name the machines that get the text of what is indexed."""
        return text_goes(
            [
                one.address or one.name
                for one in self._providers()
                if one.remote and (one.is_requested or one.is_actual or one.is_fallback)
            ]
        )

    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows.

        For this run of the program: what the settings say is for who writes them. A wider name
        that is gone by stays while all of its places are among these.
        """
        places = [place.name for place in places_of(self.scope)]
        programs = [name for name in names if is_source(name)]
        sources = names_for(self.scope.sources, places, programs)
        paths = (name for name in names if not is_source(name))
        self.scope = self.scope.with_sources((*sources, *paths))
        if self._indexer is not None:
            self._indexer.use_transcripts(self.scope)
            self._indexer.sync()
        if self._follower is None and self._follows:
            self.follow()

    def follow(self) -> None:
        """Look at the transcripts now and then, on a thread of its own."""
        self._follows = True
        indexer = self._indexer
        if self.scope.is_empty or indexer is None:
            return
        from memtui.index.reader import LiveIndex
        from memtui.index.transcripts.follow import Growth, TranscriptFollower

        live = LiveIndex(self._folder)
        self._follower = follower = TranscriptFollower(
            lambda: discover_transcripts(self.scope, cancelled=lambda: follower.is_closing),
            Growth(self._settings, lambda: _known_transcripts(live)),
            indexer.sync,
            seconds=self._settings.debounce_seconds,
            failed=lambda text: indexer.record("transcripts", text),
            closed=live.close,
        )
        follower.start()

    def close(self) -> None:
        """Stop following."""
        if self._follower is not None:
            self._follower.stop()


def _known_transcripts(live: LiveIndex) -> Mapping[str, KnownFile]:
    from memtui.index.reader import known_files

    try:
        known = known_files(live.connection())
    except IndexMissing:
        return {}
    return {path: row for path, row in known.items() if row.source == SOURCE}


class AgentTranscripts(TranscriptStore):
    """The conversations of one agent, over its program's own index; neither is changed."""

    programs = (TranscriptKind.OPENCLAW,)

    def __init__(self, facts: ForeignFacts, read: Callable[[Callable[[Opened], Any]], Any]) -> None:
        """`read` reads the index on the engine thread."""
        sources = facts.scope.sources
        is_on = sources is None or SOURCE in sources
        self._target = target = facts.target
        self._read = read
        self.scope = TranscriptScope(
            target.workspace or target.database.parent,
            TranscriptHomes(openclaw=target.state_dir),
            (TranscriptKind.OPENCLAW,) if is_on else (),
            rules=RULES[facts.choice.profile],
        )

    def indexed(self) -> Mapping[str, TranscriptRow]:
        """Return how many chunks the index holds of each transcript, by path."""
        chunks: Mapping[str, int] = self._read(_chunks_by_path)
        return {path: TranscriptRow(count) for path, count in chunks.items()}

    def locate(self) -> Sequence[Located]:
        """Return what the agent keeps; the databases of the others are not opened."""
        target, scope = self._target, self.scope
        if target.state_dir is not None and target.agent is not None:
            source = f"{TranscriptKind.OPENCLAW}:{escape(target.agent)}"
            is_opted_in = scope.source_of(TranscriptKind.OPENCLAW, target.agent) is not None
            return [
                replace(one, place=replace(one.place, is_indexed=is_opted_in))
                for one in locate(replace(scope, sources=(source,), paths=()))
                if one.place.agent == target.agent
            ]
        if not scope.rules.stores_agent:
            # Nothing tells where the agent keeps its files.
            return ()
        # The agent that stored paths name, `sessions/<agent>/<file>`.
        parts = next(iter(self.indexed()), "").split("/")
        return [_located_in(scope, target.database, parts[1] if len(parts) == 3 else "")]

    def use_sources(self, names: Sequence[str]) -> None:
        """Refuse: what is indexed is decided by the agent's own configuration."""
        raise IndexUnusable(
            "this index belongs to the agent's program: memtui only reads it",
            hint="memory.search.sources of its configuration decides what is indexed",
        )


def _chunks_by_path(opened: Opened) -> dict[str, int]:
    layout, column = opened.layout, readable("path")
    if not layout.chunks_have_source:
        return {}
    chunks: dict[str, int] = {}
    if layout.files_have_source:
        rows = opened.connection.execute(
            f"SELECT {column} FROM {layout.files} WHERE source = ?", (SOURCE,)
        ).fetchall()
        chunks = {text_of(path) or "": 0 for (path,) in rows}
    rows = opened.connection.execute(
        f"SELECT {column}, count(*) FROM {layout.chunks} WHERE source = ? GROUP BY path", (SOURCE,)
    ).fetchall()
    return chunks | {text_of(path) or "": int(str(count)) for path, count in rows}


def _located_in(scope: TranscriptScope, database: Path, agent: str) -> Located:
    """Find the conversations in the rows of a database that lies anywhere."""
    name = written(str(database))
    kind = TranscriptKind.OPENCLAW
    place = TranscriptPlace(name, kind, name, not scope.is_empty, agent, str(database))
    prefix = f"{SOURCE}/{agent}/" if agent else f"{SOURCE}/"
    try:
        return Located(place, tuple(event_files(database, prefix, sessions_in(database))), ())
    except (OSError, MemtuiError) as error:
        skipped = SkippedFile(name, Reason.UNREADABLE, written(safe_line(str(error))))
        return Located(place, (), (skipped,))


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
            place = destination_of(registration, choice)
            hosts += [place.address or registration.name] if place.remote else []
    return tuple(hosts)


def text_goes(hosts: Sequence[str]) -> str:
    """Say where the indexed text goes: to those hosts, for its vectors, or nowhere."""
    if not hosts:
        return "all of it stays on this machine"
    return f"it is sent to {' and '.join(dict.fromkeys(hosts))}, which makes the vectors"
