"""The conversations of a memory: listed, counted, read, and what was asked in them asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from memtui.engine.conversations.reading import (
    ConversationGone,
    OpenConversation,
    read_conversation,
)
from memtui.engine.conversations.replay import PathNames, ReplayMemory, replay
from memtui.engine.conversations.scan import (
    CancelCheck,
    TranscriptStats,
    scan_beginning,
    scan_transcript,
    why_unreadable,
)
from memtui.engine.conversations.stores import (
    IndexedTranscript,
    Transcript,
    TranscriptStore,
    transcripts_of,
)
from memtui.errors import Cancelled, MemtuiError
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
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words

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

T = TypeVar("T")

Trouble = tuple[Reason, str]
"""Why a transcript cannot be read, and one line about it."""


def _never() -> bool:
    return False


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
        self._search = search
        self._browse = browse
        self._root = root
        self._ranking = ranking
        self._names: PathNames | None = None
        self._stats: dict[str, tuple[tuple[int, int], TranscriptStats]] = {}
        self._beginnings: dict[str, tuple[tuple[int, int], TranscriptStats]] = {}
        self._troubles: dict[str, tuple[tuple[int, int], Trouble]] = {}

    def listings(self) -> list[ConversationListing]:
        """Return every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """
        indexed = self._store.indexed()
        found = self._transcripts()
        listings = [self._listing(found[path], indexed.get(path)) for path in sorted(found)]
        return sorted(listings, key=lambda one: one.started or one.changed, reverse=True)

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: CancelCheck = _never,
    ) -> None:
        """Read those whose turns nobody has counted, and report each when it is."""
        paths = [listing.path for listing in listings if listing.turns is None]
        for transcript, indexed in self._chosen(paths, cancelled):
            stats, trouble = self._scan(transcript, cancelled)
            counted(listing_of(transcript, indexed, stats, trouble=trouble))

    def read(self, path: str, *, cancelled: CancelCheck = _never) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        transcript = self._transcripts().get(path)
        if transcript is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._store.scope.max_line_bytes
        conversation, stats = read_conversation(transcript.file, limit=limit, cancelled=cancelled)
        self._stats[path] = _stamp(transcript.file), stats
        conversation.listing = listing_of(transcript, self._store.indexed().get(path), stats)
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
        cancelled: CancelCheck = _never,
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
            stats, _ = self._scan(transcript, cancelled)
            if stats is not None and stats.calls:
                found(stats.calls)
                calls += stats.calls
        calls.sort(key=lambda call: (call.path, call.line))
        return sorted(calls, key=lambda call: call.asked or _NEVER, reverse=True)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """Ask the present index with the present parameters, and compare.

        What came back then and what comes back now is in the rows, each place exactly once; why
        it could not be asked is the `problem` of the answer.
        """
        paths = tuple(self._browse.paths())
        if self._names is None or self._names.paths != paths:
            self._names = PathNames(self._root, paths)
        memory = ReplayMemory(
            lambda text, ranking: self._search.ask(text, ranking=ranking),
            self._browse.chunk_ranges,
            self._names,
            self._root,
            # Looked for once for all the places of an answer, and only if one asks.
            cache(self._transcripts),
        )
        return replay(memory, call, ranking or self._ranking)

    def _transcripts(self) -> dict[str, Transcript]:
        return transcripts_of(self._store.scope, self._store.locate())

    def _chosen(
        self, paths: Sequence[str], cancelled: CancelCheck
    ) -> Iterator[tuple[Transcript, IndexedTranscript | None]]:
        """Iterate over those of the paths that are there, in that order."""
        indexed, found = self._store.indexed(), self._transcripts()
        for path in paths:
            if path in found:
                if cancelled():
                    raise Cancelled
                yield found[path], indexed.get(path)

    def _listing(
        self, transcript: Transcript, indexed: IndexedTranscript | None
    ) -> ConversationListing:
        file = transcript.file
        stats, trouble = _kept(self._stats, file), _kept(self._troubles, file)
        begun = None
        is_known = indexed is not None and indexed.facts is not None and indexed.facts.kind
        if stats is None and trouble is None and not is_known:
            begun = _kept(self._beginnings, file)
            try:
                begun = begun or scan_beginning(file, limit=self._store.scope.max_line_bytes)
            except (OSError, MemtuiError) as error:
                trouble = self._trouble(file, error)
            if begun is not None:
                self._beginnings[file.path] = _stamp(file), begun
        return listing_of(transcript, indexed, stats, begun, trouble)

    def _scan(
        self, transcript: Transcript, cancelled: CancelCheck
    ) -> tuple[TranscriptStats | None, Trouble | None]:
        """Read a transcript unless that was done; raises `Cancelled`."""
        file = transcript.file
        stats, trouble = _kept(self._stats, file), _kept(self._troubles, file)
        if stats is None and trouble is None:
            limit = self._store.scope.max_line_bytes
            try:
                stats = scan_transcript(file, limit=limit, cancelled=cancelled)
            except (OSError, MemtuiError) as error:
                return None, self._trouble(file, error)
            self._stats[file.path] = _stamp(file), stats
        return stats, trouble

    def _trouble(self, file: SourceFile, error: Exception) -> Trouble:
        """Return why a file cannot be read; kept where reading it again would not help."""
        trouble = why_unreadable(error)
        if trouble[0] is Reason.NOT_A_TRANSCRIPT:
            self._troubles[file.path] = _stamp(file), trouble
        return trouble


def _stamp(file: SourceFile) -> tuple[int, int]:
    return file.size, file.mtime_ns


def _kept(values: Mapping[str, tuple[tuple[int, int], T]], file: SourceFile) -> T | None:
    """Return what is kept of the file as it is now."""
    stamp, value = values.get(file.path, (None, None))
    return value if stamp == _stamp(file) else None


def _has_no_calls(transcript: Transcript, indexed: IndexedTranscript | None) -> bool:
    """Return whether the index knows that there is no search in a transcript."""
    if indexed is None or indexed.facts is None or indexed.facts.kind is None:
        return False
    is_known = indexed.stat is not None and indexed.is_current(transcript.file)
    return not indexed.facts.calls and is_known


# --- one transcript in a list -------------------------------------------------------------


def listing_of(
    transcript: Transcript,
    indexed: IndexedTranscript | None = None,
    stats: TranscriptStats | None = None,
    begun: TranscriptStats | None = None,
    trouble: Trouble | None = None,
) -> ConversationListing:
    """Put together what is known of a transcript; what nobody has counted is `None`.

    `stats` tell of all of it, `begun` of its beginning.
    """
    file, place = transcript.file, transcript.place
    facts = indexed.facts if indexed is not None else None
    if facts is not None and facts.kind is None:
        facts = None
    read = stats or begun
    kind = facts.kind if facts is not None else read.kind if read is not None else None
    state, detail = trouble or _state(transcript, indexed, stats)
    listing = ConversationListing(
        path=file.path,
        place=str(file.absolute),
        kind=kind or TranscriptKind(file.kind or TranscriptKind.OPENCLAW),
        agent=place.agent or transcript.project,
        size=file.size,
        changed=_changed(file.mtime_ns),
        session=file.session,
        chunks=indexed.chunks if indexed is not None else None,
        state=state,
        detail=detail,
    )
    if facts is not None:
        listing = replace(
            listing,
            agent=facts.agent or listing.agent,
            title=facts.title,
            model=facts.model,
            started=moment(facts.started_ms),
            malformed=facts.malformed,
        )
        if stats is None and indexed is not None and indexed.is_current(file):
            ended = moment(facts.ended_ms)
            return replace(listing, ended=ended, turns=facts.turns, calls=facts.calls)
    if read is not None:
        listing = replace(
            listing,
            agent=listing.agent or read.agent,
            title=read.title or listing.title,
            model=read.model or listing.model,
            started=moment(read.started_ms) or listing.started,
        )
    if stats is not None:
        listing = replace(
            listing,
            ended=moment(stats.ended_ms),
            turns=stats.messages,
            calls=len(stats.calls),
            malformed=stats.malformed,
        )
    return listing


def _state(
    transcript: Transcript, indexed: IndexedTranscript | None, stats: TranscriptStats | None
) -> Trouble:
    """Return why a transcript is not indexed, or not wholly, and one line about it."""
    content = _state_of_content(stats)
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
    if indexed.facts is None:
        return content
    reason = indexed.facts.reason
    return reason, "" if reason is Reason.OK else indexed.facts.detail


def _state_of_content(stats: TranscriptStats | None) -> Trouble:
    """Return what reading all of a transcript told about its state."""
    if stats is None:
        return Reason.OK, ""
    if stats.unreadable:
        return Reason.UNREADABLE, f"cannot be read to its end: {stats.unreadable}"
    if stats.run:
        return Reason.GENERATED_RUN, f"the program's talk with itself: {stats.run}"
    if not stats.messages:
        return Reason.NO_MESSAGES, "nobody says anything in it"
    if stats.malformed:
        lines = "line is" if stats.malformed == 1 else "lines are"
        return Reason.MALFORMED_LINES, f"{stats.malformed} {lines} no record"
    return Reason.OK, ""


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
    indexed: Mapping[str, IndexedTranscript],
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
    indexed: Mapping[str, IndexedTranscript],
    destinations: str,
) -> TranscriptSource:
    """Return how much of a place was found, how much is indexed, and what is not and why."""
    place = located.place
    rows = {file.path: indexed[file.path] for file in located.files if file.path in indexed}
    facts = [row.facts for row in rows.values() if row.facts is not None]
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
    located: Located, transcripts: Mapping[str, Transcript], rows: Mapping[str, IndexedTranscript]
) -> Iterator[SkippedFile]:
    """Iterate over what is not indexed, or has no text; not over what is not opted in."""
    yield from located.skipped
    for file in located.files:
        row = rows.get(file.path)
        facts = row.facts if row is not None else None
        if facts is not None and facts.reason not in _WHOLE:
            yield SkippedFile(file.path, facts.reason, facts.detail)
        elif row is None and located.place.is_indexed:
            if transcripts[file.path].is_opted_in:
                yield SkippedFile(file.path, Reason.NOT_YET_INDEXED, "not indexed yet")
            else:
                yield SkippedFile(file.path, Reason.DISABLED, "its project is not opted in")
