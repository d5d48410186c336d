"""The transcripts of a memory, opted in or not, each with the place that it is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from typing import Final

from memtui.engine.conversations.reading import (
    ConversationGone,
    OpenConversation,
    read_conversation,
)
from memtui.engine.conversations.scan import (
    Counted,
    Remembered,
    count,
    look,
    moment,
    why_unreadable,
)
from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.discovery import SOURCE, Located, locate
from memtui.index.transcripts.reading import TranscriptFacts
from memtui.index.transcripts.scope import TranscriptPlace, TranscriptScope
from memtui.index.transcripts.streams import sessions_in
from memtui.memory.paths import written
from memtui.memory.transcripts.formats import format_of
from memtui.model import Reason, SkippedFile, SourceFile
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    TranscriptKind,
    TranscriptSource,
)
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words

WHOLE: Final = frozenset({Reason.OK, Reason.MALFORMED_LINES, Reason.LINE_TOO_LONG})
"""How a transcript stands that is indexed but for lines of it."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index says of a transcript that it holds."""

    chunks: int
    facts: TranscriptFacts | None = None
    """`None` where the index has chunks and nothing else."""
    stat: tuple[int, int] | None = None
    """Size and mtime in ns of what was indexed; `None` where that cannot be compared."""

    def is_current(self, file: SourceFile) -> bool:
        """Whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript that was found."""

    file: SourceFile
    place: TranscriptPlace
    is_opted_in: bool


def everywhere(scope: TranscriptScope) -> tuple[Located, ...]:
    """Every place of this machine and what is in it, opted in or not; no transcript is opened."""
    return locate(scope, everything=True)


def of_agent(scope: TranscriptScope, agent: str) -> tuple[Located, ...]:
    """What one agent of OpenClaw keeps; the databases of the others are not opened."""
    source = f"{TranscriptKind.OPENCLAW}:{escape(agent)}"
    is_opted_in = scope.source_of(TranscriptKind.OPENCLAW, agent) is not None
    found = locate(replace(scope, sources=(source,), paths=()))
    return tuple(
        replace(one, place=replace(one.place, is_indexed=is_opted_in))
        for one in found
        if one.place.agent == agent
    )


def of_database(scope: TranscriptScope, database: Path, agent: str) -> tuple[Located, ...]:
    """The conversations in the rows of a database that lies anywhere; `agent` may be empty."""
    name = written(str(database))
    place = TranscriptPlace(
        name, TranscriptKind.OPENCLAW, name, not scope.is_empty, agent, str(database)
    )
    try:
        inode, sessions = database.stat().st_ino, sessions_in(database)
    except (OSError, MemtuiError) as error:
        skipped = SkippedFile(name, Reason.UNREADABLE, written(safe_line(str(error))))
        return (Located(place, (), (skipped,)),)
    prefix = f"{SOURCE}/{agent}/" if agent else f"{SOURCE}/"
    files = tuple(
        SourceFile(
            path=f"{prefix}{written(one.session)}.jsonl",
            absolute=database,
            source=SOURCE,
            size=one.size,
            mtime_ns=max(0, one.changed_ms) * 10**6,
            inode=inode,
            kind=TranscriptKind.OPENCLAW,
            session=one.session,
        )
        for one in sessions
    )
    return (Located(place, files, ()),)


def transcripts_of(scope: TranscriptScope, found: Sequence[Located]) -> dict[str, Transcript]:
    """Every transcript by its stored path."""
    return {
        file.path: Transcript(file, place.place, is_opted_in(scope, place.place, file))
        for place in found
        for file in place.files
    }


def is_opted_in(scope: TranscriptScope, place: TranscriptPlace, file: SourceFile) -> bool:
    """Whether the settings ask for a transcript."""
    if place.kind is not TranscriptKind.CLAUDE_CODE:
        return place.is_indexed
    return scope.source_of(place.kind, project_of(file)) is not None


def project_of(file: SourceFile) -> str:
    """The project folder of a Claude Code transcript; empty for every other one."""
    parts = file.path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == TranscriptKind.CLAUDE_CODE else ""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a transcript beside its stat."""

    indexed: Indexed | None = None
    counted: Counted | None = None
    """All of it was read."""
    begun: Counted | None = None
    """Its beginning was read."""
    trouble: tuple[Reason, str] | None = None
    """Why it could not be read."""


def listing_of(found: Transcript, known: Known) -> ConversationListing:
    """Put together what is known; what nobody has counted is `None`."""
    file, place, indexed = found.file, found.place, known.indexed
    facts = indexed.facts if indexed is not None else None
    is_current = indexed is not None and indexed.is_current(file)
    read = known.counted or known.begun
    state, detail = _state(found, known)
    listing = ConversationListing(
        path=file.path,
        place=str(file.absolute),
        kind=_kind(found, known),
        agent=place.agent or project_of(file),
        size=file.size,
        changed=_changed(file.mtime_ns),
        session=file.session,
        chunks=indexed.chunks if indexed is not None else None,
        state=state,
        detail=detail,
    )
    if facts is not None and facts.kind is not None:
        listing = replace(
            listing,
            agent=facts.agent or listing.agent,
            title=facts.title,
            model=facts.model,
            started=moment(facts.started_ms),
            malformed=facts.malformed,
        )
        if is_current and known.counted is None:
            return replace(
                listing, ended=moment(facts.ended_ms), turns=facts.turns, calls=facts.calls
            )
    return listing if read is None else _as_read(listing, read, is_whole=read is known.counted)


def _as_read(listing: ConversationListing, read: Counted, *, is_whole: bool) -> ConversationListing:
    """The same with what reading the file told."""
    listing = replace(
        listing,
        agent=listing.agent or read.agent,
        title=read.title or listing.title,
        model=read.model or listing.model,
        started=moment(read.started_ms) or listing.started,
    )
    if not is_whole:
        return listing
    return replace(
        listing,
        ended=moment(read.ended_ms),
        turns=read.messages,
        calls=len(read.calls),
        malformed=read.malformed,
    )


def _kind(found: Transcript, known: Known) -> TranscriptKind:
    facts = known.indexed.facts if known.indexed is not None else None
    if facts is not None and facts.kind is not None:
        return facts.kind
    read = known.counted or known.begun
    if read is not None:
        return read.kind
    return TranscriptKind(found.file.kind) if found.file.kind else TranscriptKind.OPENCLAW


def _state(found: Transcript, known: Known) -> tuple[Reason, str]:
    """Why a transcript is not indexed, or not wholly, and one line about it."""
    indexed, counted = known.indexed, known.counted
    if known.trouble is not None:
        return known.trouble
    said = _of_content(counted)
    if indexed is None:
        if not found.is_opted_in:
            return Reason.DISABLED, "; ".join(filter(None, (_not_opted_in(found), said[1])))
        if said[0] not in WHOLE:
            return said
        return Reason.NOT_YET_INDEXED, "; ".join(filter(None, ("not indexed yet", said[1])))
    if not indexed.is_current(found.file):
        return Reason.STALE, "changed since it was indexed"
    facts = indexed.facts
    if facts is not None and facts.reason is not Reason.OK:
        return facts.reason, facts.detail
    return (Reason.OK, "") if facts is not None else said


def _of_content(counted: Counted | None) -> tuple[Reason, str]:
    """What reading all of a transcript told about its state."""
    if counted is None:
        return Reason.OK, ""
    if counted.unreadable:
        return Reason.UNREADABLE, f"cannot be read to its end: {counted.unreadable}"
    if counted.run:
        return Reason.GENERATED_RUN, f"the program's talk with itself: {counted.run}"
    if not counted.messages:
        return Reason.NO_MESSAGES, "nobody says anything in it"
    if counted.malformed:
        lines = "line is" if counted.malformed == 1 else "lines are"
        return Reason.MALFORMED_LINES, f"{counted.malformed} {lines} no record"
    return Reason.OK, ""


def _not_opted_in(found: Transcript) -> str:
    return f"not opted in: {source_name(found)}"


def source_name(found: Transcript) -> str:
    """What a transcript is opted in by."""
    project = project_of(found.file)
    return f"{found.place.name}:{project}" if project else found.place.name


def newest_first(listings: Sequence[ConversationListing]) -> list[ConversationListing]:
    """By the time that a conversation began, else by when its file changed."""
    by_path = sorted(listings, key=lambda listing: listing.path)
    return sorted(by_path, key=lambda listing: listing.started or listing.changed, reverse=True)


def _changed(mtime_ns: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        # A file's time may lie outside the calendar.
        return _EPOCH


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


Trouble = tuple[Reason, str]
"""Why a transcript cannot be read, and one line about it."""


class Counting:
    """Reads transcripts that nobody has counted, each once as long as it stays as it is."""

    def __init__(self, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._limit = limit
        self._counted: Remembered[Counted] = Remembered()
        self._troubles: Remembered[Trouble] = Remembered()

    def known(self, found: Transcript) -> tuple[Counted | None, Trouble | None]:
        """What was read of a transcript before, or why it cannot be read."""
        return self._counted.get(found.file), self._troubles.get(found.file)

    def trouble(self, found: Transcript, error: Exception) -> Trouble:
        """Why a transcript cannot be read; kept only where reading it again would not help."""
        trouble = why_unreadable(error)
        lasts = trouble[0] is Reason.NOT_A_TRANSCRIPT
        return self._troubles.put(found.file, trouble) if lasts else trouble

    def count(
        self, found: Transcript, cancelled: Callable[[], bool]
    ) -> tuple[Counted | None, Trouble | None]:
        """Read a transcript unless that was done; raises `Cancelled`."""
        counted, trouble = self.known(found)
        if counted is not None or trouble is not None:
            return counted, trouble
        try:
            counted = count(found.file, limit=self._limit, cancelled=cancelled)
        except (OSError, MemtuiError) as error:
            return None, self.trouble(found, error)
        return self.keep(found, counted), None

    def keep(self, found: Transcript, counted: Counted) -> Counted:
        """Keep what reading a transcript told."""
        return self._counted.put(found.file, counted)

    def count_all(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        told: Callable[[ConversationListing], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Read transcripts one after the other, and tell each as soon as it is counted."""
        for found, indexed in wanted:
            if cancelled():
                raise Cancelled
            counted, trouble = self.count(found, cancelled)
            told(listing_of(found, Known(indexed, counted, None, trouble)))

    def calls(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        told: Callable[[Sequence[MemoryCall]], None],
        cancelled: Callable[[], bool],
    ) -> list[MemoryCall]:
        """The searches of the memory in transcripts, newest first; `told` hears of each file."""
        found: list[MemoryCall] = []
        for calls in self._calls(wanted, cancelled):
            if calls:
                told(calls)
            found += calls
        found.sort(key=lambda call: (call.path, call.line))
        return sorted(found, key=lambda call: call.asked or _NEVER, reverse=True)

    def _calls(
        self,
        wanted: Iterable[tuple[Transcript, Indexed | None]],
        cancelled: Callable[[], bool],
    ) -> Iterator[Sequence[MemoryCall]]:
        for found, indexed in wanted:
            if cancelled():
                raise Cancelled
            if _has_none(found, indexed):
                continue
            counted, _ = self.count(found, cancelled)
            yield counted.calls if counted is not None else ()


def _has_none(found: Transcript, indexed: Indexed | None) -> bool:
    """Whether the index knows that there is no search in a transcript."""
    facts = indexed.facts if indexed is not None else None
    if indexed is None or facts is None or facts.kind is None:
        return False
    return not facts.calls and indexed.stat is not None and indexed.is_current(found.file)


WHAT_IS_INDEXED: Final = (
    "what you and the agent said; no tool output and no thinking, credentials masked"
)
_ABSENT: Final[Mapping[TranscriptKind, str]] = {
    TranscriptKind.OPENCLAW: "no agent of OpenClaw keeps transcripts here",
    TranscriptKind.CLAUDE_CODE: "Claude Code keeps no transcripts here",
    TranscriptKind.CODEX: "Codex keeps no transcripts here",
}


def sources_of(
    found: Sequence[Located],
    transcripts: Mapping[str, Transcript],
    indexed: Mapping[str, Indexed],
    programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
    goes: str = "",
) -> tuple[TranscriptSource, ...]:
    """The places one after the other, then those of the programs that have none.

    `goes` says where the text of what is indexed goes; empty where memtui does not index it.
    """
    sources = [_source(place, transcripts, indexed, goes) for place in found]
    there = {place.place.kind for place in found}
    absent = (kind for kind in programs if kind not in there)
    return (*sources, *(_nowhere(kind) for kind in absent))


def _source(
    found: Located,
    transcripts: Mapping[str, Transcript],
    indexed: Mapping[str, Indexed],
    goes: str,
) -> TranscriptSource:
    place = found.place
    held = {file.path: indexed[file.path] for file in found.files if file.path in indexed}
    facts = [one.facts for one in held.values() if one.facts is not None]
    left_out: Counter[str] = Counter()
    for one in facts:
        left_out.update(one.left_out)
    form = format_of(place.kind) if place.kind is not None else None
    size = sum(file.size for file in found.files)
    return TranscriptSource(
        name=place.name,
        kind=place.kind,
        folder=place.folder,
        is_indexed=place.is_indexed,
        found=len(found.files),
        size=size,
        indexed=len(held),
        chunks=sum(one.chunks for one in held.values()),
        messages=sum(one.messages for one in facts),
        left_out=dict(sorted(left_out.items())),
        malformed=sum(one.malformed for one in facts),
        skipped=tuple(_skipped(found, transcripts, held)),
        detail=_detail(
            place, len(found.files), size, goes, form.calls_note if form is not None else ""
        ),
    )


def _skipped(
    found: Located, transcripts: Mapping[str, Transcript], held: Mapping[str, Indexed]
) -> Iterator[SkippedFile]:
    """What is not indexed, or has no text; not what a source that is not opted in leaves out."""
    yield from found.skipped
    for file in found.files:
        one = held.get(file.path)
        facts = one.facts if one is not None else None
        if facts is not None and facts.reason not in WHOLE:
            yield SkippedFile(file.path, facts.reason, facts.detail)
        elif one is None and found.place.is_indexed:
            if transcripts[file.path].is_opted_in:
                yield SkippedFile(file.path, Reason.NOT_YET_INDEXED, "not indexed yet")
            else:
                yield SkippedFile(file.path, Reason.DISABLED, "its project is not opted in")


def _detail(place: TranscriptPlace, found: int, size: int, goes: str, calls_note: str) -> str:
    many = f"{found} {'conversation' if found == 1 else 'conversations'}"
    verb = "indexed:" if place.is_indexed else "would be indexed:"
    said = f"{many}, {size_words(size)}; {verb} {WHAT_IS_INDEXED}{f'; {goes}' if goes else ''}"
    return f"{said}. {calls_note}." if calls_note else said


def _nowhere(kind: TranscriptKind) -> TranscriptSource:
    return TranscriptSource(
        name=kind.value,
        kind=kind,
        folder="",
        is_indexed=False,
        detail=_ABSENT[kind],
    )


CancelCheck = Callable[[], bool]
_Wanted = tuple[Transcript, Indexed | None]


class Library:
    """Finds, lists and reads transcripts; any thread, and what was read is kept in memory.

    `scope` and `indexed` are asked anew each time: both change while an engine is open.
    """

    def __init__(
        self,
        scope: Callable[[], TranscriptScope],
        indexed: Callable[[], Mapping[str, Indexed]],
        *,
        locate: Callable[[TranscriptScope], Sequence[Located]] = everywhere,
        programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
        goes: Callable[[], str] = str,
    ) -> None:
        """`locate` finds the transcripts of the memory, `programs` are those that can have some.

        `goes` says where the text of what is indexed goes.
        """
        self._goes = goes
        self._scope = scope
        self._indexed = indexed
        self._locate = locate
        self._programs = programs
        self._counting = Counting(scope().max_line_bytes)
        self._begun: Remembered[Counted] = Remembered()

    def listings(self) -> list[ConversationListing]:
        """Every transcript, newest first; of those that nobody counted the beginning is read."""
        indexed = self._indexed()
        found = self._transcripts()
        return newest_first([self._listing(one, indexed.get(path)) for path, one in found.items()])

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        cancelled: CancelCheck,
    ) -> None:
        """Read those whose turns nobody has counted."""
        paths = [listing.path for listing in listings if listing.turns is None]
        self._counting.count_all(self._wanted(paths), counted, cancelled)

    def open(self, path: str, cancelled: CancelCheck) -> OpenConversation:
        """Read one transcript; raises `ConversationGone`, `NotATranscript`, `Cancelled`."""
        found = self._transcripts().get(path)
        if found is None:
            raise ConversationGone(
                f"no conversation {safe_line(path)}", hint="`memtui sessions` lists them"
            )
        limit = self._scope().max_line_bytes
        conversation, counted = read_conversation(found.file, limit=limit, cancelled=cancelled)
        self._counting.keep(found, counted)
        indexed = self._indexed().get(path)
        return conversation.is_of(listing_of(found, Known(indexed, counted)))

    def sources(self) -> tuple[TranscriptSource, ...]:
        """The places of transcripts, and how much of each the index holds."""
        scope = self._scope()
        found = self._locate(scope)
        transcripts = transcripts_of(scope, found)
        return sources_of(found, transcripts, self._indexed(), self._programs, self._goes())

    def calls(
        self,
        paths: Sequence[str] | None,
        told: Callable[[Sequence[MemoryCall]], None],
        cancelled: CancelCheck,
    ) -> list[MemoryCall]:
        """The searches of the memory in some transcripts, or in all, newest first."""
        if paths is None:
            paths = [listing.path for listing in self.listings()]
        return self._counting.calls(self._wanted(paths), told, cancelled)

    def paths(self) -> frozenset[str]:
        """The stored paths of all transcripts."""
        return frozenset(self._transcripts())

    def _transcripts(self) -> dict[str, Transcript]:
        scope = self._scope()
        return transcripts_of(scope, self._locate(scope))

    def _wanted(self, paths: Sequence[str]) -> Iterator[_Wanted]:
        """Those of the paths that are there, in that order."""
        indexed, found = self._indexed(), self._transcripts()
        return ((found[path], indexed.get(path)) for path in paths if path in found)

    def _listing(self, found: Transcript, indexed: Indexed | None) -> ConversationListing:
        counted, trouble = self._counting.known(found)
        begun = None
        facts = indexed.facts if indexed is not None else None
        if counted is None and trouble is None and (facts is None or facts.kind is None):
            begun, trouble = self._beginning(found)
        return listing_of(found, Known(indexed, counted, begun, trouble))

    def _beginning(self, found: Transcript) -> tuple[Counted | None, Trouble | None]:
        begun = self._begun.get(found.file)
        if begun is not None:
            return begun, None
        try:
            begun = look(found.file, limit=self._scope().max_line_bytes)
        except (OSError, MemtuiError) as error:
            return None, self._counting.trouble(found, error)
        return (self._begun.put(found.file, begun) if begun is not None else None), None
