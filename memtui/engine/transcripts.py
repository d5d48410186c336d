"""Conversations as a part of the engine: which are indexed, following and showing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from memtui.errors import IndexMissing

# What reads notes and transcripts is imported when somebody asks for them: a search does without.
if TYPE_CHECKING:
    from pathlib import Path

    from memtui.engine.retriever import Retriever
    from memtui.engine.searching import SearchLoop
    from memtui.engine.source import SourceText
    from memtui.index.database import Connection
    from memtui.index.generations import IndexFolder
    from memtui.index.indexer import Indexer
    from memtui.index.reader import LiveIndex
    from memtui.index.scan import KnownFile
    from memtui.index.transcripts.follow import TranscriptFollower
    from memtui.index.transcripts.scope import TranscriptScope
    from memtui.memory.discover import Discovery
    from memtui.settings import Settings

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Held:
    """What the index says of a file that is asked for."""

    known: KnownFile | None
    hash: str | None
    text: str


class Transcribing:
    """The part of `Engine` that takes conversations along with the notes."""

    root: Path
    settings: Settings
    _loop: SearchLoop
    _retriever: Retriever
    _folder: IndexFolder
    _indexer: Indexer
    _transcripts: TranscriptScope
    _follower: TranscriptFollower | None = None

    def use_transcripts(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows.

        For this run of the program: what the settings say is for who writes them. A wider name
        that is gone by stays while all of its places are among these.
        """
        from memtui.index.transcripts.scope import is_source, places_of
        from memtui.settings.write import names_for

        scope = self._transcripts
        places = [place.name for place in places_of(scope)]
        sources = names_for(scope.sources, places, [name for name in names if is_source(name)])
        paths = (name for name in names if not is_source(name))
        self._transcripts = scope.with_sources((*sources, *paths))
        self._indexer.use_transcripts(self._transcripts)
        self._indexer.sync()
        if self._follower is None and self._follows:
            self._start_following()

    def source(self, path: str) -> SourceText:
        """Read a note or transcript and say whether it is still what was indexed; off the loop.

        Line N of a transcript stands for line N of its file, in one readable line.
        """
        from memtui.engine.source import read_source
        from memtui.engine.transcript_source import indexed_lines, transcript_source
        from memtui.index.transcripts.discovery import SOURCE, file_at

        held = self._of_index(_held, path) or _Held(None, None, "")
        is_transcript = held.known is not None and held.known.source == SOURCE
        if is_transcript or held.known is None:
            file = file_at(self._transcripts, path)
            if file is not None or is_transcript:
                limit = self._transcripts.max_line_bytes
                return transcript_source(
                    path,
                    file,
                    held.known,
                    lambda: self._of_index(indexed_lines, path) or (),
                    limit=limit,
                )
        return read_source(self.root, path, held.hash, held.text)

    def _of_index(self, read: Callable[[Connection, A], T], argument: A) -> T | None:
        return self._loop.call(lambda: self._with_index(read, argument)).result()

    def _with_index(self, read: Callable[[Connection, A], T], argument: A) -> T | None:
        try:
            return self._retriever.read(lambda connection: read(connection, argument))
        except IndexMissing:
            return None

    # --- following ------------------------------------------------------------------------

    _follows = False

    def _start_following(self) -> None:
        """Look at the transcripts now and then, on a thread of its own."""
        self._follows = True
        if self._transcripts.is_empty:
            return
        from memtui.index.reader import LiveIndex
        from memtui.index.transcripts.follow import Deltas, Growth, TranscriptFollower

        chosen = self.settings.transcripts
        deltas = Deltas(chosen.delta_bytes, chosen.delta_messages, chosen.debounce_seconds)
        live = LiveIndex(self._folder)
        self._follower = TranscriptFollower(
            self._scan_transcripts,
            Growth(deltas, lambda: _known_transcripts(live)),
            self._indexer.sync,
            seconds=deltas.seconds,
            failed=lambda text: self._indexer.record("transcripts", text),
            closed=live.close,
        )
        self._follower.start()

    def _scan_transcripts(self) -> Discovery:
        from memtui.index.transcripts.discovery import discover_transcripts

        follower = self._follower
        return discover_transcripts(
            self._transcripts, cancelled=lambda: follower is not None and follower.is_closing
        )

    def _stop_following(self) -> None:
        if self._follower is not None:
            self._follower.stop()


def _held(connection: Connection, path: str) -> _Held:
    from memtui.engine.reading import indexed_note
    from memtui.index.scan import known_file
    from memtui.index.transcripts.discovery import SOURCE

    known = known_file(connection, path)
    if known is not None and known.source == SOURCE:
        return _Held(known, known.hash, "")
    text_hash, text = indexed_note(connection, path)
    return _Held(known, text_hash, text)


def _known_transcripts(live: LiveIndex) -> Mapping[str, KnownFile]:
    from memtui.index.scan import known_files
    from memtui.index.transcripts.discovery import SOURCE

    try:
        known = known_files(live.connection())
    except IndexMissing:
        return {}
    return {path: row for path, row in known.items() if row.source == SOURCE}
