"""The conversations of a memory: listed, counted, read, and what was asked in them asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.conversations.reading import (
    CancelCheck,
    ConversationGone,
    OpenConversation,
    Scan,
    never,
    read_conversation,
    scan_beginning,
    scan_transcript,
)
from memtui.engine.conversations.replay import Replay
from memtui.engine.conversations.stores import Transcript, TranscriptStore, transcripts_of
from memtui.errors import Cancelled
from memtui.index.transcripts.reading import TranscriptRow
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

if TYPE_CHECKING:
    from memtui.engine.browse import Browse
    from memtui.engine.search import Search
    from memtui.index.transcripts.discovery import Located
    from memtui.index.transcripts.scope import TranscriptScope

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
        listings = [
            self._listing(transcripts[path], indexed.get(path)) for path in sorted(transcripts)
        ]
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
            counted(listing_of(transcript, indexed, self._scan(transcript, cancelled)))

    def read(self, path: str, *, cancelled: CancelCheck = never) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        transcript = self._transcripts().get(path)
        if transcript is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._store.scope.max_line_bytes
        conversation, scan = read_conversation(transcript.file, limit=limit, cancelled=cancelled)
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
            if _has_no_calls(transcript, indexed):
                continue
            scan = self._scan(transcript, cancelled)
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

    def _listing(
        self, transcript: Transcript, indexed: TranscriptRow | None
    ) -> ConversationListing:
        file = transcript.file
        scan = self._present(file)
        if scan is None and (indexed is None or indexed.facts.kind is None):
            scan = scan_beginning(file, limit=self._store.scope.max_line_bytes)
            self._keep(file, scan)
        return listing_of(transcript, indexed, scan)

    def _scan(self, transcript: Transcript, cancelled: CancelCheck) -> Scan:
        """Read a transcript unless that was done; raises `Cancelled`."""
        file = transcript.file
        scan = self._present(file)
        if scan is None or not scan.is_whole:
            limit = self._store.scope.max_line_bytes
            scan = scan_transcript(file, limit=limit, cancelled=cancelled)
            self._keep(file, scan)
        return scan

    def _present(self, file: SourceFile) -> Scan | None:
        """Return what was read of the file as it is now."""
        stamp, scan = self._scans.get(file.path, (None, None))
        return scan if stamp == (file.size, file.mtime_ns) else None

    def _keep(self, file: SourceFile, scan: Scan) -> None:
        # One that could not be read for another reason may be readable the next time.
        if scan.trouble is None or scan.trouble[0] is Reason.NOT_A_TRANSCRIPT:
            self._scans[file.path] = (file.size, file.mtime_ns), scan


def _has_no_calls(transcript: Transcript, indexed: TranscriptRow | None) -> bool:
    """Return whether the index knows that there is no search in a transcript."""
    if indexed is None or indexed.facts.kind is None:
        return False
    return not indexed.facts.calls and indexed.is_current(transcript.file)


# --- one transcript in a list -------------------------------------------------------------


def listing_of(
    transcript: Transcript, indexed: TranscriptRow | None = None, scan: Scan | None = None
) -> ConversationListing:
    """Put together what is known of a transcript; what nobody has counted is `None`."""
    file, place = transcript.file, transcript.place
    scan = scan or Scan()
    facts = indexed.facts if indexed is not None and indexed.facts.kind is not None else None
    # What was read now counts before what was indexed.
    known = [one for one in (scan.facts, facts) if one is not None]
    started = next((moment(one.started_ms) for one in known if moment(one.started_ms)), None)
    recognised = facts or scan.facts
    kind = recognised.kind if recognised is not None else None
    named = "" if facts is None else facts.agent
    named = named or place.agent or transcript.project
    counted = scan.facts if scan.is_whole else None
    if counted is None and indexed is not None and indexed.is_current(file):
        counted = facts
    measured = counted or facts
    state, detail = scan.trouble or _state(transcript, indexed, scan)
    return ConversationListing(
        path=file.path,
        place=str(file.absolute),
        kind=kind or TranscriptKind(file.kind or TranscriptKind.OPENCLAW),
        agent=named or next((one.agent for one in known if one.agent), ""),
        size=file.size,
        changed=_changed(file.mtime_ns),
        session=file.session,
        title=next((one.title for one in known if one.title), ""),
        model=next((one.model for one in known if one.model), ""),
        started=started,
        ended=moment(counted.ended_ms) if counted is not None else None,
        turns=counted.turns if counted is not None else None,
        calls=counted.calls if counted is not None else None,
        malformed=measured.malformed if measured is not None else 0,
        chunks=indexed.chunks if indexed is not None else None,
        state=state,
        detail=detail,
    )


def _state(transcript: Transcript, indexed: TranscriptRow | None, scan: Scan) -> tuple[Reason, str]:
    """Return why a transcript is not indexed, or not wholly, and one line about it."""
    content = Reason.OK, ""
    if scan.facts is not None and scan.is_whole:
        content = scan.facts.reason, scan.facts.detail
    if indexed is None:
        if not transcript.is_opted_in:
            source = ":".join(filter(None, (transcript.place.name, transcript.project)))
            detail = "; ".join(filter(None, (f"not opted in: {source}", content[1])))
            return Reason.DISABLED, detail
        if content[0] not in _WHOLE:
            return content
        return Reason.NOT_YET_INDEXED, "; ".join(filter(None, ("not indexed yet", content[1])))
    if not indexed.is_current(transcript.file):
        return Reason.STALE, "changed since it was indexed"
    if indexed.stat is None:
        return content
    reason = indexed.facts.reason
    return reason, "" if reason is Reason.OK else indexed.facts.detail


def _changed(mtime_ns: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        # A file's time may lie outside the calendar.
        return _EPOCH


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
    place = located.place
    rows = {file.path: indexed[file.path] for file in located.files if file.path in indexed}
    facts = [row.facts for row in rows.values()]
    left_out: Counter[str] = Counter()
    for one in facts:
        left_out.update(one.left_out)
    count, size = len(located.files), sum(file.size for file in located.files)
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
        messages=sum(one.messages for one in facts),
        left_out=dict(sorted(left_out.items())),
        malformed=sum(one.malformed for one in facts),
        skipped=tuple(_skipped(located, transcripts, rows)),
        detail=detail,
    )


def _skipped(
    located: Located, transcripts: Mapping[str, Transcript], rows: Mapping[str, TranscriptRow]
) -> Iterator[SkippedFile]:
    """Iterate over what is not indexed, or has no text; not over what is not opted in."""
    yield from located.skipped
    for file in located.files:
        row = rows.get(file.path)
        if row is not None and row.facts.reason not in _WHOLE:
            yield SkippedFile(file.path, row.facts.reason, row.facts.detail)
        elif row is None and located.place.is_indexed:
            if transcripts[file.path].is_opted_in:
                yield SkippedFile(file.path, Reason.NOT_YET_INDEXED, "not indexed yet")
            else:
                yield SkippedFile(file.path, Reason.DISABLED, "its project is not opted in")
