"""The conversations of a memory: listed, counted, read, and what was asked in them asked again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from memtui.engine.browse import Browse
from memtui.engine.conversations.replay import (
    PathNames,
    as_stored,
    compare,
    overlap,
    results_wanted,
)
from memtui.engine.conversations.stores import TranscriptStore, is_opted_in
from memtui.engine.conversations.turns import (
    CancelCheck,
    ConversationGone,
    NotATranscript,
    OpenConversation,
    Scan,
    never,
    scan_transcript,
)
from memtui.engine.search import Search
from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.discovery import Located, TranscriptPlace, TranscriptScope
from memtui.index.transcripts.reading import TranscriptRow, agent_of
from memtui.memory.transcripts.formats import TranscriptFacts, format_of
from memtui.memory.transcripts.records import moment
from memtui.model import Ranked, Ranking, Reason, SkippedFile, SourceFile
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
)
from memtui.text.sanitize import safe_line, size_words

WHAT_IS_INDEXED: Final = (
    "what you and the agent said; no tool output and no thinking, credentials masked"
)
_WHOLE: Final = frozenset({Reason.OK, Reason.MALFORMED_LINES, Reason.LINE_TOO_LONG})
"""How a transcript stands that is indexed but for lines of it."""
_NOWHERE: Final[Mapping[TranscriptKind, str]] = {
    TranscriptKind.OPENCLAW: "no agent of OpenClaw keeps transcripts here",
    TranscriptKind.CLAUDE_CODE: "Claude Code keeps no transcripts here",
    TranscriptKind.CODEX: "Codex keeps no transcripts here",
}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ConversationService:
    """Lists and reads conversations, and asks again what was asked in them.

    Reads transcripts on the caller's thread, the index on the engine's. Long answers ask
    `cancelled` and raise `Cancelled` when it turns true. Nothing is written, every text is
    masked, and what was read of a file is kept in memory for as long as it stays as it is.
    """

    def __init__(
        self, store: TranscriptStore, search: Search, browse: Browse, root: Path, ranking: Ranking
    ) -> None:
        self._store = store
        self._ranking = ranking
        self._search = search
        self._browse = browse
        self._root = root
        self._names = PathNames(root, ())
        self._scans: dict[str, tuple[tuple[int, int], Scan]] = {}
        """What was read of each file, by path, with its size and mtime then."""

    def listings(self) -> list[ConversationListing]:
        """Return every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """
        indexed = self._store.indexed()
        transcripts = self._transcripts()
        listings = []
        for path, (file, place) in sorted(transcripts.items()):
            row = indexed.get(path)
            stamp, scan = self._scans.get(path, (None, None))
            if stamp != (file.size, file.mtime_ns):
                is_told = row is not None and row.facts.kind is not None
                scan = None if is_told else self._scan(file, never, whole=False)
            listings.append(self._listing(file, place, row, scan))
        return sorted(listings, key=lambda one: one.started or one.changed, reverse=True)

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], object],
        *,
        cancelled: CancelCheck = never,
    ) -> None:
        """Read those whose turns nobody has counted, and report each when it is."""
        paths = [listing.path for listing in listings if listing.turns is None]
        for file, place, row in self._chosen(paths, cancelled):
            counted(self._listing(file, place, row, self._scan(file, cancelled)))

    def read(self, path: str, *, cancelled: CancelCheck = never) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        file, place = self._transcripts().get(path, (None, None))
        if file is None or place is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._store.scope.max_line_bytes
        conversation = OpenConversation(file, limit=limit)
        scan = scan_transcript(file, limit=limit, into=conversation, cancelled=cancelled)
        if scan.trouble is not None and scan.trouble[0] is Reason.NOT_A_TRANSCRIPT:
            raise NotATranscript(f"{path} is no transcript of a program that is known")
        if scan.trouble is not None:
            raise ConversationGone(
                f"{safe_line(path)} cannot be read: {scan.trouble[1]}",
                hint="choose another conversation",
            )
        self._keep(file, scan)
        conversation.listing = self._listing(file, place, self._store.indexed().get(path), scan)
        return conversation

    def sources(self) -> tuple[TranscriptSource, ...]:
        """Return the places of transcripts, opted in or not, and how much of each is indexed."""
        store = self._store
        located, indexed = store.locate(), store.indexed()
        return transcript_sources(
            store.scope, located, indexed, store.destinations(), store.programs
        )

    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows.

        For this run of the program: what the settings say is for who writes them.
        """
        self._store.use_sources(names)

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], object] = lambda calls: None,
        cancelled: CancelCheck = never,
    ) -> list[MemoryCall]:
        """Return the searches of the memory in some transcripts, or in all, newest first.

        `found` gets those of each transcript as soon as it is read.
        """
        if paths is None:
            paths = [listing.path for listing in self.listings()]
        calls: list[MemoryCall] = []
        for file, _, row in self._chosen(paths, cancelled):
            if row is not None and row.facts.kind and not row.facts.calls and row.is_current(file):
                # The index knows that there is none.
                continue
            scan = self._scan(file, cancelled)
            if scan.calls:
                found(scan.calls)
                calls += scan.calls
        calls.sort(key=lambda call: (call.path, call.line))
        return sorted(calls, key=lambda call: call.asked or _NEVER, reverse=True)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare.

        As many results as the call asked for, else as the ranking gives. What came back then and
        what comes back now is in the rows, each place exactly once; where it is not known what
        came back then, every row has entered. Why it could not be asked is the `problem`.
        """
        if not call.query.strip():
            return Replayed(call, (), "the call has no query")
        ranking = ranking or self._ranking
        paths = tuple(self._browse.paths())
        if self._names.paths != paths:
            self._names = PathNames(self._root, paths)
        # Looked for once for all the places of an answer, and only if one asks.
        transcripts = cache(self._transcripts)
        try:
            count = results_wanted(call) or ranking.k
            ranked = self._search.ask(call.query, ranking=replace(ranking, k=count))
            then = [as_stored(recalled, self._names) for recalled in call.returned or ()]
            rows = [
                self._explained(row, ranked, transcripts)
                if row.change is RecallChange.LEFT
                else row
                for row in compare(then, ranked.hits)
            ]
        except MemtuiError as error:
            return Replayed(call, (), " ".join(str(error).split()))
        return Replayed(call, tuple(rows))

    def _explained(
        self, row: RecallRow, ranked: Ranked, transcripts: Callable[[], Collection[str]]
    ) -> RecallRow:
        """Return a row that left with why, and with the chunk that is at its place now."""
        for drop in ranked.drops:
            # The candidate at the place that came furthest.
            chunk = drop.chunk
            if chunk.path == row.path and overlap(row, chunk) > 0:
                return replace(row, why=drop.reason, chunk_id=chunk.id)
        ranges = self._browse.chunk_ranges(row.path)
        shared = {one.chunk_id: overlap(row, one) for one in ranges}
        best = max(shared, key=lambda chunk_id: shared[chunk_id], default="")
        if best and shared[best] > 0:
            # Its lines are in the list within a chunk that was, and is, another place of it.
            is_shown = any(hit.chunk.id == best for hit in ranked.hits)
            why = Reason.DUPLICATE_TEXT if is_shown else Reason.OUTSIDE_CANDIDATES
            return replace(row, why=why, chunk_id=best)
        if ranges:
            return replace(row, why=Reason.NO_CHUNK_AT_LINE)
        if not row.path:
            # A result that names no file: nothing can be told about it.
            return row
        is_there = os.path.isfile(self._root / row.path) or row.path in transcripts()
        return replace(row, why=Reason.NOT_INDEXED if is_there else Reason.NO_FILE)

    def _transcripts(self) -> dict[str, tuple[SourceFile, TranscriptPlace]]:
        return {file.path: (file, one.place) for one in self._store.locate() for file in one.files}

    def _chosen(
        self, paths: Sequence[str], cancelled: CancelCheck
    ) -> Iterator[tuple[SourceFile, TranscriptPlace, TranscriptRow | None]]:
        """Iterate over those of the paths that are there, in that order."""
        indexed, transcripts = self._store.indexed(), self._transcripts()
        for path in paths:
            if path in transcripts:
                if cancelled():
                    raise Cancelled
                yield *transcripts[path], indexed.get(path)

    def _listing(
        self,
        file: SourceFile,
        place: TranscriptPlace,
        row: TranscriptRow | None,
        scan: Scan | None,
    ) -> ConversationListing:
        """Put together what is known of a transcript; what nobody has counted is `None`."""
        scan = scan or Scan()
        indexed = row.facts if row is not None and row.facts.kind is not None else None
        is_current = row is not None and row.is_current(file)
        # What was read now counts before what was indexed.
        counted = (scan.facts if scan.is_whole else None) or (indexed if is_current else None)
        facts = counted or indexed or scan.facts or TranscriptFacts()
        # Why it is not indexed, or not wholly, and one line about it.
        state, detail = Reason.OK, ""
        if scan.facts is not None and scan.is_whole:
            state, detail = scan.facts.reason, scan.facts.detail
        if scan.trouble is not None:
            state, detail = scan.trouble
        elif row is None and not is_opted_in(self._store.scope, place, file):
            project = agent_of(file) if place.kind is TranscriptKind.CLAUDE_CODE else ""
            source = ":".join(filter(None, (place.name, project)))
            state = Reason.DISABLED
            detail = "; ".join(filter(None, (f"not opted in: {source}", detail)))
        elif row is None and state in _WHOLE:
            state = Reason.NOT_YET_INDEXED
            detail = "; ".join(filter(None, ("not indexed yet", detail)))
        elif row is not None and not is_current:
            state, detail = Reason.STALE, "changed since it was indexed"
        elif row is not None and row.stat is not None:
            state, detail = row.facts.reason, row.facts.detail
        try:
            changed = _EPOCH + timedelta(microseconds=file.mtime_ns // 1000)
        except OverflowError:
            # A file's time may lie outside the calendar.
            changed = _EPOCH
        return ConversationListing(
            path=file.path,
            place=str(file.absolute),
            kind=facts.kind or TranscriptKind(file.kind or TranscriptKind.OPENCLAW),
            agent=place.agent or facts.agent or agent_of(file),
            size=file.size,
            changed=changed,
            session=file.session,
            title=facts.title,
            model=facts.model,
            started=moment(facts.started_ms),
            ended=moment(counted.ended_ms) if counted is not None else None,
            turns=counted.turns if counted is not None else None,
            calls=counted.calls if counted is not None else None,
            malformed=(counted or indexed or TranscriptFacts()).malformed,
            chunks=row.chunks if row is not None else None,
            state=state,
            detail=detail,
        )

    def _scan(self, file: SourceFile, cancelled: CancelCheck, *, whole: bool = True) -> Scan:
        """Read a transcript, or its beginning, unless that was done; raises `Cancelled`."""
        stamp, scan = self._scans.get(file.path, (None, None))
        if scan is None or stamp != (file.size, file.mtime_ns) or (whole and not scan.is_whole):
            limit = self._store.scope.max_line_bytes
            scan = scan_transcript(file, limit=limit, whole=whole, cancelled=cancelled)
            self._keep(file, scan)
        return scan

    def _keep(self, file: SourceFile, scan: Scan) -> None:
        # One that could not be read for another reason may be readable the next time.
        if scan.trouble is None or scan.trouble[0] is Reason.NOT_A_TRANSCRIPT:
            self._scans[file.path] = (file.size, file.mtime_ns), scan


# --- the sources --------------------------------------------------------------------------


def transcript_sources(
    scope: TranscriptScope,
    located: Sequence[Located],
    indexed: Mapping[str, TranscriptRow],
    destinations: str,
    programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
) -> tuple[TranscriptSource, ...]:
    """Return the places one after the other, then those of the programs that have none.

    `destinations` says where the text of what is indexed goes.
    """
    there = {place.place.kind for place in located}
    absent = [
        TranscriptSource(kind.value, kind, folder="", is_indexed=False, detail=_NOWHERE[kind])
        for kind in programs
        if kind not in there
    ]
    return (*(_source(scope, place, indexed, destinations) for place in located), *absent)


def _source(
    scope: TranscriptScope,
    located: Located,
    indexed: Mapping[str, TranscriptRow],
    destinations: str,
) -> TranscriptSource:
    """Return how much of a place was found, how much is indexed, and what is not and why."""
    place, count = located.place, len(located.files)
    rows = {file.path: indexed[file.path] for file in located.files if file.path in indexed}
    left_out: Counter[str] = Counter()
    for row in rows.values():
        left_out.update(row.facts.left_out)
    # What is not indexed, or has no text; not what is not opted in.
    skipped = list(located.skipped)
    for file in located.files:
        if file.path in rows:
            facts = rows[file.path].facts
            why, detail = facts.reason, facts.detail
        elif is_opted_in(scope, place, file):
            why, detail = Reason.NOT_YET_INDEXED, "not indexed yet"
        else:
            why, detail = Reason.DISABLED, "its project is not opted in"
        if why not in _WHOLE and (file.path in rows or place.is_indexed):
            skipped.append(SkippedFile(file.path, why, detail))
    size = sum(file.size for file in located.files)
    detail = f"{count} {'conversation' if count == 1 else 'conversations'}, {size_words(size)}; "
    detail += f"{'indexed' if place.is_indexed else 'would be indexed'}: {WHAT_IS_INDEXED}"
    detail += f"; {destinations}" if destinations else ""
    detail += f". {format_of(place.kind).calls_note}." if place.kind is not None else ""
    return TranscriptSource(
        name=place.name,
        kind=place.kind,
        folder=place.folder,
        is_indexed=place.is_indexed,
        found=count,
        size=size,
        indexed=len(rows),
        chunks=sum(row.chunks for row in rows.values()),
        messages=sum(row.facts.messages for row in rows.values()),
        left_out=dict(sorted(left_out.items())),
        malformed=sum(row.facts.malformed for row in rows.values()),
        skipped=tuple(skipped),
        detail=detail,
    )
