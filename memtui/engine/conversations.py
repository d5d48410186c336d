"""The conversations of a memory: listed, counted, read, and what was asked in them asked again."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from memtui.data import read_table
from memtui.embedding.registry import other_of, resolve
from memtui.engine.places import CITED, file_meant
from memtui.engine.ports import Index, SearchRequest, TranscriptStore
from memtui.engine.search import Search
from memtui.errors import IsCancelled, MemtuiError, never, stop_if
from memtui.index.transcripts import discovery, reading
from memtui.index.transcripts.discovery import TranscriptPlace, TranscriptScope
from memtui.index.transcripts.reading import TranscriptRow
from memtui.index.transcripts.turns import ConversationGone, OpenConversation
from memtui.memory.documents import reason_of
from memtui.memory.paths import message_of
from memtui.memory.transcripts.formats import TranscriptReader
from memtui.memory.transcripts.generated import WRITTEN
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.records import TranscriptFacts, turn_time
from memtui.model import (
    EPOCH,
    Chunk,
    Hit,
    LegStatus,
    Ranked,
    Ranking,
    Reason,
    SkippedFile,
    SourceCount,
    SourceFile,
)
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    Recalled,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
    covers,
    is_source,
)
from memtui.ranking.trace import cited_lines
from memtui.settings.schema import Settings
from memtui.text.sanitize import safe_line, size_words

# What reads an index is not needed to write one, and `OwnIndex` imports this module.
if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex

WHAT_IS_INDEXED: Final[str] = read_table("words.toml")["opted"]["is_indexed"]
_WHOLE: Final = frozenset({Reason.OK, Reason.MALFORMED_LINES, Reason.LINE_TOO_LONG})
"""Reasons of a transcript that is indexed but for lines of it."""
_BEGINNING: Final = 1 << 16
"""Bytes of a transcript that a list looks at."""
MOST_RESULTS: Final = 200
"""The most results that a call can ask again for."""
_LIMITS: Final[list[str]] = read_table("memory_tools.toml")["call"]["limits"]


class OwnTranscripts(TranscriptStore):
    """The transcripts that memtui indexes beside the notes, and follows while they grow."""

    def __init__(self, index: OwnIndex, scope: TranscriptScope) -> None:
        self.scope = scope
        self._index = index
        self._written = (*scope.sources, *scope.paths)
        self._off: list[str] = []
        """The places that were last not among the chosen ones."""

    def locate(self) -> Sequence[TranscriptPlace]:
        return discovery.locate(self.scope, everything=True)

    def indexed(self) -> Mapping[str, TranscriptRow]:
        return self._index.read_rows(reading.transcript_rows) or {}

    def destinations(self) -> str:
        providers = self._index.providers
        used = (providers.primary, providers.fallback, providers.acting)
        return text_goes([one.address or one.identity.name for one in used if one and one.remote])

    def run_of(self, name: str, indexed: int) -> str:
        if name == "paths":
            return ""
        is_on = any(covers(one, name) for one in (*self.scope.sources, *self.scope.paths))
        if is_on != any(covers(one, name) for one in self._written):
            return "run" if is_on else "off"
        return "other" if indexed and not is_on and self._index.has_other_writer else ""

    def standing(self, counts: Sequence[SourceCount]) -> dict[str, Any]:
        """Return the counts, with 0 of sources that are on or off for this run, for the status."""
        names = [one.source for one in counts]
        new = [on for on in self.scope.sources if not any(covers(on, name) for name in names)]
        new += [off for off in self._off if off not in names and self.run_of(off, 0) == "off"]
        sources = (*counts, *(SourceCount(name, 0, 0) for name in new))
        runs = {one.source: run for one in sources if (run := self.run_of(one.source, one.files))}
        return {"conversations": sources, "for_run": runs}

    def use_sources(self, names: Sequence[str]) -> None:
        """Index these sources from now on, and no others; the index follows.

        For this run of the program: what the settings say is for who writes them. A wider name
        that is gone by stays while all of its places are among these.
        """
        from memtui.settings.write import names_for

        self.take_written()
        places = [place.name for place in discovery.places_of(self.scope)]
        self._off = list(filterfalse(names.__contains__, places))
        sources = names_for(self.scope.sources, places, list(filter(is_source, names)))
        self._use((*sources, *filterfalse(is_source, names)))
        if self._index.indexer is not None:
            self._index.indexer.sync()

    def take_written(self) -> TranscriptScope:
        before, files = self._written, self._index.settings_files
        # Files that cannot be used may be in the middle of a change.
        with suppress(MemtuiError):
            if files is not None:
                written = files.load().settings.transcripts
                self._written = (*written.sources, *filter(str.strip, written.paths))
        if before != self._written:
            chosen = (*self.scope.sources, *self.scope.paths)
            remaining = [one for one in chosen if one in self._written or one not in before]
            self._use((*remaining, *filterfalse(before.__contains__, self._written)))
        return self.scope

    def _use(self, names: Sequence[str]) -> None:
        sources = tuple(filter(is_source, dict.fromkeys(names)))
        paths = tuple(filterfalse(is_source, dict.fromkeys(names)))
        off = tuple(one for one in filterfalse(is_source, self._written) if one not in paths)
        self.scope = replace(self.scope, sources=sources, paths=paths, off_paths=off)
        if self._index.indexer is not None:
            self._index.indexer.job.transcripts = self.scope


class Transcript(NamedTuple):
    """A transcript on disk, where it lies, and what the index holds of it, if anything."""

    file: SourceFile
    place: TranscriptPlace
    row: TranscriptRow | None


class Scan(NamedTuple):
    """The result of reading a transcript, or its beginning."""

    facts: TranscriptFacts | None = None
    calls: tuple[MemoryCall, ...] = ()
    is_whole: bool = True
    """True if all of it was read, so that everything is counted."""
    trouble: tuple[Reason, str] | None = None
    """The reason why it cannot be read, and one line about it."""


class ConversationService:
    """Lists and reads conversations, and asks again what was asked in them.

    Reads transcripts on the caller's thread, the index on the engine's. Long answers ask
    `cancelled` and raise `Cancelled` when it turns true. Nothing is written, every text is
    masked, and what was read of a file is kept in memory for as long as it stays as it is.
    """

    def __init__(self, index: Index, search: Search) -> None:
        self._index = index
        self._store = index.transcripts
        self._search = search
        self._scans: dict[str, tuple[SourceFile, Scan]] = {}
        """The scan of each file, by path, with the file as it was then."""

    def listings(self) -> list[ConversationListing]:
        """Return every transcript on this machine that is of this memory, newest first.

        From the index and the beginning of each file: what takes reading is `None`.
        """
        listings = []
        for path, (file, place, row) in sorted(self._transcripts().items()):
            last_file, scan = self._scans.get(path, (None, None))
            if last_file != file:
                is_told = row is not None and row.is_told
                scan = None if is_told else self._scan(file, never, whole=False)
            listings.append(self._listing(file, place, row, scan or Scan()))
        return sorted(listings, key=lambda one: one.started or one.changed, reverse=True)

    def count(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], object],
        *,
        cancelled: IsCancelled = never,
    ) -> None:
        """Read those whose turns nobody has counted, and report each when it is."""
        transcripts = self._transcripts()
        unread = (one for one in listings if one.turns is None)
        for path in (one.path for one in unread if one.state is not Reason.TOO_LARGE):
            if path in transcripts:
                scan = self._scan(transcripts[path].file, cancelled)
                counted(self._listing(*transcripts[path], scan))

    def read(self, path: str, *, cancelled: IsCancelled = never) -> OpenConversation:
        """Read one transcript; raises `MemtuiError` for one that is gone or cannot be read."""
        if (transcript := self._transcripts().get(path)) is None:
            gone = f"no conversation {safe_line(path)}"
            raise ConversationGone(gone, hint="`memtui sessions` lists them")
        conversation = OpenConversation(transcript.file, limit=self._store.scope.max_line_bytes)
        scan = self._scan(transcript.file, cancelled, into=conversation)
        if scan.trouble is not None:
            reason, detail = scan.trouble
            if reason is Reason.NOT_A_TRANSCRIPT:
                text = f"{path} is no transcript of a program that is known"
                raise MemtuiError(text, code="not_a_transcript")
            text = f"{safe_line(path)} cannot be read: {detail}"
            raise ConversationGone(text, hint="choose another conversation")
        conversation.listing = self._listing(*transcript, scan)
        return conversation

    def sources(self) -> list[TranscriptSource]:
        """Return the places of transcripts, opted in or not, and how much of each is indexed."""
        store, scope = self._store, self._store.take_written()
        facts = store.locate(), store.indexed(), store.destinations(), store.programs, store.run_of
        return list(transcript_sources(scope, *facts))

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        receive: Callable[[Sequence[MemoryCall]], object] = lambda calls: None,
        cancelled: IsCancelled = never,
    ) -> list[MemoryCall]:
        """Return the searches of the memory in some transcripts, or in all, newest first.

        `receive` gets those of each transcript as soon as it is read.
        """
        transcripts, calls = self._transcripts(), list[MemoryCall]()
        newest = sorted(transcripts, key=lambda path: -transcripts[path].file.mtime_ns)
        chosen = newest if paths is None else filter(transcripts.__contains__, paths)
        for file, place, row in map(transcripts.__getitem__, chosen):
            if row is not None and row.is_told and not row.facts.calls and row.is_current(file):
                # The index knows that there is none, or that it is too large.
                continue
            scan, other = self._scan(file, cancelled), place.is_elsewhere
            if scan.calls:
                those = [replace(call, is_elsewhere=other) for call in scan.calls]
                receive(those)
                calls += those
        calls.sort(key=lambda call: (call.path, call.line))
        return sorted(calls, key=lambda call: call.asked or EPOCH, reverse=True)

    def replay(
        self, call: MemoryCall, *, ranking: Ranking | None = None, as_many: bool = True
    ) -> Replayed:
        """Ask the present index word for word, with the present parameters, and compare.

        For as many results as the call asked for, or without `as_many` as the ranking gives, as
        for a call that did not say. What came back then and what comes back now is in the rows,
        each place exactly once; where it is not known what came back then, every row has entered.
        Why it could not be asked is the `problem`.
        """
        if not call.query.strip():
            return Replayed(call, (), "the call has no query")
        ranking = ranking or self._index.ranking
        paths = frozenset(self._index.read(lambda reading: reading.paths()) or ())
        # Looked for once for all the places of an answer, and only if one asks.
        transcripts = cache(
            lambda: {file.path for place in self._store.locate() for file in place.files}
        )
        try:
            limit = results_wanted(call) if as_many else None
            ranking = replace(ranking, k=limit or ranking.k)
            request = SearchRequest(call.query, ranking, verbatim=True)
            ranked = self._search.rerank(self._search.pool_of(request), request.ranking)
            then = [as_stored(one, self._index.root, paths) for one in call.returned or ()]
            rows = [self._explained(row, ranked, transcripts) for row in compare(then, ranked.hits)]
        except MemtuiError as error:
            return Replayed(call, (), " ".join(str(error).split()))
        states = ranked.pool.states.items()
        failed = {leg: state for leg, state in states if state.status is LegStatus.FAILED}
        return Replayed(call, tuple(rows), limit=limit, failed=failed)

    def _explained(
        self, row: RecallRow, ranked: Ranked, transcripts: Callable[[], Collection[str]]
    ) -> RecallRow:
        """Return a row that left with why, and with the chunk that is at its place now."""
        if row.change is not RecallChange.LEFT:
            return row
        chunks = self._index.read(lambda reading: reading.chunks_of(row.path)) or ()
        drops = {drop.chunk.id: drop for drop in ranked.drops}
        # Of chunks that have as much of it the candidate that came furthest.
        order = [*drops, *(one.id for one in chunks if one.id not in drops)]
        shared = {one.id: overlap(row, one) for one in chunks}
        best = max(shared, key=lambda one: (shared[one], -order.index(one)), default="")
        if best and shared[best] > 0:
            # Its lines are in the list within a chunk that was, and is, another place of it.
            is_shown = any(hit.chunk.id == best for hit in ranked.hits)
            why = Reason.DUPLICATE_TEXT if is_shown else Reason.OUTSIDE_CANDIDATES
            rank = None
            if (drop := drops.get(best)) is not None:
                rank = drop.stages[-1].rank if drop.reason is Reason.CUT_AT_K else None
                why = drop.reason
            return replace(row, why=why, chunk_id=best, rank_below=rank)
        if chunks:
            return replace(row, why=Reason.NO_CHUNK_AT_LINE)
        if not row.path:
            # A result that names no file: nothing can be told about it.
            return row
        is_there = os.path.isfile(self._index.root / row.path) or row.path in transcripts()
        return replace(row, why=Reason.NOT_INDEXED if is_there else Reason.NO_FILE)

    def _transcripts(self) -> dict[str, Transcript]:
        indexed = self._store.indexed()
        return {
            file.path: Transcript(file, place, indexed.get(file.path))
            for place in self._store.locate()
            for file in place.files
        }

    def _scan(
        self,
        file: SourceFile,
        cancelled: IsCancelled,
        *,
        whole: bool = True,
        into: OpenConversation | None = None,
    ) -> Scan:
        """Read a transcript, or about its first 64 kB, unless that was done; raises `Cancelled`.

        `into` takes in every turn. Of one that grows meanwhile, what was there when its end was
        reached; of one that breaks off, what was read before.
        """
        last_file, scan = self._scans.get(file.path, (None, None))
        if scan is not None and last_file == file and (scan.is_whole or not whole) and into is None:
            return scan
        limit, reason, broken = self._store.scope.max_line_bytes, Reason.OK, ""
        try:
            if (form := reading.format_for(file, limit=limit)) is None:
                unknown = "the records are those of no program that is known"
                scan = Scan(is_whole=whole, trouble=(Reason.NOT_A_TRANSCRIPT, unknown))
                self._scans[file.path] = file, scan
                return scan
            reader = TranscriptReader(form, reading.name_of(file))
            collector = CallCollector(file.path, form.kind)
            if into is not None:
                into.form = form
            with reading.open_lines(file, limit=limit) as lines:
                try:
                    for raw in lines:
                        stop_if(cancelled)
                        turns = reader.add(raw)[1]
                        for turn in turns:
                            collector.add(turn)
                        if into is not None:
                            into.add(turns)
                        facts = reader.state.facts
                        is_told = facts.title and facts.model and facts.started_ms
                        if not whole and (is_told or raw.offset > _BEGINNING):
                            break
                except OSError as error:
                    # What was read before it broke counts.
                    reason, broken = reason_of(error), message_of(error)
        except OSError as error:
            # It may be readable the next time.
            return Scan(is_whole=whole, trouble=(reason_of(error), message_of(error)))
        facts = replace(reader.result(discovery.agent_of(file)), calls=len(collector.calls))
        if broken:
            facts = replace(facts, reason=reason, detail=f"cannot be read to its end: {broken}")
        calls = [replace(call, agent=facts.agent) for call in collector.calls]
        scan = Scan(facts, tuple(calls) if whole else (), whole)
        self._scans[file.path] = file, scan
        return scan

    def _listing(
        self, file: SourceFile, place: TranscriptPlace, row: TranscriptRow | None, scan: Scan
    ) -> ConversationListing:
        indexed = row.facts if row is not None and row.facts.kind is not None else None
        is_current = row is not None and row.is_current(file)
        whole = scan.facts if scan.is_whole else None
        # What was read now counts before what was indexed.
        counted = whole or (indexed if is_current else None)
        facts = counted or indexed or scan.facts or TranscriptFacts()
        # Why it is not indexed, or not wholly, and one line about it.
        state, detail = (whole.reason, whole.detail) if whole is not None else (Reason.OK, "")
        if scan.trouble is not None:
            state, detail = scan.trouble
        elif row is None:
            why = ""
            if not place.is_indexed:
                state, why = Reason.DISABLED, f"not indexed (source {place.name} off)"
            elif state in _WHOLE:
                state, why = Reason.NOT_YET_INDEXED, "not indexed yet"
            detail = "; ".join(filter(None, (why, detail)))
        elif not is_current:
            state, detail = Reason.STALE, "changed since it was indexed"
        elif row.stat is not None:
            state, detail = row.facts.reason, row.facts.detail
        return ConversationListing(
            path=file.path,
            place=file.place,
            kind=facts.kind or TranscriptKind(file.kind or TranscriptKind.OPENCLAW),
            agent=place.agent or facts.agent or discovery.agent_of(file),
            size=file.size,
            # A file's time may lie outside the calendar.
            changed=turn_time(file.mtime_ns // 10**6, file.mtime_ns // 1000 % 1000) or EPOCH,
            session=file.session,
            title=facts.title,
            model=facts.model,
            started=turn_time(facts.started_ms),
            ended=turn_time(counted.ended_ms) if counted is not None else None,
            turns=counted.turns if counted is not None else None,
            calls=counted.calls if counted is not None else None,
            malformed=(counted or indexed or TranscriptFacts()).malformed,
            chunks=row.chunks if row is not None else None,
            state=state,
            detail=detail,
        )


def results_wanted(call: MemoryCall) -> int | None:
    """Return how many results a call asked for, 1 to 200; `None` when it does not say."""
    values = (call.arguments.get(name) for name in _LIMITS)
    numbers = (one for one in values if isinstance(one, int | float) and not isinstance(one, bool))
    return next((min(int(one), MOST_RESULTS) for one in numbers if 1 <= one < math.inf), None)


def as_stored(recalled: Recalled, root: Path, paths: Collection[str]) -> Recalled:
    """Return the place with the path that the index has for it, and the lines that it cites.

    A path that the index does not hold loses its citation alone.
    """
    path = file_meant(recalled.path, root, paths)
    if path is not None or (cited := CITED.fullmatch(recalled.path)) is None:
        return replace(recalled, path=path or recalled.path)
    path, start, end = cited["path"], recalled.start_line, recalled.end_line
    if not start:
        start = int(cited["line"])
        end = max(start, int(cited["end"] or start))
    path = file_meant(path, root, paths) or path
    return replace(recalled, path=path, start_line=start, end_line=end)


def compare(then: Sequence[Recalled], now: Sequence[Hit]) -> list[RecallRow]:
    """Put two lists of places side by side: each place of either is in exactly one row.

    Two places are one when the path is the same and their lines overlap; a place without lines
    is any part of its file. Where several fit, the one with the most lines in common counts, then
    the one with the nearest rank. Rows come by the rank now, then by the rank then. Paths must be
    as the index stores them.
    """
    pairs = [
        (-shared, abs(before - after), after, before)
        for before, recalled in enumerate(then)
        for after, hit in enumerate(now)
        if hit.chunk.path == recalled.path and (shared := overlap(recalled, hit.chunk)) > 0
    ]
    partner: dict[int, int] = {}
    for _, _, after, before in sorted(pairs):
        if after not in partner and before not in partner.values():
            partner[after] = before

    def row(before: int | None, after: int | None) -> RecallRow:
        place = now[after].chunk if after is not None else then[before or 0]
        lines = cited_lines(now[after]) if after is not None else (place.start_line, place.end_line)
        change = RecallChange.SAME if before == after else RecallChange.MOVED
        if before is None or after is None:
            change = RecallChange.ENTERED if before is None else RecallChange.LEFT
        return RecallRow(
            *(place.path, *lines, change),
            rank_then=None if before is None else before + 1,
            rank_now=None if after is None else after + 1,
            score_then=None if before is None else then[before].score,
            score_now=None if after is None else now[after].score,
            chunk_id="" if after is None else now[after].chunk.id,
        )

    left = [before for before in range(len(then)) if before not in partner.values()]
    return [row(partner.get(at), at) for at in range(len(now))] + [row(at, None) for at in left]


def overlap(place: Recalled | RecallRow, chunk: Chunk) -> float:
    """Return the share of the lines of two places that both have; small for unknown lines."""
    start, end = place.start_line, max(place.start_line, place.end_line)
    if start <= 0:
        return 1e-9
    both = min(end, chunk.end_line) - max(start, chunk.start_line) + 1
    return max(0, both) / (max(end, chunk.end_line) - min(start, chunk.start_line) + 1)


def transcript_sources(
    scope: TranscriptScope,
    places: Sequence[TranscriptPlace],
    indexed: Mapping[str, TranscriptRow],
    destinations: str,
    programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
    run_of: Callable[[str, int], str] = lambda name, indexed: "",
) -> Iterator[TranscriptSource]:
    """Iterate over places: how much of each was found and is indexed, and what is not and why.

    The programs that have no place come last. `destinations` says where the text of what is
    indexed goes.
    """
    for place in places:
        rows = [indexed[file.path] for file in place.files if file.path in indexed]
        left_out = sum((Counter(row.facts.left_out) for row in rows), Counter[str]())
        # What is not indexed, or has no text; not what is not opted in.
        skipped = list(place.skipped)
        for file in place.files:
            row, why, detail = indexed.get(file.path), Reason.STALE, ""
            if row is None:
                why, detail = Reason.NOT_YET_INDEXED, "waits for the next index run"
            elif row.is_current(file) or not place.is_indexed:
                why, detail = row.facts.reason, row.facts.detail
            if why not in _WHOLE and (row is not None or place.is_indexed):
                skipped.append(SkippedFile(file.path, why, detail))
        count, size = len(place.files), sum(file.size for file in place.files)
        detail = f"{count} conversation{'' if count == 1 else 's'}, {size_words(size)}"
        with_text = sum(row.chunks > 0 for row in rows)
        label = "to be indexed of each" if place.is_indexed else "would be indexed of each"
        label = "indexed of each" if with_text else label
        what = f"{label}: {WHAT_IS_INDEXED}" if run_of(place.name, with_text) != "agent" else ""
        detail = "; ".join(filter(None, (detail, what, destinations)))
        detail += f". {WRITTEN[place.kind]['calls_note']}." if place.kind is not None else ""
        yield TranscriptSource(
            name=place.name,
            kind=place.kind,
            folder=place.folder,
            is_indexed=place.is_indexed,
            for_run=run_of(place.name, with_text),
            found=count,
            size=size,
            indexed=with_text,
            chunks=sum(row.chunks for row in rows),
            messages=sum(row.facts.messages for row in rows),
            left_out=dict(sorted(left_out.items())),
            malformed=sum(row.facts.malformed for row in rows),
            skipped=tuple(skipped),
            detail=detail,
        )
    for kind in filterfalse({place.kind for place in places}.__contains__, programs):
        nowhere = f"{WRITTEN[kind]['nowhere']}: looked in {scope.homes.of(kind)}"
        yield TranscriptSource(kind, kind, "", is_indexed=False, detail=nowhere)


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
