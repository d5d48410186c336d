"""Another program's index: searched exactly as that program does, and never changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memtui.bus import Bus, ForeignExamined
from memtui.engine.conversations.stores import TranscriptStore
from memtui.engine.foreign.agent import (
    ForeignFacts,
    agent_ranking,
    query_vectors_of,
    read_facts,
)
from memtui.engine.foreign.files import NO_WORKSPACE, AgentFiles
from memtui.engine.foreign.legs import AgentDatabase, ForeignRetriever, Search
from memtui.engine.foreign.query_vectors import QueryVector, QueryVectors
from memtui.engine.foreign.reading import OpenClawReading, chunks_by_file
from memtui.engine.ports import (
    FileStanding,
    Index,
    IndexedFile,
    Partial,
    Reading,
    SearchRequest,
    SourceText,
    refused,
)
from memtui.engine.search import EngineThread
from memtui.errors import Cancelled, IndexUnusable, MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.findings import agent_gets
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import FileRow
from memtui.index.transcripts.discovery import SOURCE, Located, event_files, locate
from memtui.index.transcripts.reading import TranscriptRow
from memtui.index.transcripts.scope import TranscriptHomes, TranscriptPlace, TranscriptScope
from memtui.index.transcripts.streams import sessions_in
from memtui.memory.paths import written
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model import (
    CandidatePool,
    Document,
    ErrorRecord,
    IndexState,
    IndexStatus,
    Leg,
    ProviderState,
    Ranking,
    Reason,
    SearchMode,
    SkippedFile,
    SourceCount,
    WatcherState,
)
from memtui.model.conversations import TranscriptKind
from memtui.model.status import ForeignStatus, IndexGeneration, Severity, Truth
from memtui.ranking.profiles import for_mode
from memtui.retrieval.openclaw.plan import searched_part
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.openclaw.tables import readable, text_of
from memtui.retrieval.query import split_filters
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.provider import Provider
    from memtui.engine.foreign.agent import ForeignFacts, ForeignTarget
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.engine.providers.failover import ProviderFailover
    from memtui.model.browsing import MemoryFile
    from memtui.retrieval.openclaw.vector import Vector


T = TypeVar("T")

FIRST_ANSWER_SECONDS = 1.0
"""So long the truth report waits for the first search, which whoever opens an index waits for."""
NOT_OURS = "this index belongs to the agent's program: memtui only reads it"
_OTHER_WORD = "memtui"


class OpenClawIndex(Index):
    """The index of an agent and the workspace it is of."""

    def __init__(
        self,
        database: AgentDatabase,
        facts: ForeignFacts,
        vectors: QueryVectors,
        counts: Counts,
        *,
        thread: EngineThread,
        bus: Bus,
        now: Callable[[], datetime],
    ) -> None:
        self.facts = facts
        self.root = facts.target.workspace or facts.target.database.parent
        self.ranking: Ranking = agent_ranking(facts.choice.profile, facts.search)
        """What the agent is configured for, used when a search names no ranking."""
        self.chunk_tokens = facts.identity.chunk_tokens or self.chunk_tokens
        self.notes_missing = "" if facts.target.workspace is not None else NO_WORKSPACE
        self._thread = thread
        self._bus = bus
        self._now = now
        self._database = database
        self._vectors = vectors
        self._files = AgentFiles(facts)
        self.transcripts = AgentTranscripts(facts, self.read_rows)
        self._retriever = ForeignRetriever(
            self._database, release_of(facts.choice.profile), vectors, facts.target.workspace
        )
        self.masks, self.stored = self._retriever.masks, self._retriever.stored
        self.file_time = self._retriever.file_time
        self._embedded: ProviderFailover | None = None
        self._embedding = threading.Lock()
        self.truth: Truth | None = None
        self.counts = counts
        self._problem = ""
        self._examining = threading.Event()
        self._closed = threading.Event()
        self._answered = threading.Event()
        self._examiner: threading.Thread | None = None

    # --- searching: on the engine thread --------------------------------------------------

    def read_only(self) -> IndexUnusable:
        return IndexUnusable(NOT_OURS, hint="openclaw memory index --force builds it again")

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        mode, scope = self.facts.mode, self.facts.scope
        text, filters = split_filters(request.text)
        ranking = for_mode(request.ranking, mode)
        search = Search(text, ranking, mode, scope, typing=request.typing, filters=filters)

        def publish(pool: CandidatePool) -> None:
            if partial is not None:
                partial(replace(pool, query=request.text))

        try:
            pool = self._retriever.retrieve(search, cancelled, publish if partial else None)
            return replace(pool, query=request.text)
        finally:
            self._answered.set()

    def interrupt(self) -> None:
        self._database.interrupt()

    # --- reading --------------------------------------------------------------------------

    def read(
        self, function: Callable[[Reading], T], about: CandidatePool | None = None
    ) -> T | None:
        def look() -> T:
            # Outside of any reading: it may take a while, or read the index itself.
            vector = self._query_vector(about) if about is not None else None
            return self._database.read(
                lambda opened: function(OpenClawReading(opened, self, vector))
            )

        return self._thread.call(look)

    def read_rows(self, function: Callable[[Opened], T]) -> T:
        """Read one commit of the database on the engine thread."""
        return self._thread.call(lambda: self._database.read(function))

    def stamp(self) -> Hashable:
        return self.read_rows(lambda opened: opened.fingerprint)

    def _query_vector(self, pool: CandidatePool) -> Vector | None:
        """The vector that a pool was searched with."""
        if refused(pool, Leg.VECTOR) is not None:
            return None
        query = split_filters(pool.query)[0]
        found = self._vectors.find(query, typing=False, cancelled=self._closed.is_set)
        return found.values if isinstance(found, QueryVector) else None

    # --- the files ------------------------------------------------------------------------

    def files(self, cancelled: Callable[[], bool]) -> list[MemoryFile]:
        indexed = self.read_rows(lambda opened: rows.files(opened.connection, opened.layout))
        counts = self.read_rows(chunks_by_file)
        compared = self.truth.files if self.truth is not None else ()
        return self._files.files(indexed, counts, compared, cancelled)

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        return self._files.documents(cancelled)

    def file_of(self, path: str) -> Path | None:
        indexed = self.read_rows(lambda opened: rows.files(opened.connection, opened.layout, path))
        return self._files.file_of(path, indexed)

    def source(self, path: str) -> SourceText:
        indexed = self.read(lambda reading: reading.indexed_text(path))
        return self._files.source(path, indexed or (None, ""))

    def standing(self, path: str, held: IndexedFile | None) -> FileStanding:
        if held is not None and held.standing is not None:
            return held.standing
        return self._files.standing(path, held.row if held is not None else None)

    def transcript_standing(self, opened: Opened, path: str, row: FileRow | None) -> FileStanding:
        """Look at one transcript, on the engine thread."""
        return self._files.transcript_standing(opened, path, row, self._now())

    def named_on_disk(self, spelled: Sequence[str]) -> str | None:
        return self._files.named_on_disk(spelled)

    # --- explaining -----------------------------------------------------------------------

    def query_text(self, query: str) -> str:
        return searched_part(trim(split_filters(query)[0]))

    def other_queries(self, pool: CandidatePool) -> Reason:
        if pool.search_mode is SearchMode.KEYWORD_ONLY and self.facts.mode is pool.search_mode:
            return Reason.OK
        other = f"{self.query_text(pool.query)} {_OTHER_WORD}"
        # As if it were still being typed: then no service on another machine is asked.
        found = self._thread.call(
            lambda: self._vectors.find(other, typing=True, cancelled=self._closed.is_set)
        )
        if isinstance(found, QueryVector):
            # A file that has a vector for this text has one for all: it is not this text's own.
            return Reason.NOT_REPRODUCIBLE if found.origin == "file" else Reason.OK
        if found.reason is Reason.PENDING or refused(pool, Leg.VECTOR) is None:
            return found.reason
        return Reason.OK

    def local_model(self, query: str) -> tuple[Provider | None, ProviderState, Any]:
        from memtui.embedding.registry import EMBEDDED_DEFAULT
        from memtui.engine.providers.failover import ProviderFailover
        from memtui.settings.schema import EmbeddingSettings

        with self._embedding:
            if self._embedded is None:
                self._embedded = ProviderFailover(EmbeddingSettings(provider=EMBEDDED_DEFAULT))
            holder = self._embedded
        return *holder.get(), None

    # --- how it is ------------------------------------------------------------------------

    def status(self) -> IndexStatus:
        facts, counts, truth, problem = self.facts, self.counts, self.truth, self._problem
        target, identity = facts.target, facts.identity
        provider = facts.search.provider if facts.search is not None else identity.provider
        drifted = truth.drifted if truth is not None else ()
        gets, because = agent_gets(truth, facts.choice.profile) if truth else (None, "")
        warnings = list(counts.warnings)
        if truth is not None:
            warnings += [f.message for f in truth.findings if f.severity is not Severity.INFO]
        return IndexStatus(
            state=_state(truth, problem),
            root=str(target.workspace or ""),
            index_dir=str(target.database),
            generation=0,
            files=sum(source.files for source in counts.sources),
            chunks=sum(source.chunks for source in counts.sources),
            vectors=counts.vectors,
            sources=counts.sources,
            pending=tuple(file.path for file in drifted[:_SHOWN]),
            pending_count=len(drifted),
            skipped=(),
            provider=ProviderState(
                requested=provider or "?",
                actual=identity.provider,
                model=identity.model,
                dimensions=identity.vector_dims,
                remote=True,
            ),
            vector_backend=self._retriever.backend,
            tokenizer=counts.tokenizer,
            watcher=WatcherState("off", "the index is looked at before each search"),
            writer="the agent's program",
            last_sync=None,
            progress=None,
            cache_hits=0,
            cache_misses=0,
            errors=(ErrorRecord(self._now(), "index", problem),) if problem else (),
            warnings=tuple(warnings),
            foreign=ForeignStatus(
                agent=target.agent,
                generation=counts.generation,
                profile=facts.choice.profile,
                chosen_because=facts.choice.because,
                opened=counts.opened,
                app_version=facts.origin.app_version,
                query_vectors=facts.needs,
                truth=truth,
                examining=self._examining.is_set(),
                agent_gets=gets,
                agent_gets_because=because,
            ),
        )

    def examine(self) -> None:
        if self._examining.is_set() or self._closed.is_set():
            return
        self._examining.set()
        self._examiner = threading.Thread(target=self._examine, name="memtui-examine", daemon=True)
        self._examiner.start()

    def refresh_status(self, *, brief: bool = False) -> None:
        self.truth, self.counts = self._look(deep=True)

    def wait_idle(self, timeout: float) -> bool:
        if self._examiner is not None:
            self._examiner.join(timeout)
        return not self._examining.is_set()

    def stop(self) -> None:
        self._closed.set()
        self._answered.set()
        self._vectors.close()

    def close(self) -> None:
        with self._embedding:
            if self._embedded is not None:
                self._embedded.close()
        self._database.close()
        if self._examiner is not None:
            self._examiner.join(2.0)

    def _examine(self) -> None:
        # The first answer comes before the report: both read the whole file.
        self._answered.wait(FIRST_ANSWER_SECONDS)
        try:
            self.truth, self.counts = self._look(deep=False)
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

    def _look(self, *, deep: bool) -> tuple[Truth, Counts]:
        """Examine on a connection of this thread's own."""
        from memtui.index.foreign.audit import Surroundings, examine

        database = AgentDatabase(self.facts.target.database)
        target = self.facts.target
        try:
            truth = database.use(
                lambda opened: examine(
                    opened,
                    Surroundings(
                        release=self.facts.choice.profile,
                        now=datetime.now(UTC),
                        workspace=target.workspace,
                        config=target.search if target.is_configured else None,
                        databases=target.databases,
                        home=target.home,
                        sessions=target.sessions,
                        written=target.config,
                        deep=deep,
                        cancelled=self._closed.is_set,
                    ),
                )
            )
            return truth, database.read(count)
        finally:
            database.close()


def open_index(
    target: ForeignTarget,
    profile: str | None,
    given: GivenVectors | None,
    env: Mapping[str, str],
    *,
    thread: EngineThread,
    bus: Bus,
    now: Callable[[], datetime],
) -> OpenClawIndex:
    """Open an index and choose its profile, or take the one that is named.

    Raises `IndexMissing`, `IndexUnusable`.
    """
    database = AgentDatabase(target.database)
    try:
        facts = database.read(lambda opened: read_facts(opened, target, profile))
        vectors = query_vectors_of(database, facts, given, env)
        counts = database.read(count)
    finally:
        # The engine thread opens the file again: a connection belongs to one thread.
        database.close()
    return OpenClawIndex(database, facts, vectors, counts, thread=thread, bus=bus, now=now)


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
            NOT_OURS, hint="memory.search.sources of its configuration decides what is indexed"
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


_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Counts:
    """What an index holds, and how it is read."""

    generation: IndexGeneration
    opened: str
    tokenizer: str
    vectors: int
    sources: tuple[SourceCount, ...]
    warnings: tuple[str, ...]


def count(opened: Opened) -> Counts:
    """Count files, chunks and vectors; indexes answer, no text or vector is read."""
    connection, layout = opened.connection, opened.layout
    files = rows.file_counts(connection, layout)
    chunks = rows.chunk_counts(connection, layout)
    sources = tuple(
        SourceCount(source, files.get(source, 0), chunks.get(source, 0))
        for source in sorted({*files, *chunks})
    )
    vectors = 0
    if layout.vec is not None:
        found = connection.execute(f"SELECT count(*) FROM {layout.vec}_rowids").fetchall()
        vectors = int(str(found[0][0]))
    return Counts(
        layout.generation,
        opened.how.value,
        layout.tokenizer,
        vectors,
        sources,
        opened.warnings,
    )


def _state(truth: Truth | None, problem: str) -> IndexState:
    if problem:
        return IndexState.ERROR
    if truth is None:
        return IndexState.READY
    worst = {finding.severity for finding in truth.findings}
    if Severity.ERROR in worst:
        return IndexState.DEGRADED
    return IndexState.STALE if truth.drifted else IndexState.READY
