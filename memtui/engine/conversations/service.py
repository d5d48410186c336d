"""The conversations of a memory: listed, counted, read, and what was asked in them asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from memtui.engine.browse import Browse
from memtui.engine.conversations.replay import Replay
from memtui.engine.conversations.stores import Transcript, TranscriptStore, transcripts_of
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
from memtui.errors import Cancelled
from memtui.index.transcripts.discovery import Located
from memtui.index.transcripts.reading import TranscriptRow
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.transcripts.formats import format_of
from memtui.memory.transcripts.records import moment
from memtui.model import Ranking, Reason, SkippedFile, SourceFile
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
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
        self._replay = Replay(search, browse, root, self._transcripts)
        self._scans: dict[str, tuple[tuple[int, int], Scan]] = {}
        """What was read of each file, by path, with its size and mtime then."""

    def listings(self) -> list[ConversationListing]:
        """Return every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """
        indexed = self._store.indexed()
        transcripts = self._transcripts()
        listings = []
        for path, transcript in sorted(transcripts.items()):
            row, file = indexed.get(path), transcript.file
            stamp, scan = self._scans.get(path, (None, None))
            if stamp != (file.size, file.mtime_ns):
                is_told = row is not None and row.facts.kind is not None
                scan = None if is_told else self._scan(file, never, whole=False)
            listings.append(listing_of(transcript, row, scan))
        return sorted(listings, key=lambda one: one.started or one.changed, reverse=True)

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: CancelCheck = never,
    ) -> None:
        """Read those whose turns nobody has counted, and report each when it is."""
        paths = [listing.path for listing in listings if listing.turns is None]
        for transcript, indexed in self._chosen(paths, cancelled):
            counted(listing_of(transcript, indexed, self._scan(transcript.file, cancelled)))

    def read(self, path: str, *, cancelled: CancelCheck = never) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        transcript = self._transcripts().get(path)
        if transcript is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._store.scope.max_line_bytes
        conversation = OpenConversation(transcript.file, limit=limit)
        scan = scan_transcript(transcript.file, limit=limit, into=conversation, cancelled=cancelled)
        if scan.trouble is not None and scan.trouble[0] is Reason.NOT_A_TRANSCRIPT:
            raise NotATranscript(f"{path} is no transcript of a program that is known")
        if scan.trouble is not None:
            raise ConversationGone(
                f"{safe_line(path)} cannot be read: {scan.trouble[1]}",
                hint="choose another conversation",
            )
        self._keep(transcript.file, scan)
        conversation.listing = listing_of(transcript, self._store.indexed().get(path), scan)
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
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: CancelCheck = never,
    ) -> list[MemoryCall]:
        """Return the searches of the memory in some transcripts, or in all, newest first.

        `found` gets those of each transcript as soon as it is read.
        """
        if paths is None:
            paths = [listing.path for listing in self.listings()]
        calls: list[MemoryCall] = []
        for transcript, indexed in self._chosen(paths, cancelled):
            facts = indexed.facts if indexed is not None else None
            is_told = facts is not None and facts.kind is not None and not facts.calls
            if is_told and indexed is not None and indexed.is_current(transcript.file):
                # The index knows that there is none.
                continue
            scan = self._scan(transcript.file, cancelled)
            if scan.calls:
                found(scan.calls)
                calls += scan.calls
        calls.sort(key=lambda call: (call.path, call.line))
        return sorted(calls, key=lambda call: call.asked or _NEVER, reverse=True)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare.

        What came back then and what comes back now is in the rows, each place exactly once; why
        it could not be asked is the `problem` of the answer.
        """
        return self._replay.ask(call, ranking or self._ranking)

    def _transcripts(self) -> dict[str, Transcript]:
        return transcripts_of(self._store.scope, self._store.locate())

    def _chosen(
        self, paths: Sequence[str], cancelled: CancelCheck
    ) -> Iterator[tuple[Transcript, TranscriptRow | None]]:
        """Iterate over those of the paths that are there, in that order."""
        indexed, transcripts = self._store.indexed(), self._transcripts()
        for path in paths:
            if path in transcripts:
                if cancelled():
                    raise Cancelled
                yield transcripts[path], indexed.get(path)

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


# --- one transcript in a list -------------------------------------------------------------


def listing_of(
    transcript: Transcript, indexed: TranscriptRow | None = None, scan: Scan | None = None
) -> ConversationListing:
    """Put together what is known of a transcript; what nobody has counted is `None`."""
    file, scan = transcript.file, scan or Scan()
    facts = indexed.facts if indexed is not None and indexed.facts.kind is not None else None
    is_current = indexed is not None and indexed.is_current(file)
    # What was read now counts before what was indexed.
    known = [one for one in (scan.facts, facts) if one is not None]
    recognised = facts or scan.facts
    kind = recognised.kind if recognised is not None else None
    agents = [facts.agent if facts is not None else "", transcript.place.agent, transcript.project]
    counted = scan.facts if scan.is_whole else None
    if counted is None and is_current:
        counted = facts
    measured = counted or facts
    content = Reason.OK, ""
    if scan.facts is not None and scan.is_whole:
        content = scan.facts.reason, scan.facts.detail
    # Why it is not indexed, or not wholly, and one line about it.
    state, detail = content
    if scan.trouble is not None:
        state, detail = scan.trouble
    elif indexed is None and not transcript.is_opted_in:
        source = ":".join(filter(None, (transcript.place.name, transcript.project)))
        state = Reason.DISABLED
        detail = "; ".join(filter(None, (f"not opted in: {source}", content[1])))
    elif indexed is None and state in _WHOLE:
        state = Reason.NOT_YET_INDEXED
        detail = "; ".join(filter(None, ("not indexed yet", content[1])))
    elif indexed is not None and not is_current:
        state, detail = Reason.STALE, "changed since it was indexed"
    elif indexed is not None and indexed.stat is not None:
        state = indexed.facts.reason
        detail = "" if state is Reason.OK else indexed.facts.detail
    try:
        changed = _EPOCH + timedelta(microseconds=file.mtime_ns // 1000)
    except OverflowError:
        # A file's time may lie outside the calendar.
        changed = _EPOCH
    return ConversationListing(
        path=file.path,
        place=str(file.absolute),
        kind=kind or TranscriptKind(file.kind or TranscriptKind.OPENCLAW),
        agent=next(filter(None, [*agents, *(one.agent for one in known)]), ""),
        size=file.size,
        changed=changed,
        session=file.session,
        title=next((one.title for one in known if one.title), ""),
        model=next((one.model for one in known if one.model), ""),
        started=next(filter(None, (moment(one.started_ms) for one in known)), None),
        ended=moment(counted.ended_ms) if counted is not None else None,
        turns=counted.turns if counted is not None else None,
        calls=counted.calls if counted is not None else None,
        malformed=measured.malformed if measured is not None else 0,
        chunks=indexed.chunks if indexed is not None else None,
        state=state,
        detail=detail,
    )


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
    transcripts = transcripts_of(scope, located)
    sources = [_source(place, transcripts, indexed, destinations) for place in located]
    there = {place.place.kind for place in located}
    absent = [
        TranscriptSource(kind.value, kind, folder="", is_indexed=False, detail=_NOWHERE[kind])
        for kind in programs
        if kind not in there
    ]
    return (*sources, *absent)


def _source(
    located: Located,
    transcripts: Mapping[str, Transcript],
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
        facts = rows[file.path].facts if file.path in rows else None
        if facts is not None and facts.reason not in _WHOLE:
            skipped.append(SkippedFile(file.path, facts.reason, facts.detail))
        elif facts is None and place.is_indexed:
            why = Reason.DISABLED, "its project is not opted in"
            if transcripts[file.path].is_opted_in:
                why = Reason.NOT_YET_INDEXED, "not indexed yet"
            skipped.append(SkippedFile(file.path, *why))
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
