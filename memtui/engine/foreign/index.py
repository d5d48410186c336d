"""Another program's index: searched exactly as that program does, and never changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from glob import escape
from pathlib import Path
from typing import Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from memtui.bus import Bus, ForeignExamined
from memtui.embedding.provider import Provider
from memtui.embedding.registry import EMBEDDED_DEFAULT
from memtui.engine.foreign.agent import AgentLegs, read_facts
from memtui.engine.foreign.openclaw_reading import OpenClawReading
from memtui.engine.foreign.query_vectors import GivenVectors, QueryVector
from memtui.engine.own_reading import WORKSPACE
from memtui.engine.places import read_source
from memtui.engine.ports import (
    Files,
    FileStanding,
    Index,
    IndexedFile,
    Reading,
    SourceText,
    TranscriptStore,
    refused,
)
from memtui.engine.providers.failover import ProviderFailover
from memtui.engine.search import EngineThread
from memtui.errors import Cancelled, IndexUnusable, IsCancelled, MemtuiError, stop_if
from memtui.index.foreign import disk, rows
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.consistency import agent_gets
from memtui.index.foreign.opening import ForeignDatabase, Opened
from memtui.index.foreign.rows import FileRow
from memtui.index.transcripts import discovery
from memtui.index.transcripts.discovery import TranscriptHomes, TranscriptPlace, TranscriptScope
from memtui.index.transcripts.reading import TranscriptRow
from memtui.memory.discover import absent
from memtui.memory.documents import day_of_path, read_document, split_lines
from memtui.memory.paths import absolute_path, written
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model import (
    CONVERSATIONS,
    NOTES,
    CandidatePool,
    Document,
    ErrorRecord,
    IndexState,
    IndexStatus,
    Leg,
    ProviderState,
    Reason,
    SearchMode,
    SkippedFile,
    SourceCount,
    WatcherState,
)
from memtui.model.browsing import MemoryFile
from memtui.model.conversations import TranscriptKind
from memtui.model.status import FileState, FileTruth, Finding, ForeignStatus, Severity, Truth
from memtui.retrieval.openclaw.terms import searched_part
from memtui.retrieval.query import parse_query
from memtui.settings.schema import EmbeddingSettings
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line

T = TypeVar("T")

_PATIENCE: Final = 1.0
"""So long the truth report waits for the first search, which whoever opens an index waits for."""
NOT_OURS = "this index belongs to the agent's program: memtui only reads it"
_OTHER_WORD = "memtui"
_SHOWN = 200
NOT_COMPARED: Final = "not compared with the disk yet"
NO_WORKSPACE: Final = "the workspace is not known"
_NO_FILE_NAME: Final = "no file can have this name"


def base_status(opened: Opened, legs: AgentLegs) -> IndexStatus:
    """Return the status of an index before it is examined; no text or vector is read."""
    facts, layout, identity = legs.facts, opened.layout, legs.facts.identity
    files, chunks = rows.counts(opened, layout.files), rows.counts(opened, layout.chunks)
    provider = facts.search.provider if facts.search is not None else identity.provider
    # Only vectors of a known model are compared with that of a query.
    address = legs.query_vectors.address() if facts.scope.model else ""
    return IndexStatus(
        state=IndexState.READY,
        root=str(facts.target.workspace or ""),
        index_dir=str(facts.target.database),
        files=sum(files.values()),
        chunks=sum(chunks.values()),
        vectors=rows.vector_count(opened) or 0,
        sources=tuple(
            SourceCount(source, files.get(source, 0), chunks.get(source, 0))
            for source in sorted({*files, *chunks})
        ),
        provider=ProviderState(
            requested=provider or "?",
            actual=identity.provider,
            model=identity.model,
            dimensions=identity.vector_dims,
            remote=bool(address),
            address=address,
        ),
        vector_backend="not loaded",
        tokenizer=layout.tokenizer,
        watcher=WatcherState("off", "the index is looked at before each search"),
        writer="the agent's program",
        foreign=ForeignStatus(
            agent=facts.target.agent,
            generation=layout.generation,
            profile=facts.profile,
            chosen_because=facts.because,
            opened=opened.how.value,
            app_version=rows.versions(opened)[1],
            query_vectors=f"{identity.provider or '?'}/{identity.model or '?'}",
        ),
    )


class OpenClawIndex(Index):
    """The index of an agent and the workspace it is of."""

    def __init__(
        self,
        target: ForeignTarget,
        profile: str | None,
        vectors: GivenVectors | None,
        env: Mapping[str, str],
        *,
        thread: EngineThread,
        bus: Bus,
        now: Callable[[], datetime],
    ) -> None:
        """Open an index and choose its profile, or take the one that is named.

        Raises `IndexMissing`, `IndexUnusable`.
        """
        self._database = database = ForeignDatabase(target.database)
        # The engine thread opens the file again: a connection belongs to one thread.
        with closing(database):
            self.facts = facts = database.read(lambda opened: read_facts(opened, target, profile))
            self.legs: AgentLegs = AgentLegs(database, facts, vectors, env)
            self._base = database.read(lambda opened: base_status(opened, self.legs))
        self.root = target.workspace or target.database.parent
        self.ranking = facts.ranking
        """The ranking that the agent is configured for, used when a search names none."""
        self.chunk_tokens = facts.identity.chunk_tokens or self.chunk_tokens
        given = vectors if facts.mode is not SearchMode.KEYWORD_ONLY else None
        self._given = given.describe(facts.identity.vector_dims) if given is not None else UNSET
        self._thread, self._bus, self.now = thread, bus, now
        self._embedded = ProviderFailover(EmbeddingSettings(provider=EMBEDDED_DEFAULT))
        self.truth: Truth | None = None
        """The last comparison with the disk."""
        self._problem = ""
        self._examining = threading.Event()
        self._closed = threading.Event()
        self._examiner: threading.Thread | None = None

    @cached_property
    def files(self) -> AgentFiles:
        return AgentFiles(self)

    @cached_property
    def transcripts(self) -> AgentTranscripts:
        return AgentTranscripts(self)

    def read_only(self) -> IndexUnusable:
        return IndexUnusable(NOT_OURS, hint="openclaw memory index --force rebuilds it")

    def read(
        self, function: Callable[[Reading], T], about: CandidatePool | None = None
    ) -> T | None:
        def look() -> T:
            # Outside of any reading: it may take a while, or read the index itself.
            answer = None
            if about is not None and refused(about, Leg.VECTOR) is None:
                answer = self.legs.query_vectors.find(parse_query(about.query).rest, typing=False)
            vector = answer.values if isinstance(answer, QueryVector) else None
            return self._database.read(
                lambda opened: function(OpenClawReading(opened, self.legs, vector))
            )

        return self._thread.call(look)

    def read_rows(self, function: Callable[[Opened], T]) -> T:
        """Read one commit of the database on the engine thread."""
        return self._thread.call(lambda: self._database.read(function))

    def stamp(self) -> Hashable:
        return self.read_rows(lambda opened: opened.fingerprint)

    def query_text(self, query: str) -> str:
        return searched_part(trim(parse_query(query).rest))

    def other_queries(self, pool: CandidatePool) -> Reason:
        if pool.search_mode is SearchMode.KEYWORD_ONLY and self.facts.mode is pool.search_mode:
            return Reason.OK
        other = f"{self.query_text(pool.query)} {_OTHER_WORD}"
        # As if it were still being typed: then no service on another machine is asked.
        answer = self._thread.call(lambda: self.legs.query_vectors.find(other, typing=True))
        if isinstance(answer, QueryVector):
            # A file that has a vector for this text has one for all: it is not this text's own.
            return Reason.NOT_REPRODUCIBLE if answer.origin == "file" else Reason.OK
        is_other = answer.reason is Reason.PENDING or refused(pool, Leg.VECTOR) is None
        return answer.reason if is_other else Reason.OK

    def local_model(self) -> tuple[Provider | None, ProviderState]:
        return self._embedded.get()

    def status(self) -> IndexStatus:
        truth, problem, state = self.truth, self._problem, self._base.state
        assert self._base.foreign is not None
        foreign = replace(self._base.foreign, truth=truth, examining=self._examining.is_set())
        drifted, noted = tuple[FileTruth, ...](), list[Finding]()
        if truth is not None:
            gets, because = agent_gets(truth, self.facts.profile)
            foreign = replace(foreign, agent_gets=gets, agent_gets_because=because)
            noted = [one for one in truth.findings if one.severity is not Severity.INFO]
            drifted = truth.drifted
        if problem:
            state = IndexState.ERROR
        elif any(finding.severity is Severity.ERROR for finding in noted):
            state = IndexState.DEGRADED
        elif drifted:
            state = IndexState.STALE
        return replace(
            self._base,
            state=state,
            pending=tuple(file.path for file in drifted[:_SHOWN]),
            pending_count=len(drifted),
            vector_backend=self.legs.backend,
            errors=(ErrorRecord(self.now(), "index", problem),) if problem else (),
            warnings=tuple(finding.message for finding in noted),
            foreign=replace(foreign, given_vectors=self._given),
        )

    def sync(self, *, rebuild: bool = False, wait: bool = False) -> None:
        super().sync(rebuild=rebuild)
        if self._examining.is_set() or self._closed.is_set():
            return
        self._examining.set()
        self._examiner = threading.Thread(target=self._examine, name="memtui-examine", daemon=True)
        self._examiner.start()

    def refresh_status(self, *, brief: bool = False) -> None:
        self.truth, self._base = self._look(deep=True)

    def wait_idle(self, timeout: float) -> bool:
        if self._examiner is not None:
            self._examiner.join(timeout)
        return not self._examining.is_set()

    def stop(self) -> None:
        self._closed.set()
        self.legs.answered.set()
        self.legs.query_vectors.close()

    def close(self) -> None:
        self._embedded.close()
        self._database.close()
        if self._examiner is not None:
            self._examiner.join(2.0)

    def _examine(self) -> None:
        # The first answer comes before the report: both read the whole file.
        self.legs.answered.wait(_PATIENCE)
        try:
            self.truth, self._base = self._look(deep=False)
            self._problem = ""
        except Cancelled:
            return
        except MemtuiError as error:
            self._problem = str(error)
        except Exception as error:
            # The thread has nobody to tell but the screen.
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._examining.clear()
        if not self._closed.is_set():
            self._bus.publish(ForeignExamined(self._problem))

    def _look(self, *, deep: bool) -> tuple[Truth, IndexStatus]:
        from memtui.index.foreign.audit import examine

        facts, now, cancelled = self.facts, datetime.now(UTC), self._closed.is_set
        look = partial(examine, target=facts.target, release=facts.profile, now=now, deep=deep)
        with closing(ForeignDatabase(facts.target.database)) as database:
            truth = database.read(partial(look, cancelled=cancelled), snapshot=False)
            return truth, database.read(lambda opened: base_status(opened, self.legs))


class AgentTranscripts(TranscriptStore):
    """The conversations of one agent, over its program's own index; neither is changed."""

    def __init__(self, index: OpenClawIndex) -> None:
        sources = index.facts.scope.sources
        is_on = sources is None or CONVERSATIONS in sources
        self._target, self._read_rows = index.facts.target, index.read_rows
        self.programs = (TranscriptKind.OPENCLAW,) if self._target.state_dir is not None else ()
        self.scope = TranscriptScope(
            index.root,
            TranscriptHomes(openclaw=self._target.state_dir),
            (TranscriptKind.OPENCLAW,) if is_on else (),
            rules=RULES[index.facts.profile],
        )

    def indexed(self) -> Mapping[str, TranscriptRow]:
        """Return how many chunks the index holds of each transcript, by path."""

        def read(opened: Opened) -> Mapping[str, TranscriptRow]:
            counts, files = rows.chunks_by_file(opened), rows.files(opened)
            keys = {(row.path, row.source) for row in files} | counts.keys()
            sessions = [key for key in sorted(keys) if key[1] == CONVERSATIONS]
            return {key[0]: TranscriptRow(counts.get(key, (0, 0))[0]) for key in sessions}

        return self._read_rows(read)

    def locate(self) -> Sequence[TranscriptPlace]:
        """Return what the agent keeps; the databases of the others are not opened."""
        target, scope, kind = self._target, self.scope, TranscriptKind.OPENCLAW
        if target.state_dir is not None and target.agent is not None:
            source = f"{kind}:{escape(target.agent)}"
            return [
                replace(one, is_indexed=scope.opts_in(one.name))
                for one in discovery.locate(replace(scope, sources=(source,), paths=()))
                if one.agent == target.agent
            ]
        if not scope.rules.stores_agent:
            # Nothing tells where the agent keeps its files.
            return ()
        # The rows of a database that lies anywhere, of the agent that stored paths name:
        # `sessions/<agent>/<file>`.
        parts, database = next(iter(self.indexed()), "").split("/"), target.database
        agent, name = parts[1] if len(parts) == 3 else "", written(str(database))
        place = TranscriptPlace(name, kind, name, not scope.is_empty, agent, str(database))
        prefix = f"{CONVERSATIONS}/{agent}/" if agent else f"{CONVERSATIONS}/"
        try:
            files = discovery.event_files(database, prefix)
            return [replace(place, files=files)] if files else ()
        except (OSError, MemtuiError) as error:
            skipped = SkippedFile(name, Reason.UNREADABLE, written(safe_line(str(error))))
            return [replace(place, skipped=(skipped,))]

    def run_of(self, name: str, indexed: int) -> str:
        return "agent"

    def use_sources(self, names: Sequence[str]) -> None:
        """Refuse: what is indexed is decided by the agent's own configuration."""
        raise IndexUnusable(NOT_OURS, hint="memory.search.sources of its configuration decides")


class AgentFiles(Files):
    """The files of an agent's workspace, and those that only its index tells of; any thread."""

    def __init__(self, index: OpenClawIndex) -> None:
        facts = index.facts
        self._index = index
        self._target = target = facts.target
        self._release = facts.profile
        self._sources = facts.identity.sources or (NOTES, CONVERSATIONS)
        """The sources that the agent indexes, as far as anybody knows."""
        if target.expected is not None and facts.search is not None:
            self._sources = facts.search.sources
        self._has_notes = NOTES in self._sources
        if target.workspace is None:
            self.notes_missing = f"{NO_WORKSPACE}: --root FOLDER names it"

    def entries(self, cancelled: IsCancelled) -> list[MemoryFile]:
        indexed, counts = self._index.read_rows(
            lambda opened: (rows.files(opened), rows.chunks_by_file(opened))
        )
        listing = disk.list_memory(self._target, self._release, cancelled=cancelled)
        last = self._index.truth.files if self._index.truth is not None else ()
        notes = [row for row in indexed if row.source == NOTES]
        compared = disk.compare_notes(notes, listing, counts, self._target, enabled=self._has_notes)
        row_of = {(row.path, row.source): row for row in indexed}
        truth_of = {(one.path, one.source): one for one in (*last, *compared)}
        files: list[MemoryFile] = []
        for path, source in sorted(row_of.keys() | {(one.path, NOTES) for one in compared}):
            row, truth, is_note = row_of.get((path, source)), truth_of.get((path, source)), False
            file, place, detail = None, self._target.agent or source, NOT_COMPARED
            if source == NOTES:
                is_note, place, detail = True, WORKSPACE, NO_WORKSPACE
                file = listing.files.get(path)
                if file is not None and "/" in path and not path.startswith("memory/"):
                    place = file.root
            state, reason, changed = FileState.CURRENT, Reason.OK, row.changed if row else None
            if truth is not None:
                state, reason = truth.state, truth.cause
                detail = "" if is_note and truth.state is FileState.CURRENT else truth.reason
                if is_note and state is not FileState.CURRENT:
                    changed = truth.on_disk or changed
            chunks, lines = counts.get((path, source), (0, 0))
            files.append(
                MemoryFile(
                    path=path,
                    source=source,
                    place=place,
                    state=FileState.ERROR if reason is Reason.UNREADABLE else state,
                    size=file.size if file is not None else row.size if row is not None else None,
                    changed=changed,
                    chunks=chunks,
                    lines=lines,
                    day=day_of_path(path) if is_note else None,
                    reason=reason,
                    detail=detail,
                )
            )
        return files

    def path_of(self, path: str) -> Path | None:
        """Return where a note is; `None` for other sources, and without a workspace."""
        workspace = self._target.workspace
        indexed = self._index.read_rows(lambda opened: rows.files(opened, path))
        if workspace is None or (indexed and all(row.source != NOTES for row in indexed)):
            return None
        return Path(absolute_path(path, str(workspace.absolute())))

    def documents(self, cancelled: IsCancelled) -> Iterator[Document]:
        listing = disk.list_memory(self._target, self._release, cancelled=cancelled)
        for _, file in sorted(listing.files.items()):
            stop_if(cancelled)
            with suppress(OSError):
                if not file.is_media:
                    yield read_document(file, any_bytes=True)

    def source(self, path: str) -> SourceText:
        """Read the note from the workspace when it is what was indexed.

        A file that changed since is shown as it was indexed, with the present text beside it.
        """

        def read(opened: Opened) -> tuple[str | None, str]:
            row = next(iter(rows.files(opened, path)), None)
            text = OpenClawReading(opened, self._index.legs, None).indexed_text(path)
            return row.hash if row is not None else None, text

        # The hash and the text of one commit.
        digest, text = self._index.read_rows(read)
        workspace = self._target.workspace
        if workspace is None or "\0" in path:
            reason = NO_WORKSPACE if workspace is None else _NO_FILE_NAME
            return SourceText(path, split_lines(text), "gone", f"{reason}; indexed text")
        bases = [os.path.abspath(workspace)]
        source = read_source(bases, path, digest, text, any_bytes=True)
        if source.state != "changed":
            return source
        detail = "changed since it was indexed; this is the indexed text"
        return replace(source, lines=split_lines(text), detail=detail, on_disk=source.lines)

    def standing(self, path: str, indexed: IndexedFile | None) -> FileStanding:
        if indexed is not None and indexed.is_held and indexed.source == CONVERSATIONS:
            return self._transcript_standing(path, indexed.row)
        workspace = self._target.workspace
        if workspace is None:
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, NO_WORKSPACE, checked=False)
        if "\0" in path:
            return FileStanding(path, Reason.NO_FILE, _NO_FILE_NAME)
        place = os.path.normpath(os.path.join(os.path.abspath(workspace), path))
        listing = disk.list_memory(self._target, self._release)
        if listing.problem:
            detail = f"the workspace cannot be listed: {listing.problem.lower()}"
            return FileStanding(path, Reason.UNREADABLE, detail, checked=False)
        notes: list[FileRow] = [indexed.row] if indexed is not None and indexed.row else []
        compared = partial(disk.compare_notes, notes, listing, {}, self._target)
        truths = compared(deep=True, enabled=self._has_notes)
        if truth := next((one for one in truths if one.path == path), None):
            lines = None
            if truth.state is FileState.STALE:
                # It may be gone by now.
                with suppress(OSError):
                    document = read_document(listing.files[path], any_bytes=True)
                    lines = tuple(split_lines(document.text))
            return _standing(truth, lines)
        # The program's rules say nothing about it: what is there, or what it lies below.
        if nothing := absent(place):
            return FileStanding(path, *nothing)
        if above := [folder for folder in listing.left_out if path.startswith(f"{folder}/")]:
            nearest = max(above, key=len)
            left = listing.left_out[nearest]
            return FileStanding(path, left.why.reason, f"{nearest}: {left.phrase}")
        if os.path.isdir(place):
            return FileStanding(path, Reason.NOT_A_NOTE, "folder")
        why = disk.Why.OUTSIDE if place.endswith(".md") else disk.Why.NOT_MARKDOWN
        return FileStanding(path, why.reason, why.phrase)

    def paths_on_disk(self) -> Collection[str]:
        listing = disk.list_memory(self._target, self._release)
        return {*listing.files, *listing.left_out}

    def _transcript_standing(self, path: str, row: FileRow | None) -> FileStanding:
        # The newest are rows of the database.
        sessions = self._index.read_rows(
            lambda opened: disk.list_sessions(opened, self._target, self._release)
        )
        if sessions is None:
            detail = "the folder of the transcripts is not known"
            return FileStanding(path, Reason.NOT_REPRODUCIBLE, detail, checked=False)
        name, enabled = path.rpartition("/")[2], CONVERSATIONS in self._sources
        alone = disk.Listing({name: sessions.files[name]} if name in sessions.files else {})
        indexed = [row] if row is not None else []
        for truth in disk.compare_sessions(indexed, alone, {}, enabled=enabled):
            return _standing(truth)
        return FileStanding(path, Reason.NO_FILE, "no such transcript")


def _standing(truth: FileTruth, lines: tuple[str, ...] | None = None) -> FileStanding:
    is_left_out = truth.state in {FileState.ORPHAN, FileState.SKIPPED}
    reason = truth.cause if is_left_out else Reason.OK
    is_stale = truth.state is FileState.STALE
    return FileStanding(truth.path, reason, truth.reason, stale=is_stale, lines=lines)
